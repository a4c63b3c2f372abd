"""Where `ors-server episodes` reads: a store itself, or a running server's control API."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

import typer

from ors_server.cli.command_output import CommandError
from ors_server.cli.keys import VARIABLE, api_key
from ors_server.errors import ClientError, EpisodeNotFoundError

if TYPE_CHECKING:
    import httpx2

    from ors_server.cli.episodes_options import SourceOptions
    from ors_server.store.base import EpisodeTotals, RecordReader
    from ors_server.trajectory import EpisodeRecord, EpisodeSummary, Step
    from ors_server.transports.control_episodes import EpisodeEntry, EpisodeSelection

    Told: TypeAlias = Step | EpisodeSummary

MAX_PAGE = 500
"""Most episodes or steps that are asked for at once."""
TIME_LIMIT = 60.0
"""Seconds to wait for a server's next word; it says at least every few seconds that it is alive."""
MAX_EVENT_BYTES = 256 * 1024 * 1024
"""Largest event that is taken from a server: one step and its blocks."""


_Content = TypeVar("_Content")


class Source(Protocol):
    """The record, wherever it is.

    Every method may raise `CommandError` or another error of ours that says why it could not be read.
    """

    def entries(
        self, wanted: "EpisodeSelection", *, limit: int | None = None, newest_first: bool = True
    ) -> "AsyncGenerator[EpisodeEntry, None]":
        """Give episodes in the order of their creation, holding a page of them at a time.

        Args:
            wanted: Which ones.
            limit: Most episodes; `None` for all.
            newest_first: Whether the newest one comes first.
        """
        ...

    async def totals(self, wanted: "EpisodeSelection") -> "EpisodeTotals":
        """Return figures over all episodes that are meant.

        Args:
            wanted: Which ones.
        """
        ...

    async def find(self, name: str) -> "EpisodeRecord":
        """Return the record that a name stands for.

        Args:
            name: An episode's id, the beginning of one, or a session's id.
        """
        ...

    async def steps(self, episode_id: str, start: int, stop: int) -> "Sequence[Step]":
        """Return a slice of an episode's steps.

        Args:
            episode_id: The episode.
            start: First position, from 0.
            stop: Last position, exclusive; at most `MAX_PAGE` after the first.
        """
        ...

    def follow(self, episode_id: str, start: int) -> "AsyncGenerator[Told, None]":
        """Give an episode's steps as they come, and its final figures last, once its session is gone.

        Args:
            episode_id: The episode.
            start: First position, from 0.
        """
        ...


def open_source(options: "SourceOptions") -> AbstractAsyncContextManager[Source]:
    """Open the record that a command was told to read.

    Args:
        options: What it was told.

    Raises:
        typer.BadParameter: If it was told two records, or one that cannot be.
    """
    if options.url is None:
        from ors_server.settings import load_settings

        return _open_store(options.store or load_settings().record)
    if options.store is not None:
        raise typer.BadParameter("give one record: --store or --url.")
    if not options.url.startswith(("http://", "https://")):
        raise typer.BadParameter(f"--url is a server's, such as http://127.0.0.1:8080, not {options.url!r}.")
    return _open_server(options.url)


@asynccontextmanager
async def _open_store(where: str) -> AsyncGenerator[Source, None]:
    from ors_server.store.location import MEMORY
    from ors_server.store.open import open_reader

    if where == MEMORY:
        raise typer.BadParameter("a record in memory is read at its server only: give --url, or --store.")
    reader = await open_reader(where)
    try:
        yield StoreSource(reader)
    finally:
        await reader.aclose()


@asynccontextmanager
async def _open_server(url: str) -> AsyncGenerator[Source, None]:
    import httpx2

    key = api_key()
    async with httpx2.AsyncClient(
        base_url=f"{url.rstrip('/')}/_ors",
        headers={} if key is None else {"X-API-Key": key},
        timeout=TIME_LIMIT,
    ) as client:
        yield ServerSource(client)


class StoreSource:
    """Reads a store."""

    def __init__(self, reader: "RecordReader") -> None:
        """Read a store.

        Args:
            reader: The store; closed by whoever opened it.
        """
        self._reader = reader

    async def entries(
        self, wanted: "EpisodeSelection", *, limit: int | None = None, newest_first: bool = True
    ) -> "AsyncGenerator[EpisodeEntry, None]":
        """Give episodes in the order of their creation."""
        from ors_server.transports.control_episodes import EpisodeEntry

        given, after = 0, None
        while limit is None or given < limit:
            size = MAX_PAGE if limit is None else min(MAX_PAGE, limit - given)
            page = await self._reader.page(
                wanted.as_filter(), after=after, limit=size, newest_first=newest_first
            )
            for record in page:
                yield EpisodeEntry.of(record)
            if len(page) < size:
                break
            given += size
            after = page[-1].origin.episode_id

    async def totals(self, wanted: "EpisodeSelection") -> "EpisodeTotals":
        """Return figures over all episodes that are meant."""
        return await self._reader.totals(wanted.as_filter())

    async def find(self, name: str) -> "EpisodeRecord":
        """Return the record that a name stands for."""
        from ors_server.store.lookup import find_episode

        return await find_episode(self._reader, name)

    async def steps(self, episode_id: str, start: int, stop: int) -> "Sequence[Step]":
        """Return a slice of an episode's steps."""
        return await self._reader.steps(episode_id, start, stop)

    async def follow(self, episode_id: str, start: int) -> "AsyncGenerator[Told, None]":
        """Give an episode's steps as they come, and its final figures last."""
        from ors_server.clock import SystemClock
        from ors_server.store.episode_updates import follow

        async with aclosing(follow(self._reader, episode_id, start=start, clock=SystemClock())) as looks:
            async for news in looks:
                for step in news.steps:
                    yield step
                if news.is_last:
                    yield news.record.summary


