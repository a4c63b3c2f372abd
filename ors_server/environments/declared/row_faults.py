"""What is wrong with a row, in words: its field, what was expected, and what came."""

import difflib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from ors_server.model.errors import EnvironmentDefinitionError

MAX_SHOWN = 60
"""Characters of a value that a message shows."""
MAX_NAMES = 12
"""Names of fields that a message lists."""
MAX_COMPARED = 200
"""Names of fields among which the one that may be meant is looked for."""


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


def list_names(names: Iterable[str]) -> str:
    """List the first names, shortened."""
    first = [
        name if len(name) <= MAX_SHOWN else f"{name[:MAX_SHOWN]}..." for name in islice(names, MAX_NAMES + 1)
    ]
    return ", ".join(first[:MAX_NAMES]) + (", ..." if len(first) > MAX_NAMES else "")


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that comes again, in linear time; `None` if each comes once."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def show_names(name: str, names: Iterable[str]) -> str:
    """List the names of a row's fields, and the one that may be meant."""
    known = [str(name)[: MAX_SHOWN + 1] for name in islice(names, MAX_COMPARED)]
    near = difflib.get_close_matches(name[:MAX_SHOWN], known, n=1)
    shown = list_names(known)
    return (shown or "no fields") + (f"; did you mean {near[0]!r}?" if near else "")
