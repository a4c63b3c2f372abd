"""Waivers: classes whose failure an author accepts, each with a reason and a date, in `audit.toml`.

```toml
[[waiver]]
class = "H2"
reason = "half of the questions are yes-or-no questions, as in the published data"
date = 2026-11-22
```
"""

import inspect
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from ors_server.audit.class_ids import UnknownHackClassError, read_class_ids
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import AuditReport
from ors_server.environments.declared.references import declaration_of
from ors_server.environments.loading import installed_environments
from ors_server.model.errors import SettingsError

FILE = "audit.toml"
"""The name of the file, which is next to the environment's source or its declaration."""
_TABLE = "waiver"
_KEYS = ("class", "reason", "date")


class WaiverError(SettingsError):
    """A file of waivers cannot be read; the message names the file, the entry and the remedy."""

    code = "waiver"


@dataclass(frozen=True, slots=True)
class Waiver:
    """One class whose failure is accepted."""

    hack_class: str
    """`H1` to `H23`."""
    reason: str
    date: date
    """When it was accepted."""


def find_waivers(environment: str | type) -> Path | None:
    """Return the `audit.toml` of an environment; `None` if there is no such file, as for a server.

    It is next to the Python file of the class, in the package, or next to `environment.toml`. The
    environment's module is not imported for that, but the packages around it are.

    Args:
        environment: As for `audit`.
    """
    folder = _folder_of(environment)
    if folder is None or not (folder / FILE).is_file():
        return None
    return folder / FILE


def _folder_of(reference: str | type) -> Path | None:
    if isinstance(reference, type):
        try:
            return Path(inspect.getfile(reference)).parent
        except (OSError, TypeError):
            return None
    declaration = declaration_of(reference)
    if declaration is not None:
        return declaration.parent
    target = installed_environments().get(reference, reference)
    location, colon, name = target.rpartition(":")
    # On Windows-like paths or URLs, a colon is not a separator of a class.
    if not colon or not name.isidentifier():
        location = target
    path = Path(location)
    if path.is_dir():
        return path
    return path.parent if path.suffix == ".py" else _folder_of_module(location)


def _folder_of_module(name: str) -> Path | None:
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    try:
        spec = find_spec(name)
    except Exception:  # noqa: BLE001  (of the packages around it; the audit reports it when it loads them)
        return None
    return None if spec is None or not spec.has_location or spec.origin is None else Path(spec.origin).parent


def read_waivers(file: Path) -> tuple[Waiver, ...]:
    """Return the waivers of a file, in its order.

    Raises:
        WaiverError: If it cannot be read, or an entry is incomplete or unknown.
    """
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise WaiverError(f"{file}: cannot read the file of waivers: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WaiverError(f"{file}: expected TOML, got: {error}; correct the file") from error
    rows: Any = table.get(_TABLE, [])
    unknown = sorted(set(table) - {_TABLE})
    if unknown or not isinstance(rows, list):
        names = ", ".join(map(repr, unknown)) or f"{_TABLE!r} that is not a list"
        raise WaiverError(f"{file}: expected only [[{_TABLE}]] tables, got {names}; remove or rename it")
    numbered = enumerate(table.get(_TABLE, ()), start=1)
    waivers = tuple(_read(f"{file}: waiver {number}", row) for number, row in numbered)
    counts = Counter(waiver.hack_class for waiver in waivers)
    repeated = next((hack_class for hack_class, count in counts.items() if count > 1), None)
    if repeated is not None:
        raise WaiverError(f"{file}: expected one waiver per class, got several for {repeated}; keep one")
    return waivers


def _read(location: str, entry: Any) -> Waiver:
    if not isinstance(entry, dict):
        raise WaiverError(f"{location}: expected a table, got {entry!r}; write it as [[{_TABLE}]]")
    row = cast("dict[str, Any]", entry)
    unknown = sorted(set(row) - set(_KEYS))
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise WaiverError(f"{location}: expected the keys {', '.join(_KEYS)}, got {names}; remove it")
    reason = row.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise WaiverError(
            f"{location}: expected a reason in words, got {_shown(reason)}; write why the class may fail here"
        )
    day = row.get("date")
    # A `datetime` is a `date` in Python, and TOML has both.
    if not isinstance(day, date) or isinstance(day, datetime):
        raise WaiverError(
            f"{location}: expected a date such as 2026-11-22 without quotation marks, got {_shown(day)}; "
            "write the day on which the failure was accepted"
        )
    return Waiver(_read_class(location, row.get("class")), " ".join(reason.split()), day)


def _read_class(location: str, value: Any) -> str:
    if not isinstance(value, str):
        raise WaiverError(
            f"{location}: expected a class such as 'H2', got {_shown(value)}; write one id per entry"
        )
    try:
        (hack_class,) = read_class_ids([value])
    except UnknownHackClassError as error:
        raise WaiverError(f"{location}: {error}; correct the id") from error
    return hack_class


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)


def apply_waivers(report: AuditReport, waivers: Sequence[Waiver]) -> AuditReport:
    """Return a report in which failures and warnings with a waiver are waived.

    A waiver for a class that passes is stale, and the report's notes say so. One for a class that was not
    judged changes nothing.
    """
    chosen = {waiver.hack_class: waiver for waiver in waivers}
    stale = [
        f"the waiver for {row.id} of {chosen[row.id].date} is stale, because the class passes; remove it"
        for row in report.classes
        if row.id in chosen and row.verdict is AuditVerdict.PASS
    ]
    classes = list(report.classes)
    for index, row in enumerate(classes):
        waiver = chosen.get(row.id)
        if waiver is not None and row.verdict in {AuditVerdict.FAIL, AuditVerdict.WARN}:
            reason = f"{waiver.reason} ({waiver.date})"
            classes[index] = row.model_copy(update={"is_waived": True, "reason": reason})
    return report.model_copy(update={"classes": tuple(classes), "notes": (*report.notes, *stale)})
