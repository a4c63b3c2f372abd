"""Counts what the sessions of a process do, for `/metrics`: calls, rewards, penalties, episodes, seconds.

Plain numbers in dictionaries: a call adds to them in less than a microsecond, and nothing is imported for it.
What an agent chooses never becomes a label. A tool is counted by its name only if the environment has it, and
only up to a number of names, so that a policy that invents names cannot make the server's memory grow.
"""

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from ors_server.model.policy import TOOL_COMPONENT, WITHHELD
from ors_server.model.trajectory import (
    REWARD_STATUS,
    EpisodeResult,
    EpisodeSummary,
    Step,
    StepStatus,
    result_of,
)

MAX_TOOLS: Final = 512
"""Names of tools that are counted apart in one environment; the others are counted together."""
OTHER_TOOLS: Final = "(other)"
MAX_RUNS: Final = 32
"""Runs whose ended episodes are counted apart; the one of which none ended for longest is forgotten."""
UNKNOWN_TOOL: Final = "(unknown)"
"""Counts calls of tools that the session does not have."""

SECONDS: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
)
"""Upper bounds of the buckets of a duration, in seconds."""
RETURNS: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 2.0, 5.0, 10.0, 100.0)
"""Upper bounds of the buckets of a return. With a negative one the format would have no sum and no count."""
STEPS: Final = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""Upper bounds of the buckets of an episode's length, in steps."""

_NO_PENALTIES = frozenset({TOOL_COMPONENT, WITHHELD})
_BY_CODE = frozenset({"tool_error", "timeout", "forbidden"})
"""Error codes of calls that returned an error to the agent: their status, of `_RETURNED`, would hide them."""
_RETURNED = frozenset({StepStatus.GRADED, StepStatus.UNGRADED})


class Histogram:
    """Counts values by bucket, with their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """Begin at zero; `bounds` are the upper bounds, ascending, without infinity."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Values of each bucket alone; the last one is above every bound."""
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value; a bucket includes its upper bound."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


def outcome_of(step: Step) -> str:
    """Return how a call ended, in one of eight words.

    `graded` and `ungraded` calls returned; `tool_error`, `timeout` and `forbidden` ones returned an error to
    the agent; `refused`, `failed` and `cancelled` are the step's status.
    """
    code = step.error_code
    # A policy may charge for such a call, which is a reward.
    if step.status in _RETURNED and code in _BY_CODE:
        return code
    return step.status.value


class CallCounter:
    """Counts the calls of one tool that ended in one way."""

    __slots__ = ("calls", "outcome", "store_seconds", "tool", "tool_seconds")

    def __init__(self, tool: str, outcome: str) -> None:
        """Begin at zero; both words are labels."""
        self.tool = tool
        self.outcome = outcome
        self.calls = 0
        self.tool_seconds = Histogram(SECONDS)
        """How long the tool ran; empty for calls that were refused or failed."""
        self.store_seconds = Histogram(SECONDS)
        """How long the calls waited until their step was on record."""


@dataclass(slots=True)
class EnvironmentMeters:
    """What the sessions of one environment did since the process started."""

    calls: dict[tuple[str, str], CallCounter] = field(default_factory=dict[tuple[str, str], CallCounter])
    """Counts by tool and outcome, which are bounded."""
    failures: dict[str, int] = field(default_factory=lambda: defaultdict[str, int](int))
    """Number of calls that the author's code or the machinery failed, by error code."""
    penalties: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    """Number of charges and their sum (at most 0), by cause."""
    waiting_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    """How long calls waited for setup or for their turn; calls that waited for neither are not in it."""
    returns: Histogram = field(default_factory=lambda: Histogram(RETURNS))
    """Returns of ended episodes that a mean return is over."""
    steps: Histogram = field(default_factory=lambda: Histogram(STEPS))
    """Lengths of ended episodes."""
    ended: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict[tuple[str, str], int](int))
    """Number of ended episodes by stop reason and `EpisodeResult`."""
    unjudged_steps: int = 0
    """Steps whose judgement failed."""
    _tools: set[str] = field(default_factory=set[str])
    _found: dict[tuple[str, StepStatus, str | None], CallCounter] = field(
        default_factory=dict[tuple[str, StepStatus, str | None], CallCounter]
    )
    """The counters of tools with a label of their own, by what a step has: each call looks here first."""

    def count_step(self, step: Step, store_seconds: float) -> None:
        """Count a call whose step is on record.

        Args:
            store_seconds: Seconds for which the call waited for the record.
        """
        counter = self._found.get((step.tool, step.status, step.error_code)) or self._counter_of(step)
        counter.calls += 1
        counter.store_seconds.add(store_seconds)
        if step.status is StepStatus.FAILED:
            self.failures[step.error_code or "unknown"] += 1
        elif step.status is not StepStatus.REFUSED:
            counter.tool_seconds.add(step.duration)
        if step.metadata is not None and REWARD_STATUS in step.metadata and step.is_unjudged:
            self.unjudged_steps += 1
        for cause, amount in step.components.items():
            if cause not in _NO_PENALTIES:
                count, total = self.penalties.get(cause, (0, 0.0))
                self.penalties[cause] = count + 1, total + amount

    def count_end(self, summary: EpisodeSummary) -> None:
        """Count an episode that is closed."""
        result = result_of(summary)
        self.ended[summary.stop_reason or "unknown", result.value] += 1
        self.steps.add(summary.steps)
        if result is EpisodeResult.GRADED:
            self.returns.add(summary.episode_return)

    def _counter_of(self, step: Step) -> CallCounter:
        """Return the counter of a step, which is created on first use, under labels that are bounded."""
        tool = step.tool
        if step.error_code == "not_found":
            tool = UNKNOWN_TOOL
        elif tool not in self._tools and len(self._tools) >= MAX_TOOLS:
            tool = OTHER_TOOLS
        key = tool, outcome_of(step)
        counter = self.calls.get(key)
        if counter is None:
            counter = self.calls[key] = CallCounter(*key)
        if tool is step.tool:
            self._tools.add(tool)
            self._found[tool, step.status, step.error_code] = counter
        return counter


class CallMeters:
    """The counts of every environment of a process."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.environments: dict[str, EnvironmentMeters] = {}
        self.ended_by_run: dict[str, int] = {}
        """Number of episodes that ended, by the label `run`, of the runs of which some ended last."""

    def of(self, environment: str) -> EnvironmentMeters:
        """Return the counts of an environment, which is one that the server serves or has served."""
        meters = self.environments.get(environment)
        if meters is None:
            meters = self.environments[environment] = EnvironmentMeters()
        return meters

    def count_run(self, run: str | None) -> None:
        """Count an ended episode of a run, if it names one."""
        if run is not None:
            self.ended_by_run[run] = self.ended_by_run.pop(run, 0) + 1
            if len(self.ended_by_run) > MAX_RUNS:
                del self.ended_by_run[next(iter(self.ended_by_run))]
