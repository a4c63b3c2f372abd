"""Compares general solutions: functions that are equal up to the names and the choice of their constants.

If the constants enter linearly, two families of functions are equal if they are the same affine space.
Otherwise members of one are fitted by members of the other. Equations with one constant (`x^2 + y^2 = C`) are
equal if their level lines are.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ors_server.rewards.math.algebra.answer_statements import AnswerStatement, free_names
from ors_server.rewards.math.algebra.evaluate import DIGITS, TreeEvaluator, value_of
from ors_server.rewards.math.algebra.mpmath_contexts import fp, mp, mpf
from ors_server.rewards.math.algebra.renaming import names_of, renamed
from ors_server.rewards.math.algebra.sample_places import agree, is_real, places_for
from ors_server.rewards.math.algebra.unsure import UnsureError
from ors_server.rewards.math.tree import Add, Node, Symbol, Unknown, negate

_NUMBERED: Final = re.compile(r"[CcKk]_\d")
"""Names that are constants in every expression with a variable."""
_USUAL: Final = frozenset({"C", "c", "K"})
"""Names that are constants in `y = …`, and at the end of an integral, `… + C`."""
_POSSIBLE: Final = re.compile(
    r"[A-HKMNPQR](?:_\w+)?|[abcdk](?:_\w+)?|alpha|beta|varphi|phi|delta|lambda|mu|[st]"
)
"""Names that are constants if the other side has constants of other names."""
_VARIABLES: Final = re.compile(r"[t-zrs](?:_\w+)?|theta|phi|rho")
_PLAIN_VARIABLES: Final = frozenset("xtyzun") | {"theta"}
_SOLVED: Final = re.compile(r"[yxuvwzrfgNPQT](?:_\w+)?|theta")
"""Names of the solved variable."""
_MOST: Final = 4
_TINY: Final = mpf(10) ** -18
_LEVELS: Final = mpf(10) ** -9
_TARGETS: Final = ((2.3, 1.7), (-1.4, 0.6), (0.7, -2.1))
_STARTS: Final = (-2.5, -0.8, 0.9, 2.6)
_ROUNDS: Final = 40
_FITTED: Final = 1e-9

Vector = list[Any]
Curve = Callable[[Mapping[str, Any]], Vector]


def constants(
    gold: AnswerStatement, answer: AnswerStatement
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the constants of both sides, or `None` if the gold answer is not a general solution."""
    names, others = names_of(gold), names_of(answer)
    mine, theirs = _known(gold, names), _known(answer, others)
    if not mine and not theirs and _end_in_constants(gold, answer):
        mine, theirs = _last(gold), _last(answer)
    if not mine and not theirs:
        found = renamed(gold, answer)
        return None if found is None else (tuple(sorted(found[0])), tuple(sorted(found[1])))
    mine |= {name for name in names - others if theirs and _POSSIBLE.fullmatch(name)}
    theirs |= {name for name in others - names if mine and _POSSIBLE.fullmatch(name)}
    if not mine or len(mine) > _MOST or len(theirs) > _MOST:
        return None
    variables = (names - mine) | (others - theirs)
    is_vector = bool(_declared(gold, names) or _declared(answer, others)) and not variables
    if not is_vector and not (variables and all(map(_is_variable, variables))):
        return None
    return tuple(sorted(mine)), tuple(sorted(theirs))


def _is_variable(name: str) -> bool:
    return name in _PLAIN_VARIABLES or _VARIABLES.fullmatch(name) is not None


def _declared(statement: AnswerStatement, names: frozenset[str]) -> set[str]:
    return {name for name in statement.declared.constants if name in names}


def _known(statement: AnswerStatement, names: frozenset[str]) -> set[str]:
    """Return the names that are constants whatever the other side is."""
    known = _declared(statement, names) | {name for name in names if _NUMBERED.fullmatch(name)}
    usual = names & _USUAL
    is_plain = len(usual) == 1 and names - usual - known <= _PLAIN_VARIABLES
    return known | usual if is_plain and _is_solved(statement) else known


