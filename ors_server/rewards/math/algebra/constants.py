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
_MAX_CONSTANTS: Final = 4
_RELATIVE_TOLERANCE: Final = mpf(10) ** -18
_LEVELS: Final = mpf(10) ** -9
# Values of up to two constants for members that are fitted; arbitrary, without symmetry.
_TARGETS: Final = ((2.3, 1.7), (-1.4, 0.6), (0.7, -2.1))
# Several starts for each constant, since a fit may converge in one branch of a family only.
_STARTS: Final = (-2.5, -0.8, 0.9, 2.6)
_ROUNDS: Final = 40
_FITTED: Final = 1e-9

Vector = list[Any]
Curve = Callable[[Mapping[str, Any]], Vector]


def constants(
    gold: AnswerStatement, answer: AnswerStatement
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the constants of both sides, or `None` if the gold answer is not a general solution."""
    gold_names, answer_names = names_of(gold), names_of(answer)
    gold_constants, answer_constants = (
        _certain_constants(gold, gold_names),
        _certain_constants(answer, answer_names),
    )
    if not gold_constants and not answer_constants:
        gold_last, answer_last = _constant_of_integration(gold), _constant_of_integration(answer)
        variables = (gold_names - gold_last) | (answer_names - answer_last)
        # Both end in a constant of integration, and are functions of one variable.
        if gold_last and answer_last and len(variables) == 1 and variables <= _PLAIN_VARIABLES:
            gold_constants, answer_constants = gold_last, answer_last
    # Nothing marks constants: names that only one side has may be constants under another name.
    if not gold_constants and not answer_constants:
        renaming = renamed(gold, answer)
        return None if renaming is None else (tuple(sorted(renaming[0])), tuple(sorted(renaming[1])))
    # Known constants of one side make unknown letters of the other side constants.
    gold_constants |= {
        name for name in gold_names - answer_names if answer_constants and _POSSIBLE.fullmatch(name)
    }
    answer_constants |= {
        name for name in answer_names - gold_names if gold_constants and _POSSIBLE.fullmatch(name)
    }
    # The bound keeps fits and bases small.
    if not gold_constants or len(gold_constants) > _MAX_CONSTANTS or len(answer_constants) > _MAX_CONSTANTS:
        return None
    variables = (gold_names - gold_constants) | (answer_names - answer_constants)
    is_vector = bool(_declared(gold, gold_names) or _declared(answer, answer_names)) and not variables
    # Without a variable nothing distinguishes a family of functions from a formula with letters, unless it is
    # declared.
    are_usual = all(name in _PLAIN_VARIABLES or _VARIABLES.fullmatch(name) for name in variables)
    if not is_vector and not (variables and are_usual):
        return None
    return tuple(sorted(gold_constants)), tuple(sorted(answer_constants))


def _declared(statement: AnswerStatement, names: frozenset[str]) -> set[str]:
    return {name for name in statement.declared.constants if name in names}


def _certain_constants(statement: AnswerStatement, names: frozenset[str]) -> set[str]:
    """Return the names that are constants regardless of the other side."""
    introduced = _declared(statement, names) | {name for name in names if _NUMBERED.fullmatch(name)}
    usual = names & _USUAL
    # `C` or `c` is a constant only among plain variables; among other letters it may be a quantity.
    is_plain = len(usual) == 1 and names - usual - introduced <= _PLAIN_VARIABLES
    name = statement.name.name if isinstance(statement.name, Symbol | Unknown) else ""
    # `y = …`, or an equation in two variables.
    is_solved = statement.kind == "equation" or _SOLVED.fullmatch(name) is not None
    return introduced | usual if is_plain and is_solved else introduced


def _constant_of_integration(statement: AnswerStatement) -> set[str]:
    r"""Return the constant of integration: the last term of `\ln x + C`."""
    match statement.items:
        case (Add((*_, Symbol(name))),) if name in _USUAL:
            return {name}
        case _:
            return set()


def same_general(
    gold: AnswerStatement,
    answer: AnswerStatement,
    gold_constants: Sequence[str],
    answer_constants: Sequence[str],
) -> bool:
    """Return whether two general solutions are equal.

    `gold_constants` and `answer_constants` are the constants of either side.

    Raises:
        UnsureError: That cannot be decided.
    """
    if gold.kind == "equation" or answer.kind == "equation":
        return _same_levels(gold, answer, gold_constants, answer_constants)
    # The solutions would have to be paired, each with its own constants.
    if len(gold.items) != len(answer.items) or (len(gold.items) > 1 and not gold.is_ordered):
        raise UnsureError("several solutions with constants")
    # Linear families are compared in high precision, as spaces; others by fits in floats.
    with mp.workdps(DIGITS):
        first, second = _Family(gold.items, gold_constants), _Family(answer.items, answer_constants)
        places = _common_places(
            first, second, (names_of(gold) - set(gold_constants)) | (names_of(answer) - set(answer_constants))
        )
        if first.is_affine(places) and second.is_affine(places):
            return _same_span(first, second, places)
    # Two unknowns at most, for which the normal equations are solved by hand.
    if len(gold_constants) != len(answer_constants) or len(gold_constants) > len(_TARGETS[0]):
        return False
    # Both ways: one family may contain the other.
    return _fits(gold, answer, gold_constants, answer_constants) and _fits(
        answer, gold, answer_constants, gold_constants
    )


class _Family:
    """Functions with constants, evaluated at some places."""

    def __init__(self, items: Sequence[Node], names: Sequence[str]) -> None:
        self.names = names
        self._readers = [TreeEvaluator().read(item) for item in items]

    def at(self, places: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Vector:
        """Return all values, one function after another, for some values of the constants."""
        vector: Vector = []
        for sample in places:
            for reader in self._readers:
                value = value_of(reader, {**sample, **values})
                vector += list(value) if isinstance(value, mp.matrix) else [value]
        return vector

    def base(self, places: Sequence[Mapping[str, Any]]) -> tuple[Vector, list[Vector]]:
        """Return the function without constants, and the function by which each constant is multiplied."""
        nothing = dict.fromkeys(self.names, mp.zero)
        origin = self.at(places, nothing)
        steps = [_subtract(self.at(places, {**nothing, name: mp.one}), origin) for name in self.names]
        return origin, steps

    def is_affine(self, places: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether the constants enter linearly."""
        try:
            origin, steps = self.base(places)
            # Two shifts of all constants at once: products of constants would show.
            for shift in (mpf("2.7"), mpf("-1.3")):
                values = {name: shift * (index + 1) + index for index, name in enumerate(self.names)}
                measured = self.at(places, values)
                guess = origin
                for name, step in zip(self.names, steps, strict=True):
                    guess = [
                        predicted + values[name] * per_unit
                        for predicted, per_unit in zip(guess, step, strict=True)
                    ]
                if any(
                    # Written so that NaN is a difference.
                    not abs(actual - predicted) <= _RELATIVE_TOLERANCE * (1 + abs(actual))
                    for actual, predicted in zip(measured, guess, strict=True)
                ):
                    return False
        except UnsureError:
            return False
        return True


def _common_places(first: _Family, second: _Family, names: frozenset[str]) -> list[dict[str, Any]]:
    """Return places at which both have a value, enough of them to distinguish two spaces."""
    shared: list[dict[str, Any]] = []
    for number in range(2 * _MAX_CONSTANTS):
        # Shifted copies of the sample places, until there are enough for two spaces of four dimensions.
        shift = mpf(number) / 7
        for sample in places_for(names, frozenset()):
            shifted = {name: value + shift for name, value in sample.items()}
            try:
                for family in (first, second):
                    family.at([shifted], dict.fromkeys(family.names, mpf("1.25")))
            except UnsureError:
                continue
            shared.append(shifted)
        if len(shared) > 2 * _MAX_CONSTANTS:
            break
    if not shared:
        raise UnsureError("no place at which both have a value")
    return shared


def _subtract(first: Vector, second: Vector) -> Vector:
    if len(first) != len(second):
        raise UnsureError("vectors of different lengths")
    return [left - right for left, right in zip(first, second, strict=True)]


def _same_span(first: _Family, second: _Family, places: Sequence[Mapping[str, Any]]) -> bool:
    (origin, steps), (other_origin, other_steps) = first.base(places), second.base(places)
    if len(origin) != len(other_origin):
        return False
    basis, other_basis = _basis(steps), _basis(other_steps)
    if len(basis) != len(other_basis):
        return False
    # The spaces are equal if each step of one lies in the other's span, and so does the difference of
    # origins.
    return all(_is_in(step, basis) for step in other_steps) and _is_in(_subtract(other_origin, origin), basis)


def _basis(vectors: Sequence[Vector]) -> list[Vector]:
    """Return an orthonormal basis of the span of vectors (Gram and Schmidt)."""
    basis: list[Vector] = []
    for vector in vectors:
        rest = _remove_components(vector, basis)
        size = _norm(rest)
        if size > mpf(10) ** -12 * (_norm(vector) + _RELATIVE_TOLERANCE):
            basis.append([value / size for value in rest])
    return basis


def _remove_components(vector: Vector, basis: Sequence[Vector]) -> Vector:
    rest = vector
    # Twice, because one pass of Gram and Schmidt loses orthogonality to rounding.
    for unit in (*basis, *basis):
        part = mp.fsum(mp.conj(base) * component for base, component in zip(unit, rest, strict=True))
        rest = [entry - part * component for entry, component in zip(rest, unit, strict=True)]
    return rest


def _norm(vector: Vector) -> Any:
    return mp.sqrt(mp.fsum(abs(value) ** 2 for value in vector))


def _is_in(vector: Vector, basis: Sequence[Vector]) -> bool:
    return bool(_norm(_remove_components(vector, basis)) <= mpf(10) ** -15 * (1 + _norm(vector)))


# Constants that enter in other ways.


def _fits(
    gold: AnswerStatement,
    answer: AnswerStatement,
    gold_constants: Sequence[str],
    answer_constants: Sequence[str],
) -> bool:
    """Return whether each of some members of one family is a member of the other."""
    variables = sorted((names_of(gold) - set(gold_constants)) | (names_of(answer) - set(answer_constants)))
    # Floats, for the fit; shifted copies, so that there are more places than constants.
    places = [
        {name: float(value) + 0.03 * number for name, value in sample.items()}
        for number in range(2)
        for sample in places_for(frozenset(variables), frozenset())
    ]
    tried = 0
    for target in _TARGETS:
        member = dict(zip(gold_constants, target, strict=False))
        try:
            goal = _curve(gold, places)(member)
            few = _curve(gold, places[: len(answer_constants)])(member)
        except UnsureError:
            continue
        tried += 1
        first, whole = _curve(answer, places[: len(answer_constants)]), _curve(answer, places)
        # First through as many places as there are constants; from there through all places.
        if not any(
            (near := _descend(first, few, answer_constants, start))
            and _descend(whole, goal, answer_constants, near)
            for start in itertools.product(_STARTS, repeat=len(answer_constants))
        ):
            return False
    # A member without values says nothing; all of them without values decide nothing.
    if not tried:
        raise UnsureError("no member of a general solution has values")
    return True


def _curve(statement: AnswerStatement, places: Sequence[Mapping[str, Any]]) -> Curve:
    readers = [TreeEvaluator(fp).read(item) for item in statement.items]

    def curve(values: Mapping[str, Any]) -> Vector:
        outputs = [value_of(reader, {**sample, **values}) for sample in places for reader in readers]
        if not all(map(is_real, outputs)):
            raise UnsureError("a member that is not real")
        return [float(mp.re(value)) for value in outputs]

    return curve


def _descend(curve: Curve, goal: Vector, names: Sequence[str], start: Sequence[float]) -> list[float]:
    """Fit by Gauss and Newton, from one start; returns nothing if that fails."""
    values = list(start)
    for _ in range(_ROUNDS):
        try:
            gap = _subtract(curve(dict(zip(names, values, strict=True))), goal)
            if all(
                abs(deviation) <= _FITTED * (1 + abs(target))
                for deviation, target in zip(gap, goal, strict=True)
            ):
                return values
            slopes = [_slope(curve, names, values, index, gap, goal) for index in range(len(names))]
            step = _least_squares(slopes, gap)
        except (UnsureError, ZeroDivisionError, OverflowError):
            return []
        # Steps are clipped, so that one bad slope does not throw the fit far away.
        values = [value - max(-1.5, min(1.5, change)) for value, change in zip(values, step, strict=True)]
    return []


def _slope(
    curve: Curve, names: Sequence[str], values: list[float], index: int, gap: Vector, goal: Vector
) -> Vector:
    shifted = [value + 1e-7 * (position == index) for position, value in enumerate(values)]
    other = _subtract(curve(dict(zip(names, shifted, strict=True))), goal)
    return [(changed - start) / 1e-7 for changed, start in zip(other, gap, strict=True)]


def _least_squares(slopes: list[Vector], gap: Vector) -> list[float]:
    """Solve the normal equations of one or two unknowns."""

    def dot(first: Vector, second: Vector) -> float:
        return float(sum(a * b for a, b in zip(first, second, strict=True)))

    if len(slopes) == 1:
        return [dot(slopes[0], gap) / dot(slopes[0], slopes[0])]
    a, b, d = dot(slopes[0], slopes[0]), dot(slopes[0], slopes[1]), dot(slopes[1], slopes[1])
    first, second = dot(slopes[0], gap), dot(slopes[1], gap)
    scale = a * d - b * b
    return [(first * d - second * b) / scale, (a * second - b * first) / scale]


# Equations.


def _same_levels(
    gold: AnswerStatement,
    answer: AnswerStatement,
    gold_constants: Sequence[str],
    answer_constants: Sequence[str],
) -> bool:
    if len(gold_constants) != 1 or len(answer_constants) != 1:
        raise UnsureError("an equation with several constants")
    first, second = _as_gap(gold), _as_gap(answer)
    names = sorted((free_names(first) - {gold_constants[0]}) | (free_names(second) - {answer_constants[0]}))
    if len(names) != 2:  # noqa: PLR2004  (lines in a plane)
        raise UnsureError("an equation of other than two variables")
    agreed = 0
    with mp.workdps(DIGITS):
        for sample in places_for(frozenset(names), frozenset()):
            try:
                gold_slope = _level_slope(first, gold_constants[0], names, sample)
                other = _level_slope(second, answer_constants[0], names, sample)
            except UnsureError:
                continue
            if not agree(gold_slope, other, _LEVELS):
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


def _level_slope(tree: Node, constant: str, names: Sequence[str], sample: Mapping[str, Any]) -> Any:
    """Return the slope, at a place, of the line on which the constant keeps its value."""
    reader = TreeEvaluator().read(tree)

    def level(first: Any, second: Any) -> Any:
        here = {names[0]: first, names[1]: second}
        # The constant must enter linearly, or its level is not a function of the variables.
        at_zero, at_one, at_two = (value_of(reader, {**here, constant: mpf(value)}) for value in (1, 2, 3))
        if (
            not abs(at_two - 2 * at_one + at_zero) <= _RELATIVE_TOLERANCE * (abs(at_one) + 1)
            or at_one == at_zero
        ):
            raise UnsureError("a constant that enters in another way")
        return 1 - at_zero / (at_one - at_zero)

    first, second = (mpf(sample[name]) for name in names)
    across, up = mp.diff(level, (first, second), (1, 0)), mp.diff(level, (first, second), (0, 1))
    if not (is_real(across) and is_real(up)) or not up:
        raise UnsureError("no slope")
    return across / up
