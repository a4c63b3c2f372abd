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
from ors_server.audit.report import AuditReport, ClassReport
from ors_server.environments.declared.references import declaration_of
from ors_server.environments.loading import installed_environments
from ors_server.model.errors import SettingsError

FILE = "audit.toml"
"""The name of the file, which is beside the environment's source or its declaration."""
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
    """Return the `audit.toml` of an environment; `None` if there is none, as for a server.

    It is beside the Python file of the class, in the package, or beside `environment.toml`. The environment's
    module is not imported for that, but the packages around it are.

    Args:
        environment: As for `audit`.
    """
    folder = _folder_of_class(environment) if isinstance(environment, type) else _folder_of(environment)
    if folder is None or not (folder / FILE).is_file():
        return None
    return folder / FILE


def _folder_of_class(cls: type) -> Path | None:
    try:
        return Path(inspect.getfile(cls)).parent
    except (OSError, TypeError):
        return None


def _folder_of(reference: str) -> Path | None:
    declaration = declaration_of(reference)
    if declaration is not None:
        return declaration.parent
    target = installed_environments().get(reference, reference)
    place, colon, name = target.rpartition(":")
    if not colon or not name.isidentifier():
        place = target
    path = Path(place)
    if path.is_dir():
        return path
    return path.parent if path.suffix == ".py" else _folder_of_module(place)


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
        raise WaiverError(f"{file}: expected a file of waivers, came: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WaiverError(f"{file}: expected TOML, came: {error}; correct the file") from error
    rows: Any = table.get(_TABLE, [])
    others = sorted(set(table) - {_TABLE})
    if others or not isinstance(rows, list):
        came = ", ".join(map(repr, others)) or f"{_TABLE!r} that is no list"
        raise WaiverError(f"{file}: expected only [[{_TABLE}]] tables, came {came}; remove or rename it")
    numbered = enumerate(table.get(_TABLE, ()), start=1)
    waivers = tuple(_read(f"{file}: waiver {number}", row) for number, row in numbered)
    _refuse_repeated(file, waivers)
    return waivers


def _read(place: str, given: Any) -> Waiver:
    if not isinstance(given, dict):
        raise WaiverError(f"{place}: expected a table, came {given!r}; write it as [[{_TABLE}]]")
    row = cast("dict[str, Any]", given)
    others = sorted(set(row) - set(_KEYS))
    if others:
        came = ", ".join(map(repr, others))
        raise WaiverError(f"{place}: expected the keys {', '.join(_KEYS)}, came {came}; remove it")
    reason = row.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise WaiverError(
            f"{place}: expected a reason in words, came {_shown(reason)}; write why the class may fail here"
        )
    day = row.get("date")
    if not isinstance(day, date) or isinstance(day, datetime):
        raise WaiverError(
            f"{place}: expected a date such as 2026-11-22 without quotation marks, came {_shown(day)}; write "
            "the day on which the failure was accepted"
        )
    return Waiver(_read_class(place, row.get("class")), " ".join(reason.split()), day)


def _read_class(place: str, given: Any) -> str:
    if not isinstance(given, str):
        raise WaiverError(
            f"{place}: expected a class such as 'H2', came {_shown(given)}; write one id per entry"
        )
    try:
        (found,) = read_class_ids([given])
    except UnknownHackClassError as error:
        raise WaiverError(f"{place}: {error}; correct the id") from error
    return found


def _shown(given: Any) -> str:
    return "nothing" if given is None else repr(given)


def _refuse_repeated(file: Path, waivers: Sequence[Waiver]) -> None:
    counts = Counter(waiver.hack_class for waiver in waivers)
    repeated = next((hack_class for hack_class, count in counts.items() if count > 1), None)
    if repeated is not None:
        raise WaiverError(f"{file}: expected one waiver per class, came several for {repeated}; keep one")


def apply_waivers(report: AuditReport, waivers: Sequence[Waiver]) -> AuditReport:
    """Return a report in which failures and warnings with a waiver are waived.

    A waiver for a class that passes is stale, and the report's notes say so. One for a class that was not
    judged changes nothing.
    """
    chosen = {waiver.hack_class: waiver for waiver in waivers}
    stale = [
        f"the waiver for {one.id} of {chosen[one.id].date} is stale, because the class passes; remove it"
        for one in report.classes
        if one.id in chosen and one.verdict is AuditVerdict.PASS
    ]
    classes = tuple(_waive(one, chosen.get(one.id)) for one in report.classes)
    return report.model_copy(update={"classes": classes, "notes": (*report.notes, *stale)})


def _waive(report: ClassReport, waiver: Waiver | None) -> ClassReport:
    if waiver is None or report.verdict not in {AuditVerdict.FAIL, AuditVerdict.WARN}:
        return report
    reason = f"{waiver.reason} ({waiver.date})"
    return report.model_copy(update={"is_waived": True, "reason": reason})
