"""The two pipes of a command: named, opened by the shell for one command, drained by the pump."""

import contextlib
import errno
import os
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
    """Reads one named pipe into a capture, command after command.

    The reading end outlives a command after which nobody holds a writing end. It is watched edge-triggered,
    for a pipe whose writers are gone is at its end until the next one comes.
    """

    def __init__(self, pump: Pump, path: str, capture: Capture, owner: int | None) -> None:
        self._pump = pump
        self._path = path
        self._has_name = True
        self._capture = capture
        self._is_last = False  # whether the next end is the last one
        self.was_opened = False
        """Whether the shell had the writing end since the last `begin`."""
        self.is_clear = False
        """Whether nobody held a writing end when it was last read."""
        self.on_data: Callable[[], None] | None = None
        os.mkfifo(path, 0o600)
        if owner is not None:
            os.chown(path, owner, owner)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        pump.watch(self._descriptor, self._on_ready, at_edges=True)

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

    def begin(self, capture: Capture, on_data: Callable[[], None]) -> None:
        """Take what comes from now on for the next command's.

        Args:
            capture: Where to.
            on_data: Called after every piece.
        """
        self._capture = capture
        self.on_data = on_data
        self.was_opened = self.is_clear = False

    def finish(self) -> None:
        """Read what stands in the pipe now."""
        for _ in range(_LAST_BITES):
            if not self.is_open or not self._bite():
                break

    def divert(self, capture: Capture, *, is_last: bool) -> None:
        """Send what comes from now on somewhere else.

        Args:
            capture: Where to.
            is_last: Whether no command will use the pipe any more: it has no name from now on, and is closed
                when nobody can write into it.
        """
        self._capture = capture
        self.on_data = None
        self._is_last = is_last
        if is_last:
            self._take_name()

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
                os.unlink(self._path)  # noqa: PTH108  (a string, as all paths here)

    def _on_ready(self, _events: int) -> None:
        self.was_opened = True
        if self._bite() == _BITE:  # less is all that there was
            self._pump.look_again(self._descriptor)
        if self.on_data is not None:
            self.on_data()

    def _bite(self) -> int:
        """Read once; return how many bytes came."""
        try:
            piece = os.read(self._descriptor, _BITE)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                self.close()
            else:
                self.was_opened = True  # somebody holds the writing end
                self.is_clear = False
            return 0
        if piece:
            self.was_opened = True
            self._capture.feed(piece)
            return len(piece)
        self.is_clear = True
        if self._is_last:
            self.close()
        return 0


@dataclass
class CommandStreams:
    """Standard output and standard error of one command after another."""

    number: int
    """Tells the pipes apart from others of the shell, in their names."""
    stdout: Intake
    stderr: Intake

    @classmethod
    def make(cls, pump: Pump, folder: str, number: int, owner: int | None) -> "CommandStreams":
        """Make both pipes.

        Args:
            pump: Watches them.
            folder: Where the shell finds them, with a slash at the end.
            number: A number that no other pipes of the folder have.
            owner: Uid that may write; None when it is the server's own.
        """
        nothing = Capture(0, 0)
        stdout = Intake(pump, f"{folder}o{number}", nothing, owner)
        try:
            return cls(number, stdout, Intake(pump, f"{folder}e{number}", nothing, owner))
        except BaseException:
            stdout.close()
            raise

    @property
    def both(self) -> tuple[Intake, Intake]:
        """Standard output, standard error."""
        return self.stdout, self.stderr

    @property
    def largest(self) -> int:
        """Bytes captured from the more talkative stream."""
        return max(self.stdout.total, self.stderr.total)

    @property
    def are_clear(self) -> bool:
        """Whether nobody held either writing end when they were last read: the next command may have both."""
        return self.stdout.is_clear and self.stderr.is_clear

    def begin(self, limits: Limits, on_data: Callable[[], None]) -> None:
        """Take what comes from now on for the next command's.

        Args:
            limits: How much is kept.
            on_data: Called after every piece.
        """
        for intake in self.both:
            intake.begin(Capture(limits.keep_head_bytes, limits.keep_tail_bytes), on_data)

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

    def adopt(self, streams: CommandStreams) -> CommandStreams | None:
        """Go on reading pipes that somebody still holds; the oldest are let go when there are too many.

        Args:
            streams: Of a command that is over.

        Returns:
            The same pipes if nobody holds them, for the next command; what is written into them in between
            is background output too.
        """
        are_clear = streams.are_clear
        for intake in streams.both:
            intake.divert(self._capture, is_last=not are_clear)
        if are_clear:
            return streams
        self._intakes = [intake for intake in self._intakes if intake.is_open]
        for intake in streams.both:
            if intake.is_open and intake.was_opened and not intake.is_clear:
                self._intakes.append(intake)
            else:
                intake.close()
        while len(self._intakes) > self._most_pipes:
            self._intakes.pop(0).close()
        return None

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
