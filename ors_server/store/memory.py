"""A store in this process: fast, and gone with it."""

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ors_server.errors import EpisodeNotFoundError, StoreError
from ors_server.store.base import ALL, EpisodeFilter, EpisodeTotals
from ors_server.store.matching import matches
from ors_server.trajectory import (
    EpisodeOrigin,
    EpisodeRecord,
    EpisodeSummary,
    Step,
    Transition,
    first_summary,
)
from ors_server.wire import ImageBlock, TextBlock


@dataclass(slots=True)
class _Entry:
    origin: EpisodeOrigin
    summary: EpisodeSummary
    steps: list[Step] = field(default_factory=list[Step])
    prompt: tuple[TextBlock | ImageBlock, ...] | None = None
    transitions: list[Transition] = field(default_factory=list[Transition])
    is_closed: bool = False

    def as_record(self) -> EpisodeRecord:
        return EpisodeRecord(
            self.origin, self.summary, self.prompt, tuple(self.transitions), is_closed=self.is_closed
        )


class MemoryStore:
    """Keeps live episodes and the most recent ended ones."""

    def __init__(self, retain: int = 10_000) -> None:
        """Start empty.

        Args:
            retain: Ended episodes that are kept; older ones are forgotten first.
        """
        self._retain = retain
        self._entries: dict[str, _Entry] = {}
        self._of_session: dict[str, str] = {}
        self._ended: dict[str, None] = {}

    async def open(self, origin: EpisodeOrigin) -> None:
        """Start the record of an episode.

        Args:
            origin: Where it came from.
        """
        if origin.episode_id not in self._entries:
            self._entries[origin.episode_id] = _Entry(origin, first_summary(origin))
            self._of_session[origin.session_id] = origin.episode_id

    async def append(self, episode_id: str, step: Step, summary: EpisodeSummary) -> None:
        """Keep one step and the figures after it.

        Args:
            episode_id: The episode.
            step: The step; one that has the number of another replaces it.
            summary: The figures after the step.

        Raises:
            StoreError: If the step does not follow the last one, or the episode was never opened.
        """
        entry = self._entries.get(episode_id)
        if entry is None:
            raise StoreError(f"the episode {episode_id!r} was never opened")
        if step.number > len(entry.steps) + 1:
            raise StoreError(f"step {step.number} cannot follow step {len(entry.steps)}")
        entry.steps[step.number - 1 : step.number] = [step]
        entry.summary = summary

    def note(self, episode_id: str, transition: Transition, summary: EpisodeSummary) -> None:
        """Keep a transition and the figures after it.

        Args:
            episode_id: The episode; an unknown one is passed over.
            transition: The move.
            summary: The figures after it.
        """
        entry = self._entries.get(episode_id)
        if entry is not None:
            entry.transitions.append(transition)
            entry.summary = summary

    def note_prompt(self, episode_id: str, blocks: Sequence[TextBlock | ImageBlock]) -> None:
        """Keep what the agent was told; the first prompt stays.

        Args:
            episode_id: The episode; an unknown one is passed over.
            blocks: The prompt.
        """
        entry = self._entries.get(episode_id)
        if entry is not None and entry.prompt is None:
            entry.prompt = tuple(blocks)

    async def close(self, episode_id: str, summary: EpisodeSummary) -> None:
        """Keep the final figures, and forget the oldest ended episodes beyond the limit.

        Args:
            episode_id: The episode.
            summary: The final figures.
        """
        entry = self._entries.get(episode_id)
        if entry is None:
            return
        entry.summary = summary
        entry.is_closed = True
        self._ended[episode_id] = None
        while len(self._ended) > self._retain:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            session_id = self._entries.pop(oldest).origin.session_id
            if self._of_session.get(session_id) == oldest:
                del self._of_session[session_id]

    async def find(self, name: str) -> EpisodeRecord | None:
        """Return a record by the episode's id, or the newest one by its session's id.

        Args:
            name: The whole id.
        """
        entry = self._entries.get(name) or self._entries.get(self._of_session.get(name, ""))
        return None if entry is None else entry.as_record()

    async def resolve(self, prefix: str, limit: int = 2) -> Sequence[str]:
        """Return ids of episodes that begin with a text, in order.

        Args:
            prefix: At least one character.
            limit: Most ids.
        """
        return sorted(episode_id for episode_id in self._entries if episode_id.startswith(prefix))[:limit]

    async def steps(self, episode_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """Return a slice of an episode's steps, in order.

        Args:
            episode_id: The episode.
            start: First position, from 0.
            stop: Last position, exclusive.
        """
        entry = self._entries.get(episode_id)
        return () if entry is None else tuple(entry.steps[start:stop])

    async def page(
        self, wanted: EpisodeFilter, *, after: str | None = None, limit: int = 100, newest_first: bool = True
    ) -> Sequence[EpisodeRecord]:
        """Return a page of episodes in the order of their creation, without their transitions.

        Args:
            wanted: Which ones.
            after: Id of the last episode of the page before.
            limit: Most episodes.
            newest_first: Whether the newest one comes first.

        Raises:
            EpisodeNotFoundError: If `after` is the id of no episode.
        """
        found = self._matching(wanted)
        if newest_first:
            found.reverse()
        if after is not None:
            if after not in self._entries:
                raise EpisodeNotFoundError(f"no episode {after!r} is on record, so no page follows it")
            border = _rank(self._entries[after].origin)
            found = [
                record
                for record in found
                if record.origin.episode_id != after and (_rank(record.origin) < border) == newest_first
            ]
        return [replace(record, transitions=()) for record in found[:limit]]

    async def stream(
        self, wanted: EpisodeFilter = ALL
    ) -> AsyncGenerator[tuple[EpisodeRecord, Sequence[Step]], None]:
        """Go through episodes with all their steps, oldest first.

        Args:
            wanted: Which ones.
        """
        for record in self._matching(wanted):
            yield record, await self.steps(record.origin.episode_id)

    async def totals(self, wanted: EpisodeFilter = ALL) -> EpisodeTotals:
        """Return figures over a set of episodes.

        Args:
            wanted: Which ones.
        """
        found = self._matching(wanted)
        returns = [record.summary.episode_return for record in found]
        return EpisodeTotals(
            episodes=len(found),
            steps=sum(record.summary.steps for record in found),
            mean_return=sum(returns) / len(returns) if returns else None,
            least_return=min(returns, default=None),
            greatest_return=max(returns, default=None),
            by_environment=_count(record.origin.environment for record in found),
            by_phase=_count(record.summary.phase for record in found),
            by_stop_reason=_count(record.summary.stop_reason for record in found),
        )

    async def aclose(self) -> None:
        """Nothing is pending here."""

    def _matching(self, wanted: EpisodeFilter) -> list[EpisodeRecord]:
        records = (entry.as_record() for entry in self._entries.values())
        return sorted(
            (record for record in records if matches(wanted, record)), key=lambda record: _rank(record.origin)
        )


def _rank(origin: EpisodeOrigin) -> tuple[object, str]:
    return origin.created_at, origin.episode_id


def _count(values: Iterable[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(value for value in values if value is not None).items()))
