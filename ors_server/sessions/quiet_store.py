"""Replaces the episode store where a session plays what is on record already, or is let go of.

Nothing is written. While recorded calls are repeated, a reward that reads the steps so far gets the recorded
ones of the calls that were repeated so far, as it did the first time.
"""

from collections.abc import Callable, Sequence

from typing_extensions import override

from ors_server.model.trajectory import EpisodeOrigin, EpisodeSummary, Step
from ors_server.store.memory import MemoryStore


class QuietStore(MemoryStore):
    """Keeps the latest step of one episode and answers with recorded ones."""

    def __init__(self, recorded: Sequence[Step] = ()) -> None:
        """Answer with steps of a record; `MemoryStore` ignores episodes that were not opened."""
        super().__init__()
        self._recorded = recorded
        self._repeated = 0
        self.latest: Step | None = None
        """The step that was played last."""

    @override
    async def open(self, origin: EpisodeOrigin) -> None:
        """Do nothing: the episode is on record."""

    @override
    async def append(self, episode_id: str, step: Step, summarise: Callable[[], EpisodeSummary]) -> None:
        """Keep a step instead of the one before."""
        self.latest = step
        self._repeated = step.number

    @override
    async def steps(self, episode_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """Return recorded steps among those that were repeated."""
        return self._recorded[: self._repeated][start:stop]
