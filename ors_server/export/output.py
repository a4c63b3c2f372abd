"""Where an export is written: a file that is there whole or not at all, or a stream."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO


@contextmanager
def whole_file(path: Path) -> Generator[IO[bytes], None, None]:
    """Give a file to write to, which gets its name at the end of the with statement.

    Until then it stands beside its place under another name. If something is raised, or the write fails, it
    is removed, and what stood in its place before stays. A pipe or a device is written to directly.

    Args:
        path: Its name; a symbolic link is followed.

    Raises:
        OSError: If it cannot be written.
    """
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        with place.open("wb") as stream:
            yield stream
        return
    part = place.with_name(f".{place.name}.{token_hex(4)}.part")
    try:
        with part.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
