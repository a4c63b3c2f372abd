"""Reads the answer of an agent's function, and compares its value with the expected one. No I/O.

Long answers are read in a worker process. Values are compared as two trees, type by type; the answer's tree
may have any origin. Types must agree: True is not 1, 1 is not 1.0, a list is not a tuple, a set not a
frozenset. One exception: an int of the same value passes where a float is expected.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from ors_server.grading.encoding import DecodingError, from_text

MAX_SHOWN_CHARACTERS = 200
"""Characters of an error's text or name that a report repeats."""
_MAX_NAMES = 1_000
_MAX_NAME = 1_000


_LEFTOVERS = 200
"""Elements of a set that may differ by rounding; more are not searched for pairs."""
_MAX_FLOAT_INTEGER = 1e308

Tree: TypeAlias = Any


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
        unfit=str(answer["unfit"])[:MAX_SHOWN_CHARACTERS] if "unfit" in answer else None,
    )


def _text(raised: Any) -> str:
    if not isinstance(raised, dict):
        return ""
    return str(cast("dict[str, Any]", raised).get("text", ""))[:MAX_SHOWN_CHARACTERS]


def _names(raised: Any) -> tuple[str, ...]:
    """Return the names that the worker sent; the last is that of the nearest class of Python's own."""
    try:
        names = list(raised["names"])
    except (TypeError, KeyError):
        return ()
    # The last name must survive the cut: it decides which of Python's errors this counts as.
    return tuple(str(name)[:_MAX_NAME] for name in [*names[: _MAX_NAMES - 1], *names[_MAX_NAMES - 1 :][-1:]])


def same(expected: Tree, answer: Tree, tolerance: float) -> bool:
    """Return whether an answer is the expected value.

    Args:
        tolerance: Largest difference of a float, relative to the expected one; absolute if 0 is expected.
    """
    try:
        return _same(expected, answer, tolerance)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return False  # the answer's tree is not the tree of a value


def _same(expected: Tree, answer: Tree, tolerance: float) -> bool:
    tag, content = _split(expected)
    other_tag, other = _split(answer)
    if tag == "f":
        # A larger integer cannot be converted to a float.
        if other_tag not in {"f", "int"} or (other_tag == "int" and abs(other) > _MAX_FLOAT_INTEGER):
            return False
        number = float.fromhex(other) if other_tag == "f" else float(other)
        return _close(float.fromhex(content), number, tolerance)
    if tag != other_tag:
        return False
    if tag in _ORDERED:
        return len(content) == len(other) and all(
            _same(left, right, tolerance) for left, right in zip(content, other, strict=True)
        )
    compare = _BY_TAG.get(tag)
    return content == other if compare is None else compare(content, other, tolerance)


_ORDERED = {"list", "t"}


def _split(tree: Tree) -> tuple[str, Any]:
    if isinstance(tree, dict):
        ((tag, content),) = cast("dict[str, Any]", tree).items()
        return ("int", int(content, 16)) if tag == "i" else (tag, content)
    name = "none" if tree is None else type(tree).__name__
    if name not in {"none", "bool", "int", "str", "list"}:
        raise TypeError(name)
    return name, tree


def _close(expected: float, answer: float, tolerance: float) -> bool:
    if math.isnan(expected):
        return math.isnan(answer)
    if not (math.isfinite(expected) and math.isfinite(answer)):
        return expected == answer
    return abs(expected - answer) <= tolerance * (abs(expected) or 1.0)


def _same_complex(expected: Any, other: Any, tolerance: float) -> bool:
    return len(other) == len(expected) and all(
        _close(float.fromhex(left), float.fromhex(right), tolerance)
        for left, right in zip(expected, other, strict=True)
    )


def _same_set(expected: list[Tree], other: list[Tree], tolerance: float) -> bool:
    wanted, got = _by_text(expected), _by_text(other)
    if len(expected) != len(other) or len(got) != len(other):
        return False
    missing = [tree for text, tree in wanted.items() if text not in got]
    extra = [tree for text, tree in got.items() if text not in wanted]
    if len(missing) > _LEFTOVERS:
        return False
    for tree in missing:
        # Greedy, without backtracking: elements that are within the tolerance of several answers may find
        # none.
        pair = next(
            (index for index, candidate in enumerate(extra) if _same(tree, candidate, tolerance)), None
        )
        if pair is None:
            return False
        extra.pop(pair)
    return not extra


def _same_dict(expected: list[Any], other: list[Any], tolerance: float) -> bool:
    wanted = {_digest(key): value for key, value in expected}
    got = {_digest(key): value for key, value in other}
    if len(got) != len(other) or wanted.keys() != got.keys():
        return False
    return all(_same(value, got[key], tolerance) for key, value in wanted.items())


def _by_text(trees: list[Tree]) -> dict[str, Tree]:
    return {_digest(tree): tree for tree in trees}


def _digest(tree: Tree) -> str:
    """Return one short text per value; the order of its sets and dicts does not matter."""
    return hashlib.sha256(json.dumps(_ordered(tree)).encode()).hexdigest()


def _ordered(tree: Tree) -> Any:
    tag, content = _split(tree)
    if tag == "f":
        return [tag, repr(float.fromhex(content) + 0.0)]  # one zero
    if tag == "int":
        return [tag, f"{content:x}"]
    if tag in _ORDERED:
        return [tag, [_ordered(item) for item in content]]
    if tag in {"s", "z"}:
        return [tag, sorted(_digest(item) for item in content)]
    if tag == "d":
        return [tag, sorted([_digest(key), _digest(value)] for key, value in content)]
    return [tag, content]


_BY_TAG = {"c": _same_complex, "s": _same_set, "z": _same_set, "d": _same_dict}
