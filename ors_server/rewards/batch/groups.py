"""Gathers consecutive rows that agree in one field into groups."""

import json
from dataclasses import dataclass, field
from typing import cast

from typing_extensions import override

from ors_server.rewards.batch.batch_rows import MAX_ROW, Row, RowSource
from ors_server.rewards.recorded_fields import find_in_row


@dataclass(slots=True)
class _RowGroup:
    value: str | None
    """The JSON of the field on which its rows agree; `None` while no row could be read."""
    count: int = 0
    first: str = ""
    last: str = ""
    texts: list[bytes] = field(default_factory=list[bytes])
    length: int = 0
    fault: str = ""

    def add(self, row: Row, fault: str) -> None:
        self.count += 1
        self.first = self.first or row.where
        self.last = row.where
        self.length += len(row.text or b"")
        self.fault = self.fault or fault
        if self.length > MAX_ROW:
            self.fault = self.fault or f"it is longer than {MAX_ROW:,} bytes"
        if self.fault:
            self.texts.clear()
        else:
            self.texts.append(row.text or b"")

    def as_row(self) -> Row:
        where = self.first if self.count == 1 else f"{self.first} to {self.last}"
        if self.fault:
            return Row(where, None, f"the group of {where} cannot be judged: {self.fault}", self.count)
        return Row(where, b'{"rows": [%s]}' % b", ".join(self.texts), "", self.count)


class GroupSource(RowSource):
    """Groups of another source's rows, which are in the order of their groups.

    A group with an unreadable row is not judged at all. An unreadable row counts with the group before it,
    since its own group is unknown.
    """

    def __init__(self, source: RowSource, key: str) -> None:
        self._source = source
        self._key = key
        self._group: _RowGroup | None = None

    @property
    @override
    def is_exhausted(self) -> bool:
        return self._source.is_exhausted and self._group is None

    @property
    @override
    def waits_for(self) -> int | None:
        return self._source.waits_for

    @override
    def fill(self) -> None:
        self._source.fill()

    @override
    def take(self) -> Row | None:
        while (row := self._source.take()) is not None:
            value, fault = self._read(row)
            ended = self._end() if self._is_other(value) else None
            self._group = self._group or _RowGroup(value)
            self._group.value = self._group.value or value
            self._group.add(row, fault)
            if ended is not None:
                return ended
        return self._end() if self._source.is_exhausted else None

    def _is_other(self, value: str | None) -> bool:
        return None not in {value, self._group.value} and value != self._group.value if self._group else False

    def _end(self) -> Row | None:
        group, self._group = self._group, None
        return None if group is None else group.as_row()

    def _read(self, row: Row) -> tuple[str | None, str]:
        if row.text is None:
            return None, row.fault
        try:
            fields: object = json.loads(row.text)
        except (ValueError, RecursionError) as error:
            return None, f"{row.where} is not valid JSON: {error}"
        known = cast("dict[str, object]", fields) if isinstance(fields, dict) else {}
        try:
            return json.dumps(find_in_row(known, self._key), sort_keys=True), ""
        except KeyError:
            return None, f"{row.where} has no {self._key}"
