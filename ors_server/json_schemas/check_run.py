"""Checks one value: every step is counted, and every text that is shown is short."""

import re
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ors_server.model.json_values import is_array, is_object

MAX_CHECKS = 100_000
"""Steps of one value, about 0.5 microseconds each: a keyword applied, or a few names or items looked at."""
MAX_SCHEMA_CHECKS = 2_000_000
"""Steps of checking a schema against its meta-schema."""
MAX_LEVELS = 250
"""Schemas within schemas that a value leads through, references included."""
MAX_VIOLATIONS = 20
"""Places that a report names."""
CHARACTERS_PER_CHECK = 256
"""Of a text that is compared as a whole."""
CHECKS_OF_KEY = 2
"""Steps of one value's part in what it is compared by."""
NAMES_PER_CHECK = 8
"""Looked up in one step."""

Path: TypeAlias = "tuple[Path, str | int] | None"
"""Where a value is within the checked one: the path of what holds it, and its name or index."""
Marks: TypeAlias = "set[str | int] | None"
"""Names or indexes that a schema has evaluated, for `unevaluatedProperties` and `unevaluatedItems`."""

Key: TypeAlias = Any
"""A text, or a tuple of keys."""

_IDENTIFIER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
_short = reprlib.Repr()
_short.maxlevel, _short.maxstring, _short.maxlong, _short.maxother = 3, 80, 80, 80


class TooMuchWorkError(Exception):
    """A value would take more checks than are allowed, or leads too deep."""


class PatternSearch(Protocol):
    """Finds the patterns of `pattern` and `patternProperties` in texts."""

    def compile(self, pattern: str, /) -> Any:
        """Compile a pattern; raise `ValueError` with the reason if it is not one that can be searched."""
        ...

    def cost(self, compiled: Any, text: str, /) -> int:
        """Return the steps that a search may take; 0 for an implementation that has its own limit."""
        ...

    def is_found(self, compiled: Any, text: str, /) -> bool:
        """Return whether a compiled pattern is found anywhere in a text."""
        ...


@dataclass(frozen=True, slots=True)
class SchemaViolation:
    """A place at which a value violates its schema."""

    place: str
    """As a JSON path: `$.names[0]`."""
    keyword: str
    message: str
    """At most a few hundred characters, for any value."""


class EnoughViolationsError(Exception):
    """As many violations are noted as a report names."""


class CheckRun:
    """The check of one value."""

    def __init__(self, patterns: PatternSearch, max_checks: int = MAX_CHECKS) -> None:
        self.violations: list[SchemaViolation] = []
        self.quiet = 0
        """How many schemas around this one only ask whether a value is valid."""
        self._patterns = patterns
        self._max_checks = max_checks
        self._steps_left = max_checks
        self._level = 0

    def spend(self, steps: int) -> None:
        """Count steps before they are taken.

        Raises:
            TooMuchWorkError: None are left.
        """
        self._steps_left -= steps
        if self._steps_left < 0:
            raise TooMuchWorkError(f"takes over {self._max_checks} checks")

    def enter(self, steps: int) -> None:
        """Begin with a schema of so many keywords."""
        self._steps_left -= steps  # not by `spend`: this is the hot path
        if self._steps_left < 0:
            raise TooMuchWorkError(f"takes over {self._max_checks} checks")
        self._level += 1
        if self._level > MAX_LEVELS:
            raise TooMuchWorkError(f"leads over {MAX_LEVELS} schemas deep")

    def leave(self) -> None:
        """End with the schema that was entered last."""
        self._level -= 1

    def fail(self, path: Path, keyword: str, *words: object) -> bool:
        """Note a violation, unless only validity is asked for; return `False`.

        Args:
            words: Parts of the message, in which a `Shown` value is written in short.
        """
        if not self.quiet:
            message = "".join(map(str, words))
            self.violations.append(SchemaViolation(json_path(path), keyword, message))
            if len(self.violations) >= MAX_VIOLATIONS:
                raise EnoughViolationsError
        return False

    def key_of(self, value: Any) -> Key:
        """Return what all values equal to this one have, and no others; counts its work.

        Its hash is that of texts, which no client can foresee. The hash of a number is known, so that a set
        of chosen numbers would take quadratic time.
        """
        self.spend(CHECKS_OF_KEY)
        if isinstance(value, str):
            self.spend(len(value) // CHARACTERS_PER_CHECK)
            return '"' + value
        if value is None or isinstance(value, bool):
            return str(value)
        if is_object(value):
            self.spend(len(value))
            return "{", frozenset((name, self.key_of(part)) for name, part in value.items())
        if is_array(value):
            return "[", tuple(map(self.key_of, value))
        # 1 and 1.0 have the same key; in hexadecimal, for an integer may be too long for decimal text.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return f"#{value:x}" if isinstance(value, int) else f"#{value}"

    def is_found(self, compiled: Any, text: str) -> bool:
        """Return whether a compiled pattern is in a text; counts its work."""
        self.spend(1 + self._patterns.cost(compiled, text))
        return self._patterns.is_found(compiled, text)


class Shown:
    """A value of the checked one as a message shows it: its beginning."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __str__(self) -> str:
        value = self._value
        return _short.repr(value[:80] if isinstance(value, str) else value)


class ShownNames:
    """The first of some names."""

    def __init__(self, names: Iterable[str], shown: int = 3) -> None:
        self._names = list(names)
        self._shown = shown

    def __str__(self) -> str:
        more = len(self._names) - self._shown
        rest = f" and {more} more" if more > 0 else ""
        return ", ".join(str(Shown(name)) for name in self._names[: self._shown]) + rest


def json_path(path: Path) -> str:
    """Return a path as text: `$.a[0]['b c']`."""
    parts: list[str] = []
    while path is not None:
        path, step = path
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif len(step) <= CHARACTERS_PER_CHECK and _IDENTIFIER.match(step):
            parts.append(f".{step}")
        else:
            parts.append(f"[{Shown(step)}]")
    return "$" + "".join(reversed(parts))
