"""A small file that the server writes again and again, and the shell reads."""

import os


class Slate:
    """One file of the control folder; it is held open once it was written, and written over in place.

    ext4 flushes a file that was emptied and written anew when it is closed, which would cost a command more
    than all the rest.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._length = 0

    def write(self, data: bytes) -> None:
        """Have the file hold these bytes and nothing else.

        Args:
            data: The whole content.
        """
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
        """Let go of the file; a second call does nothing, and a later write opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
