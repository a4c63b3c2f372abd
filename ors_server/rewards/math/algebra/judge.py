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
        for rule in _RULES:
            is_equal = _compare_by(rule, gold, answer, tools)
            if is_equal is not None:
                return Opinion(is_equal, rule)
    except UnsureError as error:
        return Opinion(None, rule, str(error))
    except RecursionError:
        return Opinion(None, rule, "nested too deeply")
    except FAILURES as error:
        return Opinion(None, rule, str(unsure(error)))
    return Opinion(None, "none", "no rule fits")


def _compare_by(
    rule: Rule, gold: AnswerStatement, answer: AnswerStatement, tools: Tools | None
) -> bool | None:
    """Return the verdict of one rule; `None` if it does not apply."""
    kinds = (gold.kind, answer.kind)
    are_ordered_alike = gold.is_ordered == answer.is_ordered
    are_values = kinds == ("values", "values") and are_ordered_alike
    match rule:
        case "family" if are_values:
            whole = families.parameters(gold, answer)
            return None if whole is None else families.same_family(gold, answer, *whole)
        case "constants" if are_ordered_alike and "condition" not in kinds:
            # An integral without bounds has its own constant, and is compared as a value.
            has_integral = any(map(is_indefinite, (*gold.items, *answer.items)))
            names = None if has_integral else constants.constants(gold, answer)
            return None if names is None else constants.same_general(gold, answer, *names)
        case "values" if are_values:
            declared = [name for name, _ in (*gold.declared.whole, *answer.declared.whole)]
            return same_values(gold, answer, declared, None if tools is None else tools.closed_form)
        # A condition is compared with another or with values; a bare equation describes no set.
        case "set" if "condition" in kinds and "equation" not in kinds:
            if tools is None:
                raise UnsureError("the places at which a condition changes")
            return tools.same_set(gold, answer)
        case _:
            return None


_RULES: tuple[Rule, ...] = ("family", "constants", "values", "set")
