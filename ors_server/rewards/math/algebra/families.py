r"""Compares sets of values with integer parameters: `\frac{\pi}{2} + n\pi`, whatever the parameter's name.

Two are equal if every member of one, for small parameters, is a member of the other for larger ones, and the
other way round. Natural numbers begin at 0 or at 1, whichever makes both equal.
"""

import itertools
from collections.abc import Iterator
from typing import Any, Final

from ors_server.rewards.math.algebra.answer_statements import AnswerStatement, free_names
from ors_server.rewards.math.algebra.declarations import NATURAL
from ors_server.rewards.math.algebra.evaluate import DIGITS, TreeEvaluator, value_of
from ors_server.rewards.math.algebra.mpmath_contexts import mp, mpf
from ors_server.rewards.math.algebra.renaming import names_of
from ors_server.rewards.math.algebra.sample_places import places_for
from ors_server.rewards.math.algebra.unsure import UnsureError
from ors_server.rewards.math.tree import (
    Add,
    Constant,
    Multiply,
    Node,
    Number,
    Power,
    Quantity,
    Symbol,
    children,
)

_PARAMETERS: Final = frozenset("knmljpqrstzNKMZ")
_ANGLES: Final = frozenset({"x", "theta", "t", "z", "alpha", "phi", "varphi", "beta", "y", "u", "w"})
_NARROW: Final = {1: 8, 2: 3}
_WIDE: Final = {1: 60, 2: 14}
_PART: Final = mpf(10) ** -15

Least = dict[str, int | None]


def parameters(gold: AnswerStatement, answer: AnswerStatement) -> tuple[Least, Least] | None:
    r"""Return the parameters of both sides with their least values, or `None` if these are not families.

    A declared letter is a parameter. If neither side declares one, the letter of `n\pi`, `360^\circ n` and
    `(-1)^n` is, provided that the other side has another letter, or the gold answer names an angle or an
    unknown.
    """
    names, others = names_of(gold), names_of(answer)
    mine = {name: least for name, least in gold.declared.whole if name in names}
    theirs = {name: least for name, least in answer.declared.whole if name in others}
    if not mine and not theirs:
        mine, theirs = _undeclared(gold, answer, names, others)
    if mine and not theirs:
        theirs = _like(mine, names, others)
    elif theirs and not mine:
        mine = _like(theirs, others, names)
    if not mine and not theirs:
        return None
    if _is_sequence(gold.name, mine) or _is_sequence(answer.name, theirs):
        return None
    return mine, theirs


def _like(least: Least, names: frozenset[str], others: frozenset[str]) -> Least:
    """Return the parameters of the side that declares none: the same letters, or as many others."""
    if least.keys() <= others:
        return dict(least)
    rest = sorted((others - names) & _PARAMETERS)
    return dict(zip(rest, least.values(), strict=True)) if len(rest) == len(least) else {}


def _undeclared(
    gold: AnswerStatement, answer: AnswerStatement, names: frozenset[str], others: frozenset[str]
) -> tuple[Least, Least]:
    """Return undeclared parameters; both sides may then have no other letters."""
    mine = frozenset(name for item in gold.items for name in _turning(item))
    theirs = frozenset(name for item in answer.items for name in _turning(item))
    is_renamed = mine and theirs and not mine & others and not theirs & names
    is_angle = isinstance(gold.name, Symbol) and gold.name.name in _ANGLES
    if mine == names and theirs == others and mine and theirs and (is_renamed or is_angle):
        return dict.fromkeys(sorted(mine)), dict.fromkeys(sorted(theirs))
    return {}, {}


def _turning(node: Node) -> set[str]:
    """Return the letters that multiply π or degrees, or are in an exponent of -1."""
    match node:
        case Multiply(factors) if any(map(_is_turn, factors)):
            return {name for factor in factors for name in _linear(factor)}
        case Quantity(inner, "°"):
            return _linear(inner) | _turning(inner)
        case Power(Number(-1), exponent):
            return _linear(exponent)
        case Add() | Multiply():
            return set[str]().union(*map(_turning, children(node)))
        case _:
            return set()


def _linear(node: Node) -> set[str]:
    """Return the parameters of `k`, `2k + 1`, `3(k - 1)`, `k/4`."""
    match node:
        case Symbol(name):
            return {name} & _PARAMETERS
        case Add(parts) | Multiply(parts):
            return set[str]().union(*map(_linear, parts))
        case _:
            return set()


def _is_turn(node: Node) -> bool:
    match node:
        case Constant("pi") | Quantity(_, "°"):
            return True
        case Multiply(factors):
            return any(map(_is_turn, factors))
        case _:
            return False


def _is_sequence(name: Node | None, parameters_: Least) -> bool:
    """Return whether the parameter numbers the named value: `a_n = 2n + 1`."""
    if isinstance(name, Symbol):
        return name.name.partition("_")[2] in parameters_
    return name is not None and bool(free_names(name) & parameters_.keys())


def same_family(gold: AnswerStatement, answer: AnswerStatement, least: Least, theirs: Least) -> bool:
    """Return whether two families have the same members; `mine` and `theirs` are their parameters.

    Raises:
        UnsureError: That cannot be decided.
    """
    has_naturals = NATURAL in (*least.values(), *theirs.values())
    return any(
        _same_from(gold, answer, _from(least, start), _from(theirs, start))
        for start in ((0, 1) if has_naturals else (0,))
    )


def _from(parameters_: Least, start: int) -> Least:
    return {name: start if least == NATURAL else least for name, least in parameters_.items()}


def _same_from(gold: AnswerStatement, answer: AnswerStatement, least: Least, theirs: Least) -> bool:
    rest = (names_of(gold) - least.keys()) | (names_of(answer) - theirs.keys())
    with mp.workdps(DIGITS):
        places = next(places_for(rest, frozenset()))
        return _is_within(
            _members(gold, least, _NARROW, places), _members(answer, theirs, _WIDE, places)
        ) and _is_within(_members(answer, theirs, _NARROW, places), _members(gold, least, _WIDE, places))


def _is_within(some: list[Any], others: list[Any]) -> bool:
    near = {_key(value, shift) for value in others for shift in (0, 1)}
    return all(_key(value, 0) in near or _key(value, 1) in near for value in some)


def _key(value: Any, shift: int) -> tuple[int, int, int]:
    """Return a cell of a grid; two values that agree share one of two grids that are half a cell apart."""
    scale = mpf(10) ** 12
    offset = mpf("0.25") + mpf(shift) / 2  # so that whole numbers are on no edge
    return shift, int(mp.floor(mp.re(value) * scale + offset)), int(mp.floor(mp.im(value) * scale + offset))


def _members(
    statement: AnswerStatement, least: Least, widths: dict[int, int], places: dict[str, Any]
) -> list[Any]:
    found: list[Any] = []
    for item in statement.items:
        names = sorted(free_names(item) & least.keys())
        if len(names) > max(widths):
            raise UnsureError("more than two parameters")
        reader = TreeEvaluator().read(item)
        found += [value_of(reader, {**places, **values}) for values in _grid(names, least, widths)]
    if any(isinstance(value, mp.matrix) for value in found):
        raise UnsureError("a family of matrices")
    return found


def _grid(names: list[str], least: Least, widths: dict[int, int]) -> Iterator[dict[str, Any]]:
    width = widths[max(1, len(names))]
    ranges = [
        range(-width, width + 1) if (low := least[name]) is None else range(low, low + 2 * width)
        for name in names
    ]
    for values in itertools.product(*ranges):
        yield {name: mpf(value) for name, value in zip(names, values, strict=True)}
