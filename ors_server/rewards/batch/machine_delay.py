"""How long a worker was ready to run and had no processor, found by looking at it a few times a second."""

import time
from collections import deque

from ors_server.sandboxes.processor_usage import ProcessorUsage, usage_of

_LOOK_SECONDS = 0.25


class MachineDelay:
    """The waits of one process, and of those below it, for a processor."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._looks: deque[tuple[float, ProcessorUsage]] = deque()
        self._late_looks: deque[tuple[float, float]] = deque()
        self.next_look = 0.0
        """When the next look is due, in monotonic seconds."""

    def look(self) -> None:
        """Look at the process if a look is due; its lateness is a wait."""
        now = time.monotonic()
        if now >= self.next_look:
            # A machine that is stopped, as a virtual one is whose host is busy, shows in no count of the
            # kernel's, but the look that was due meanwhile is late.
            self._late_looks.append((self.next_look, now))
            self.look_now()

    def look_now(self) -> None:
        """Look at the process."""
        now = time.monotonic()
        self.next_look = now + _LOOK_SECONDS
        if (usage := usage_of(self._pid)) is not None:  # else the kernel does not count
            self._looks.append((now, usage))

    def since(self, began: float) -> float:
        """Return the seconds of waiting since a time, at most a quarter of a second too many.

        The time by which looks were late counts too. Looks from before the last one at or before that time
        are forgotten.
        """
        while self._late_looks and self._late_looks[0][1] <= began:
            self._late_looks.popleft()
        return self._waited(began) + sum(now - max(due, began) for due, now in self._late_looks)

    def _waited(self, began: float) -> float:
        # The last look at or before `began` is the base of the difference; older ones are never needed again.
        while len(self._looks) > 1 and self._looks[1][0] <= began:
            self._looks.popleft()
        match [*self._looks]:
            case [(_, first), *_, (latest, last)]:
                before, last_but_one = self._looks[-2]
            case _:
                return 0.0
        waited = last.since(first).delayed_s
        if last.is_ready and last.processor_s == last_but_one.processor_s:
            waited += latest - before  # the kernel counts a wait when it is over
        return waited
