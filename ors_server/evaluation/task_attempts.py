"""Attempts grouped by task: which of them count, which succeeded, what they took."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from ors_server.evaluation.runs import Attempt, AttemptStatus
from ors_server.evaluation.summary import FigureOptions

Quantity: TypeAlias = Callable[[Attempt], float | None]
"""A number that an attempt may have."""


def mean_of(values: Sequence[float]) -> float:
    """Return the mean of at least one value; their order does not matter."""
    return math.fsum(values) / len(values)


def tokens_of(attempt: Attempt) -> int | None:
    """Return the tokens that were read and written; `None` where they were not counted."""
    counts = [count for count in (attempt.tokens_in, attempt.tokens_out) if count is not None]
    return sum(counts) if counts else None


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
    """One task with its attempts."""

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
        """Return the number of attempts that errored."""
        return sum(attempt.status is AttemptStatus.ERRORED for attempt in self.recorded)

    @property
    def over_budget(self) -> int:
        """Return the number of attempts that used up their budget."""
        return sum(attempt.status is AttemptStatus.OVER_BUDGET for attempt in self.recorded)

    def mean(self, amount: Quantity) -> float | None:
        """Return the mean over the counted attempts that have the number; `None` if no attempt has it."""
        values = [value for value in map(amount, self.counted) if value is not None]
        return mean_of(values) if values else None


def group_by_task(attempts: Sequence[Attempt], options: FigureOptions) -> list[TaskAttempts]:
    """Return the tasks with their attempts, ordered by split and index."""
    ordered = sorted(
        attempts, key=lambda attempt: (attempt.split, attempt.index, attempt.run_id, attempt.attempt)
    )
    return [
        _task(split, index, tuple(group), options)
        for (split, index), group in groupby(ordered, key=lambda attempt: (attempt.split, attempt.index))
    ]


def _task(split: str, index: int, attempts: tuple[Attempt, ...], options: FigureOptions) -> TaskAttempts:
    counted_attempts = tuple(attempt for attempt in attempts if options.counts(attempt))
    return TaskAttempts(
        split=split,
        index=index,
        task_hash=next((attempt.task_hash for attempt in attempts if attempt.task_hash), ""),
        recorded=attempts,
        counted=counted_attempts,
        returns=tuple(
            attempt.episode_return for attempt in counted_attempts if attempt.episode_return is not None
        ),
        successes=sum(options.succeeded(attempt) for attempt in counted_attempts),
    )
