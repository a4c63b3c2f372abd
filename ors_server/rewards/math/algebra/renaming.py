"""Finds undeclared constants and parameters, by their other names on the other side."""

import re
from typing import Final

from ors_server.rewards.math.algebra.answer_statements import AnswerStatement, free_names
from ors_server.rewards.math.tree import Constant, Function, Matrix, Node, Power, Symbol, children, contains

_PARAMETERS: Final = frozenset("stur") | {"lambda", "mu"}
"""Letters of parameters of lines and planes."""
_OTHERS: Final = _PARAMETERS | frozenset("abcdkmnpqv") | {"alpha", "beta"}
_USUAL: Final = re.compile(r"[CcK](?:_\d)?")
_POSSIBLE: Final = re.compile(r"[A-EK](?:_\d)?|c(?:_\d)?")
_VARIABLES: Final = frozenset("xtyn")

Names = tuple[set[str], set[str]]


def renamed(gold: AnswerStatement, answer: AnswerStatement) -> Names | None:
    """Return the constants or parameters of both sides, if their names differ.

    A letter of both sides means the same to both, and is neither.
    """
    gold_names, answer_names = names_of(gold), names_of(answer)
    return _constant(gold, answer, gold_names, answer_names) or _parameters(
        gold, answer, gold_names, answer_names
    )


def names_of(statement: AnswerStatement) -> frozenset[str]:
    """Return the free names of a statement's values."""
    return frozenset[str]().union(*map(free_names, statement.items))


def is_direction(gold: AnswerStatement, answer: AnswerStatement) -> bool:
    """Return whether both sides are points or vectors."""
    return (gold.is_ordered and answer.is_ordered) or all(
        len(side.items) == 1 and contains(side.items[0], Matrix) for side in (gold, answer)
    )


def _constant(
    gold: AnswerStatement, answer: AnswerStatement, gold_names: frozenset[str], answer_names: frozenset[str]
) -> Names | None:
    """Return the constant that differs between `T = 20 + Ae^{-kt}` and `T = 20 + Ce^{-kt}`."""
    gold_only, answer_only, shared = (
        gold_names - answer_names,
        answer_names - gold_names,
        gold_names & answer_names,
    )
    if gold.name is None or answer.name is None or len(gold_only) != 1 or len(answer_only) != 1:
        return None
    names = [*gold_only, *answer_only]
    if not all(map(_POSSIBLE.fullmatch, names)) or not any(map(_USUAL.fullmatch, names)):
        return None
    rates = shared - _VARIABLES
    if len(shared & _VARIABLES) != 1 or not rates:
        return None
    items = (*gold.items, *answer.items)
    return (
        (set(gold_only), set(answer_only)) if all(_is_in_exponents(item, rates) for item in items) else None
    )


def _is_in_exponents(node: Node, names: frozenset[str]) -> bool:
    match node:
        case Symbol(name):
            return name not in names
        case Power(Constant("e"), _) | Function("exp", _):
            return True
        case _:
            return all(_is_in_exponents(child, names) for child in children(node))


def _parameters(
    gold: AnswerStatement, answer: AnswerStatement, gold_names: frozenset[str], answer_names: frozenset[str]
) -> Names | None:
    """Return the parameters that differ between `(1 + t, 2t)` and `(1 + s, 2s)`."""
    if not gold_names or not answer_names or gold_names & answer_names or not is_direction(gold, answer):
        return None
    if not (gold_names <= _PARAMETERS and answer_names <= _OTHERS) and not (
        answer_names <= _PARAMETERS and gold_names <= _OTHERS
    ):
        return None
    if max(len(gold_names), len(answer_names)) >= min(_size(gold), _size(answer)):
        return None
    return set(gold_names), set(answer_names)


def _size(statement: AnswerStatement) -> int:
    if statement.is_ordered:
        return len(statement.items)
    sizes: list[int] = []
    pending = list(statement.items)
    while pending:
        node = pending.pop()
        if isinstance(node, Matrix):
            sizes.append(max(len(node.rows), len(node.rows[0])))
        else:
            pending.extend(children(node))
    return min(sizes, default=0)
