"""The two named pipes of a command: the shell opens them for one command, the server reads them."""

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass

from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.captured_output import Output, OutputCapture
from ors_server.sandboxes.poller import Poller

_READ_BYTES = 65_536
_LAST_READS = 4
"""Reads after the command ended: a pipe holds 64 KiB, and a process that keeps writing is not waited for."""


class PipeReader:
    """Reads one named pipe into a capture, command after command.

    The reading end stays open after a command if no process holds the writing end. It is watched
    edge-triggered, because a pipe without writers reports its end until the next writer opens it.
    """

    def __init__(self, poller: Poller, path: str, capture: OutputCapture, uid: int | None) -> None:
        self._poller = poller
        self._path = path
        self._has_name = True
        self._capture = capture
        self._is_last = False  # whether the next end is the last one
        self.was_opened = False
        """Whether the shell had the writing end since the last `begin`."""
        self.is_clear = False
        """Whether no process held a writing end at the last read."""
        self.on_data: Callable[[], None] | None = None
        # Opened before any writer exists: a non-blocking open for reading does not wait (fifo(7)), and the
        # shell's open for writing finds a reader.
        os.mkfifo(path, 0o600)
        if uid is not None:
            os.chown(path, uid, uid)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        poller.watch(self._descriptor, self._on_ready, edge_triggered=True)

    @property
    def is_open(self) -> bool:
        """Whether a process may still write."""
        return self._descriptor >= 0

    @property
    def total(self) -> int:
        """Bytes captured so far."""
        return self._capture.total

    def output(self) -> Output:
        """Return what was captured."""
        return self._capture.output()

    def begin(self, capture: OutputCapture, on_data: Callable[[], None]) -> None:
        """Capture for the next command from now on."""
        self._capture = capture
        self.on_data = on_data
        self.was_opened = self.is_clear = False

    def finish(self) -> None:
        """Read what is in the pipe now."""
        for _ in range(_LAST_READS):
            if not self.is_open or not self._read_once():
                break

    def redirect(self, capture: OutputCapture, *, is_last: bool) -> None:
        """Send later data to another capture.

        If it is the last, no command uses the pipe again: its name is removed, and it is closed when no
        process can write into it.
        """
        self._capture = capture
        self.on_data = None
        self._is_last = is_last
        if is_last:
            self._remove_name()

    def close(self) -> None:
        """Stop reading; a writer gets SIGPIPE. A second call does nothing."""
        if self._descriptor >= 0:
            self._poller.unwatch(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        self._remove_name()

    def _remove_name(self) -> None:
        if self._has_name:
            self._has_name = False
            with contextlib.suppress(OSError):
                os.unlink(self._path)  # noqa: PTH108  (a string, as all paths here)

    def _on_ready(self, _events: int) -> None:
        self.was_opened = True
        if self._read_once() == _READ_BYTES:  # a shorter read emptied the pipe
            self._poller.rearm(self._descriptor)
        if self.on_data is not None:
            self.on_data()

    def _read_once(self) -> int:
        try:
            piece = os.read(self._descriptor, _READ_BYTES)
        except OSError as error:
            # EAGAIN means "empty, but a process may still write"; an empty read means "no writer is left".
            # The difference decides whether the next command may use the same pipe.
            if error.errno != errno.EAGAIN:
                self.close()
            else:
                self.was_opened = True  # a process holds the writing end
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
    """Distinguishes the pipes from others of the shell, in their names."""
    stdout: PipeReader
    stderr: PipeReader

    @classmethod
    def make(cls, poller: Poller, folder: str, number: int, uid: int | None) -> "CommandStreams":
        """Create both pipes; `uid` is that of the user who may write, None for the server's own."""
        nothing = OutputCapture(0, 0)
        stdout = PipeReader(poller, f"{folder}o{number}", nothing, uid)
        try:
            return cls(number, stdout, PipeReader(poller, f"{folder}e{number}", nothing, uid))
        except BaseException:
            stdout.close()
            raise

    @property
    def both(self) -> tuple[PipeReader, PipeReader]:
        """Standard output, standard error."""
        return self.stdout, self.stderr

    @property
    def largest(self) -> int:
        """Bytes captured from the longer of the two streams."""
        return max(self.stdout.total, self.stderr.total)

    @property
    def are_clear(self) -> bool:
        """Whether no process held a writing end at the last read, so the next command may use both."""
        return self.stdout.is_clear and self.stderr.is_clear

    def begin(self, limits: Limits, on_data: Callable[[], None]) -> None:
        """Capture for the next command from now on."""
        for reader in self.both:
            reader.begin(OutputCapture(limits.keep_head_bytes, limits.keep_tail_bytes), on_data)

    def close(self) -> None:
        """Close both."""
        for reader in self.both:
            reader.close()


class BackgroundOutput:
    """Output of background jobs after their command ended: the last bytes; all are counted."""

    # The limit on pipes bounds the descriptors that one session's forgotten background jobs can hold.
    def __init__(self, keep: int, max_pipes: int = 64) -> None:
        self._capture = OutputCapture(0, keep)
        self._readers: list[PipeReader] = []
        self._max_pipes = max_pipes

    def keep_reading(self, streams: CommandStreams) -> CommandStreams | None:
        """Keep reading pipes that a process still holds; the oldest are closed if there are too many.

        Returns:
            The same pipes if no process holds them, for the next command; what is written into them in
            between counts as background output.
        """
        are_clear = streams.are_clear
        for reader in streams.both:
            reader.redirect(self._capture, is_last=not are_clear)
        if are_clear:
            return streams
        self._readers = [reader for reader in self._readers if reader.is_open]
        for reader in streams.both:
            # A pipe that was never opened stays without a writer: nothing would ever close it.
            if reader.is_open and reader.was_opened and not reader.is_clear:
                self._readers.append(reader)
            else:
                reader.close()
        while len(self._readers) > self._max_pipes:
            self._readers.pop(0).close()
        return None

    def take(self) -> Output:
        """Return what was printed since the last call."""
        for reader in self._readers:
            if reader.is_open:
                reader.finish()
        return self._capture.take()

    def close(self) -> None:
        """Close every pipe."""
        for reader in self._readers:
            reader.close()
        self._readers.clear()
