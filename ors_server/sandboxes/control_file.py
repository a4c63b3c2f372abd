"""A small control file that the server rewrites for every command, and the shell reads."""

import os


class ControlFile:
    """A control file that stays open and is overwritten in place.

    ext4 flushes a truncated and rewritten file when it is closed, which would cost more than the rest of a
    command.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._length = 0

    def write(self, data: bytes) -> None:
        """Replace the whole content."""
        if self._descriptor < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self._path, flags, 0o644)
            self._length = os.fstat(self._descriptor).st_size
        done = 0
        while done < len(data):
            done += os.pwrite(self._descriptor, data[done:] if done else data, done)
        if len(data) < self._length:
            os.ftruncate(self._descriptor, len(data))
        self._length = len(data)

    def close(self) -> None:
        """Close the file; a second call does nothing, and a later `write` opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
