"""Both rounds, by numbers and then with SymPy; only the worker process imports this module.

SymPy loads much at its first integral, limit and sum. That is done when the worker starts, and counts against
no answer.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ors_server.rewards.math.algebra.answer_statements import AnswerStatement, free_names
from ors_server.rewards.math.algebra.judge import Opinion, Tools, judge
from ors_server.rewards.math.algebra.mpmath_contexts import mpf
from ors_server.rewards.math.algebra.solutions import same_set
from ors_server.rewards.math.algebra.symbolic import closed_form, value_at
from ors_server.rewards.math.algebra.unsure import FAILURES
from ors_server.rewards.math.algebra.values import Side
from ors_server.rewards.math.tree import (
    ONE,
    Add,
    Binder,
    Constant,
    Function,
    Multiply,
    Node,
    Number,
    Power,
    Symbol,
)

_ZERO, _INFINITY, _X = Number(0), Constant("inf"), Symbol("x")
_FIRST: tuple[Node, ...] = (
    Binder("int", "x", (_ZERO, _INFINITY), Multiply((Function("sin", (_X,)), Power(_X, Number(-1))))),
    Binder("int", "x", (_ZERO, ONE), Power(Add((ONE, _X)), Number(-1))),
    Binder("sum", "x", (ONE, _INFINITY), Power(_X, Number(-2))),
    Binder("lim", "x", (_INFINITY,), Function("atan", (_X,))),
)
"""Expressions that are computed when the worker starts."""


def _closed(node: Node, whole: frozenset[str]) -> Callable[[Mapping[str, Any]], Any]:
    expression, names = closed_form(node, whole)
    return lambda places: value_at(expression, names, places)


_TOOLS = Tools(_closed, same_set)


def decide(gold: AnswerStatement, answer: AnswerStatement) -> Opinion:
    """Compare by numbers, and with SymPy what they leave undecided."""
    opinion = judge(gold, answer)
    if opinion.is_equal is None and opinion.rule != "none":
        return judge(gold, answer, _TOOLS)
    return opinion


def by_itself(statement: AnswerStatement) -> bool:
    """Return whether a statement has values that can be computed."""
    try:
        return all(
            Side(item, frozenset(), _closed).at(dict.fromkeys(free_names(item), mpf("0.7"))) is not None
            for item in statement.items
        )
    except (RecursionError, *FAILURES):
        return False


for _node in _FIRST:
    closed_form(_node, frozenset())
