"""The private terminal between the server and a session's shell; it carries control and no output."""

import contextlib
import errno
import fcntl
import os
import struct
import termios
from collections.abc import Callable

from ors_server.sandboxes.poller import Poller
from ors_server.sandboxes.shell_marks import Mark, MarkParser

_READ_BYTES = 65_536
_INTERRUPT = b"\x03"


class ShellTerminal:
    """The server's end of a pseudo-terminal."""

    def __init__(self, poller: Poller, on_mark: Callable[[Mark], None], on_end: Callable[[], None]) -> None:
        self._poller = poller
        self._on_mark = on_mark
        self._on_end = on_end
        self._reader = MarkParser()
        self._master = -1

    @property
    def other_output(self) -> str:
        """Recent output of the shell beside its marks."""
        return self._reader.other_output

    def open(self) -> int:
        """Open a new pair."""
        master, slave = os.openpty()
        os.set_blocking(master, False)
        _make_plain(slave)
        self._reader = MarkParser()
        self._master = master
        self._poller.watch(master, self._on_ready)
        return slave

    def type(self, line: bytes) -> None:
        """Type a line; one that does not fit into the terminal is lost, and its mark never comes."""
        with contextlib.suppress(OSError):
            os.write(self._master, line)

    def interrupt(self) -> None:
        """Type ^C: SIGINT to exactly the foreground job."""
        self.type(_INTERRUPT)

    def foreground_group(self) -> int:
        """Return the foreground process group on the host; 0 if there is none."""
        try:
            packed = fcntl.ioctl(self._master, termios.TIOCGPGRP, b"\0\0\0\0")
        except OSError:
            return 0
        return int(struct.unpack("i", packed)[0])

    def close(self) -> None:
        """Hang up; a second call does nothing."""
        if self._master >= 0:
            self._poller.unwatch(self._master)
            os.close(self._master)
            self._master = -1

    def _on_ready(self, _events: int) -> None:
        try:
            piece = os.read(self._master, _READ_BYTES)
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
    """Switch off echo and output processing; keep lines and ^C, which must not discard typed input."""
    settings = termios.tcgetattr(slave)
    settings[0] &= ~(termios.IXON | termios.ICRNL)
    settings[1] &= ~termios.OPOST
    settings[3] &= ~(termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ECHONL)
    settings[3] |= termios.ICANON | termios.ISIG | termios.NOFLSH
    termios.tcsetattr(slave, termios.TCSANOW, settings)
