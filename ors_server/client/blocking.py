"""The blocking clients and episodes, for threads, scripts and notebooks; generated, so do not edit.

Each client owns an event loop in a thread of its own; every method hands its coroutine over and waits. A
notebook whose own loop runs is no obstacle, and several threads may share a client.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from typing_extensions import Unpack

from ors_server.client.agent_loop import Agent, Played, play
from ors_server.client.async_client import AsyncClient
from ors_server.client.async_episode import AsyncEpisode
from ors_server.client.call_result import CallResult
from ors_server.client.client_options import ClientOptions
from ors_server.client.episode_request import EpisodeRequest
from ors_server.client.ledger import Ledger
from ors_server.client.loop_thread import LoopThread
from ors_server.client.session_summary import Summary
from ors_server.wire import Block, JSONObject, Message, Split, ToolListing


class Episode:
    """An open episode; the blocking twin of [`AsyncEpisode`][ors_server.client.AsyncEpisode]."""

    def __init__(self, loop: LoopThread, episode: AsyncEpisode) -> None:
        """Play an episode from another thread.

        Args:
            loop: The loop that it lives on.
            episode: The episode.
        """
        self._loop = loop
        self.on_loop = episode
        """The episode itself."""

    @property
    def ledger(self) -> Ledger:
        """What was received, call by call."""
        return self.on_loop.ledger

    def play(self, agent: Agent, *, max_calls: int | None = None) -> Played:
        """Let an agent play; the blocking twin of [`play`][ors_server.client.play].

        Args:
            agent: The agent; it runs on the client's loop, so one that blocks for long delays signs of life
                of its own episodes only.
            max_calls: Most calls; `None` leaves the limit to the environment.

        Raises:
            SumMismatchError: If the server's figures are not what was received.
            OrsServerError: If a call failed through no fault of the agent's.
        """
        return self._loop.run(lambda: play(self.on_loop, agent, max_calls=max_calls))

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.on_loop.session_id

    @property
    def environment(self) -> str:
        """Name of the environment."""
        return self.on_loop.environment

    @property
    def access(self) -> Mapping[str, str]:
        """`agent_url`, `mcp_url` and `agent_token`, for an agent that plays; empty from other servers."""
        return self.on_loop.access

    @property
    def finished(self) -> bool:
        """Whether an answer has said that the episode is over."""
        return self.on_loop.finished

    def prompt(self) -> str:
        """Return the prompt's text, after setup; pictures are left out."""
        return self._loop.run(self.on_loop.prompt)

    def blocks(self) -> list[Block]:
        """Return the prompt's blocks, after setup."""
        return self._loop.run(self.on_loop.blocks)

    def messages(self) -> list[Message]:
        """Return the prompt as a conversation, after setup.

        A server that has no conversations gives one message, from the user.
        """
        return self._loop.run(self.on_loop.messages)

    def tools(self) -> ToolListing:
        """Return everything that the session offers."""
        return self._loop.run(self.on_loop.tools)

    def summary(self) -> Summary:
        """Return the server's figures, also after the end.

        Raises:
            NotSupportedError: If the server keeps none.
            ForbiddenError: If the credential may not read them.
        """
        return self._loop.run(self.on_loop.summary)

    def call(
        self, tool: str, arguments: Mapping[str, Any] | None = None, *, call_id: str | None = None
    ) -> CallResult:
        """Call a tool, wait for what it comes to, and enter its reward into the ledger.

        Whatever breaks on the way, the call runs once at most and is paid once.

        Args:
            tool: The tool's name.
            arguments: As the agent gives them.
            call_id: Your own id for the call; a random one otherwise. With a server of ours, the same id
                gives the same answer and runs nothing.

        Returns:
            The output; or, for a call that was not run, why.

        Raises:
            InvalidRequestError: If the arguments are no mapping from names to JSON values.
            CallTimeoutError: If the client's own time limit is over; the call may still run.
            CallLostError: If the answer is lost and asking again could run the call twice.
            OrsServerError: If the call failed through no fault of the agent's.
        """
        return self._loop.run(lambda: self.on_loop.call(tool, arguments, call_id=call_id))

    def check(self) -> Summary:
        """Compare what was received with the server's figures, and return those.

        Raises:
            SumMismatchError: If the sums are not the same float, or steps or end differ.
            NotSupportedError: If the server keeps no figures.
        """
        return self._loop.run(self.on_loop.check)

    def steps(self) -> Sequence[JSONObject]:
        """Return the server's record of every step, whoever played it, in order; also after the end.

        Raises:
            NotSupportedError: If it cannot be read from here.
            ForbiddenError: If the credential may not read it.
        """
        return self._loop.run(self.on_loop.steps)


