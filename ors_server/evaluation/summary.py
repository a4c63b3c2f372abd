"""The figures of a run in writing: what each is called, what it says, and its JSON.

Every mean here is the mean over tasks of each task's own mean, so that a task weighs the same however many of
its attempts count. The success rate is therefore pass@1, always.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ors_server.evaluation.intervals import Interval
from ors_server.evaluation.resampling import Resampling
from ors_server.evaluation.runs import Run
from ors_server.recording import JsonCodec

FORM = 1
"""Version of the JSON; it grows when a reader of older ones would misread it."""


@dataclass(frozen=True, slots=True)
class FigureOptions:
    """How attempts are read."""

    success_at: float | None = None
    """Least return that counts as a success; `None` for the threshold of each run."""
    over_budget: bool = True
    """Whether attempts that used up their budget count, with what they were paid until then."""
    resampling: Resampling = field(default_factory=Resampling)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many attempts there are, and which of them the figures are made of."""

    tasks: int
    """Tasks with an attempt, whatever came of it."""
    planned: int
    """Attempts that the runs wanted."""
    recorded: int
    """Attempts that ended, whatever came of them."""
    counted: int
    """Attempts that the means are made of."""
    done: int
    errored: int
    """Never counted in a mean: nothing is known of what they would have been worth."""
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
    """What attempts took of something, and all of them together."""

    mean: Estimate
    """Over the counted attempts."""
    total: float
    """Over all recorded attempts: what failed was spent too."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A success rate: the mean over tasks of the share of attempts that succeeded."""

    value: float
    interval: Interval
    """Wilson's, of the effective number of attempts."""
    wilson: Interval
    """Wilson's as though all attempts were independent, which those at one task are not."""
    bootstrap: Interval | None
    """By bootstrap, clustered by task."""
    standard_error: float | None
    """Clustered by task."""
    attempts: int
    effective_attempts: float
    """How many independent attempts would tell as much."""
    tasks: int


@dataclass(frozen=True, slots=True)
class Share:
    """One figure for one k."""

    value: float
    interval: Interval | None
    """By bootstrap, clustered by task; Wilson's of the tasks for a probability that all tasks agree on."""


@dataclass(frozen=True, slots=True)
class AtK:
    """What k attempts at a task come to."""

    k: int
    tasks: int
    """Tasks with at least k counted attempts; the others are not in these figures."""
    pass_at_k: Share
    """At least one succeeds."""
    pass_hat_k: Share
    """All succeed."""
    best_of_k: Share
    """The greatest return."""


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """The figures of a group of attempts: a split, or all of them."""

    counts: Counts
    reward: Estimate | None
    """Return per attempt; `None` where no attempt counts, as in the fields below."""
    success_rate: Rate | None
    success_rate_errors_as_failures: Rate | None
    """The pessimistic one: every errored attempt is counted as one that did not succeed."""
    at_k: tuple[AtK, ...]
    steps: Amount | None
    seconds: Amount | None
    penalties: Amount | None
    tokens_in: Amount | None
    tokens_out: Amount | None
    tokens: Amount | None
    """Both together."""
    cost: Amount | None
    stop_reasons: Mapping[str, int]
    """How many recorded attempts ended for each reason."""
    metrics: Mapping[str, float]
    """What rewards reported, over the attempts: means of `.../mean`, greatest `.../max`, least `.../min`."""


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
    """Of the mean return: Wilson's where all returns of the runs are 0 or 1, else by Student's t, which needs
    two attempts."""
    least: float | None
    greatest: float | None
    success_rate: float | None
    success_interval: Interval | None
    """Wilson's; attempts at one task are independent of each other."""
    pass_at_k: tuple[float, ...]
    """For each k from 1 to the number of counted attempts."""
    pass_hat_k: tuple[float, ...]
    steps: float | None
    seconds: float | None
    tokens: float | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """All figures of a run, or of several that were read together."""

    runs: tuple[Run, ...]
    reading: FigureOptions
    resamples: int
    """How many resamples were made; fewer than wanted for very many tasks."""
    overall: GroupFigures
    splits: Mapping[str, GroupFigures]
    tasks: tuple[TaskFigures, ...]
    """Ordered by split and index."""
    form: int = FORM


SUMMARY: JsonCodec[RunSummary] = JsonCodec(RunSummary, "summary of a run")
