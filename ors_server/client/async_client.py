"""The client: environments and tasks of a server, and episodes on it."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Self

from typing_extensions import Unpack

from ors_server.client.async_episode import AsyncOrsEpisode, kept_open
from ors_server.client.call_result import read_known
from ors_server.client.client_options import ClientOptions, HttpPool, given_options, given_url
from ors_server.client.episode_request import EpisodeRequest
from ors_server.client.ledger import Ledger
from ors_server.client.server import Server, SessionPlace
from ors_server.client.session_summary import Summary
from ors_server.client.typed_answers import (
    LISTED,
    TaskCountFields,
    TaskFields,
    TaskRangeFields,
    read_answer,
)
from ors_server.model.errors import ForbiddenError
from ors_server.model.wire import JSONObject, Split, ToolListing

if TYPE_CHECKING:
    from ors_server.client.mcp_episode import AsyncMcpEpisode


class AsyncClient:
    """A client of one server: an async context manager, or closed by `aclose`.

    An `environment` of `None` is the server's default one.
    """

    def __init__(self, url: str, api_key: str | None = None, *, options: ClientOptions | None = None) -> None:
        """Open nothing yet; a `url` is for instance `http://127.0.0.1:8080`.

        Args:
            api_key: A trainer's for everything, or an agent's token for its own session.

        Raises:
            InvalidRequestError: If the URL or the key has another form.
        """
        self.options = given_options(options)
        self.url = given_url(url)
        self.reach = HttpPool(self.url, api_key, self.options)
        self.server = Server(self.reach.connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self.reach.connection.http.aclose()

    async def environments(self) -> list[str]:
        """Return the names of the environments, the default one first."""
        return await self.server.environments()

    async def splits(self, environment: str | None = None) -> list[Split]:
        """Return an environment's splits, in its order."""
        answer = await self.server.about(environment, "splits")
        return [read_known(Split, split) for split in read_answer(LISTED, answer, "the answer of /splits")]

    async def num_tasks(self, split: str, environment: str | None = None) -> int:
        """Return the number of tasks of a split."""
        answer = await self.server.about(environment, "num_tasks", {"split": split})
        return read_answer(TaskCountFields, answer, "the answer of /num_tasks")["num_tasks"]

    async def task(self, split: str, index: int, environment: str | None = None) -> JSONObject:
        """Return the task at a position of a split, from 0."""
        answer = await self.server.about(environment, "task", {"split": split, "index": index})
        return read_answer(TaskFields, answer, "the answer of /task")["task"]

    async def tasks(
        self,
        split: str,
        start: int | None = None,
        stop: int | None = None,
        *,
        environment: str | None = None,
    ) -> list[JSONObject]:
        """Return tasks of a split, in order, from position `start` up to, not including, `stop`."""
        body = {"split": split, "start": start, "stop": stop}
        answer = await self.server.about(environment, "task_range", body)
        return read_answer(TaskRangeFields, answer, "the answer of /task_range")["tasks"]

    async def tools(self, environment: str | None = None) -> ToolListing:
        """Return the tools that every session of an environment has."""
        return read_known(ToolListing, await self.server.about(environment, "tools"))

    def episode(
        self, environment: str | None = None, **requested: Unpack[EpisodeRequest]
    ) -> AbstractAsyncContextManager[AsyncOrsEpisode]:
        """Play a new episode over the Open Reward Standard; its session is deleted at the end.

        Args:
            **requested: The fields of [`EpisodeRequest`][ors_server.client.EpisodeRequest].
        """
        return self._episode(environment, requested)

    @asynccontextmanager
    async def _episode(
        self, environment: str | None, requested: EpisodeRequest
    ) -> AsyncGenerator[AsyncOrsEpisode]:
        session = await self.server.create(environment, requested)
        episode = AsyncOrsEpisode(self.server, session, is_ours=await self.server.is_ours())
        async with kept_open(episode, self.server.connection, [episode.aclose]):
            yield episode

    @asynccontextmanager
    async def attach(self, session_id: str) -> AsyncGenerator[AsyncOrsEpisode]:
        """Join an existing session of an ors-server, which is not deleted at the end.

        The ledger starts from the session's figures, if the credential may read them.
        """
        session, ledger = await self._find(session_id)
        episode = AsyncOrsEpisode(self.server, session, is_ours=await self.server.is_ours(), ledger=ledger)
        async with kept_open(episode, self.server.connection, []):
            yield episode

    async def _find(self, session_id: str) -> tuple[SessionPlace, Ledger]:
        try:
            session = await self.server.find(session_id)
        except ForbiddenError:
            # An agent's token may play and not read the figures, so the ledger starts from nothing.
            return SessionPlace(session_id, await self.server.name_of(None)), Ledger()
        summary = await self.summary(session_id)
        return session, Ledger(summary.episode_return, summary.steps)

    @asynccontextmanager
    async def mcp_episode(
        self, environment: str | None = None, *, era: str = "auto", **requested: Unpack[EpisodeRequest]
    ) -> "AsyncGenerator[AsyncMcpEpisode]":
        """Play a new episode over MCP, at an agent's URL; its figures are read over the control API.

        Args:
            era: `auto` for the newest protocol of the server, `legacy` for the handshake, or a version.
            **requested: As for `episode`.

        Raises:
            NotSupportedError: If the server is not an ors-server.
        """
        from ors_server.client.mcp_episode import play_agent_url  # noqa: PLC0415  (heavy, and for MCP only)

        async with (
            self.episode(environment, **requested) as owned,
            play_agent_url(owned, self.reach, era) as played,
        ):
            yield played

    async def summary(self, session_id: str) -> Summary:
        """Return the figures of a session of an ors-server, also after its end."""
        return Summary.of(await self.server.status(session_id))

    async def steps(self, session_id: str) -> list[JSONObject]:
        """Return every recorded step of a session of an ors-server, in order."""
        return await self.server.all_steps(session_id)
