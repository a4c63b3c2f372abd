"""Reads the entries of a large JSON list or object, one at a time, and says in which line one is broken."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHUNK = 1 << 22
"""Characters that are read at once."""
LONGEST_ENTRY = 1 << 26
"""Characters of an entry after which it counts as broken."""
_TAIL = 16
"""Characters at the end of what was read so far in which an error may only mean that more must be read."""

_SPACE = re.compile(r"[\s,]*")
_OPENING = re.compile(r"[\[{]")
_BLANK = re.compile(r"\s*")
_COLON = re.compile(":")
_DECODER = json.JSONDecoder()


class CatalogueError(ValueError):
    """A file of a catalogue is missing or broken: the message names the file and the line."""


class _JsonStream:
    """A file that is decoded piece by piece."""

    def __init__(self, path: Path, file: Any) -> None:
        self._path = path
        self._file = file
        self._text = ""
        self._at = 0
        self._lines = 1
        self._is_whole = False

    @property
    def line(self) -> int:
        return self._lines

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Skip what a pattern matches, and return the next character; nothing at the end of the file."""
        while True:
            match = pattern.match(self._text, self._at)
            end = self._at if match is None else match.end()
            self._lines += self._text.count("\n", self._at, end)
            self._at = end
            if end < len(self._text) or not self._read_more():
                return self._text[end : end + 1]

    def decode(self, expected: str) -> Any:
        """Decode the value that begins here."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._may_be_cut(error):
                    self._read_more()
                    continue
                raise self._broken(expected, error) from None
            if end > len(self._text) - _TAIL and self._read_more():
                continue  # a number may continue
            self._lines += self._text.count("\n", self._at, end)
            self._at = end
            return value

    def complain(self, expected: str) -> CatalogueError:
        text = self._text[self._at : self._at + 40] or "the end of the file"
        return CatalogueError(f"{self._path}, line {self._lines}: expected {expected}, got {text!r}")

    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        if self._is_whole or len(self._text) - self._at > LONGEST_ENTRY:
            return False
        return error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _TAIL

    def _broken(self, expected: str, error: json.JSONDecodeError) -> CatalogueError:
        line = self._lines + self._text.count("\n", self._at, error.pos)
        text = self._text[max(self._at, error.pos - 20) : error.pos + 20] or "the end of the file"
        return CatalogueError(
            f"{self._path}, line {line}: expected {expected} as JSON ({error.msg}); got: {text!r}"
        )

    def _read_more(self) -> bool:
        if self._is_whole:
            return False
        try:
            more = self._file.read(max(CHUNK, len(self._text) - self._at))
        except UnicodeDecodeError as error:
            raise CatalogueError(
                f"{self._path}, after line {self._lines}: expected UTF-8 ({error})"
            ) from error
        self._is_whole = not more
        if more:
            self._text = self._text[self._at :] + more
            self._at = 0
        return bool(more)


def read_entries(path: Path, expected: str) -> Iterator[tuple[int, str, Any]]:
    """Yield the entries of a JSON list, of a JSON object, or of a file with one JSON value a line.

    Args:
        expected: What one entry is, for error messages.

    Yields:
        The line in which the entry begins, its key (empty in a list), and its value.

    Raises:
        CatalogueError: The file cannot be read, or an entry is broken.
    """
    try:
        file = path.open(encoding="utf-8")
    except OSError as error:
        raise CatalogueError(f"{path}: expected a file that can be read: {error.strerror}") from error
    with file:
        stream = _JsonStream(path, file)
        first = stream.skip(_SPACE)
        end = {"[": "]", "{": "}"}.get(first, "")
        if first == "{" and path.suffix == ".jsonl":
            end = ""
        elif end:
            stream.skip(_OPENING)
        yield from _entries(stream, expected, end)


def _entries(stream: _JsonStream, expected: str, end: str) -> Iterator[tuple[int, str, Any]]:
    while True:
        following = stream.skip(_SPACE)
        if following == end:
            return
        if not following:
            raise stream.complain(f"{expected} or {end!r}")
        line, key = stream.line, ""
        if end == "}":
            key = stream.decode(f"the key of {expected}")
            if not isinstance(key, str) or stream.skip(_BLANK) != ":":
                raise stream.complain(f"the key of {expected}, and a value")
            stream.skip(_COLON)
            stream.skip(_BLANK)
        yield line, key, stream.decode(expected)
