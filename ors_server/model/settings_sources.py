"""Reads settings from TOML files and `ORS_*` variables, and names the place of each mistake."""

import difflib
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ors_server.model.errors import SettingsError

PREFIX = "ORS_"
"""Beginning of the names of the server's environment variables."""
OTHER_VARIABLES = frozenset(
    {
        "ORS_AGENT_URL",
        "ORS_ALFWORLD_PYTHON",
        "ORS_API_KEY",
        "ORS_BFCL_PYTHON",
        "ORS_CHILD",
        "ORS_CONFIG",
        "ORS_EPISODE",
        "ORS_IMAGES",
        "ORS_INSPECT_PYTHON",
        "ORS_JUDGE_API_KEY",
        "ORS_JUDGE_BASE_URL",
        "ORS_JUDGE_MODEL",
        "ORS_TEXTARENA_PYTHON",
        "ORS_USER_API_KEY",
        "ORS_USER_BASE_URL",
        "ORS_USER_MODEL",
        "ORS_USE_STRUCTURED_LOGS",
        "ORS_VERIFIERS_0_3_PYTHON",
        "ORS_VERIFIERS_PYTHON",
        "ORS_WORKER_VARIABLES",
    }
)
"""Variables that are not settings of the server: of commands, judges, simulated users, environments, workers,
the reference SDK."""
_TESTS = ("ORS_TEST_", "ORS_SOAK_")
_KUBERNETES = re.compile(r"ORS_(\w+_)?(SERVICE_(HOST|PORT\w*)|PORT(_\d+_(TCP|UDP|SCTP)\w*)?)")
"""Variables that Kubernetes and linked containers set for a service whose name begins with `ors`."""
_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A TOML file, and where in it things are."""

    path: Path
    text: str
    values: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> "TomlFile":
        """Read a file; `SettingsError`, with path and line, if it cannot be read or is not TOML."""
        try:
            text = path.read_text("utf-8")
        except OSError as error:
            raise SettingsError(f"{path}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise SettingsError(f"{path}: expected a TOML file in UTF-8: {error.reason}") from error
        try:
            return cls(path, text, tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(_describe(path, text, error)) from error

    def place(self, key: str, number: int = 0) -> str:
        """Return `file, line N` of a top-level key, or of the table `number` (from 0) of that name."""
        start = 1
        for end, _ in enumerate(self.text.splitlines(), 1):
            try:
                found = tomllib.loads("\n".join(self.text.splitlines()[:end])).get(key)
            except tomllib.TOMLDecodeError:
                continue  # in the middle of a value of several lines
            if found is not None and (number == 0 or _count(found) > number):
                return f"{self.path}, line {start}"
            start = end + 1
        return str(self.path)


def _count(value: object) -> int:
    return len(cast("list[object]", value)) if isinstance(value, list) else 0


def _describe(path: Path, text: str, error: tomllib.TOMLDecodeError) -> str:
    position = _POSITION.search(str(error))
    line, column = (position[1], position[2]) if position is not None else (None, None)
    if line is None:
        line, column = str(len(text.splitlines()) or 1), "end"
    return f"{path}, line {line}, column {column}: not TOML: {_POSITION.sub('', str(error))}"


def check_keys(file: TomlFile, known: Collection[str]) -> None:
    """Refuse a key that is not a setting; the `SettingsError` has its line and the nearest setting."""
    for key in file.values:
        if key not in known:
            raise SettingsError(
                f"{file.place(key)}: unknown setting {key!r}{_nearest(key.replace('-', '_').lower(), known)}"
            )


def check_variables(names: Iterable[str], known: Collection[str]) -> None:
    """Refuse an unknown variable that begins with `ORS_`; the `SettingsError` names the nearest known one."""
    variables = {*(f"{PREFIX}{name.upper()}" for name in known), *OTHER_VARIABLES}
    for name in sorted(names):
        spelled = name.upper()
        is_ours = spelled.startswith(PREFIX) and not spelled.startswith(_TESTS)
        if is_ours and spelled not in variables and not _KUBERNETES.fullmatch(spelled):
            raise SettingsError(
                f"unknown environment variable {name}{_nearest(spelled, variables)} Rename or unset it."
            )


def may_be_wrong(names: Iterable[str]) -> bool:
    """Return whether a variable may be unknown, without knowing the settings: they take long to import."""
    return any(
        name.upper().startswith(PREFIX)
        and name.upper() not in OTHER_VARIABLES
        and not name.upper().startswith(_TESTS)
        for name in names
    )


def _nearest(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f", did you mean {near[0]!r}?" if near else f": expected one of {', '.join(sorted(known))}."
