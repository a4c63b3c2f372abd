"""Writes a file completely or not at all."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import IO


def open_private(path: str, flags: int) -> int:
    """Open a file that only its owner may read; an opener for `open`."""
    return os.open(path, flags, 0o600)


@contextmanager
def atomic_file(path: Path, mode: int = 0o666) -> Generator[IO[bytes], None, None]:
    """Open a file for writing that replaces `path` at the end of the with statement.

    `mode` has the permissions that a new file gets, less those that the process masks.
    Until then it has another name in the same folder. After an error it is removed, and the old file stays.
    Symbolic links are followed; a pipe or a device is written to directly.
    """
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        with place.open("wb") as stream:
            yield stream
        return
    part = place.with_name(f".{place.name}.{token_hex(4)}.part")
    try:
        with open(part, "xb", opener=partial(os.open, mode=mode)) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
