"""The blocking clients and episodes, for threads, scripts and notebooks; generated, so do not edit.

Each client runs an event loop in its own thread, and its methods wait for the async ones. It works in a
notebook, and several threads may share it.
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
from ors_server.model.model_turn import ModelTurn
from ors_server.model.wire import Block, JSONObject, Message, Split, ToolListing


class Episode:
    """An open episode: [`AsyncEpisode`][ors_server.client.AsyncEpisode] with methods that block."""

    def __init__(self, loop: LoopThread, episode: AsyncEpisode) -> None:
        """Play an episode of a loop from another thread."""
        self._loop = loop
        self.on_loop = episode
        """The async episode."""

    @property
    def ledger(self) -> Ledger:
        """The rewards that this client received, call by call."""
        return self.on_loop.ledger

    def play(self, agent: Agent, *, max_calls: int | None = None) -> Played:
        """Let an agent play, as [`play`][ors_server.client.play] does; it runs on the client's loop."""
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
        """Whether an answer has reported the end of the episode."""
        return self.on_loop.finished

    def prompt(self) -> str:
        """Return the prompt's text, after setup; images are left out."""
        return self._loop.run(self.on_loop.prompt)

    def blocks(self) -> list[Block]:
        """Return the prompt's blocks, after setup."""
        return self._loop.run(self.on_loop.blocks)

    def messages(self) -> list[Message]:
        """Return the prompt as a conversation, after setup; one user message by default."""
        return self._loop.run(self.on_loop.messages)

    def tools(self) -> ToolListing:
        """Return the tools of the session."""
        return self._loop.run(self.on_loop.tools)

    def summary(self) -> Summary:
        """Return the server's figures, also after the end; `NotSupportedError` if it has no summary."""
        return self._loop.run(self.on_loop.summary)

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        call_id: str | None = None,
        model_turn: ModelTurn | Mapping[str, Any] | None = None,
    ) -> CallResult:
        """Call a tool, and add its reward to the ledger."""
        return self._loop.run(
            lambda: self.on_loop.call(tool, arguments, call_id=call_id, model_turn=model_turn)
        )

    def check(self) -> Summary:
        """Compare the received rewards with the server's figures, and return the figures."""
        return self._loop.run(self.on_loop.check)

    def steps(self) -> Sequence[JSONObject]:
        """Return the server's record of every step, of any client, in order; also after the end."""
        return self._loop.run(self.on_loop.steps)


class Client:
    """A client of one server: [`AsyncClient`][ors_server.client.AsyncClient] with methods that block.

    Used as a context manager, or closed by `close`; one that is left open is closed when Python exits.
    """

    def __init__(self, url: str, api_key: str | None = None, *, options: ClientOptions | None = None) -> None:
        """Start the loop and open nothing yet; a `url` is for instance `http://127.0.0.1:8080`."""
        self.on_loop = AsyncClient(url, api_key, options=options)
        """The async client."""
        self._loop = LoopThread(self.on_loop.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the sessions of open episodes, close all connections and end the loop."""
        self._loop.close()

    def environments(self) -> list[str]:
        """Return the names of the environments, the default one first."""
        return self._loop.run(self.on_loop.environments)

    def splits(self, environment: str | None = None) -> list[Split]:
        """Return an environment's splits, in its order."""
        return self._loop.run(lambda: self.on_loop.splits(environment))

    def num_tasks(self, split: str, environment: str | None = None) -> int:
        """Return the number of tasks of a split."""
        return self._loop.run(lambda: self.on_loop.num_tasks(split, environment))

    def task(self, split: str, index: int, environment: str | None = None) -> JSONObject:
        """Return the task at a position of a split, from 0."""
        return self._loop.run(lambda: self.on_loop.task(split, index, environment))

    def tasks(
        self, split: str, start: int | None = None, stop: int | None = None, *, environment: str | None = None
    ) -> list[JSONObject]:
        """Return tasks of a split, in order, from position `start` up to, not including, `stop`."""
        return self._loop.run(lambda: self.on_loop.tasks(split, start, stop, environment=environment))

    def tools(self, environment: str | None = None) -> ToolListing:
        """Return the tools that every session of an environment has."""
        return self._loop.run(lambda: self.on_loop.tools(environment))

    @contextmanager
    def episode(
        self, environment: str | None = None, **requested: Unpack[EpisodeRequest]
    ) -> Generator[Episode]:
        """Play a new episode over the Open Reward Standard; its session is deleted at the end."""
        with self._loop.hold(self.on_loop.episode(environment, **requested)) as episode:
            yield Episode(self._loop, episode)

    @contextmanager
    def attach(self, session_id: str) -> Generator[Episode]:
        """Join an existing session of an ors-server, which is not deleted at the end."""
        with self._loop.hold(self.on_loop.attach(session_id)) as episode:
            yield Episode(self._loop, episode)

    @contextmanager
    def mcp_episode(
        self, environment: str | None = None, *, era: str = "auto", **requested: Unpack[EpisodeRequest]
    ) -> Generator[Episode]:
        """Play a new episode over MCP, at an agent's URL; its figures are read over the control API."""
        with self._loop.hold(self.on_loop.mcp_episode(environment, era=era, **requested)) as episode:
            yield Episode(self._loop, episode)

    def summary(self, session_id: str) -> Summary:
        """Return the figures of a session of an ors-server, also after its end."""
        return self._loop.run(lambda: self.on_loop.summary(session_id))

    def steps(self, session_id: str) -> list[JSONObject]:
        """Return every recorded step of a session of an ors-server, in order."""
        return self._loop.run(lambda: self.on_loop.steps(session_id))
