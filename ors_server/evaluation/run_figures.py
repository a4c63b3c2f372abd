"""Computes the figures of a run from its attempts."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ors_server.evaluation.figures import best_of_k, chosen_ks, pass_at_k, pass_hat_k
from ors_server.evaluation.intervals import (
    Interval,
    effective_trials,
    normal,
    standard_error,
    student_t,
    wilson,
)
from ors_server.evaluation.resampling import bootstrap
from ors_server.evaluation.run_results import RunResults
from ors_server.evaluation.runs import Attempt, AttemptStatus, Run
from ors_server.evaluation.summary import (
    Amount,
    AtK,
    Counts,
    Estimate,
    FigureOptions,
    GroupFigures,
    Rate,
    RunSummary,
    Share,
    TaskFigures,
)
from ors_server.evaluation.task_attempts import AMOUNTS, Quantity, TaskAttempts, group_by_task, mean_of


def summarise(results: RunResults, options: FigureOptions | None = None) -> RunSummary:
    """Compute every figure of runs; the order in which attempts ended does not matter."""
    options = options or FigureOptions()
    tasks = group_by_task(results.attempts, options)
    # Returns of 0 and 1 are successes: Wilson's interval fits them, and Student's does not.
    is_binary = all(value in {0.0, 1.0} for task in tasks for value in task.returns)
    splits = {
        split: _figures(list(group), [run for run in results.runs if run.split == split], options)
        for split, group in groupby(tasks, key=lambda task: task.split)
    }
    # With one split, its figures are those of all: the resampling is not done twice.
    alone = len(splits) == 1 and {run.split for run in results.runs} == set(splits)
    return RunSummary(
        runs=results.runs,
        reading=options,
        resamples=options.resampling.resamples_of(max(1, len(tasks))),
        overall=next(iter(splits.values())) if alone else _figures(tasks, results.runs, options),
        splits=splits,
        tasks=tuple(task_figures(task, options, is_binary=is_binary) for task in tasks),
    )


def task_figures(task: TaskAttempts, options: FigureOptions, *, is_binary: bool) -> TaskFigures:
    """Compute the figures of one task; `is_binary` if every return of the runs is 0 or 1."""
    returns, attempt_count = task.returns, len(task.counted)
    rate = task.successes / attempt_count if attempt_count else None
    confidence = options.resampling.confidence
    interval: Interval | None = None
    if is_binary and returns:
        interval = wilson(mean_of(returns), len(returns), confidence)
    elif (error := standard_error(returns)) is not None:
        interval = student_t(mean_of(returns), error, len(returns), confidence)
    return TaskFigures(
        split=task.split,
        index=task.index,
        task_hash=task.task_hash,
        recorded=len(task.recorded),
        counted=attempt_count,
        errored=task.errored,
        over_budget=task.over_budget,
        successes=task.successes,
        reward=mean_of(returns) if returns else None,
        interval=interval,
        least=min(returns, default=None),
        greatest=max(returns, default=None),
        success_rate=rate,
        success_interval=None if rate is None else wilson(rate, attempt_count, confidence),
        pass_at_k=tuple(pass_at_k(attempt_count, task.successes)),
        pass_hat_k=tuple(pass_hat_k(attempt_count, task.successes)),
        steps=task.mean(AMOUNTS["steps"]),
        seconds=task.mean(AMOUNTS["seconds"]),
        tokens=task.mean(AMOUNTS["tokens"]),
        cost=task.mean(AMOUNTS["cost"]),
    )


Columns = dict[str, list[float | None]]


def _figures(tasks: Sequence[TaskAttempts], runs: Sequence[Run], options: FigureOptions) -> GroupFigures:
    max_attempts = max((len(task.counted) for task in tasks), default=0)
    ks = chosen_ks(max_attempts)
    columns: Columns = {
        "reward": [task.mean(lambda attempt: attempt.episode_return) for task in tasks],
        "success_rate": [_rate(task.successes, len(task.counted)) for task in tasks],
        "pessimistic": [_rate(task.successes, len(task.counted) + task.errored) for task in tasks],
        **{name: [task.mean(amount) for task in tasks] for name, amount in AMOUNTS.items()},
        **_columns_at_k(tasks, ks),
    }
    builder = _FigureBuilder(tasks, columns, bootstrap(columns, options.resampling), options)
    attempt_counts = [len(task.counted) for task in tasks]
    reasons = Counter(attempt.stop_reason or "unknown" for task in tasks for attempt in task.recorded)
    return GroupFigures(
        counts=_counts(tasks, runs),
        reward=builder.estimate("reward", lambda attempt: attempt.episode_return),
        success_rate=builder.rate("success_rate", attempt_counts),
        success_rate_errors_as_failures=builder.rate(
            "pessimistic", [count + task.errored for count, task in zip(attempt_counts, tasks, strict=True)]
        ),
        at_k=tuple(builder.at_k(k) for k in ks),
        stop_reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        metrics=_metrics([attempt for task in tasks for attempt in task.counted]),
        **{name: builder.amount(name, amount) for name, amount in AMOUNTS.items()},
    )


def _rate(successes: int, attempts: int) -> float | None:
    return successes / attempts if attempts else None


def _columns_at_k(tasks: Sequence[TaskAttempts], ks: Sequence[int]) -> Columns:
    columns: Columns = {f"{name}/{k}": [] for k in ks for name in ("pass_at", "pass_hat", "best_of")}
    for task in tasks:
        count = len(task.counted)
        some, every = pass_at_k(count, task.successes), pass_hat_k(count, task.successes)
        within = [k for k in ks if k <= count]
        best = dict(zip(within, best_of_k(task.returns, within), strict=True))
        for k in ks:
            columns[f"pass_at/{k}"].append(some[k - 1] if k <= count else None)
            columns[f"pass_hat/{k}"].append(every[k - 1] if k <= count else None)
            columns[f"best_of/{k}"].append(best.get(k))
    return columns


@dataclass(frozen=True, slots=True)
class _FigureBuilder:
    """Builds the figures of a group from its columns and their intervals."""

    tasks: Sequence[TaskAttempts]
    columns: Columns
    intervals: Mapping[str, Interval | None]
    options: FigureOptions

    def present(self, name: str) -> list[float]:
        return [value for value in self.columns[name] if value is not None]

    def share(self, name: str) -> Share:
        return Share(mean_of(self.present(name)), self.intervals[name])

    def probability(self, name: str) -> Share:
        """Return a share whose interval is never a point: if all tasks agree, they are as many trials."""
        share, tasks = self.share(name), len(self.present(name))
        if share.interval is None or share.interval.high > share.interval.low:
            return share
        return Share(share.value, wilson(share.value, tasks, self.options.resampling.confidence))

    def at_k(self, k: int) -> AtK:
        return AtK(
            k=k,
            tasks=len(self.present(f"pass_at/{k}")),
            pass_at_k=self.probability(f"pass_at/{k}"),
            pass_hat_k=self.probability(f"pass_hat/{k}"),
            best_of_k=self.share(f"best_of/{k}"),
        )

    def estimate(self, name: str, amount: Quantity) -> Estimate | None:
        means = self.present(name)
        if not means:
            return None
        single = [
            value
            for task in self.tasks
            for attempt in task.counted
            for value in [amount(attempt)]
            if value is not None
        ]
        error, value = standard_error(means), mean_of(means)
        return Estimate(
            value=value,
            interval=self.intervals[name],
            standard_error=error,
            normal=None if error is None else normal(value, error, self.options.resampling.confidence),
            least=min(single),
            greatest=max(single),
            tasks=len(means),
        )

    def amount(self, name: str, amount: Quantity) -> Amount | None:
        mean = self.estimate(name, amount)
        everything = (amount(attempt) for task in self.tasks for attempt in task.recorded)
        total = math.fsum(value for value in everything if value is not None)
        return None if mean is None else Amount(mean, total)

    def rate(self, name: str, attempts: Sequence[int]) -> Rate | None:
        rates = self.present(name)
        if not rates:
            return None
        value, confidence = mean_of(rates), self.options.resampling.confidence
        counts = [count for count in attempts if count]
        effective = effective_trials(rates, counts)
        return Rate(
            value=value,
            interval=wilson(value, effective, confidence),
            wilson=wilson(value, sum(counts), confidence),
            bootstrap=self.intervals[name],
            standard_error=standard_error(rates),
            attempts=sum(counts),
            effective_attempts=effective,
            tasks=len(rates),
        )


def _counts(tasks: Sequence[TaskAttempts], runs: Sequence[Run]) -> Counts:
    statuses = Counter(attempt.status for task in tasks for attempt in task.recorded)
    recorded, planned = statuses.total(), sum(run.planned for run in runs)
    return Counts(
        tasks=len(tasks),
        planned=planned,
        recorded=recorded,
        counted=sum(len(task.counted) for task in tasks),
        done=statuses[AttemptStatus.DONE],
        errored=statuses[AttemptStatus.ERRORED],
        over_budget=statuses[AttemptStatus.OVER_BUDGET],
        missing=max(0, planned - recorded),
    )


def _metrics(attempts: Sequence[Attempt]) -> dict[str, float]:
    values_by_name: dict[str, list[float]] = {}
    for attempt in attempts:
        for name, value in attempt.metrics.items():
            values_by_name.setdefault(name, []).append(value)
    figures: dict[str, float] = {}
    for name, values in sorted(values_by_name.items()):
        over_attempts = max if name.endswith("/max") else min if name.endswith("/min") else mean_of
        figures[name] = over_attempts(values)
    return figures
