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
        self.next_look = 0.0
        """When the next look is due, in monotonic seconds."""

    def look(self) -> None:
        """Look at the process if a look is due."""
        if time.monotonic() >= self.next_look:
            self.look_now()

    def look_now(self) -> None:
        """Look at the process."""
        now = time.monotonic()
        self.next_look = now + _LOOK_SECONDS
        if (usage := usage_of(self._pid)) is not None:  # else the kernel does not count
            self._looks.append((now, usage))

    def since(self, began: float) -> float:
        """Return the seconds of waiting since a time, at most a quarter of a second too many.

        Looks from before the last one at or before that time are forgotten.
        """
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
