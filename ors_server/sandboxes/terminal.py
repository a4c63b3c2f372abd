"""The private terminal between the server and a session's shell; it carries control and never output."""

import contextlib
import errno
import fcntl
import os
import struct
import termios
from collections.abc import Callable

from ors_server.sandboxes.marks import Mark, MarkReader
from ors_server.sandboxes.pump import Pump

_BITE = 65_536
_INTERRUPT = b"\x03"


class Terminal:
    """The server's end of a pseudo-terminal."""

    def __init__(self, pump: Pump, on_mark: Callable[[Mark], None], on_end: Callable[[], None]) -> None:
        self._pump = pump
        self._on_mark = on_mark
        self._on_end = on_end
        self._reader = MarkReader()
        self._master = -1

    @property
    def remarks(self) -> str:
        """What the shell said lately beside its marks."""
        return self._reader.remarks

    def open(self) -> int:
        """Make a new pair.

        Returns:
            The shell's end; the caller hands it to the first process and closes it.
        """
        master, slave = os.openpty()
        os.set_blocking(master, False)
        _make_plain(slave)
        self._reader = MarkReader()
        self._master = master
        self._pump.watch(master, self._on_ready)
        return slave

    def type(self, line: bytes) -> None:
        """Type a line; one that the terminal has no room for is lost, and its mark never comes.

        Args:
            line: With its newline.
        """
        with contextlib.suppress(OSError):
            os.write(self._master, line)

    def interrupt(self) -> None:
        """Press ^C: SIGINT to the foreground job, exactly."""
        self.type(_INTERRUPT)

    def foreground_group(self) -> int:
        """Return the foreground process group as the server sees it; 0 when there is none."""
        try:
            packed = fcntl.ioctl(self._master, termios.TIOCGPGRP, b"\0\0\0\0")
        except OSError:
            return 0
        return int(struct.unpack("i", packed)[0])

    def close(self) -> None:
        """Hang up; a second call does nothing."""
        if self._master >= 0:
            self._pump.forget(self._master)
            os.close(self._master)
            self._master = -1

    def _on_ready(self, _events: int) -> None:
        try:
            piece = os.read(self._master, _BITE)
        except OSError as error:
            if error.errno in {errno.EAGAIN, errno.EINTR}:
                return
            piece = b""
        if not piece:
            self.close()
            self._on_end()
            return
        for mark in self._reader.feed(piece):
            self._on_mark(mark)


def _make_plain(slave: int) -> None:
    """Switch off echo and output processing; keep lines and ^C, which must not discard what was typed."""
    settings = termios.tcgetattr(slave)
    settings[0] &= ~(termios.IXON | termios.ICRNL)
    settings[1] &= ~termios.OPOST
    settings[3] &= ~(termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ECHONL)
    settings[3] |= termios.ICANON | termios.ISIG | termios.NOFLSH
    termios.tcsetattr(slave, termios.TCSANOW, settings)
