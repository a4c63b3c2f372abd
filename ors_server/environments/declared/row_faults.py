"""Errors of rows: the field, the expected value and the actual one."""

import difflib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from ors_server.model.errors import EnvironmentDefinitionError

MAX_SHOWN_CHARACTERS = 60
"""Characters of a value that a message shows."""
MAX_NAMES = 12
"""Names of fields that a message lists."""
MAX_COMPARED = 200
"""Names of fields that are compared with an unknown one, to suggest the nearest."""


class RowFaultError(Exception):
    """A row is not a task: `field` was expected to be something, and is something else."""

    def __init__(self, field: str, expected: str, actual: str, *, absent: bool = False) -> None:
        """Keep the parts; `absent` means that the field is missing, not that its value is wrong."""
        where = f"field {field!r}: " if field else ""
        super().__init__(f"{where}expected {expected}, got {actual}")
        self.field, self.expected, self.actual, self.absent = field, expected, actual, absent


@dataclass(frozen=True, slots=True)
class RowReport:
    """A wrong row and its location."""

    location: str
    """`train.jsonl, line 17`."""
    fault: RowFaultError

    def describe(self) -> str:
        """Return the report as one line."""
        where = f", field {self.fault.field!r}" if self.fault.field else ""
        return f"{self.location}{where}: expected {self.fault.expected}, got {self.fault.actual}"


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
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."


def list_names(names: Iterable[str]) -> str:
    """List the first names, shortened."""
    first = [
        name if len(name) <= MAX_SHOWN_CHARACTERS else f"{name[:MAX_SHOWN_CHARACTERS]}..."
        for name in islice(names, MAX_NAMES + 1)
    ]
    return ", ".join(first[:MAX_NAMES]) + (", ..." if len(first) > MAX_NAMES else "")


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs again, in linear time; `None` if each occurs once."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def show_names(name: str, names: Iterable[str]) -> str:
    """List the names of a row's fields, and suggest the nearest one."""
    compared = [str(name)[: MAX_SHOWN_CHARACTERS + 1] for name in islice(names, MAX_COMPARED)]
    near = difflib.get_close_matches(name[:MAX_SHOWN_CHARACTERS], compared, n=1)
    shown = list_names(compared)
    return (shown or "no fields") + (f"; did you mean {near[0]!r}?" if near else "")
