"""The two pipes of one command: named, opened by the shell for this command only, drained by the pump."""

import contextlib
import errno
import os
import select
from collections.abc import Callable
from dataclasses import dataclass

from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.output import Capture, Output
from ors_server.sandboxes.pump import Pump

_BITE = 65_536
_LAST_BITES = 4
"""A pipe holds 64 KiB: what stood in it when the command ended is read, what a flood adds is not waited
for."""


class Intake:
    """Reads one pipe into a capture until nobody can write into it any more."""

    def __init__(self, pump: Pump, path: str, capture: Capture, owner: int | None) -> None:
        self._pump = pump
        self._path = path
        self._has_name = True
        self._capture = capture
        self.was_opened = False
        """Whether the shell ever had the writing end."""
        self.on_data: Callable[[], None] | None = None
        os.mkfifo(path, 0o600)
        if owner is not None:
            os.chown(path, owner, owner)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        pump.watch(self._descriptor, self._on_ready)

    @property
    def is_open(self) -> bool:
        """Whether somebody may still write."""
        return self._descriptor >= 0

    @property
    def total(self) -> int:
        """Bytes captured so far."""
        return self._capture.total

    def output(self) -> Output:
        """Return what was captured."""
        return self._capture.output()

    def finish(self) -> None:
        """Read what stands in the pipe now, and take its name away."""
        for _ in range(_LAST_BITES):
            if not self.is_open or not self._bite():
                break
        self._take_name()

    def divert(self, capture: Capture) -> None:
        """Send what comes from now on somewhere else.

        Args:
            capture: Where to.
        """
        self._capture = capture
        self.on_data = None

    def close(self) -> None:
        """Stop reading; a writer gets SIGPIPE. A second call does nothing."""
        if self._descriptor >= 0:
            self._pump.forget(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        self._take_name()

    def _take_name(self) -> None:
        if self._has_name:
            self._has_name = False
            with contextlib.suppress(OSError):
                os.unlink(self._path)  # noqa: PTH108  (on every command's way)

    def _on_ready(self, _events: int) -> None:
        self._bite()
        if self.on_data is not None:
            self.on_data()

    def _bite(self) -> bool:
        """Read once; tell whether there may be more."""
        try:
            piece = os.read(self._descriptor, _BITE)
        except OSError as error:
            if error.errno not in {errno.EAGAIN, errno.EINTR}:
                self.close()
            else:
                self.was_opened = True  # somebody holds the writing end
            return False
        if piece:
            self.was_opened = True
            self._capture.feed(piece)
            return True
        if self.was_opened or self._hung_up():
            self.was_opened = True
            self.close()
        return False

    def _hung_up(self) -> bool:
        """Tell an end after a writer from the silence before the first one (pipe(7): POLLHUP)."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return any(events & select.POLLHUP for _, events in poll.poll(0))


@dataclass
class CommandStreams:
    """Standard output and standard error of one command."""

    stdout: Intake
    stderr: Intake

    @classmethod
    def make(
        cls, pump: Pump, folder: str, sequence: int, limits: Limits, owner: int | None
    ) -> "CommandStreams":
        """Make both pipes.

        Args:
            pump: Watches them.
            folder: Where the shell finds them, with a slash at the end.
            sequence: The command's number.
            limits: How much is kept.
            owner: Uid that may write; None when it is the server's own.
        """
        intakes: list[Intake] = []
        for letter in "oe":
            capture = Capture(limits.keep_head_bytes, limits.keep_tail_bytes)
            intakes.append(Intake(pump, f"{folder}{letter}{sequence}", capture, owner))
        return cls(*intakes)

    @property
    def both(self) -> tuple[Intake, Intake]:
        """Standard output, standard error."""
        return self.stdout, self.stderr

    @property
    def largest(self) -> int:
        """Bytes captured from the more talkative stream."""
        return max(self.stdout.total, self.stderr.total)

    def close(self) -> None:
        """Close both."""
        for intake in self.both:
            intake.close()


class Background:
    """What jobs print after their command is over: the last bytes of it, all of it counted."""

    def __init__(self, keep: int, most_pipes: int = 64) -> None:
        self._capture = Capture(0, keep)
        self._intakes: list[Intake] = []
        self._most_pipes = most_pipes

    def adopt(self, streams: CommandStreams) -> None:
        """Go on reading pipes that somebody still holds; the oldest are let go when there are too many.

        Args:
            streams: Of a command that is over.
        """
        self._intakes = [intake for intake in self._intakes if intake.is_open]
        for intake in streams.both:
            if intake.is_open and intake.was_opened:
                intake.divert(self._capture)
                self._intakes.append(intake)
            else:
                intake.close()
        while len(self._intakes) > self._most_pipes:
            self._intakes.pop(0).close()

    def take(self) -> Output:
        """Return what was printed since the last call."""
        for intake in self._intakes:
            if intake.is_open:
                intake.finish()
        return self._capture.take()

    def close(self) -> None:
        """Let every pipe go."""
        for intake in self._intakes:
            intake.close()
        self._intakes.clear()
