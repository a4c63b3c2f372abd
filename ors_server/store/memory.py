"""An episode store in memory, which ends with the process."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from operator import gt, lt
from secrets import token_bytes
from typing import Any, TypeAlias

import anyio.to_thread

from ors_server.model.clock import from_microseconds, to_microseconds
from ors_server.model.errors import EpisodeNotFoundError, StoreError
from ors_server.model.trajectory import (
    EpisodeNote,
    EpisodeOrigin,
    EpisodeRecord,
    EpisodeResult,
    EpisodeSummary,
    Incident,
    Step,
    StepStatus,
    Transition,
    first_summary,
    seconds_of,
)
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.store.aggregates import (
    KEPT_MINUTES,
    MINUTE,
    CallsOfMinute,
    EpisodeTotals,
    PlayedTask,
    RunFigures,
    fold_runs,
    fold_totals,
    group_records,
    tasks_in_memory,
)
from ors_server.store.base import Backlog, OpenEpisode
from ors_server.store.episode_filter import ALL, SEARCHED_EPISODES, EpisodeFilter
from ors_server.store.episode_order import NEWEST_FIRST, EpisodeSorting, OrderKey
from ors_server.store.series import (
    GROUP_NAMES,
    EpisodeSample,
    ReturnHistogram,
    RolloutGroup,
    SeriesPoint,
    make_groups,
    make_histogram,
    make_series,
    sample_of,
)


@dataclass(slots=True)
class _StoredEpisode:
    origin: EpisodeOrigin
    last_read: EpisodeSummary
    """The summary, unless `summarise` is set."""
    summarise: Callable[[], EpisodeSummary] | None = None
    """Returns the summary after the last step, until it is read."""
    steps: list[Step] = field(default_factory=list[Step])
    prompt: tuple[TextBlock | ImageBlock, ...] | None = None
    transitions: list[Transition] = field(default_factory=list[Transition])
    is_closed: bool = False
    # `None` until there is one: the list and the dictionary are a twentieth of what an idle session takes.
    incidents: list[Incident] | None = None
    notes: dict[str, EpisodeNote] | None = None
    attempt: int | None = None

    @property
    def summary(self) -> EpisodeSummary:
        """The current figures: they are computed once, when somebody reads them, and not with each step."""
        if self.summarise is not None:
            self.set_summary(self.summarise())
        return self.last_read

    def set_summary(self, summary: EpisodeSummary) -> None:
        self.last_read, self.summarise = summary, None

    @property
    def attempted(self) -> tuple[str | None, str, str | None, int | None]:
        """Whose attempt it is, and at what."""
        origin = self.origin
        return origin.credential_id, origin.environment, origin.split, origin.index

    def as_record(self) -> EpisodeRecord:
        return EpisodeRecord(
            self.origin,
            self.summary,
            self.prompt,
            tuple(self.transitions),
            is_closed=self.is_closed,
            incidents=tuple(self.incidents or ()),
        )


class MemoryStore:
    """Keeps live episodes and the most recently closed ones."""

    left_open: Sequence[OpenEpisode] = ()
    """Always empty: no episode outlives the process."""

    def __init__(self, retain: int = 10_000) -> None:
        """Start empty; only the newest `retain` closed episodes are kept."""
        self.shared_secret = token_bytes(32)
        self._retain = retain
        self._episodes: dict[str, _StoredEpisode] = {}
        self._newest_of_session: dict[str, str] = {}
        self._closed: dict[str, None] = {}
        self._minutes: dict[int, list[int]] = {}
        """All, refused and failed calls by minute since 1970: lists, because each step adds to one."""

    async def read_secret(self) -> bytes:
        """See `EpisodeStore.read_secret`."""
        return self.shared_secret

    async def renew_secret(self) -> None:
        """See `EpisodeStore.renew_secret`."""
        self.shared_secret = token_bytes(len(self.shared_secret))

    async def claim_attempt(self, episode_id: str, numbers: Sequence[int]) -> int | None:
        """See `EpisodeStore.claim_attempt`."""
        episode = self._episodes.get(episode_id)
        if episode is not None and episode.attempt is None:
            others = self._episodes.values()
            taken = {other.attempt for other in others if other.attempted == episode.attempted}
            episode.attempt = next((number for number in numbers if number not in taken), None)
        return None if episode is None else episode.attempt

    def backlog(self) -> Backlog:
        """See `EpisodeStore.backlog`: what is accepted is stored."""
        return Backlog()

    async def open(self, origin: EpisodeOrigin) -> None:
        """See `EpisodeStore.open`."""
        if origin.episode_id not in self._episodes:
            self._episodes[origin.episode_id] = _StoredEpisode(origin, first_summary(origin))
            self._newest_of_session[origin.session_id] = origin.episode_id

    async def append(self, episode_id: str, step: Step, summarise: Callable[[], EpisodeSummary]) -> None:
        """See `EpisodeStore.append`.

        Raises:
            StoreError: If the step does not follow the last one, or the episode was never opened.
        """
        episode = self._episodes.get(episode_id)
        if episode is None:
            raise StoreError(f"the episode {episode_id!r} was never opened")
        if step.number > len(episode.steps) + 1:
            raise StoreError(f"step {step.number} cannot follow step {len(episode.steps)}")
        if step.number > len(episode.steps):
            self._count_call(step)
        episode.steps[step.number - 1 : step.number] = [step]
        episode.summarise = summarise

    def _count_call(self, step: Step) -> None:
        number = int(step.started_at.timestamp()) // 60  # since 1970, as `MINUTE` counts
        counts = self._minutes.get(number)
        if counts is None:  # seldom, so the oldest ones are looked for only now
            oldest = max([number, *self._minutes]) - KEPT_MINUTES
            self._minutes = {key: value for key, value in self._minutes.items() if key >= oldest}
            counts = self._minutes[number] = [0, 0, 0]
        counts[0] += 1
        counts[1] += step.status is StepStatus.REFUSED
        counts[2] += step.status is StepStatus.FAILED

    def record_transition(self, episode_id: str, transition: Transition, summary: EpisodeSummary) -> None:
        """See `EpisodeStore.record_transition`; an unknown episode is ignored."""
        episode = self._episodes.get(episode_id)
        if episode is not None:
            episode.transitions.append(transition)
            episode.set_summary(summary)

    def record_prompt(self, episode_id: str, blocks: Sequence[TextBlock | ImageBlock]) -> None:
        """See `EpisodeStore.record_prompt`; an unknown episode is ignored."""
        episode = self._episodes.get(episode_id)
        if episode is not None and episode.prompt is None:
            episode.prompt = tuple(blocks)

    def note_alive(self) -> None:
        """Do nothing: no later server reads it."""

    async def record_incident(self, episode_id: str, incident: Incident) -> None:
        """See `EpisodeStore.record_incident`."""
        episode = self._episodes.get(episode_id)
        if episode is not None:
            episode.incidents = episode.incidents or []
            episode.incidents.append(incident)

    async def add_note(self, episode_id: str, note: EpisodeNote) -> None:
        """See `EpisodeStore.add_note`."""
        episode = self._episodes.get(episode_id)
        if episode is not None:
            episode.notes = episode.notes or {}
            episode.notes[note.note_id] = note

    async def notes(self, episode_id: str) -> Sequence[EpisodeNote]:
        """See `RecordReader.notes`."""
        episode = self._episodes.get(episode_id)
        notes = {} if episode is None else episode.notes or {}
        return sorted(notes.values(), key=lambda note: (note.at, note.note_id))

    async def close(self, episode_id: str, summary: EpisodeSummary) -> None:
        """Keep the final summary, and remove the oldest closed episodes beyond the limit."""
        episode = self._episodes.get(episode_id)
        if episode is None:
            return
        episode.set_summary(summary)
        episode.is_closed = True
        self._closed[episode_id] = None
        while len(self._closed) > self._retain:
            oldest = next(iter(self._closed))
            del self._closed[oldest]
            session_id = self._episodes.pop(oldest).origin.session_id
            if self._newest_of_session.get(session_id) == oldest:
                del self._newest_of_session[session_id]

    def _named(self, name: str) -> _StoredEpisode | None:
        return self._episodes.get(name) or self._episodes.get(self._newest_of_session.get(name, ""))

    async def find(self, name: str) -> EpisodeRecord | None:
        """See `RecordReader.find`."""
        episode = self._named(name)
        return None if episode is None else episode.as_record()

    async def whole(self, name: str) -> tuple[EpisodeRecord, Sequence[Step]] | None:
        """See `RecordReader.whole`."""
        episode = self._named(name)
        return None if episode is None else (episode.as_record(), tuple(episode.steps))

    async def resolve(self, prefix: str, limit: int = 2) -> Sequence[str]:
        """See `RecordReader.resolve`."""
        return sorted(episode_id for episode_id in self._episodes if episode_id.startswith(prefix))[:limit]

    async def steps(self, episode_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """See `RecordReader.steps`."""
        episode = self._episodes.get(episode_id)
        return () if episode is None else tuple(episode.steps[start:stop])

    async def page(
        self,
        episode_filter: EpisodeFilter,
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int = 100,
        order: EpisodeSorting = NEWEST_FIRST,
    ) -> Sequence[EpisodeRecord]:
        """See `RecordReader.page`."""
        rank = partial(_rank_in, order)
        found = sorted(await self._matching(episode_filter), key=rank, reverse=order.descending)
        for name in filter(None, (after, before)):
            if name not in self._episodes:
                raise EpisodeNotFoundError(f"the store has no episode {name!r}, which the cursor names")
            boundary = rank(self._episodes[name].as_record())
            is_wanted = gt if (name == after) is not order.descending else lt
            found = [record for record in found if is_wanted(rank(record), boundary)]
        chosen = found[-limit:] if before is not None else found[:limit]
        return [replace(record, transitions=(), incidents=()) for record in chosen]

    async def stream(
        self, episode_filter: EpisodeFilter = ALL
    ) -> AsyncGenerator[tuple[EpisodeRecord, Sequence[Step]], None]:
        """See `RecordReader.stream`."""
        lasting = replace(episode_filter, text=None)  # a text that a record contains stays in it
        for episode_id in [record.origin.episode_id for record in await self._matching(episode_filter)]:
            episode = self._episodes.get(episode_id)
            if episode is None:
                continue
            record = episode.as_record()  # together with the steps, for the episode may continue meanwhile
            if lasting.matches(record, episode.steps):
                yield record, tuple(episode.steps)

    async def totals(self, episode_filter: EpisodeFilter = ALL) -> EpisodeTotals:
        """See `RecordReader.totals`."""
        return fold_totals(group_records(await self._matching(episode_filter)))

    async def runs(self, episode_filter: EpisodeFilter = ALL) -> Sequence[RunFigures]:
        """See `RecordReader.runs`."""
        return fold_runs(group_records(await self._matching(episode_filter)))

    async def by_task(
        self, episode_filter: EpisodeFilter = ALL, *, limit: int = 1000
    ) -> Sequence[PlayedTask]:
        """See `RecordReader.by_task`."""
        return tasks_in_memory(await self._matching(episode_filter))[:limit]

    async def series(
        self, episode_filter: EpisodeFilter, every: float, by: Sequence[str] = ()
    ) -> Sequence[SeriesPoint]:
        """See `RecordReader.series`."""
        return make_series(await self._samples(episode_filter, by), every, by)

    async def histogram(self, episode_filter: EpisodeFilter = ALL, *, bins: int = 20) -> ReturnHistogram:
        """See `RecordReader.histogram`."""
        samples = await self._samples(episode_filter)
        graded = [sample.episode_return for sample in samples if sample.result == EpisodeResult.GRADED]
        return make_histogram(graded, bins)

    async def groups(self, run: str) -> Sequence[RolloutGroup]:
        """See `RecordReader.groups`."""
        return make_groups(await self._samples(EpisodeFilter(labels={"run": run}), GROUP_NAMES))

    async def calls_by_minute(self, since: datetime) -> Sequence[CallsOfMinute]:
        """See `RecordReader.calls_by_minute`."""
        first = to_microseconds(since) // MINUTE
        return [
            CallsOfMinute(from_microseconds(number * MINUTE), *counts)
            for number, counts in sorted(self._minutes.items())
            if number >= first
        ]

    async def aclose(self) -> None:
        """Do nothing: no write is pending."""

    async def _samples(self, episode_filter: EpisodeFilter, by: Sequence[str] = ()) -> list[EpisodeSample]:
        return [sample_of(record, by) for record in await self._matching(episode_filter)]

    async def _matching(self, episode_filter: EpisodeFilter) -> list[EpisodeRecord]:
        stored = list(self._episodes.values())
        text, cheap = episode_filter.text, replace(episode_filter, text=None)
        if text is not None:
            stored = stored[-SEARCHED_EPISODES:]
        pairs: Sequence[_Pair] = [
            (record, tuple(episode.steps))
            for episode in stored
            if cheap.matches(record := episode.as_record(), episode.steps)
        ]
        if text is not None:
            # Every step is written as JSON for it, which takes seconds for long episodes.
            with_text = EpisodeFilter(text=text)
            candidates = pairs
            pairs = await anyio.to_thread.run_sync(
                lambda: [pair for pair in candidates if with_text.matches(*pair)], abandon_on_cancel=True
            )
        return sorted((record for record, _ in pairs), key=lambda record: _rank(record.origin))


_Pair: TypeAlias = tuple[EpisodeRecord, Sequence[Step]]


def _rank_in(order: EpisodeSorting, record: EpisodeRecord) -> tuple[Any, ...]:
    summary = record.summary
    value: float | None = 0.0
    match order.key:
        case OrderKey.CREATED:
            pass
        case OrderKey.RETURN:
            value = summary.episode_return
        case OrderKey.STEPS:
            value = summary.steps
        case OrderKey.DURATION:
            value = seconds_of(summary)
    return (order.missing if value is None else value, *_rank(record.origin))


def _rank(origin: EpisodeOrigin) -> tuple[object, str]:
    return origin.created_at, origin.episode_id
