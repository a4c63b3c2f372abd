"""Distinguishes a session that is stuck at its process limit from one that only reached it briefly."""

from ors_server.clock import Clock
from ors_server.sandboxes.cell import Cell

_PATIENCE = 1.0
"""Seconds at the limit after which a session counts as stuck."""
_GRACE = 0.3
_NEARLY = 0.95
"""Share of the limit that counts as being at it: a fork bomb oscillates just below."""


class ProcessLimitMonitor:
    """Watches one cell's process limit while a command runs and just after.

    The kernel's counter of refusals decides: the number of live processes oscillates under a fork bomb.
    Without such a counter, being at the limit in every check for a second decides.
    """

    def __init__(self, cell: Cell, clock: Clock) -> None:
        self._cell = cell
        self._clock = clock
        self._denials = 0
        self._since: float | None = None
        self._at_begin = 0

    def begin(self) -> None:
        """Start watching for a new command."""
        self._denials = self._at_begin = self._cell.denials()
        self._since = None

    def is_stuck(self) -> bool:
        """Check now; returns whether the session has been at its limit for too long."""
        denials = self._cell.denials()
        rose = denials > self._denials
        self._denials = denials
        full = self._cell.alive() >= _NEARLY * self._cell.limits.pids
        now = self._clock.monotonic()
        if not rose and not full:
            if denials == self._at_begin:
                self._since = None
            return False
        if self._since is None:
            self._since = now
        return now - self._since >= _PATIENCE

    async def is_still_exceeded(self) -> bool:
        """Return whether, after its command, background processes still run into the limit."""
        before = self._cell.denials()
        if before == self._at_begin:
            return False
        await self._clock.sleep(_GRACE)
        after = self._cell.denials()
        self._at_begin = self._denials = after
        return after > before

    def reset(self) -> None:
        """Start counting anew, after every process was killed."""
        self._denials = self._at_begin = self._cell.denials()
        self._since = None
