"""Reads the answer of an agent's function. No I/O; long answers are read in a worker process."""

from dataclasses import dataclass
from typing import Any, cast

from ors_server.grading.encoding import DecodingError, from_text
from ors_server.grading.equality import Tree, same

MAX_SHOWN = 200
_MAX_NAMES = 1_000
_MAX_NAME = 1_000


@dataclass(frozen=True, slots=True)
class FunctionAnswer:
    """The result of a call, as far as judging needs it."""

    has_value: bool = False
    is_expected: bool = False
    """Whether its value is the expected one."""
    names: tuple[str, ...] = ()
    """Names of a raised error's class and of those above it."""
    text: str = ""
    """The raised error's text, cut."""
    unfit: str | None = None
    """Why its value cannot be compared, cut."""


def read_answer(text: bytes, expected: Tree, tolerance: float) -> FunctionAnswer:
    """Read an answer, and compare its value.

    Args:
        text: Any bytes.
        tolerance: As for `same`.

    Raises:
        DecodingError: It is not an answer.
    """
    tree = from_text(text)
    if not isinstance(tree, dict):
        raise DecodingError("wrote something else where an answer was awaited")
    answer = cast("dict[str, Any]", tree)
    raised: Any = answer.get("raised")
    return FunctionAnswer(
        has_value="value" in answer,
        is_expected="value" in answer and same(expected, answer["value"], tolerance),
        names=("StopIteration",) if "stop" in answer else _names(raised),
        text=_text(raised),
        unfit=str(answer["unfit"])[:MAX_SHOWN] if "unfit" in answer else None,
    )


def _text(raised: Any) -> str:
    if not isinstance(raised, dict):
        return ""
    return str(cast("dict[str, Any]", raised).get("text", ""))[:MAX_SHOWN]


def _names(raised: Any) -> tuple[str, ...]:
    """Return the names that the worker sent; the last is that of the nearest class of Python's own."""
    try:
        names = list(raised["names"])
    except (TypeError, KeyError):
        return ()
    # The last name must survive the cut: it decides which of Python's errors this counts as.
    return tuple(str(name)[:_MAX_NAME] for name in [*names[: _MAX_NAMES - 1], *names[_MAX_NAMES - 1 :][-1:]])
