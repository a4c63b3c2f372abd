"""Reads and checks `volatile`, the regular expressions of text that a replay does not compare."""

import re
from collections.abc import Sequence
from typing import Any, cast

from ors_server.model.errors import EnvironmentDefinitionError


def read_volatile(cls: Any) -> tuple[str, ...]:
    """Return the patterns of a class, native or foreign.

    Raises:
        EnvironmentDefinitionError: As `check_patterns`, or if it is not a sequence.
    """
    patterns: object = getattr(cls, "volatile", ())
    where = f"{cls.__name__}.volatile"
    if isinstance(patterns, str | bytes) or not isinstance(patterns, Sequence):
        raise EnvironmentDefinitionError(
            f"{where} must be a list of regular expressions, got {patterns!r:.80}"
        )
    try:
        return check_patterns(cast("Sequence[object]", patterns))
    except ValueError as error:
        raise EnvironmentDefinitionError(f"{where}: {error}") from error


def check_patterns(patterns: Sequence[object]) -> tuple[str, ...]:
    """Return patterns that are valid.

    Raises:
        ValueError: If one is not a regular expression, or matches the empty text.
    """
    return tuple(map(_check, patterns))


def _check(pattern: object) -> str:
    if not isinstance(pattern, str):
        raise ValueError(f"a pattern must be text, got {pattern!r:.80}")  # noqa: TRY004  (one mistake, one error)
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    if compiled.fullmatch("") is not None:
        raise ValueError(
            f"{pattern!r} matches the empty text, and so everywhere; let it match at least one character"
        )
    return pattern
