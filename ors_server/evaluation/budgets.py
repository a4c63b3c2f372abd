"""What attempts and runs may use up, and the sums that show when they have."""

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
    """Most that may be used up; `None` sets no limit."""

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
                raise BudgetError(f"a budget of {field.name} is a positive number, not {limit}")


NO_BUDGET = UsageBudget()
Number = TypeVar("Number", int, float)


class Meter:
    """Counts what one attempt uses up; a sum is `None` until a number is reported for it."""

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
            raise BudgetError(f"the number of errors that are borne is at least 1, not {most_errors}")
        self._budget = budget
        self._most_errors = most_errors
        self._steps = self._tokens = self._errors = 0
        self._cost = 0.0

    def add(self, attempt: Attempt) -> None:
        """Count an attempt that has ended."""
        self._steps += attempt.steps
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
        return next((limit for limit, amount, most in used if most is not None and amount >= most), None)


def _sum(number: Number | None, other: Number | None) -> Number | None:
    return other if number is None else number if other is None else number + other


def _is_over(amount: float, most: float | None) -> bool:
    return most is not None and amount > most
