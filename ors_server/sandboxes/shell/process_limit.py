"""Decides when a session has so many processes that all of them must be killed."""

from ors_server.model.clock import Clock
from ors_server.processes.host_processes import threads_of_host
from ors_server.sandboxes.cells.cell import Cell

_PATIENCE = 1.0
"""Seconds at the limit after which a session counts as stuck."""
_GRACE = 0.3
_PAUSE = 0.02
"""Seconds between two counts of processes that become more."""
_CALM_LOOKS = 12
"""Counts in a row without more processes, after which the session is thought to have no more of them."""
_COUNTS = 10
"""Counts within `_PATIENCE`."""
_FULL_SHARE = 0.95
"""Share of the limit that counts as being at it: a fork bomb oscillates just below."""
_COUNTING_SHARE = 0.25
"""Share of the limit from which on the processes are counted before a command: a fork bomb takes a few
milliseconds from there to the limit, and the command would be refused the processes that it needs."""


class ProcessLimitMonitor:
    """Watches one cell's process limit before a command, while it runs, and just after.

    The kernel's counter of refusals decides: the number of live processes oscillates under a fork bomb.
    Without such a counter, being at the limit for a second decides: in every check while a command runs, and
    in most of them before it.
    """

    def __init__(self, cell: Cell, clock: Clock) -> None:
        self._cell = cell
        self._clock = clock
        self._limit = cell.limits.pids
        self._denials = 0
        self._since: float | None = None
        self._at_begin = 0
        self._settled = 0
        """The number of processes that did not become more."""
        self._on_host = threads_of_host()
        """Threads of the whole host when the session's processes were last counted."""

    async def is_being_filled(self) -> bool:
        """Return whether, before a command, background processes run into the limit.

        That command would fail for what an earlier one has begun.
        """
        # Without a cgroup, counting costs as much as a command. The session has no more new processes than
        # the host, unless others ended meanwhile; then the command may be stuck, and is killed for it.
        probable = self._cell.counted() or self._settled + threads_of_host() - self._on_host
        if probable <= self._enough_to_count():
            return False
        most, looks_without_more = self._enough_to_count(), _CALM_LOOKS
        while (alive := self._cell.alive()) < _FULL_SHARE * self._limit:
            looks_without_more = 0 if alive > most else looks_without_more + 1
            if looks_without_more >= _CALM_LOOKS:
                break
            most = max(most, alive)
            await self._clock.sleep(_PAUSE)
        else:
            if await self._stays_full():
                return True
        self._settled, self._on_host = max(alive, int(most)), threads_of_host()
        return False

    def begin(self) -> None:
        """Start watching for a new command."""
        self._denials = self._at_begin = self._cell.denials()
        self._since = None

    def is_stuck(self) -> bool:
        """Check now; returns whether the session has been at its limit for too long."""
        denials = self._cell.denials()
        rose = denials > self._denials
        self._denials = denials
        full = self._cell.alive() >= _FULL_SHARE * self._limit
        now = self._clock.monotonic()
        if not rose and not full:
            # A fork bomb drops below the limit between two checks. Only a command that was never refused a
            # process is cleared by one good check.
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
        # The command itself may have been refused once and be over; only further refusals blame the
        # background.
        await self._clock.sleep(_GRACE)
        after = self._cell.denials()
        self._at_begin = self._denials = after
        return after > before

    def reset(self) -> None:
        """Restart the count, after every process was killed."""
        self._denials = self._at_begin = self._cell.denials()
        self._since = None
        self._settled = 0
        self._on_host = threads_of_host()

    def _enough_to_count(self) -> float:
        return max(self._settled, _COUNTING_SHARE * self._limit)

    async def _stays_full(self) -> bool:
        if self._cell.counted():
            denials = self._cell.denials()
            await self._clock.sleep(_GRACE)
            return self._cell.denials() > denials
        full = 0
        for _ in range(_COUNTS):
            await self._clock.sleep(_PATIENCE / _COUNTS)
            full += self._cell.alive() >= _FULL_SHARE * self._limit
        return full > _COUNTS / 2
