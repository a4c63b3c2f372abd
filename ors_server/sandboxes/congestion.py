"""Tells a session that is stuck at its process limit from one that touched it and went on."""

from ors_server.clock import Clock
from ors_server.sandboxes.cell import Cell

_PATIENCE = 1.0
"""Seconds at the limit after which a session counts as stuck."""
_GRACE = 0.3
_NEARLY = 0.95
"""Share of the limit that counts as being at it: a fork bomb oscillates just below."""


class Congestion:
    """Watches one cell's process limit while a command runs and just after.

    The counter of refusals is what tells: a sample of the number alive oscillates under a fork bomb. Where
    nobody counts refusals, being at the limit in every look for a second has to do.
    """

    def __init__(self, cell: Cell, clock: Clock) -> None:
        self._cell = cell
        self._clock = clock
        self._denials = 0
        self._since: float | None = None
        self._at_begin = 0

    def begin(self) -> None:
        """A command begins."""
        self._denials = self._at_begin = self._cell.denials()
        self._since = None

    def persists(self) -> bool:
        """Look; tell whether the session has been at its limit for longer than it may."""
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

    async def goes_on(self) -> bool:
        """After a command that met the limit: tell whether something in the background still runs into it."""
        before = self._cell.denials()
        if before == self._at_begin:
            return False
        await self._clock.sleep(_GRACE)
        after = self._cell.denials()
        self._at_begin = self._denials = after
        return after > before

    def forgive(self) -> None:
        """Everything was killed: start counting anew."""
        self._denials = self._at_begin = self._cell.denials()
        self._since = None