def _is_solved(statement: AnswerStatement) -> bool:
    """Return whether a statement is `y = …`, or an equation in two variables."""
    if statement.kind == "equation":
        return True
    name = statement.name.name if isinstance(statement.name, Symbol | Unknown) else ""
    return _SOLVED.fullmatch(name) is not None


def _last(statement: AnswerStatement) -> set[str]:
    r"""Return the constant of integration: the last term of `\ln x + C`."""
    match statement.items:
        case (Add((*_, Symbol(name))),) if name in _USUAL:
            return {name}
        case _:
            return set()


def _end_in_constants(gold: AnswerStatement, answer: AnswerStatement) -> bool:
    mine, theirs = _last(gold), _last(answer)
    variables = (names_of(gold) - mine) | (names_of(answer) - theirs)
    return bool(mine and theirs) and len(variables) == 1 and variables <= _PLAIN_VARIABLES


def same_general(
    gold: AnswerStatement, answer: AnswerStatement, mine: Sequence[str], theirs: Sequence[str]
) -> bool:
    """Return whether two general solutions are equal.

    `mine` and `theirs` are the constants of the gold answer and of the answer.

    Raises:
        UnsureError: That cannot be decided.
    """
    if gold.kind == "equation" or answer.kind == "equation":
        return _same_levels(gold, answer, mine, theirs)
    if len(gold.items) != len(answer.items) or (len(gold.items) > 1 and not gold.is_ordered):
        raise UnsureError("several solutions with constants")
    with mp.workdps(DIGITS):
        first, second = _Family(gold.items, mine), _Family(answer.items, theirs)
        places = _common_places(
            first, second, (names_of(gold) - set(mine)) | (names_of(answer) - set(theirs))
        )
        if first.is_affine(places) and second.is_affine(places):
            return _same_span(first, second, places)
    if len(mine) != len(theirs) or len(mine) > len(_TARGETS[0]):
        return False
    return _fits(gold, answer, mine, theirs) and _fits(answer, gold, theirs, mine)


