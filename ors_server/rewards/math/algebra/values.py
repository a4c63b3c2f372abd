"""Compares the values of two trees wherever both have one; runs in a worker process."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from ors_server.rewards.math.algebra.answer_statements import AnswerStatement, free_names
from ors_server.rewards.math.algebra.antiderivatives import is_indefinite, same_slope
from ors_server.rewards.math.algebra.evaluate import DIGITS, TreeEvaluator, value_of
from ors_server.rewards.math.algebra.mpmath_contexts import mp
from ors_server.rewards.math.algebra.sample_places import (
    agree,
    has_unit,
    is_real,
    places_for,
    tolerance,
    whole_names,
)
from ors_server.rewards.math.algebra.unsure import UnsureError
from ors_server.rewards.math.pairing import can_pair
from ors_server.rewards.math.tree import Constant, Node, Quantity, contains

_NAMED: Final[Mapping[str, Any]] = {"gamma": mp.euler, "G": mp.catalan, "phi": mp.phi, "varphi": mp.phi}
"""Constants that are written as letters, if only one side has the letter."""
_AGREEING_POINTS: Final = 2
_MAX_DOUBTS: Final = 2
"""Unsure values by numbers, after which a closed form is used."""

ClosedForm = Callable[[Node, frozenset[str]], Callable[[Mapping[str, Any]], Any]]
"""Converts a tree, by SymPy, to a function of the values of its names, some of them integers."""


class Side:
    """One tree and its values, by numbers or, where these are unsure, in closed form.

    The names in `whole` are of integers.
    """

    def __init__(self, node: Node, whole: frozenset[str], closed_form: ClosedForm | None) -> None:
        self._node = node
        self._whole = whole
        self._closed_form = closed_form
        self._closed: Callable[[Mapping[str, Any]], Any] | None = None
        self._doubts = 0

    def at(self, places: Mapping[str, Any]) -> Any:
        """Return the value at a place, or `None`."""
        if self._doubts < _MAX_DOUBTS:
            try:
                return value_of(TreeEvaluator().read(self._node), places)
            except UnsureError:
                self._doubts += 1 if self._closed_form is None else _MAX_DOUBTS
        if self._closed_form is None:
            return None
        try:
            if self._closed is None:
                self._closed = self._closed_form(self._node, self._whole)
            return self._closed(places)
        except UnsureError:
            return None


def same_value(gold: Node, answer: Node, whole: Iterable[str], closed_form: ClosedForm | None) -> bool:
    """Return whether two trees have the same value; the names in `whole` are declared to be of integers.

    Raises:
        UnsureError: That cannot be decided.
    """
    if gold == answer:
        return True
    gold, answer = _without_units(gold, answer)
    if is_indefinite(gold) or is_indefinite(answer):
        return same_slope(gold, answer)
    gold_names, answer_names = free_names(gold), free_names(answer)
    names = (gold_names | answer_names) - ((gold_names ^ answer_names) & _NAMED.keys())
    integers = (whole_names(gold) | whole_names(answer) | frozenset(whole)) & names
    sides = [Side(node, integers, closed_form) for node in (gold, answer)]
    part, is_complex = tolerance(gold, answer), has_unit(gold, answer)
    agreed = 0
    with mp.workdps(DIGITS):
        named = {name: +_NAMED[name] for name in gold_names ^ answer_names if name in _NAMED}
        for places in places_for(names, integers):
            first, second = (side.at({**places, **named}) for side in sides)
            if first is None or second is None:
                continue
            if not is_complex and not all(
                isinstance(value, mp.matrix) or is_real(value) for value in (first, second)
            ):
                continue
            if not agree(first, second, part):
                return False
            agreed += 1
            if agreed == _AGREEING_POINTS:
                break
    if agreed < min(_AGREEING_POINTS, len(names) + 1):
        raise UnsureError("too few places at which both have a value")
    return True


def _without_units(*nodes: Node) -> tuple[Node, ...]:
    """Drop a unit that only one side has; degrees are kept if the other side is in radians."""
    units = [node.unit if isinstance(node, Quantity) else "" for node in nodes]
    if all(units):
        if units[0] != units[1]:
            raise UnsureError("two units")
        return tuple(node.value if isinstance(node, Quantity) else node for node in nodes)
    has_pi = any(not isinstance(node, Quantity) and contains(node, Constant) for node in nodes)
    return tuple(
        node.value if isinstance(node, Quantity) and not (has_pi and node.unit == "°") else node
        for node in nodes
    )


def same_values(
    gold: AnswerStatement, answer: AnswerStatement, whole: Iterable[str], closed_form: ClosedForm | None
) -> bool:
    """Return whether two statements have the same values, in order if they are ordered.

    Raises:
        UnsureError: That cannot be decided.
    """
    if len(gold.items) != len(answer.items):
        return False
    if gold.is_ordered:
        pairs = zip(gold.items, answer.items, strict=True)
        return all(
            same_value(gold_value, answer_value, whole, closed_form) for gold_value, answer_value in pairs
        )
    return can_pair(gold.items, answer.items, partial(same_value, whole=whole, closed_form=closed_form))
