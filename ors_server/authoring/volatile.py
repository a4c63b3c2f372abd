"""What an environment declares volatile: read off the class once, and refused where it cannot work."""

import re
from collections.abc import Sequence
from typing import Any, cast

from ors_server.errors import EnvironmentDefinitionError


def read_volatile(cls: Any) -> tuple[str, ...]:
    """Read the patterns of what may differ between two plays of the same calls.

    Raises:
        EnvironmentDefinitionError: If they are no sequence of regular expressions, or one of them matches the
            empty text.
    """
    given: object = getattr(cls, "volatile", ())
    where = f"{cls.__name__}.volatile"
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise EnvironmentDefinitionError(f"{where} is a list of regular expressions, not {given!r:.80}")
    try:
        return check_patterns(cast("Sequence[object]", given))
    except ValueError as error:
        raise EnvironmentDefinitionError(f"{where}: {error}") from error


def check_patterns(patterns: Sequence[object]) -> tuple[str, ...]:
    """Check that patterns can tell something from everything else.

    Raises:
        ValueError: If one is no regular expression, or matches the empty text and so every place of a text.
    """
    return tuple(map(_check, patterns))


def _check(pattern: object) -> str:
    if not isinstance(pattern, str):
        raise ValueError(f"a pattern is text, not {pattern!r:.80}")  # noqa: TRY004  (one mistake, one error)
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    if compiled.fullmatch("") is not None:
        raise ValueError(
            f"{pattern!r} matches the empty text, which stands everywhere; let it match something"
        )
    return pattern