class _Family:
    """Functions with constants, evaluated at some places."""

    def __init__(self, items: Sequence[Node], names: Sequence[str]) -> None:
        self.names = names
        self._readers = [TreeEvaluator().read(item) for item in items]

    def at(self, places: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Vector:
        """Return all values, one function after another, for some values of the constants."""
        vector: Vector = []
        for place in places:
            for reader in self._readers:
                value = value_of(reader, {**place, **values})
                vector += list(value) if isinstance(value, mp.matrix) else [value]
        return vector

    def base(self, places: Sequence[Mapping[str, Any]]) -> tuple[Vector, list[Vector]]:
        """Return the function without constants, and the function by which each constant is multiplied."""
        nothing = dict.fromkeys(self.names, mp.zero)
        origin = self.at(places, nothing)
        steps = [_minus(self.at(places, {**nothing, name: mp.one}), origin) for name in self.names]
        return origin, steps

    def is_affine(self, places: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether the constants enter linearly."""
        try:
            origin, steps = self.base(places)
            for shift in (mpf("2.7"), mpf("-1.3")):
                values = {name: shift * (index + 1) + index for index, name in enumerate(self.names)}
                found = self.at(places, values)
                guess = origin
                for name, step in zip(self.names, steps, strict=True):
                    guess = [one + values[name] * two for one, two in zip(guess, step, strict=True)]
                if any(
                    not abs(one - two) <= _TINY * (1 + abs(one))
                    for one, two in zip(found, guess, strict=True)
                ):
                    return False
        except UnsureError:
            return False
        return True


def _common_places(first: _Family, second: _Family, names: frozenset[str]) -> list[dict[str, Any]]:
    """Return places at which both have a value, enough of them to distinguish two spaces."""
    found: list[dict[str, Any]] = []
    for number in range(2 * _MOST):
        shift = mpf(number) / 7
        for place in places_for(names, frozenset()):
            moved = {name: value + shift for name, value in place.items()}
            try:
                for family in (first, second):
                    family.at([moved], dict.fromkeys(family.names, mpf("1.25")))
            except UnsureError:
                continue
            found.append(moved)
        if len(found) > 2 * _MOST:
            break
    if not found:
        raise UnsureError("no place at which both have a value")
    return found


def _minus(first: Vector, second: Vector) -> Vector:
    if len(first) != len(second):
        raise UnsureError("vectors of different lengths")
    return [one - two for one, two in zip(first, second, strict=True)]


def _same_span(first: _Family, second: _Family, places: Sequence[Mapping[str, Any]]) -> bool:
    (origin, steps), (other_origin, other_steps) = first.base(places), second.base(places)
    if len(origin) != len(other_origin):
        return False
    mine, theirs = _basis(steps), _basis(other_steps)
    if len(mine) != len(theirs):
        return False
    return all(_is_in(step, mine) for step in other_steps) and _is_in(_minus(other_origin, origin), mine)


def _basis(vectors: Sequence[Vector]) -> list[Vector]:
    """Return an orthonormal basis of the span of vectors (Gram and Schmidt)."""
    found: list[Vector] = []
    for vector in vectors:
        rest = _without(vector, found)
        size = _norm(rest)
        if size > mpf(10) ** -12 * (_norm(vector) + _TINY):
            found.append([value / size for value in rest])
    return found


def _without(vector: Vector, basis: Sequence[Vector]) -> Vector:
    rest = vector
    for unit in (*basis, *basis):
        part = mp.fsum(mp.conj(one) * two for one, two in zip(unit, rest, strict=True))
        rest = [one - part * two for one, two in zip(rest, unit, strict=True)]
    return rest


def _norm(vector: Vector) -> Any:
    return mp.sqrt(mp.fsum(abs(value) ** 2 for value in vector))


def _is_in(vector: Vector, basis: Sequence[Vector]) -> bool:
    return bool(_norm(_without(vector, basis)) <= mpf(10) ** -15 * (1 + _norm(vector)))


# Constants that enter in other ways.


def _fits(gold: AnswerStatement, answer: AnswerStatement, mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Return whether each of some members of one family is a member of the other."""
    variables = sorted((names_of(gold) - set(mine)) | (names_of(answer) - set(theirs)))
    places = [
        {name: float(value) + 0.03 * number for name, value in place.items()}
        for number in range(2)
        for place in places_for(frozenset(variables), frozenset())
    ]
    tried = 0
    for target in _TARGETS:
        member = dict(zip(mine, target, strict=False))
        try:
            goal = _curve(gold, places)(member)
            few = _curve(gold, places[: len(theirs)])(member)
        except UnsureError:
            continue
        tried += 1
        first, whole = _curve(answer, places[: len(theirs)]), _curve(answer, places)
        if not any(
            (near := _descend(first, few, theirs, start)) and _descend(whole, goal, theirs, near)
            for start in itertools.product(_STARTS, repeat=len(theirs))
        ):
            return False
    if not tried:
        raise UnsureError("no member of a general solution has values")
    return True


def _curve(statement: AnswerStatement, places: Sequence[Mapping[str, Any]]) -> Curve:
    readers = [TreeEvaluator(fp).read(item) for item in statement.items]

    def curve(values: Mapping[str, Any]) -> Vector:
        found = [value_of(reader, {**place, **values}) for place in places for reader in readers]
        if not all(map(is_real, found)):
            raise UnsureError("a member that is not real")
        return [float(mp.re(value)) for value in found]

    return curve


def _descend(curve: Curve, goal: Vector, names: Sequence[str], start: Sequence[float]) -> list[float]:
    """Fit by Gauss and Newton, from one start; returns nothing if that fails."""
    values = list(start)
    for _ in range(_ROUNDS):
        try:
            gap = _minus(curve(dict(zip(names, values, strict=True))), goal)
            if all(abs(one) <= _FITTED * (1 + abs(two)) for one, two in zip(gap, goal, strict=True)):
                return values
            slopes = [_slope(curve, names, values, index, gap, goal) for index in range(len(names))]
            step = _least_squares(slopes, gap)
        except (UnsureError, ZeroDivisionError, OverflowError):
            return []
        values = [value - max(-1.5, min(1.5, change)) for value, change in zip(values, step, strict=True)]
    return []


def _slope(
    curve: Curve, names: Sequence[str], values: list[float], index: int, gap: Vector, goal: Vector
) -> Vector:
    moved = [value + 1e-7 * (place == index) for place, value in enumerate(values)]
    other = _minus(curve(dict(zip(names, moved, strict=True))), goal)
    return [(one - two) / 1e-7 for one, two in zip(other, gap, strict=True)]


def _least_squares(slopes: list[Vector], gap: Vector) -> list[float]:
    """Solve the normal equations of one or two unknowns."""

    def dot(vector: Vector, two: Vector) -> float:
        return float(sum(a * b for a, b in zip(vector, two, strict=True)))

    if len(slopes) == 1:
        return [dot(slopes[0], gap) / dot(slopes[0], slopes[0])]
    a, b, d = dot(slopes[0], slopes[0]), dot(slopes[0], slopes[1]), dot(slopes[1], slopes[1])
    first, second = dot(slopes[0], gap), dot(slopes[1], gap)
    scale = a * d - b * b
    return [(first * d - second * b) / scale, (a * second - b * first) / scale]


# Equations.


def _same_levels(
    gold: AnswerStatement, answer: AnswerStatement, mine: Sequence[str], theirs: Sequence[str]
) -> bool:
    if len(mine) != 1 or len(theirs) != 1:
        raise UnsureError("an equation with several constants")
    first, second = _as_gap(gold), _as_gap(answer)
    names = sorted((free_names(first) - {mine[0]}) | (free_names(second) - {theirs[0]}))
    if len(names) != 2:  # noqa: PLR2004  (lines in a plane)
        raise UnsureError("an equation of other than two variables")
    agreed = 0
    with mp.workdps(DIGITS):
        for place in places_for(frozenset(names), frozenset()):
            try:
                one = _level_slope(first, mine[0], names, place)
                other = _level_slope(second, theirs[0], names, place)
            except UnsureError:
                continue
            if not agree(one, other, _LEVELS):
                return False
            agreed += 1
    if agreed < 2:  # noqa: PLR2004  (one place may agree accidentally)
        raise UnsureError("too few places at which both have a slope")
    return True


def _as_gap(statement: AnswerStatement) -> Node:
    if statement.kind == "equation":
        left, right = statement.items
        return Add((left, negate(right)))
    name = statement.name
    if isinstance(name, Unknown):
        name = Symbol(name.name)
    if statement.kind != "values" or len(statement.items) != 1 or not isinstance(name, Symbol):
        raise UnsureError("no equation")
    return Add((name, negate(statement.items[0])))


def _level_slope(tree: Node, constant: str, names: Sequence[str], place: Mapping[str, Any]) -> Any:
    """Return the slope, at a place, of the line on which the constant keeps its value."""
    reader = TreeEvaluator().read(tree)

    def level(first: Any, second: Any) -> Any:
        here = {names[0]: first, names[1]: second}
        at_zero, at_one, at_two = (value_of(reader, {**here, constant: mpf(value)}) for value in (1, 2, 3))
        if not abs(at_two - 2 * at_one + at_zero) <= _TINY * (abs(at_one) + 1) or at_one == at_zero:
            raise UnsureError("a constant that enters in another way")
        return 1 - at_zero / (at_one - at_zero)

    first, second = (mpf(place[name]) for name in names)
    across, up = mp.diff(level, (first, second), (1, 0)), mp.diff(level, (first, second), (0, 1))
    if not (is_real(across) and is_real(up)) or not up:
        raise UnsureError("no slope")
    return across / up
