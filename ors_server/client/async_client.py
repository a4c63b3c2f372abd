"""The client: environments and tasks of a server, and episodes on it."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Self

from typing_extensions import Unpack

from ors_server.client.async_episode import AsyncOrsEpisode, kept_open
from ors_server.client.call_result import read_known
from ors_server.client.client_options import ClientOptions, Reach, given_options, given_url
from ors_server.client.episode_request import EpisodeRequest
from ors_server.client.ledger import Ledger
from ors_server.client.server import Server, SessionPlace
from ors_server.client.session_summary import Summary
from ors_server.errors import ForbiddenError
from ors_server.wire import JSONObject, Split, ToolListing

if TYPE_CHECKING:
    from ors_server.client.mcp_episode import AsyncMcpEpisode


class AsyncClient:
    """A client of one server.

    Used as an async context manager, or closed by `aclose`.
    """

    def __init__(self, url: str, api_key: str | None = None, *, options: ClientOptions | None = None) -> None:
        """Open nothing yet.

        Args:
            url: Where the server is, for instance `http://127.0.0.1:8080`.
            api_key: Sent as `X-API-Key`; a trainer's for everything, an agent's token for its own session.
            options: Further settings.

        Raises:
            InvalidRequestError: If that is no such URL.
        """
        self.options = given_options(options)
        self.url = given_url(url)
        self.reach = Reach(self.url, api_key, self.options)
        self.server = Server(self.reach.connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self.reach.connection.http.aclose()

    async def environments(self) -> list[str]:
        """Return the names of what is served, the default one first."""
        return await self.server.environments()

    async def splits(self, environment: str | None = None) -> list[Split]:
        """Return an environment's splits, in its order.

        Args:
            environment: Its name; the default one without.
        """
        return [read_known(Split, split) for split in await self.server.about(environment, "splits")]

    async def num_tasks(self, split: str, environment: str | None = None) -> int:
        """Return how many tasks a split has.

        Args:
            split: Its name.
            environment: The environment's name; the default one without.
        """
        told = await self.server.about(environment, "num_tasks", {"split": split})
        return int(told["num_tasks"])

    async def task(self, split: str, index: int, environment: str | None = None) -> JSONObject:
        """Return one task.

        Args:
            split: The split's name.
            index: Its position, from 0.
            environment: The environment's name; the default one without.
        """
        told = await self.server.about(environment, "task", {"split": split, "index": index})
        task: JSONObject = told["task"]
        return task

    async def tasks(
        self,
        split: str,
        start: int | None = None,
        stop: int | None = None,
        *,
        environment: str | None = None,
    ) -> list[JSONObject]:
        """Return tasks of a split, in order.

        Args:
            split: The split's name.
            start: The first one's position; from the beginning without.
            stop: The position after the last one; to the end without.
            environment: The environment's name; the default one without.
        """
        body = {"split": split, "start": start, "stop": stop}
        told = await self.server.about(environment, "task_range", body)
        return list(told["tasks"])

    async def tools(self, environment: str | None = None) -> ToolListing:
        """Return the tools that every session of an environment has.

        Args:
            environment: Its name; the default one without.
        """
        return read_known(ToolListing, await self.server.about(environment, "tools"))

    def episode(
        self, environment: str | None = None, **wanted: Unpack[EpisodeRequest]
    ) -> AbstractAsyncContextManager[AsyncOrsEpisode]:
        """Play a new episode over the Open Reward Standard; its session is deleted at the end.

        Args:
            environment: Name of the environment; the default one without.
            **wanted: `split` and `index`, or `task_spec`; `seed`, `policy`, `labels`, `secrets`, `toolset`,
                `visibility`, `session_id`.

        Returns:
            An async context manager that gives the episode.
        """
        return self._episode(environment, wanted)

    @asynccontextmanager
    async def _episode(
        self, environment: str | None, wanted: EpisodeRequest
    ) -> AsyncGenerator[AsyncOrsEpisode]:
        place = await self.server.create(environment, wanted)
        episode = AsyncOrsEpisode(self.server, place, is_ours=await self.server.is_ours())
        async with kept_open(episode, self.server.connection, [episode.aclose]):
            yield episode

    @asynccontextmanager
    async def attach(self, session_id: str) -> AsyncGenerator[AsyncOrsEpisode]:
        """Join a session that somebody else made on a server of ours; it is left alive at the end.

        The ledger goes on from the figures as they stand, where the credential may read them.

        Args:
            session_id: The session.

        Raises:
            OrsServerError: If there is none.
        """
        place, ledger = await self._find(session_id)
        episode = AsyncOrsEpisode(self.server, place, is_ours=await self.server.is_ours(), ledger=ledger)
        async with kept_open(episode, self.server.connection, []):
            yield episode

    async def _find(self, session_id: str) -> tuple[SessionPlace, Ledger]:
        try:
            place = await self.server.find(session_id)
        except ForbiddenError:
            return SessionPlace(session_id, await self.server.name_of(None)), Ledger()
        summary = await self.summary(session_id)
        return place, Ledger(summary.episode_return, summary.steps)

    @asynccontextmanager
    async def mcp_episode(
        self, environment: str | None = None, *, era: str = "auto", **wanted: Unpack[EpisodeRequest]
    ) -> "AsyncGenerator[AsyncMcpEpisode]":
        """Play a new episode over MCP, at the URL that an agent is given; its figures are read beside it.

        Args:
            environment: Name of the environment; the default one without.
            era: `auto` for the newest protocol that the server knows, `legacy` for the handshake, or a
                version.
            **wanted: As for `episode`.

        Raises:
            NotSupportedError: If the server is not an ors-server.
        """
        from ors_server.client.mcp_episode import play_agent_url  # noqa: PLC0415  (heavy, and for MCP only)

        async with (
            self.episode(environment, **wanted) as beside,
            play_agent_url(beside, self.reach, era) as played,
        ):
            yield played

    async def summary(self, session_id: str) -> Summary:
        """Return the figures of a session of a server of ours, ended ones included.

        Args:
            session_id: The session.

        Raises:
            OrsServerError: As the server answers.
        """
        return Summary.of(await self.server.status(session_id))

    async def steps(self, session_id: str) -> list[JSONObject]:
        """Return every recorded step of a session of a server of ours, in order.

        Args:
            session_id: The session.

        Raises:
            OrsServerError: As the server answers.
        """
        return await self.server.all_steps(session_id)
