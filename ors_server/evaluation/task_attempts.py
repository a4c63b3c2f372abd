"""Attempts sorted out by task: which of them count, which succeeded, what they took."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from ors_server.evaluation.runs import Attempt, AttemptStatus
from ors_server.evaluation.summary import FigureOptions

Quantity: TypeAlias = Callable[[Attempt], float | None]
"""Something that an attempt may have."""


def mean_of(values: Sequence[float]) -> float:
    """Return the mean, which does not depend on the order.

    Args:
        values: At least one.
    """
    return math.fsum(values) / len(values)


def tokens_of(attempt: Attempt) -> int | None:
    """Return the tokens that an attempt read and wrote; `None` where nobody counted.

    Args:
        attempt: It.
    """
    known = [count for count in (attempt.tokens_in, attempt.tokens_out) if count is not None]
    return sum(known) if known else None


AMOUNTS: Mapping[str, Quantity] = {
    "steps": lambda attempt: float(attempt.steps),
    "seconds": lambda attempt: attempt.seconds,
    "penalties": lambda attempt: attempt.penalties,
    "tokens_in": lambda attempt: attempt.tokens_in,
    "tokens_out": lambda attempt: attempt.tokens_out,
    "tokens": tokens_of,
    "cost": lambda attempt: attempt.cost,
}
"""What an attempt takes, by the name of its figure."""


@dataclass(frozen=True, slots=True)
class TaskAttempts:
    """One task, with its attempts sorted out."""

    split: str
    index: int
    task_hash: str
    recorded: tuple[Attempt, ...]
    """All that ended, by run and number."""
    counted: tuple[Attempt, ...]
    returns: tuple[float, ...]
    """Of the counted ones."""
    successes: int

    @property
    def errored(self) -> int:
        """Return how many attempts errored."""
        return sum(attempt.status is AttemptStatus.ERRORED for attempt in self.recorded)

    @property
    def over_budget(self) -> int:
        """Return how many attempts used up their budget."""
        return sum(attempt.status is AttemptStatus.OVER_BUDGET for attempt in self.recorded)

    def mean(self, amount: Quantity) -> float | None:
        """Return the mean of something over the counted attempts that have it; `None` if none has.

        Args:
            amount: What.
        """
        known = [value for value in map(amount, self.counted) if value is not None]
        return mean_of(known) if known else None


@dataclass(frozen=True, slots=True)
class Reader:
    """Sorts attempts out by task, and decides what counts and what succeeded."""

    reading: FigureOptions

    def tasks(self, attempts: Sequence[Attempt]) -> list[TaskAttempts]:
        """Return the tasks with their attempts, ordered by split and index.

        Args:
            attempts: Of all tasks.
        """
        ordered = sorted(attempts, key=lambda one: (one.split, one.index, one.run_id, one.attempt))
        return [
            self._task(split, index, list(group))
            for (split, index), group in groupby(ordered, key=lambda one: (one.split, one.index))
        ]

    def counts(self, attempt: Attempt) -> bool:
        """Tell whether an attempt is part of the means.

        Args:
            attempt: It.
        """
        return attempt.status is AttemptStatus.DONE or (
            attempt.status is AttemptStatus.OVER_BUDGET and self.reading.over_budget
        )

    def succeeded(self, attempt: Attempt) -> bool:
        """Tell whether an attempt succeeded; one without a return did not.

        Args:
            attempt: It.
        """
        if self.reading.success_at is None or attempt.episode_return is None:
            return bool(attempt.success)
        return attempt.episode_return >= self.reading.success_at

    def _task(self, split: str, index: int, attempts: Sequence[Attempt]) -> TaskAttempts:
        counted = tuple(attempt for attempt in attempts if self.counts(attempt))
        return TaskAttempts(
            split=split,
            index=index,
            task_hash=next((attempt.task_hash for attempt in attempts if attempt.task_hash), ""),
            recorded=tuple(attempts),
            counted=counted,
            returns=tuple(one.episode_return for one in counted if one.episode_return is not None),
            successes=sum(self.succeeded(attempt) for attempt in counted),
        )
