"""The schemas of rewards: checked and compiled once, then lent for the values of many responses.

The checker is the package's (`ors_server.json_schemas`). A reward's patterns are those of the package
`regex`, with look-around, under a time limit; `format` is not checked.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from itertools import chain
from threading import Lock
from typing import Any, TypeAlias

from ors_server.json_schemas import BadSchemaError, SchemaChecker, TooMuchWorkError
from ors_server.model.json_values import is_array, is_object
from ors_server.rewards.reading.bounded_pattern import PatternBudget, compile_pattern

MAX_KEPT = 64
"""Schemas whose checkers are kept for the next value."""
MAX_KEPT_CHARACTERS = 100_000
"""Greatest length of a schema that is kept, in characters."""
SMALL_COUNT, SMALL_DEPTH = 1_000, 10
"""Values within a value, and levels, up to which too much work is the schema's fault, not the value's."""

Schema: TypeAlias = Mapping[str, Any] | bool


class TimedPatterns:
    """Searches patterns of the package `regex` within the time of one judgement."""

    def __init__(self) -> None:
        self._budget = PatternBudget()

    def compile(self, pattern: str, /) -> Any:
        """Compile a pattern; raise `PatternError` if it is invalid."""
        return compile_pattern(pattern)

    def cost(self, _compiled: Any, _text: str, /) -> int:
        """Return 0: the budget limits the time."""
        return 0

    def is_found(self, compiled: Any, text: str, /) -> bool:
        """Return whether a pattern is found; raise `PatternTimeoutError` if the time is over."""
        return self._budget.is_found(compiled, text)


class GoldSchemas:
    """The checkers that were used last, by their schema's text; for any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._checkers: OrderedDict[str, SchemaChecker] = OrderedDict()

    def checker(self, schema: object) -> SchemaChecker:
        """Return the checker of a schema.

        Raises:
            BadSchemaError: As `SchemaChecker` does, and for a schema that accepts every value, or none.
        """
        if isinstance(schema, bool) or schema == {}:
            raise BadSchemaError("the schema accepts every value, or none: it cannot judge an answer")
        text = _text_of(schema)
        with self._lock:
            checker = self._checkers.get(text) if text is not None else None
        checker = checker or SchemaChecker(schema, TimedPatterns)
        if text is not None:
            with self._lock:
                self._checkers[text] = checker
                self._checkers.move_to_end(text)
                while len(self._checkers) > MAX_KEPT:
                    self._checkers.popitem(last=False)
        return checker


gold_schemas = GoldSchemas()


def find_violations(checker: SchemaChecker, value: Any) -> list[str]:
    """Return up to 20 `place: keyword` at which a value violates a schema; empty if it is valid.

    Raises:
        TooMuchWorkError: A large value takes more than 100,000 steps, or leads too deep.
        BadSchemaError: A small one does.
        PatternTimeoutError: The search for a pattern took too long.
    """
    try:
        return [f"{violation.place}: {violation.keyword}" for violation in checker.violations(value)]
    except TooMuchWorkError as error:
        if is_small(value):
            raise BadSchemaError(f"the schema {error} for a small value") from None
        raise TooMuchWorkError(f"checking the value {error}") from None


def is_small(value: Any) -> bool:
    """Whether a value has at most 1,000 values within it, at most 10 levels deep."""
    level: list[Any] = [value]
    count = 0
    for _ in range(SMALL_DEPTH):
        count += len(level)
        if count > SMALL_COUNT:
            return False
        containers = [
            part.values() if is_object(part) else part for part in level if is_object(part) or is_array(part)
        ]
        level = list(chain.from_iterable(containers))
        if not level:
            return True
    return False


def _text_of(schema: object) -> str | None:
    """Return the key of a schema; `None` for one that is too long to keep, or not JSON."""
    try:
        text = json.dumps(schema, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None
    return text if len(text) <= MAX_KEPT_CHARACTERS else None