class Client:
    """A client of one server; the blocking twin of [`AsyncClient`][ors_server.client.AsyncClient].

    Used as a context manager, or closed by `close`; one that is left open is closed when Python exits.
    """

    def __init__(self, url: str, api_key: str | None = None, *, options: ClientOptions | None = None) -> None:
        """Start the loop; nothing is asked yet.

        Args:
            url: Where the server is, for instance `http://127.0.0.1:8080`.
            api_key: Sent as `X-API-Key`; a trainer's for everything, an agent's token for its own session.
            options: Further settings.

        Raises:
            InvalidRequestError: If that is no such URL.
        """
        self.on_loop = AsyncClient(url, api_key, options=options)
        """The client itself."""
        self._loop = LoopThread(self.on_loop.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the sessions of episodes that are open, close all connections and end the loop."""
        self._loop.close()

    def environments(self) -> list[str]:
        """Return the names of what is served, the default one first."""
        return self._loop.run(self.on_loop.environments)

    def splits(self, environment: str | None = None) -> list[Split]:
        """Return an environment's splits, in its order.

        Args:
            environment: Its name; the default one without.
        """
        return self._loop.run(lambda: self.on_loop.splits(environment))

    def num_tasks(self, split: str, environment: str | None = None) -> int:
        """Return how many tasks a split has.

        Args:
            split: Its name.
            environment: The environment's name; the default one without.
        """
        return self._loop.run(lambda: self.on_loop.num_tasks(split, environment))

    def task(self, split: str, index: int, environment: str | None = None) -> JSONObject:
        """Return one task.

        Args:
            split: The split's name.
            index: Its position, from 0.
            environment: The environment's name; the default one without.
        """
        return self._loop.run(lambda: self.on_loop.task(split, index, environment))

    def tasks(
        self, split: str, start: int | None = None, stop: int | None = None, *, environment: str | None = None
    ) -> list[JSONObject]:
        """Return tasks of a split, in order.

        Args:
            split: The split's name.
            start: The first one's position; from the beginning without.
            stop: The position after the last one; to the end without.
            environment: The environment's name; the default one without.
        """
        return self._loop.run(lambda: self.on_loop.tasks(split, start, stop, environment=environment))

    def tools(self, environment: str | None = None) -> ToolListing:
        """Return the tools that every session of an environment has.

        Args:
            environment: Its name; the default one without.
        """
        return self._loop.run(lambda: self.on_loop.tools(environment))

    @contextmanager
    def episode(self, environment: str | None = None, **wanted: Unpack[EpisodeRequest]) -> Generator[Episode]:
        """Play a new episode over the Open Reward Standard; its session is deleted at the end.

        Args:
            environment: Name of the environment; the default one without.
            **wanted: `split` and `index`, or `task_spec`; `seed`, `policy`, `labels`, `secrets`, `toolset`,
                `visibility`, `session_id`.
        """
        with self._loop.hold(self.on_loop.episode(environment, **wanted)) as episode:
            yield Episode(self._loop, episode)

    @contextmanager
    def attach(self, session_id: str) -> Generator[Episode]:
        """Join a session that somebody else made on a server of ours; it is left alive at the end.

        The ledger goes on from the figures as they stand, where the credential may read them.

        Args:
            session_id: The session.

        Raises:
            OrsServerError: If there is none.
        """
        with self._loop.hold(self.on_loop.attach(session_id)) as episode:
            yield Episode(self._loop, episode)

    @contextmanager
    def mcp_episode(
        self, environment: str | None = None, *, era: str = "auto", **wanted: Unpack[EpisodeRequest]
    ) -> Generator[Episode]:
        """Play a new episode over MCP, at the URL that an agent is given; its figures are read beside it.

        Args:
            environment: Name of the environment; the default one without.
            era: `auto` for the newest protocol that the server knows, `legacy` for the handshake, or a
                version.
            **wanted: As for `episode`.

        Raises:
            NotSupportedError: If the server is not an ors-server.
        """
        with self._loop.hold(self.on_loop.mcp_episode(environment, era=era, **wanted)) as episode:
            yield Episode(self._loop, episode)

    def summary(self, session_id: str) -> Summary:
        """Return the figures of a session of a server of ours, ended ones included.

        Args:
            session_id: The session.

        Raises:
            OrsServerError: As the server answers.
        """
        return self._loop.run(lambda: self.on_loop.summary(session_id))

    def steps(self, session_id: str) -> list[JSONObject]:
        """Return every recorded step of a session of a server of ours, in order.

        Args:
            session_id: The session.

        Raises:
            OrsServerError: As the server answers.
        """
        return self._loop.run(lambda: self.on_loop.steps(session_id))
