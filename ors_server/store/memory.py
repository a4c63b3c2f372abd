"""An episode store in memory, which ends with the process."""

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_bytes

from ors_server.model.errors import EpisodeNotFoundError, StoreError
from ors_server.model.trajectory import (
    EpisodeOrigin,
    EpisodeRecord,
    EpisodeResult,
    EpisodeSummary,
    Incident,
    Step,
    Transition,
    first_summary,
    result_of,
)
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.store.base import Backlog, EpisodeTotals, OpenEpisode
from ors_server.store.episode_filter import ALL, EpisodeFilter


@dataclass(slots=True)
class _StoredEpisode:
    origin: EpisodeOrigin
    summary: EpisodeSummary
    steps: list[Step] = field(default_factory=list[Step])
    prompt: tuple[TextBlock | ImageBlock, ...] | None = None
    transitions: list[Transition] = field(default_factory=list[Transition])
    is_closed: bool = False
    incidents: list[Incident] = field(default_factory=list[Incident])

    def as_record(self) -> EpisodeRecord:
        return EpisodeRecord(
            self.origin,
            self.summary,
            self.prompt,
            tuple(self.transitions),
            is_closed=self.is_closed,
            incidents=tuple(self.incidents),
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

    def backlog(self) -> Backlog:
        """See `EpisodeStore.backlog`: what is accepted is stored."""
        return Backlog()

    async def open(self, origin: EpisodeOrigin) -> None:
        """See `EpisodeStore.open`."""
        if origin.episode_id not in self._episodes:
            self._episodes[origin.episode_id] = _StoredEpisode(origin, first_summary(origin))
            self._newest_of_session[origin.session_id] = origin.episode_id

    async def append(self, episode_id: str, step: Step, summary: EpisodeSummary) -> None:
        """See `EpisodeStore.append`.

        Raises:
            StoreError: If the step does not follow the last one, or the episode was never opened.
        """
        episode = self._episodes.get(episode_id)
        if episode is None:
            raise StoreError(f"the episode {episode_id!r} was never opened")
        if step.number > len(episode.steps) + 1:
            raise StoreError(f"step {step.number} cannot follow step {len(episode.steps)}")
        episode.steps[step.number - 1 : step.number] = [step]
        episode.summary = summary

    def record_transition(self, episode_id: str, transition: Transition, summary: EpisodeSummary) -> None:
        """See `EpisodeStore.record_transition`; an unknown episode is ignored."""
        episode = self._episodes.get(episode_id)
        if episode is not None:
            episode.transitions.append(transition)
            episode.summary = summary

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
            episode.incidents.append(incident)

    async def close(self, episode_id: str, summary: EpisodeSummary) -> None:
        """Keep the final summary, and remove the oldest closed episodes beyond the limit."""
        episode = self._episodes.get(episode_id)
        if episode is None:
            return
        episode.summary = summary
        episode.is_closed = True
        self._closed[episode_id] = None
        while len(self._closed) > self._retain:
            oldest = next(iter(self._closed))
            del self._closed[oldest]
            session_id = self._episodes.pop(oldest).origin.session_id
            if self._newest_of_session.get(session_id) == oldest:
                del self._newest_of_session[session_id]

    async def find(self, name: str) -> EpisodeRecord | None:
        """See `RecordReader.find`."""
        episode = self._episodes.get(name) or self._episodes.get(self._newest_of_session.get(name, ""))
        return None if episode is None else episode.as_record()

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
        limit: int = 100,
        newest_first: bool = True,
    ) -> Sequence[EpisodeRecord]:
        """See `RecordReader.page`."""
        found = self._matching(episode_filter)
        if newest_first:
            found.reverse()
        if after is not None:
            if after not in self._episodes:
                raise EpisodeNotFoundError(f"the store has no episode {after!r}, which `after` names")
            boundary = _rank(self._episodes[after].origin)
            found = [
                record
                for record in found
                if record.origin.episode_id != after and (_rank(record.origin) < boundary) == newest_first
            ]
        return [replace(record, transitions=(), incidents=()) for record in found[:limit]]

    async def stream(
        self, episode_filter: EpisodeFilter = ALL
    ) -> AsyncGenerator[tuple[EpisodeRecord, Sequence[Step]], None]:
        """See `RecordReader.stream`."""
        for episode_id in [record.origin.episode_id for record in self._matching(episode_filter)]:
            episode = self._episodes.get(episode_id)
            if episode is None:
                continue
            record = episode.as_record()  # together with the steps, for the episode may continue meanwhile
            if episode_filter.matches(record):
                yield record, tuple(episode.steps)

    async def totals(self, episode_filter: EpisodeFilter = ALL) -> EpisodeTotals:
        """See `RecordReader.totals`."""
        found = self._matching(episode_filter)
        results = [result_of(record.summary) for record in found]
        returns = [
            record.summary.episode_return
            for record, result in zip(found, results, strict=True)
            if result is EpisodeResult.GRADED
        ]
        return EpisodeTotals(
            episodes=len(found),
            steps=sum(record.summary.steps for record in found),
            mean_return=sum(returns) / len(returns) if returns else None,
            least_return=min(returns, default=None),
            greatest_return=max(returns, default=None),
            by_environment=_count(record.origin.environment for record in found),
            by_phase=_count(record.summary.phase for record in found),
            by_stop_reason=_count(record.summary.stop_reason for record in found),
            **{result.value: results.count(result) for result in EpisodeResult},
        )

    async def aclose(self) -> None:
        """Do nothing: no write is pending."""

    def _matching(self, episode_filter: EpisodeFilter) -> list[EpisodeRecord]:
        records = (episode.as_record() for episode in self._episodes.values())
        return sorted(
            (record for record in records if episode_filter.matches(record)),
            key=lambda record: _rank(record.origin),
        )


def _rank(origin: EpisodeOrigin) -> tuple[object, str]:
    return origin.created_at, origin.episode_id


def _count(values: Iterable[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(value for value in values if value is not None).items()))
