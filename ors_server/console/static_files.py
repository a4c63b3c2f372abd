"""The files that pages load: read once, addressed by their hash, kept for ever by browsers."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
TYPES: Mapping[str, bytes] = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
"""Only these are served; licences and lists that stand beside them are for readers of the source."""
SHOWN_DIGITS = 12
"""Hexadecimal digits of a hash in an address."""


@dataclass(frozen=True)
class StaticFile:
    """One file."""

    name: str
    content: bytes
    content_type: bytes

    @cached_property
    def address(self) -> str:
        """Its path below the console's: another content has another address."""
        return f"static/{hashlib.sha256(self.content).hexdigest()[:SHOWN_DIGITS]}/{self.name}"

    @cached_property
    def compressed(self) -> bytes:
        """The content in gzip; compressed once, for the first browser."""
        return gzip.compress(self.content, compresslevel=9, mtime=0)


def load_static_files() -> Mapping[str, StaticFile]:
    """Return every file by its name."""
    paths = (path for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES)
    return {path.name: StaticFile(path.name, path.read_bytes(), TYPES[path.suffix]) for path in paths}
