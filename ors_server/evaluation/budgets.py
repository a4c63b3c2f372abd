"""Budgets of attempts and runs, and meters that count what is used up."""

import math
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TypeVar

from ors_server.evaluation.runs import Attempt, AttemptStatus
from ors_server.model.errors import ClientError


class Limit(StrEnum):
    """The budget that was spent, as a stop reason."""

    STEPS = "step_budget"
    TOKENS = "token_budget"
    COST = "cost_budget"
    SECONDS = "time_budget"
    ERRORS = "error_budget"


class BudgetSpentError(Exception):
    """An attempt has used up its budget; its agent stops."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(f"the attempt's {limit.value.replace('_', ' ')} is spent")
        self.limit = limit


class BudgetError(ClientError):
    """A budget is not a positive number, or cannot be kept."""

    code = "budget"


@dataclass(frozen=True, slots=True)
class UsageBudget:
    """The maximum that may be used up; `None` sets no limit."""

    steps: int | None = None
    """Tool calls."""
    tokens: int | None = None
    """Read and written, together."""
    cost: float | None = None
    """In the currency of the agent's prices."""
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Check every limit; raises `BudgetError` if one is not a positive number."""
        for field in fields(self):
            limit = getattr(self, field.name)
            if limit is not None and not (math.isfinite(limit) and limit > 0):
                raise BudgetError(f"a budget of {field.name} must be a positive number, got {limit}")


NO_BUDGET = UsageBudget()
Number = TypeVar("Number", int, float)


class Meter:
    """Counts what one attempt uses up; a sum is `None` until a number is reported."""

    def __init__(self, budget: UsageBudget = NO_BUDGET, *, counts_tokens: bool = False) -> None:
        """Start at nothing.

        Args:
            counts_tokens: Whether the run has a budget of tokens or cost, so that they must be reported.
        """
        self.budget = budget
        self.counts_tokens = counts_tokens or budget.tokens is not None or budget.cost is not None
        self.calls = 0
        self.tokens_in: int | None = None
        self.tokens_out: int | None = None
        self.cost: float | None = None
        self.retries = 0
        self.retry_seconds = 0.0

    def begin_call(self) -> None:
        """Count a tool call before it is made.

        Raises:
            BudgetSpentError: If no call is left; then it is not counted.
        """
        if self.budget.steps is not None and self.calls >= self.budget.steps:
            raise BudgetSpentError(Limit.STEPS)
        self.calls += 1

    def count_retry(self, seconds: float) -> None:
        """Count a request that is sent again after a pause."""
        self.retries += 1
        self.retry_seconds += seconds

    def spend(
        self, tokens_in: int | None = None, tokens_out: int | None = None, cost: float | None = None
    ) -> None:
        """Add what a model read, wrote and cost; `None` where it was not counted.

        Raises:
            BudgetSpentError: If the sum exceeds the budget; it is counted nevertheless.
        """
        self.tokens_in = _sum(self.tokens_in, tokens_in)
        self.tokens_out = _sum(self.tokens_out, tokens_out)
        self.cost = _sum(self.cost, cost)
        # Checked after counting: tokens and cost are known only when they are spent.
        if _is_over((self.tokens_in or 0) + (self.tokens_out or 0), self.budget.tokens):
            raise BudgetSpentError(Limit.TOKENS)
        if _is_over(self.cost or 0.0, self.budget.cost):
            raise BudgetSpentError(Limit.COST)


class RunMeter:
    """Counts what a whole run uses up, attempt by attempt."""

    def __init__(self, budget: UsageBudget = NO_BUDGET, most_errors: int | None = None) -> None:
        """Start at nothing.

        Args:
            most_errors: Number of attempts that may error one after another, at least 1.

        Raises:
            BudgetError: If `most_errors` is less than 1.
        """
        if most_errors is not None and most_errors < 1:
            raise BudgetError(f"max errors must be at least 1, got {most_errors}")
        self._budget = budget
        self._most_errors = most_errors
        self._steps = self._tokens = self._errors = 0
        self._cost = 0.0

    def add(self, attempt: Attempt) -> None:
        """Count an attempt that has ended."""
        self._steps += attempt.steps
        # Only errors in a row count: a broken endpoint fails each attempt, a broken task fails now and then.
        self._tokens += (attempt.tokens_in or 0) + (attempt.tokens_out or 0)
        self._cost += attempt.cost or 0.0
        self._errors = self._errors + 1 if attempt.status is AttemptStatus.ERRORED else 0

    def forget_errors(self) -> None:
        """Count errors from 0 again, when a run is resumed."""
        self._errors = 0

    def spent(self, seconds: float) -> Limit | None:
        """Return the budget that is used up after so many seconds, so that no new attempt may begin."""
        used = (
            (Limit.ERRORS, self._errors, self._most_errors),
            (Limit.STEPS, self._steps, self._budget.steps),
            (Limit.TOKENS, self._tokens, self._budget.tokens),
            (Limit.COST, self._cost, self._budget.cost),
            (Limit.SECONDS, seconds, self._budget.seconds),
        )
        return next(
            (limit for limit, amount, maximum in used if maximum is not None and amount >= maximum), None
        )


def _sum(number: Number | None, other: Number | None) -> Number | None:
    return other if number is None else number if other is None else number + other


def _is_over(amount: float, maximum: float | None) -> bool:
    return maximum is not None and amount > maximum
