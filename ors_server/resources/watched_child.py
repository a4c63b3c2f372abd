"""A child process that is reaped when it ends, and whose last output on standard error is kept for messages.

A thread per child waits for both, so that neither a full pipe nor a zombie is left, also by a
caller that is killed or busy. What the child started ends with it, also if it ends by itself.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from typing_extensions import override

from ors_server.processes.child_process import ChildProcess, kill_rows
from ors_server.processes.host_processes import descendants

MAX_KEPT_BYTES = 4_000
"""Bytes that are kept of the end of standard error."""
_PIECE = 1 << 16
_PAUSE = 0.001
"""Seconds between two full pieces: a child that floods waits for the server, not the other way round."""
_LOOK_AGAIN = 1_000
"""Milliseconds between two looks at a child where the system has no pidfd (macOS)."""
_END_SECONDS = 5.0
"""Seconds that the kernel may take to end a killed process."""


class WatchedChild(ChildProcess):
    """A child process with a thread that reads its standard error and reaps it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        variables: Mapping[str, str] | None = None,
        folder: str | None = None,
    ) -> None:
        self._tail = bytearray()
        self._is_reaped = False
        self._lock = threading.Lock()
        self._errors, theirs = os.pipe()
        try:
            super().__init__(command, stderr=theirs, variables=variables, folder=folder)
        except BaseException:
            os.close(self._errors)
            raise
        finally:
            os.close(theirs)
        os.set_blocking(self._errors, False)
        self._watcher = threading.Thread(target=self._watch, name=f"child-{self.pid}", daemon=True)
        self._watcher.start()

    @override
    def is_alive(self) -> bool:
        return not self._is_reaped and not self._has_ended()  # only the watcher reaps it

    @override
    def kill(self) -> None:
        with self._lock:
            if not self._is_reaped:  # the number may be another group's now
                super().kill()

    @override
    def end(self, patience: float = 0.0) -> int:
        below = self.rows_below()  # once it has ended, they are not its descendants
        self.close_pipes()
        self._watcher.join(patience)
        status = self._killed_status()
        kill_rows(below)
        return status

    def describe_end(self) -> str:
        """Kill what is left of it, and return how it ended and what it wrote last."""
        self._watcher.join(_END_SECONDS / 2)  # it may be about to end
        status = self._killed_status()
        how = f"ended with status {status}"
        if status < 0:
            names = {item.value: item.name for item in signal.Signals}
            how = f"was ended by {names.get(-status, f'signal {-status}')}"
        return how + self.quoted_words()

    def quoted_words(self) -> str:
        """Return the end of what it wrote to standard error as the rest of a sentence, or nothing."""
        words = bytes(self._tail).decode(errors="replace").strip()
        return f"; it wrote last: {words}" if words else ""

    def memory_used(self) -> int | None:
        """Return the resident bytes of it and all its descendants; `None` where there is no /proc."""
        pages = 0
        for pid in descendants(self.pid):
            # One that has ended meanwhile has no file, or an empty one.
            with suppress(OSError, IndexError), open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123  (many, often)
                pages += int(file.read().split()[1])
        return pages * os.sysconf("SC_PAGESIZE") or None

    def _killed_status(self) -> int:
        self.kill()
        self._watcher.join(_END_SECONDS)
        status = self.wait(0.0) if self._is_reaped else None
        return -signal.SIGKILL if status is None else status

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._errors, select.POLLIN)
        pidfd: int | None = None
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):
                pidfd = os.pidfd_open(self.pid)
        if pidfd is not None:
            poll.register(pidfd, select.POLLIN)
        while True:
            ready = {number for number, _ in poll.poll(_LOOK_AGAIN if pidfd is None else None)}
            if (pidfd is None or pidfd in ready) and self._has_ended():
                break
            if self._errors in ready and not self._keep():
                poll.unregister(self._errors)
        for _ in range(MAX_KEPT_BYTES):
            if not self._keep():
                break
        with self._lock:  # what it started goes with it, while the number of the group is still its own
            super().kill()
            self.kill_left()
            self.wait()
            self._is_reaped = True
        os.close(self._errors)
        if pidfd is not None:
            os.close(pidfd)

    def _has_ended(self) -> bool:
        """Return whether it has ended, without reaping it."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:  # the watcher has reaped it just now
            return True

    def _keep(self) -> bool:
        """Read a piece of its standard error; return whether there was one."""
        piece = b""
        with suppress(BlockingIOError):
            piece = os.read(self._errors, _PIECE)
        self._tail += piece
        del self._tail[:-MAX_KEPT_BYTES]
        if len(piece) == _PIECE:
            time.sleep(_PAUSE)
        return bool(piece)
