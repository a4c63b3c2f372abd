"""The clock of a session: counts for how long all of its running calls waited for the server at once.

A time limit of an episode is the session's. While two calls run side by side and only one of them waits, the
session plays; only what all of them wait together is waived, and once, however many they are.
"""

from ors_server.call_clock import CallClock
from ors_server.loop_watch import LoopWatch


class SessionClock:
    """Seconds that count against no time limit of the episode; asked before each change of a call's clock."""

    __slots__ = ("_calls", "_late_before", "_since", "_waived", "_watch")

    def __init__(self, watch: LoopWatch) -> None:
        self._watch = watch
        self._calls: dict[CallClock, None] = {}
        self._since = self._late_before = self._waived = 0.0

    @property
    def waived_s(self) -> float:
        """Seconds that the calls waited so far, at least 0."""
        self.count_up()
        return max(0.0, self._waived)

    def start_from(self, waived_s: float) -> None:
        """Go on from where another session stood."""
        self._waived = waived_s

    def enter(self, clock: CallClock) -> None:
        """Count a call that begins to run."""
        self.count_up()
        clock.before_change = self.count_up
        clock.on_hold = self._hold
        self._calls[clock] = None

    def leave(self, clock: CallClock) -> None:
        """Count a call no more."""
        self.count_up()
        clock.before_change = clock.on_hold = None
        del self._calls[clock]

    def count_up(self) -> None:
        """Count up to now: until the first of the calls went on, all of them waited."""
        now = self._watch.now()
        late = self._watch.late_until(now)
        if self._calls:
            played_from = min(
                (clock.counts_from(now, late) for clock in self._calls), key=lambda moment: moment[0]
            )
            if played_from[0] < self._since:
                played_from = self._since, self._late_before
            self._waived += played_from[0] - self._since + late - played_from[1]
        self._since, self._late_before = now, late

    def _hold(self, seconds: float) -> None:
        """Take back seconds for which the loop was late because a call's own code held it."""
        self._waived -= seconds
