"""A store in this process: fast, and gone with it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ors_server.trajectory import EpisodeOrigin, EpisodeSummary, Step


@dataclass(slots=True)
class _Record:
    origin: EpisodeOrigin
    steps: list[Step] = field(default_factory=list[Step])
    summary: EpisodeSummary | None = None


class MemoryStore:
    """Keeps live episodes and the most recent ended ones."""

    def __init__(self, retain: int = 10_000) -> None:
        """Start empty.

        Args:
            retain: Ended episodes that are kept; older ones are forgotten first.
        """
        self._retain = retain
        self._records: dict[str, _Record] = {}
        self._ended: dict[str, None] = {}

    async def open(self, origin: EpisodeOrigin) -> None:
        """Start the record of an episode.

        Args:
            origin: Where it came from.
        """
        self._ended.pop(origin.session_id, None)
        self._records[origin.session_id] = _Record(origin)

    async def append(self, session_id: str, step: Step, summary: EpisodeSummary) -> None:
        """Keep one step and the figures after it.

        Args:
            session_id: The episode's session.
            step: The step.
            summary: The figures after the step.
        """
        record = self._records[session_id]
        record.steps.append(step)
        record.summary = summary

    async def close(self, session_id: str, summary: EpisodeSummary) -> None:
        """Keep the final figures, and forget the oldest ended episodes beyond the limit.

        Args:
            session_id: The episode's session.
            summary: The final figures.
        """
        record = self._records.get(session_id)
        if record is None:
            return
        record.summary = summary
        self._ended[session_id] = None
        while len(self._ended) > self._retain:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            del self._records[oldest]

    async def origin(self, session_id: str) -> EpisodeOrigin | None:
        """Return where an episode came from, or `None`."""
        record = self._records.get(session_id)
        return None if record is None else record.origin

    async def summary(self, session_id: str) -> EpisodeSummary | None:
        """Return the latest figures of an episode, or `None`."""
        record = self._records.get(session_id)
        return None if record is None else record.summary

    async def steps(self, session_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """Return a slice of an episode's steps, in order.

        Args:
            session_id: The episode's session.
            start: First position, from 0.
            stop: Last position, exclusive.
        """
        record = self._records.get(session_id)
        return () if record is None else tuple(record.steps[start:stop])

    async def aclose(self) -> None:
        """Nothing is pending here."""
