"""Opens and closes descriptors."""

import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def opened(
    path: str | os.PathLike[str], flags: int, mode: int = 0, dir_fd: int | None = None
) -> Generator[int]:
    """Open a path as os.open(2) does, with `O_CLOEXEC`, and close it at the end."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, mode, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def close_all(*descriptors: int) -> None:
    """Close the descriptors that are open; -1 stands for one that is not."""
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)
