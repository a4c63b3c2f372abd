"""Rows of a batch on their way to a worker: lines of a file, or mappings; taken one at a time, never all."""

import json
import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from typing_extensions import override

MAX_ROW = 16 * 2**20
"""Bytes of one row; a longer one is not judged."""

_PIECE = 2**16
_encode = json.JSONEncoder(allow_nan=False).encode


@dataclass(slots=True)
class Row:
    """One row as a worker gets it."""

    where: str
    """Its name in messages: `line 7`, `row 7`."""
    text: bytes | None
    """A JSON object on one line; `None` for one that could not be read."""
    fault: str = ""
    """Why it could not be read."""
    group: int = 0
    """How many rows of a group it is made of; 0 for a row that is judged by itself."""


class RowSource(Protocol):
    """A source of rows."""

    def take(self) -> Row | None:
        """Return the next row; `None` if no row is available now."""
        ...

    @property
    def is_exhausted(self) -> bool:
        """Whether there will never be a row again."""
        ...

    @property
    def waits_for(self) -> int | None:
        """The descriptor that becomes readable when there is more; `None` if `take` need not wait."""
        return None

    def fill(self) -> None:
        """Read once from the descriptor; nothing without a descriptor."""
        return


class MappingSource(RowSource):
    """Rows from mappings, taken one at a time: the fields of one judgement each, of JSON types."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows: Iterator[Mapping[str, Any]] = iter(rows)
        self._count = 0
        self._is_exhausted = False

    @property
    @override
    def is_exhausted(self) -> bool:
        return self._is_exhausted

    @override
    def take(self) -> Row | None:
        try:
            fields = next(self._rows)
        except StopIteration:
            self._is_exhausted = True
            return None
        self._count += 1
        where = f"row {self._count}"
        try:
            text = _encode(fields).encode()
        # `RecursionError`: a row may hold itself, or be nested too deeply.
        except (TypeError, ValueError, RecursionError) as error:
            return Row(where, None, f"{where} cannot be written as JSON: {error}")
        return Row(where, text) if len(text) <= MAX_ROW else _too_long(where)


class LineSource(RowSource):
    """Rows from a file, a pipe or a terminal: lines of UTF-8. Blank lines are skipped, and counted.

    The descriptor stays the caller's.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # A regular file is always readable, and `poll` does not wait for it.
        self._may_block = not stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._lines: deque[Row] = deque()
        self._begun: list[bytes] = []
        self._length = 0
        self._count = 0
        self._is_at_end = False

    @property
    @override
    def is_exhausted(self) -> bool:
        return self._is_at_end and not self._lines

    @property
    @override
    def waits_for(self) -> int | None:
        has_more = self._may_block and not self._lines and not self._is_at_end
        return self._descriptor if has_more else None

    @override
    def take(self) -> Row | None:
        # A file is read here until a line is complete; a pipe only by `fill`, when it is ready.
        while not (self._may_block or self._lines or self._is_at_end):
            self.fill()
        return self._lines.popleft() if self._lines else None

    @override
    def fill(self) -> None:
        """Read once; blocks if nothing is there."""
        piece = os.read(self._descriptor, _PIECE)
        if not piece:
            self._is_at_end = True
            if self._begun:
                self._end_line()
            return
        *whole, rest = piece.split(b"\n")
        for part in whole:
            self._add(part)
            self._end_line()
        if rest:
            self._add(rest)

    def _add(self, part: bytes) -> None:
        self._length += len(part)
        # The length keeps growing, but the bytes are not kept.
        if self._length <= MAX_ROW:
            self._begun.append(part)
        else:  # too long: only that it was is kept
            self._begun = [b"x"]

    def _end_line(self) -> None:
        self._count += 1
        where = f"line {self._count}"
        if self._length > MAX_ROW:
            self._lines.append(_too_long(where))
        elif text := b"".join(self._begun).strip():
            self._lines.append(Row(where, text))
        self._begun = []
        self._length = 0


def _too_long(where: str) -> Row:
    return Row(where, None, f"{where} is longer than {MAX_ROW:,} bytes")
