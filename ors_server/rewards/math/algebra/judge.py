"""Decides whether two statements are equal; runs in a worker process.

A first round uses numbers alone; where they are unsure, a second, costly one uses SymPy (`symbolic_judge`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ors_server.rewards.math.algebra import constants, families
from ors_server.rewards.math.algebra.answer_statements import AnswerStatement
from ors_server.rewards.math.algebra.antiderivatives import is_indefinite
from ors_server.rewards.math.algebra.unsure import FAILURES, UnsureError, unsure
from ors_server.rewards.math.algebra.values import ClosedForm, same_values

Rule = Literal["values", "family", "constants", "set", "none"]


@dataclass(frozen=True, slots=True)
class Opinion:
    """The result of a comparison."""

    is_equal: bool | None
    """`None` if it cannot be decided."""
    rule: Rule
    """The rule that decided, or might decide."""
    why: str = ""
    """Why it cannot be decided."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The functions that need SymPy."""

    closed_form: ClosedForm
    same_set: Callable[[AnswerStatement, AnswerStatement], bool]


def judge(gold: AnswerStatement, answer: AnswerStatement, tools: Tools | None = None) -> Opinion:
    """Compare by the first rule that applies to both; without `tools`, by numbers alone."""
    rule: Rule = "none"
    try:
        for rule, decide in _RULES:
            is_equal = decide(gold, answer, tools)
            if is_equal is not None:
                return Opinion(is_equal, rule)
    except UnsureError as error:
        return Opinion(None, rule, str(error))
    except RecursionError:
        return Opinion(None, rule, "nested too deeply")
    except FAILURES as error:
        return Opinion(None, rule, str(unsure(error)))
    return Opinion(None, "none", "no rule fits")


def _by_family(gold: AnswerStatement, answer: AnswerStatement, _: Tools | None) -> bool | None:
    whole = families.parameters(gold, answer) if _are_values(gold, answer) else None
    return None if whole is None else families.same_family(gold, answer, *whole)


def _by_constants(gold: AnswerStatement, answer: AnswerStatement, _: Tools | None) -> bool | None:
    names = constants.constants(gold, answer) if _are_solutions(gold, answer) else None
    return None if names is None else constants.same_general(gold, answer, *names)


def _by_values(gold: AnswerStatement, answer: AnswerStatement, tools: Tools | None) -> bool | None:
    if not _are_values(gold, answer):
        return None
    declared = [name for name, _ in (*gold.declared.whole, *answer.declared.whole)]
    closed_form = None if tools is None else tools.closed_form
    return same_values(gold, answer, declared, closed_form)


def _by_set(gold: AnswerStatement, answer: AnswerStatement, tools: Tools | None) -> bool | None:
    """Compare a condition with another or with values; a bare equation describes no set."""
    if "condition" not in (gold.kind, answer.kind) or "equation" in (gold.kind, answer.kind):
        return None
    if tools is None:
        raise UnsureError("the places at which a condition changes")
    return tools.same_set(gold, answer)


def _are_values(gold: AnswerStatement, answer: AnswerStatement) -> bool:
    return gold.kind == answer.kind == "values" and gold.is_ordered == answer.is_ordered


def _are_solutions(gold: AnswerStatement, answer: AnswerStatement) -> bool:
    has_integral = any(map(is_indefinite, (*gold.items, *answer.items)))
    is_alike = gold.is_ordered == answer.is_ordered and not has_integral
    return is_alike and "condition" not in (gold.kind, answer.kind)


_RULES: tuple[tuple[Rule, Callable[[AnswerStatement, AnswerStatement, Tools | None], bool | None]], ...] = (
    ("family", _by_family),
    ("constants", _by_constants),
    ("values", _by_values),
    ("set", _by_set),
)
