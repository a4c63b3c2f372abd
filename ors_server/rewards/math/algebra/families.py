r"""Compares sets of values with integer parameters: `\frac{\pi}{2} + n\pi`, with any name for the parameter.

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
    gold_names, answer_names = names_of(gold), names_of(answer)
    gold_least = {name: least for name, least in gold.declared.whole if name in gold_names}
    answer_least = {name: least for name, least in answer.declared.whole if name in answer_names}
    if not gold_least and not answer_least:
        gold_least, answer_least = _undeclared(gold, answer, gold_names, answer_names)
    if gold_least and not answer_least:
        answer_least = _match_parameters(gold_least, gold_names, answer_names)
    elif answer_least and not gold_least:
        gold_least = _match_parameters(answer_least, answer_names, gold_names)
    if not gold_least and not answer_least:
        return None
    if _is_sequence(gold.name, gold_least) or _is_sequence(answer.name, answer_least):
        return None
    return gold_least, answer_least


def _match_parameters(least: Least, names: frozenset[str], other_names: frozenset[str]) -> Least:
    """Return the parameters of the side that declares none: the same letters, or as many others."""
    if least.keys() <= other_names:
        return dict(least)
    rest = sorted((other_names - names) & _PARAMETERS)
    return dict(zip(rest, least.values(), strict=True)) if len(rest) == len(least) else {}


def _undeclared(
    gold: AnswerStatement, answer: AnswerStatement, names: frozenset[str], answer_names: frozenset[str]
) -> tuple[Least, Least]:
    """Return undeclared parameters; both sides may then have no other letters."""
    gold_turning = frozenset(name for item in gold.items for name in _names_of_turns(item))
    answer_turning = frozenset(name for item in answer.items for name in _names_of_turns(item))
    is_renamed = (
        gold_turning and answer_turning and not gold_turning & answer_names and not answer_turning & names
    )
    is_angle = isinstance(gold.name, Symbol) and gold.name.name in _ANGLES
    if (
        gold_turning == names
        and answer_turning == answer_names
        and gold_turning
        and answer_turning
        and (is_renamed or is_angle)
    ):
        return dict.fromkeys(sorted(gold_turning)), dict.fromkeys(sorted(answer_turning))
    return {}, {}


def _names_of_turns(node: Node) -> set[str]:
    """Return the letters that multiply π or degrees, or are in an exponent of -1."""
    match node:
        case Multiply(factors) if any(map(_is_turn, factors)):
            return {name for factor in factors for name in _linear(factor)}
        case Quantity(inner, "°"):
            return _linear(inner) | _names_of_turns(inner)
        case Power(Number(-1), exponent):
            return _linear(exponent)
        case Add() | Multiply():
            return set[str]().union(*map(_names_of_turns, children(node)))
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


def same_family(
    gold: AnswerStatement, answer: AnswerStatement, gold_least: Least, answer_least: Least
) -> bool:
    """Return whether two families have the same members, by the parameters of either side.

    Raises:
        UnsureError: That cannot be decided.
    """
    has_naturals = NATURAL in (*gold_least.values(), *answer_least.values())
    return any(
        _same_from(gold, answer, _from(gold_least, start), _from(answer_least, start))
        for start in ((0, 1) if has_naturals else (0,))
    )


def _from(parameters_: Least, start: int) -> Least:
    return {name: start if least == NATURAL else least for name, least in parameters_.items()}


def _same_from(
    gold: AnswerStatement, answer: AnswerStatement, gold_least: Least, answer_least: Least
) -> bool:
    rest = (names_of(gold) - gold_least.keys()) | (names_of(answer) - answer_least.keys())
    with mp.workdps(DIGITS):
        places = next(places_for(rest, frozenset()))
        return _is_within(
            _members(gold, gold_least, _NARROW, places), _members(answer, answer_least, _WIDE, places)
        ) and _is_within(
            _members(answer, answer_least, _NARROW, places), _members(gold, gold_least, _WIDE, places)
        )


def _is_within(some: list[Any], reference: list[Any]) -> bool:
    near = {_key(value, shift) for value in reference for shift in (0, 1)}
    return all(_key(value, 0) in near or _key(value, 1) in near for value in some)


def _key(value: Any, shift: int) -> tuple[int, int, int]:
    """Return a cell of a grid; two values that agree share one of two grids that are half a cell apart."""
    scale = mpf(10) ** 12
    offset = mpf("0.25") + mpf(shift) / 2  # so that whole numbers are on no edge
    return shift, int(mp.floor(mp.re(value) * scale + offset)), int(mp.floor(mp.im(value) * scale + offset))


def _members(
    statement: AnswerStatement, least: Least, widths: dict[int, int], places: dict[str, Any]
) -> list[Any]:
    members: list[Any] = []
    for item in statement.items:
        names = sorted(free_names(item) & least.keys())
        if len(names) > max(widths):
            raise UnsureError("more than two parameters")
        reader = TreeEvaluator().read(item)
        members += [value_of(reader, {**places, **values}) for values in _grid(names, least, widths)]
    if any(isinstance(value, mp.matrix) for value in members):
        raise UnsureError("a family of matrices")
    return members


def _grid(names: list[str], least: Least, widths: dict[int, int]) -> Iterator[dict[str, Any]]:
    width = widths[max(1, len(names))]
    ranges = [
        range(-width, width + 1) if (low := least[name]) is None else range(low, low + 2 * width)
        for name in names
    ]
    for values in itertools.product(*ranges):
        yield {name: mpf(value) for name, value in zip(names, values, strict=True)}
