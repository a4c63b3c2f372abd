"""What the server asks of a store."""

from collections.abc import Sequence
from typing import Protocol

from ors_server.trajectory import EpisodeOrigin, EpisodeSummary, Step


class EpisodeStore(Protocol):
    """Keeps episodes; a step that was appended is readable until the episode is forgotten.

    Every method may raise `StoreError`; then nothing was written and the caller must not answer.
    """

    async def open(self, origin: EpisodeOrigin) -> None:
        """Start the record of an episode.

        Args:
            origin: Where it came from; a session id that was used before replaces the older record.
        """
        ...

    async def append(self, session_id: str, step: Step, summary: EpisodeSummary) -> None:
        """Write one step and the figures after it, both or neither.

        Args:
            session_id: The episode's session.
            step: The step; numbers follow one another from 1.
            summary: The figures after the step.
        """
        ...

    async def close(self, session_id: str, summary: EpisodeSummary) -> None:
        """Write the final figures of an episode whose session is gone.

        Args:
            session_id: The episode's session.
            summary: The final figures.
        """
        ...

    async def origin(self, session_id: str) -> EpisodeOrigin | None:
        """Return where an episode came from, or `None` if the store does not know it."""
        ...

    async def summary(self, session_id: str) -> EpisodeSummary | None:
        """Return the latest figures of an episode, or `None` if there are none."""
        ...

    async def steps(self, session_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """Return a slice of an episode's steps, in order; empty for an unknown episode.

        Args:
            session_id: The episode's session.
            start: First position, from 0.
            stop: Last position, exclusive; `None` for all.
        """
        ...

    async def aclose(self) -> None:
        """Write what is pending and let go of every resource."""
        ...
