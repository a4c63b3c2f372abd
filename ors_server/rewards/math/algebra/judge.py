"""Decides whether two statements say the same; runs in a worker process.

In two rounds, so that the costly one is asked for rarely: here by numbers alone, then with SymPy where these
are unsure (`symbolic_judge`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ors_server.rewards.math.algebra import constants, families
from ors_server.rewards.math.algebra.antiderivatives import is_indefinite
from ors_server.rewards.math.algebra.statements import Statement
from ors_server.rewards.math.algebra.unsure import FAILURES, UnsureError, unsure
from ors_server.rewards.math.algebra.values import ClosedForm, same_values

Rule = Literal["values", "family", "constants", "set", "none"]


@dataclass(frozen=True, slots=True)
class Opinion:
    """What was found."""

    is_equal: bool | None
    """None where it cannot be said."""
    rule: Rule
    """How it was decided, or might be."""
    why: str = ""
    """Why it cannot be said."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What SymPy adds."""

    closed_form: ClosedForm
    same_set: Callable[[Statement, Statement], bool]


def by_numbers(gold: Statement, answer: Statement) -> Opinion:
    """Judge without SymPy.

    Args:
        gold: The gold answer.
        answer: The answer.
    """
    return judge(gold, answer, None)


def judge(gold: Statement, answer: Statement, tools: Tools | None) -> Opinion:
    """Judge by the first rule that fits both.

    Args:
        gold: The gold answer.
        answer: The answer.
        tools: What SymPy adds, or nothing.
    """
    rule: Rule = "none"
    try:
        for rule, decide in _RULES:
            is_equal = decide(gold, answer, tools)
            if is_equal is not None:
                return Opinion(is_equal, rule)
    except UnsureError as error:
        return Opinion(None, rule, str(error))
    except RecursionError:
        return Opinion(None, rule, "nested too deep")
    except FAILURES as error:
        return Opinion(None, rule, str(unsure(error)))
    return Opinion(None, "none", "no rule fits")


def _by_family(gold: Statement, answer: Statement, _: Tools | None) -> bool | None:
    whole = families.parameters(gold, answer) if _are_values(gold, answer) else None
    return None if whole is None else families.same_family(gold, answer, *whole)


def _by_constants(gold: Statement, answer: Statement, _: Tools | None) -> bool | None:
    names = constants.constants(gold, answer) if _are_solutions(gold, answer) else None
    return None if names is None else constants.same_general(gold, answer, *names)


def _by_values(gold: Statement, answer: Statement, tools: Tools | None) -> bool | None:
    if not _are_values(gold, answer):
        return None
    declared = [name for name, _ in (*gold.declared.whole, *answer.declared.whole)]
    closed_form = None if tools is None else tools.closed_form
    return same_values(gold, answer, declared, closed_form)


def _by_set(gold: Statement, answer: Statement, tools: Tools | None) -> bool | None:
    """Compare a condition with another or with values; a bare equation describes no set."""
    if "condition" not in (gold.kind, answer.kind) or "equation" in (gold.kind, answer.kind):
        return None
    if tools is None:
        raise UnsureError("the places at which a condition changes")
    return tools.same_set(gold, answer)


def _are_values(gold: Statement, answer: Statement) -> bool:
    return gold.kind == answer.kind == "values" and gold.is_ordered == answer.is_ordered


def _are_solutions(gold: Statement, answer: Statement) -> bool:
    has_integral = any(map(is_indefinite, (*gold.items, *answer.items)))
    is_alike = gold.is_ordered == answer.is_ordered and not has_integral
    return is_alike and "condition" not in (gold.kind, answer.kind)


_RULES: tuple[tuple[Rule, Callable[[Statement, Statement, Tools | None], bool | None]], ...] = (
    ("family", _by_family),
    ("constants", _by_constants),
    ("values", _by_values),
    ("set", _by_set),
)
