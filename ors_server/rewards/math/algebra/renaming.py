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
    mine, theirs = names_of(gold), names_of(answer)
    return _constant(gold, answer, mine, theirs) or _parameters(gold, answer, mine, theirs)


def names_of(statement: AnswerStatement) -> frozenset[str]:
    """Return the free names of a statement's values."""
    return frozenset[str]().union(*map(free_names, statement.items))


def is_direction(gold: AnswerStatement, answer: AnswerStatement) -> bool:
    """Return whether both sides are points or vectors."""
    return (gold.is_ordered and answer.is_ordered) or all(
        len(side.items) == 1 and contains(side.items[0], Matrix) for side in (gold, answer)
    )


def _constant(
    gold: AnswerStatement, answer: AnswerStatement, mine: frozenset[str], theirs: frozenset[str]
) -> Names | None:
    """Return the one constant of `T = 20 + Ae^{-kt}` beside `T = 20 + Ce^{-kt}`."""
    one, other, shared = mine - theirs, theirs - mine, mine & theirs
    if gold.name is None or answer.name is None or len(one) != 1 or len(other) != 1:
        return None
    names = [*one, *other]
    if not all(map(_POSSIBLE.fullmatch, names)) or not any(map(_USUAL.fullmatch, names)):
        return None
    rates = shared - _VARIABLES
    if len(shared & _VARIABLES) != 1 or not rates:
        return None
    items = (*gold.items, *answer.items)
    return (set(one), set(other)) if all(_is_in_exponents(item, rates) for item in items) else None


def _is_in_exponents(node: Node, names: frozenset[str]) -> bool:
    match node:
        case Symbol(name):
            return name not in names
        case Power(Constant("e"), _) | Function("exp", _):
            return True
        case _:
            return all(_is_in_exponents(child, names) for child in children(node))


def _parameters(
    gold: AnswerStatement, answer: AnswerStatement, mine: frozenset[str], theirs: frozenset[str]
) -> Names | None:
    """Return the parameters of `(1 + t, 2t)` beside `(1 + s, 2s)`."""
    if not mine or not theirs or mine & theirs or not is_direction(gold, answer):
        return None
    if not (mine <= _PARAMETERS and theirs <= _OTHERS) and not (theirs <= _PARAMETERS and mine <= _OTHERS):
        return None
    if max(len(mine), len(theirs)) >= min(_size(gold), _size(answer)):
        return None
    return set(mine), set(theirs)


def _size(statement: AnswerStatement) -> int:
    if statement.is_ordered:
        return len(statement.items)
    found: list[int] = []
    pending = list(statement.items)
    while pending:
        node = pending.pop()
        if isinstance(node, Matrix):
            found.append(max(len(node.rows), len(node.rows[0])))
        else:
            pending.extend(children(node))
    return min(found, default=0)
