"""The figures of a run, and their JSON.

Every mean is the mean over tasks of each task's own mean, so that each task weighs the same however many of
its attempts count. The success rate is therefore pass@1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ors_server.evaluation.intervals import Interval
from ors_server.evaluation.resampling import Resampling
from ors_server.evaluation.runs import Attempt, AttemptStatus, Run
from ors_server.model.recording import JsonCodec

FORM = 1
"""Version of the JSON; a form that older readers would misread gets a higher one."""


@dataclass(frozen=True, slots=True)
class FigureOptions:
    """Which attempts count and succeed, and how intervals are resampled."""

    success_at: float | None = None
    """Minimum return of a success; `None` selects the threshold of each run."""
    over_budget: bool = True
    """Whether attempts that used up their budget count, with what they were paid until then."""
    resampling: Resampling = field(default_factory=Resampling)

    def counts(self, attempt: Attempt) -> bool:
        """Return whether an attempt is part of the means."""
        return attempt.status is AttemptStatus.DONE or (
            attempt.status is AttemptStatus.OVER_BUDGET and self.over_budget
        )

    def succeeded(self, attempt: Attempt) -> bool:
        """Return whether an attempt succeeded; one without a return did not."""
        if self.success_at is None or attempt.episode_return is None:
            return bool(attempt.success)
        return attempt.episode_return >= self.success_at


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of tasks and attempts."""

    tasks: int
    """Tasks with an attempt of any status."""
    planned: int
    recorded: int
    """Attempts that ended, with any status."""
    counted: int
    """Attempts in the means."""
    done: int
    errored: int
    """Never in a mean, because their return is not known."""
    over_budget: int
    missing: int
    """Planned and not recorded."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tasks."""

    value: float
    interval: Interval | None
    """By bootstrap, clustered by task; `None` for fewer than two tasks."""
    standard_error: float | None
    """Clustered by task; `None` for fewer than two tasks."""
    normal: Interval | None
    """The value more or less its standard errors."""
    least: float
    """Of a single attempt."""
    greatest: float
    """Of a single attempt."""
    tasks: int
    """How many tasks have it."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Steps, seconds, tokens or cost: the mean of an attempt, and the total."""

    mean: Estimate
    """Over the counted attempts."""
    total: float
    """Over all recorded attempts, errored ones too."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A success rate: the mean over tasks of the share of attempts that succeeded."""

    value: float
    interval: Interval
    """Wilson's, of the effective number of attempts."""
    wilson: Interval
    """Wilson's as if all attempts were independent."""
    bootstrap: Interval | None
    """By bootstrap, clustered by task."""
    standard_error: float | None
    """Clustered by task."""
    attempts: int
    effective_attempts: float
    """The number of independent attempts that would have the same variance."""
    tasks: int


@dataclass(frozen=True, slots=True)
class Share:
    """A figure for one k."""

    value: float
    interval: Interval | None
    """By bootstrap, clustered by task; Wilson's of the tasks for a probability that all tasks share."""


@dataclass(frozen=True, slots=True)
class AtK:
    """The figures of k attempts at a task."""

    k: int
    tasks: int
    """Tasks with at least k counted attempts; only they are in these figures."""
    pass_at_k: Share
    """At least one succeeds."""
    pass_hat_k: Share
    """All succeed."""
    best_of_k: Share
    """The greatest return."""


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """The figures of a split, or of all attempts."""

    counts: Counts
    reward: Estimate | None
    """Return per attempt; `None` where no attempt counts, as in the fields below."""
    success_rate: Rate | None
    success_rate_errors_as_failures: Rate | None
    """Every errored attempt counts as a failure."""
    at_k: tuple[AtK, ...]
    steps: Amount | None
    seconds: Amount | None
    penalties: Amount | None
    tokens_in: Amount | None
    tokens_out: Amount | None
    tokens: Amount | None
    cost: Amount | None
    stop_reasons: Mapping[str, int]
    """Number of recorded attempts by reason."""
    metrics: Mapping[str, float]
    """What rewards reported: the mean of `.../mean`, greatest `.../max`, least `.../min` over attempts."""


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """The figures of one task."""

    split: str
    index: int
    task_hash: str
    recorded: int
    counted: int
    errored: int
    over_budget: int
    successes: int
    reward: float | None
    """Mean return; `None` where no attempt counts, as in the fields below."""
    interval: Interval | None
    """Of the mean return: Wilson's where all returns of the runs are 0 or 1, else Student's t."""
    least: float | None
    greatest: float | None
    success_rate: float | None
    success_interval: Interval | None
    """Wilson's."""
    pass_at_k: tuple[float, ...]
    """For each k from 1 to the number of counted attempts."""
    pass_hat_k: tuple[float, ...]
    steps: float | None
    seconds: float | None
    tokens: float | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """All figures of a run, or of several runs together."""

    runs: tuple[Run, ...]
    reading: FigureOptions
    resamples: int
    """Number of resamples; fewer than requested for very many tasks."""
    overall: GroupFigures
    splits: Mapping[str, GroupFigures]
    tasks: tuple[TaskFigures, ...]
    """Ordered by split and index."""
    form: int = FORM


SUMMARY: JsonCodec[RunSummary] = JsonCodec(RunSummary, "summary of a run")