class ServerSource:
    """Reads a running server's record over its control API."""

    def __init__(self, client: "httpx2.AsyncClient") -> None:
        """Read a server's record.

        Args:
            client: Speaks to the control API; closed by whoever opened it.
        """
        self._client = client

    async def entries(
        self, wanted: "EpisodeSelection", *, limit: int | None = None, newest_first: bool = True
    ) -> "AsyncGenerator[EpisodeEntry, None]":
        """Give episodes in the order of their creation."""
        from ors_server.transports.control_episodes import EpisodePage

        given = 0
        query = {**_query(wanted), "order": "newest" if newest_first else "oldest"}
        while limit is None or given < limit:
            query["limit"] = MAX_PAGE if limit is None else min(MAX_PAGE, limit - given)
            page = await self._ask("/episodes", EpisodePage, query)
            for entry in page.episodes:
                yield entry
            if page.next_cursor is None:
                break
            given += len(page.episodes)
            query["cursor"] = page.next_cursor

    async def totals(self, wanted: "EpisodeSelection") -> "EpisodeTotals":
        """Return figures over all episodes that are meant."""
        from ors_server.store.base import EpisodeTotals

        return await self._ask("/episodes/totals", EpisodeTotals, _query(wanted))

    async def find(self, name: str) -> "EpisodeRecord":
        """Return the record that a name stands for."""
        from ors_server.transports.control_episodes import EpisodeRecordView

        return (await self._ask(_path(name), EpisodeRecordView)).as_record()

    async def steps(self, episode_id: str, start: int, stop: int) -> "Sequence[Step]":
        """Return a slice of an episode's steps."""
        from ors_server.transports.control_episodes import EpisodeStepPage

        query = {"start": start, "stop": stop}
        return (await self._ask(_path(episode_id, "/steps"), EpisodeStepPage, query)).steps

    async def follow(self, episode_id: str, start: int) -> "AsyncGenerator[Told, None]":
        """Give an episode's steps as they come, and its final figures last."""
        import httpx2

        from ors_server.trajectory import EpisodeSummary, Step
        from ors_server.transports.control_operations import Problem

        path, query = _path(episode_id, "/events"), {"start": start}
        try:
            async with self._client.sse(path, params=query, max_event_size=MAX_EVENT_BYTES) as stream:
                if not stream.response.is_success:
                    await stream.response.aread()
                    raise _refusal(stream.response)
                async for event in stream:
                    if event.event == "step":
                        yield self._read(Step, event.data)
                    elif event.event == "end":
                        yield self._read(EpisodeSummary, event.data)
                        return
                    elif event.event == "error":
                        problem = self._read(Problem, event.data)
                        raise CommandError(f"the server ended the stream: {problem.detail}")
        except httpx2.HTTPError as error:
            raise CommandError(f"lost {self._client.base_url}: {_reason(error)}") from error
        raise CommandError(f"{self._client.base_url} ended the stream before the episode's end")

    async def _ask(self, path: str, kind: type[_Content], query: Mapping[str, Any] | None = None) -> _Content:
        import httpx2

        try:
            answer = await self._client.get(path, params=query)
        except httpx2.HTTPError as error:
            raise CommandError(f"cannot reach {self._client.base_url}: {_reason(error)}") from error
        if not answer.is_success:
            raise _refusal(answer)
        return self._read(kind, answer.content)

    def _read(self, kind: type[_Content], text: str | bytes) -> _Content:
        from pydantic import TypeAdapter, ValidationError

        try:
            return TypeAdapter(kind).validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise CommandError(
                f"the answer of {self._client.base_url} is not as this version knows it: "
                f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            ) from error


def _path(name: str, below: str = "") -> str:
    return f"/episodes/{quote(name, safe='')}{below}"


def _query(wanted: "EpisodeSelection") -> dict[str, Any]:
    return wanted.model_dump(mode="json", exclude_none=True)


def _refusal(answer: "httpx2.Response") -> ClientError:
    from pydantic import ValidationError

    from ors_server.transports.control_operations import Problem

    try:
        problem = Problem.model_validate_json(answer.content)
    except ValidationError:
        return CommandError(f"the server refused with {answer.status_code}: {answer.reason_phrase}")
    if problem.code == EpisodeNotFoundError.code:
        return EpisodeNotFoundError(problem.detail)
    hint = f" (set {VARIABLE})" if answer.status_code in {401, 403} else ""
    return CommandError(f"the server refused with {answer.status_code}: {problem.detail}{hint}")


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
