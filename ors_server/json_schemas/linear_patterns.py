"""Searches patterns in linear time, by the expressions of pydantic (Rust's), which have no look-around.

Linear is not cheap: `([ab]{1,100}){1,100}c` has 10,000 states, of which each may be alive at each
character, and takes 0.5 milliseconds for each. So a search costs steps by the states that the pattern is
expanded to.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

STATES_PER_CHECK = 16
"""States at one character that take the time of one step (50 nanoseconds each, measured)."""
MAX_PATTERNS_KEPT = 1_024

_TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|.", re.DOTALL)
_FIRST_REPEATED = re.compile(r"\^(?:\\.|\[(?:\\.|[^\]\\])*\]|[^(\\])\{(\d+)(?:,(\d*))?\}")


@dataclass(frozen=True, slots=True)
class _LinearPattern:
    validator: SchemaValidator
    states: int


class LinearPatterns:
    """Searches in time that grows with the length of a text alone; for texts of an agent."""

    def compile(self, pattern: str, /) -> Any:
        """Compile a pattern; raise `ValueError` if it is invalid, or has look-around or back-references."""
        return _compile(pattern)

    def cost(self, compiled: Any, text: str, /) -> int:
        """Return the steps that a search may take."""
        characters = len(text) if text.isascii() else 3 * len(text)
        return characters * int(compiled.states) // STATES_PER_CHECK

    def is_found(self, compiled: Any, text: str, /) -> bool:
        """Return whether a pattern is found anywhere in a text."""
        return bool(compiled.validator.isinstance_python(text))


@lru_cache(maxsize=MAX_PATTERNS_KEPT)
def _compile(pattern: str) -> _LinearPattern:
    try:
        validator = SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"the pattern {pattern!r:.80} has no linear-time matching, which excludes look-around and "
            f"back-references: {reason:.300}"
        ) from None
    return _LinearPattern(validator, _count_states(pattern))


def _count_states(pattern: str) -> int:
    """Return how many states may be alive at once: a repetition `{m,n}` counts what it repeats n times."""
    groups = [0]
    last = 0
    for token in _TOKEN.finditer(pattern):
        text = token.group()
        if text == "(":
            groups.append(0)
        elif text == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif token.group(1):
            times = max(int(token.group(1)), int(token.group(2) or 0), 1)
            groups[-1] += last * (times - 1)
            last *= times
        else:
            last = 1
            groups[-1] += 1
    states = sum(groups)
    first = _FIRST_REPEATED.match(pattern)
    if first and "|" not in pattern:  # at the start of a text it counts in one way: `^.{1,4000}$` is cheap
        states -= max(int(first.group(1)), int(first.group(2) or 0), 1) - 1
    return max(states, 1)
