"""What is wrong with a row, in words: its field, what was expected, and what came."""

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from ors_server.errors import EnvironmentDefinitionError

MAX_SHOWN = 60
"""Characters of a value that a message shows."""
MAX_NAMES = 12
"""Names of fields that a message lists."""


class RowFaultError(Exception):
    """A row is not a task: `field` was expected to be something, and something else came."""

    def __init__(self, field: str, expected: str, came: str, *, absent: bool = False) -> None:
        """Keep the parts; `absent` tells a field that is missing from one with a wrong value."""
        super().__init__(f"field {field!r}: expected {expected}, came {came}")
        self.field, self.expected, self.came, self.absent = field, expected, came, absent


@dataclass(frozen=True, slots=True)
class RowReport:
    """A wrong row and its place."""

    place: str
    """`train.jsonl, line 17`."""
    fault: RowFaultError

    def describe(self) -> str:
        """Return the report as one line."""
        where = f", field {self.fault.field!r}" if self.fault.field else ""
        return f"{self.place}{where}: expected {self.fault.expected}, came {self.fault.came}"


class BadRowsError(EnvironmentDefinitionError):
    """A data file has rows that are not tasks; `reports` has the first of them, one line each."""

    def __init__(self, message: str, reports: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.reports = tuple(reports)


def show_value(value: object) -> str:
    """Show a value of a row, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError):
        text = f"{type(value).__name__} {value!r}"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def show_names(name: str, names: Iterable[str]) -> str:
    """List the names of a row's fields, and the one that may be meant."""
    known = list(map(str, names))
    shown = ", ".join(known[:MAX_NAMES]) + (", ..." if len(known) > MAX_NAMES else "")
    near = difflib.get_close_matches(name, known, n=1)
    return (shown or "no fields") + (f"; did you mean {near[0]!r}?" if near else "")
