"""A running server's record, read over its control API."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

import anyio
import httpx2
from pydantic import TypeAdapter, ValidationError

from ors_server.cli.command_output import CommandError
from ors_server.cli.server_requests import VARIABLE
from ors_server.client.bounded_http import ACCEPTED_CODINGS, AnswerBounds, BrokenAnswerError, tls_context
from ors_server.client.server import MAX_STEP_PAGES
from ors_server.doors.control.episodes import (
    MAX_MINUTES,
    CallsByMinute,
    EpisodeEntry,
    EpisodeRecordView,
    EpisodeSeries,
    EpisodeStepPage,
    GroupList,
    NoteList,
    PlayedTaskList,
    RunList,
)
from ors_server.doors.http.request_errors import Problem, ResponseModel
from ors_server.model.errors import ClientError, EpisodeNotFoundError
from ors_server.model.trajectory import EpisodeNote, EpisodeRecord, EpisodeSummary, Step
from ors_server.store.aggregates import CallsOfMinute, EpisodeTotals, PlayedTask, RunFigures
from ors_server.store.episode_filter import ALL, PARAMETERS, EpisodeFilter
from ors_server.store.episode_order import NEWEST_FIRST, OLDEST_FIRST, EpisodeSorting
from ors_server.store.series import ReturnHistogram, RolloutGroup, SeriesPoint

MAX_PAGE = 500
"""Maximum number of episodes or steps of one request."""
TIME_LIMIT = 60.0
"""Seconds without a byte after which the server counts as lost; it sends a ping every few seconds."""
ANSWER_SECONDS = 1_200.0
"""Seconds that a page may take, to its last byte."""
MAX_EVENT_BYTES = 256 * 1024 * 1024
"""Largest event or page that is accepted: steps and their blocks."""
BOUNDS = AnswerBounds(MAX_EVENT_BYTES, max_stream_bytes=None, max_values=8_000_000)

_Content = TypeVar("_Content")


class _WholeEntries(ResponseModel):
    """A page of episodes with all their fields, as it is sent where `fields` chooses none."""

    episodes: list[EpisodeEntry]


class ServerRecord:
    """Reads a server's record as a store is read; a `RecordReader`.

    Every method may raise `CommandError`, which says why the server's answer cannot be used.
    """

    def __init__(self, client: httpx2.AsyncClient) -> None:
        """Read over a client whose base URL is that of the control API; `aclose` closes it."""
        self._client = client

    @classmethod
    def at(cls, url: str, api_key: str | None) -> "ServerRecord":
        """Return the record of the server at a URL; nothing is sent yet."""
        headers = {} if api_key is None else {"X-API-Key": api_key}
        return cls(
            httpx2.AsyncClient(
                base_url=f"{url.rstrip('/')}/_ors",
                headers={**ACCEPTED_CODINGS, **headers},
                timeout=TIME_LIMIT,
                verify=tls_context(),
                event_hooks={"response": [BOUNDS.apply]},
            )
        )

    async def find(self, name: str) -> EpisodeRecord | None:
        """Return the record of an episode id, the beginning of one, or a session id."""
        try:
            return (await self._get(_path(name), EpisodeRecordView)).as_record()
        except EpisodeNotFoundError:
            return None

    async def whole(self, name: str) -> tuple[EpisodeRecord, Sequence[Step]] | None:
        """Return the record that `find` returns with all of its steps, which are read after it."""
        record = await self.find(name)
        return None if record is None else (record, await self.steps(record.origin.episode_id))

    async def resolve(self, prefix: str, limit: int = 2) -> Sequence[str]:
        """Return the ids that begin with a prefix: `find` knows at most one."""
        record = await self.find(prefix)
        return [] if record is None else [record.origin.episode_id][:limit]

    async def steps(self, episode_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """Return a slice of an episode's steps."""
        steps: list[Step] = []
        for _ in range(MAX_STEP_PAGES):
            first = start + len(steps)
            last = first + MAX_PAGE if stop is None else min(stop, first + MAX_PAGE)
            if first >= last:
                return steps
            page = await self._get(
                _path(episode_id, "/steps"), EpisodeStepPage, {"start": first, "stop": last}
            )
            steps += page.steps
            if not page.steps:
                return steps
        raise CommandError(
            f"expected the steps of {episode_id} within {MAX_STEP_PAGES:,} pages, "
            f"got {len(steps):,} steps so far"
        )

    async def page(
        self,
        episode_filter: EpisodeFilter,
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int = 100,
        order: EpisodeSorting = NEWEST_FIRST,
    ) -> Sequence[EpisodeRecord]:
        """Return a page of episodes, without what only the whole record has, such as task and policy."""
        query = {**_query(episode_filter), "sort": str(order), "limit": limit}
        query |= {name: id_ for name, id_ in (("cursor", after), ("before", before)) if id_ is not None}
        page = await self._get("/episodes", _WholeEntries, query)
        left_out: dict[str, Any] = {"task_spec": {}, "policy": {}, "sandbox": None, "prompt": None}
        left_out |= {"transitions": (), "incidents": (), "creation": None, "has_secrets": False}
        return [
            EpisodeRecordView.model_construct(**dict(entry), **left_out).as_record()
            for entry in page.episodes
        ]

    async def stream(
        self, episode_filter: EpisodeFilter = ALL
    ) -> AsyncGenerator[tuple[EpisodeRecord, Sequence[Step]], None]:
        """Yield episodes with all their steps, oldest first."""
        after: str | None = None
        while page := await self.page(episode_filter, after=after, limit=MAX_PAGE, order=OLDEST_FIRST):
            for each in page:
                after = each.origin.episode_id
                record = await self.find(after)
                if record is not None:
                    yield record, await self.steps(after)

    async def totals(self, episode_filter: EpisodeFilter = ALL) -> EpisodeTotals:
        """Return statistics over episodes."""
        return await self._get("/episodes/totals", EpisodeTotals, _query(episode_filter))

    async def runs(self, episode_filter: EpisodeFilter = ALL) -> Sequence[RunFigures]:
        """Return the figures of each run."""
        return (await self._get("/runs", RunList, _query(episode_filter))).runs

    async def by_task(
        self, episode_filter: EpisodeFilter = ALL, *, limit: int = 1000
    ) -> Sequence[PlayedTask]:
        """Return the figures of each task."""
        query = {**_query(episode_filter), "limit": limit}
        return (await self._get("/episodes/by-task", PlayedTaskList, query)).tasks

    async def notes(self, episode_id: str) -> Sequence[EpisodeNote]:
        """Return the notes about an episode."""
        return (await self._get(_path(episode_id, "/notes"), NoteList)).notes

    async def series(
        self, episode_filter: EpisodeFilter, every: float, by: Sequence[str] = ()
    ) -> Sequence[SeriesPoint]:
        """Return figures over time."""
        query = {**_query(episode_filter), "every": f"{every:.0f}s", "by": list(by)}
        return (await self._get("/episodes/series", EpisodeSeries, query)).points

    async def histogram(self, episode_filter: EpisodeFilter = ALL, *, bins: int = 20) -> ReturnHistogram:
        """Return how returns are distributed."""
        query = {**_query(episode_filter), "bins": bins}
        return await self._get("/episodes/histogram", ReturnHistogram, query)

    async def groups(self, run: str) -> Sequence[RolloutGroup]:
        """Return the groups of a run."""
        return (await self._get(f"/runs/{quote(run, safe='')}/groups", GroupList)).groups

    async def calls_by_minute(self, since: datetime) -> Sequence[CallsOfMinute]:
        """Return how many calls began in each minute; `since` is at most a day ago."""
        minutes = (await self._get("/calls/by-minute", CallsByMinute, {"minutes": MAX_MINUTES})).minutes
        first = since.replace(second=0, microsecond=0)
        return [minute for minute in minutes if minute.calls and minute.start >= first]

    async def follow(self, episode_id: str, start: int) -> AsyncGenerator[Step | EpisodeSummary, None]:
        """Yield an episode's steps as they are played, and its final figures when its session has ended."""
        path = _path(episode_id, "/events")
        try:
            async with self._client.sse(
                path, params={"start": start}, max_event_size=MAX_EVENT_BYTES
            ) as stream:
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
        except BrokenAnswerError as error:
            raise CommandError(str(error)) from error
        except (httpx2.HTTPError, httpx2.SSEError) as error:
            raise CommandError(f"lost {self._client.base_url}: {_reason(error)}") from error
        raise CommandError(f"{self._client.base_url} ended the stream before the episode's end")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _get(self, path: str, kind: type[_Content], query: Mapping[str, Any] | None = None) -> _Content:
        try:
            with anyio.fail_after(ANSWER_SECONDS):
                response = await self._client.get(path, params=query)
        except TimeoutError as error:
            problem = f"a page was not complete within {ANSWER_SECONDS:g} seconds"
            raise CommandError(f"lost {self._client.base_url}: {problem}") from error
        except BrokenAnswerError as error:
            raise CommandError(str(error)) from error
        except httpx2.HTTPError as error:
            raise CommandError(f"cannot reach {self._client.base_url}: {_reason(error)}") from error
        if not response.is_success:
            raise _refusal(response)
        return self._read(kind, response.content)

    def _read(self, kind: type[_Content], text: str | bytes) -> _Content:
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


def _query(episode_filter: EpisodeFilter) -> dict[str, Any]:
    query: dict[str, Any] = {}
    for name, parameter in PARAMETERS.items():
        value: Any = getattr(episode_filter, name)
        if name == "labels":
            value = [f"{key}={text}" for key, text in episode_filter.labels.items()]
        if value is not None:
            query[parameter] = value.isoformat() if isinstance(value, datetime) else value
    return query


def _refusal(response: httpx2.Response) -> ClientError:
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        return CommandError(f"the server refused with {response.status_code}: {response.reason_phrase}")
    if problem.code == EpisodeNotFoundError.code:
        return EpisodeNotFoundError(problem.detail)
    hint = f" (set {VARIABLE})" if response.status_code in {401, 403} else ""
    return CommandError(f"the server refused with {response.status_code}: {problem.detail}{hint}")


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
