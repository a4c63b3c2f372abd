"""An episode's life as a table, and its sums: pure data and pure functions, no clock, no I/O.

Times are seconds from the clock's arbitrary origin; callers pass them in. Every sum is made here and nowhere
else, so that the return which the server states is the sum of the rewards that it paid.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from ors_server.model.enumerations import Word, quick_members
from ors_server.model.policy import TOOL_COMPONENT, WITHHELD, EpisodePolicy, PenaltyCause


@quick_members
class Phase(Word):
    """The phase of an episode."""

    CREATED = "created"
    """Setup runs."""
    READY = "ready"
    """Setup has ended; no call has been answered yet."""
    PLAYING = "playing"
    """At least one call has been answered."""
    FINISHED = "finished"
    """Over; readable, refuses calls."""
    FAILED = "failed"
    """The environment cannot continue; readable, refuses calls."""
    EXPIRED = "expired"
    """Idle for too long; only its record is left."""
    DELETED = "deleted"
    """Deleted on request, or with the server; only its record is left."""


@quick_members
class EpisodeEvent(Word):
    """An event that moves an episode from one phase to another."""

    SETUP_DONE = "setup_done"
    SETUP_FAILED = "setup_failed"
    STEP = "step"
    """A step was answered and the episode continues."""
    END = "end"
    """The episode is over: by a step, by a limit, or by a forbidden action."""
    BREAK = "break"
    """The environment's own code failed in a way that ends the episode."""
    EXPIRE = "expire"
    DELETE = "delete"


@quick_members
class StopReason(StrEnum):
    """Why an episode ended."""

    COMPLETED = "completed"
    """A tool returned `finished=True`."""
    STEP_LIMIT = "step_limit"
    TIME_LIMIT = "time_limit"
    BLOCKED = "blocked"
    """A forbidden action ended it."""
    DELETED = "deleted"
    """Its session was deleted on request."""
    EXPIRED = "expired"
    """Its session was idle for too long."""
    SHUTDOWN = "shutdown"
    """The server stopped while its session was live."""
    INTERRUPTED = "interrupted"
    """The server was killed while its session was live, and no later one could rebuild it."""
    FAILED = "failed"


@quick_members
class OutcomeKind(Word):
    """The kind of a call's outcome, before penalties."""

    COMPLETED = "completed"
    """The tool returned."""
    INVALID_CALL = "invalid_call"
    """Unknown tool or invalid arguments: the agent's mistake."""
    TOOL_ERROR = "tool_error"
    """The tool refused the agent's request: the agent's mistake."""
    TIMEOUT = "timeout"
    """The tool did not return within its time limit."""
    FORBIDDEN = "forbidden"
    """The agent did what the environment forbids."""
    FAULT = "fault"
    """The environment's own code failed: never charged to the agent."""
    CANCELLED = "cancelled"
    """The caller withdrew the call: never charged to the agent."""


TRANSITIONS: Mapping[tuple[Phase, EpisodeEvent], Phase] = MappingProxyType(
    {
        (Phase.CREATED, EpisodeEvent.SETUP_DONE): Phase.READY,
        (Phase.CREATED, EpisodeEvent.SETUP_FAILED): Phase.FAILED,
        (Phase.READY, EpisodeEvent.STEP): Phase.PLAYING,
        (Phase.PLAYING, EpisodeEvent.STEP): Phase.PLAYING,
        (Phase.READY, EpisodeEvent.END): Phase.FINISHED,
        (Phase.PLAYING, EpisodeEvent.END): Phase.FINISHED,
        (Phase.READY, EpisodeEvent.BREAK): Phase.FAILED,
        (Phase.PLAYING, EpisodeEvent.BREAK): Phase.FAILED,
        (Phase.CREATED, EpisodeEvent.EXPIRE): Phase.EXPIRED,
        (Phase.READY, EpisodeEvent.EXPIRE): Phase.EXPIRED,
        (Phase.PLAYING, EpisodeEvent.EXPIRE): Phase.EXPIRED,
        (Phase.FINISHED, EpisodeEvent.EXPIRE): Phase.EXPIRED,
        (Phase.FAILED, EpisodeEvent.EXPIRE): Phase.EXPIRED,
        (Phase.CREATED, EpisodeEvent.DELETE): Phase.DELETED,
        (Phase.READY, EpisodeEvent.DELETE): Phase.DELETED,
        (Phase.PLAYING, EpisodeEvent.DELETE): Phase.DELETED,
        (Phase.FINISHED, EpisodeEvent.DELETE): Phase.DELETED,
        (Phase.FAILED, EpisodeEvent.DELETE): Phase.DELETED,
    }
)
"""Every legal move. The diagram in ARCHITECTURE.md is drawn from this table."""

PLAYABLE = frozenset({Phase.READY, Phase.PLAYING})
"""Phases in which a call may run."""

LIVE = PLAYABLE | {Phase.CREATED}
"""Phases of an episode that is not over."""

NO_PENALTIES: Mapping[PenaltyCause, float] = MappingProxyType({})

_PENALISED: Mapping[OutcomeKind, PenaltyCause] = MappingProxyType(
    {
        OutcomeKind.INVALID_CALL: PenaltyCause.INVALID_CALL,
        OutcomeKind.TOOL_ERROR: PenaltyCause.TOOL_ERROR,
        OutcomeKind.TIMEOUT: PenaltyCause.TIMEOUT,
        OutcomeKind.FORBIDDEN: PenaltyCause.FORBIDDEN,
    }
)
_NEVER_CHARGED = frozenset({OutcomeKind.FAULT, OutcomeKind.CANCELLED})


class IllegalMoveError(ValueError):
    """The table has no such transition: a defect of the caller."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that some steps reported besides their reward; recorded, never paid."""

    count: int
    """Steps that reported it."""
    total: float
    least: float
    greatest: float

    @classmethod
    def of(cls, value: float) -> "Metric":
        """Begin with one step's number."""
        return cls(1, value, value, value)

    def joined(self, value: float) -> "Metric":
        """Return the metric with one more step's number."""
        return Metric(self.count + 1, self.total + value, min(self.least, value), max(self.greatest, value))

    @property
    def mean(self) -> float:
        """The mean; between the least and the greatest, though the total may be beyond all floats."""
        return min(max(self.total / self.count, self.least), self.greatest)


class EpisodeState(NamedTuple):
    """Everything that the server knows of an episode's state."""

    created_at: float
    phase: Phase = Phase.CREATED
    steps: int = 0
    episode_return: float = 0.0
    """Sum of the rewards of all steps, added in step order."""
    discounted_return: float = 0.0
    withheld: float | None = None
    """Rewards and penalties that are not paid yet, added in step order; `None` if there are none."""
    reward_sum: float = 0.0
    """Rewards of tools, paid or held."""
    penalties: Mapping[PenaltyCause, float] = NO_PENALTIES
    """Penalties by cause; zero or negative."""
    last_reward: float | None = None
    """The last one that was paid."""
    best_reward: float | None = None
    """The best reward of one step, paid or held."""
    metrics: Mapping[str, Metric] = MappingProxyType({})
    """Numbers that steps reported besides their rewards, by name."""
    ungraded_steps: int = 0
    failed_steps: int = 0
    refused_steps: int = 0
    penalised_steps: int = 0
    unjudged_steps: int = 0
    """Steps whose judgement failed; from the first one on, a policy that pays at the end pays nothing."""
    started_at: float | None = None
    """When setup ended and play could begin."""
    last_call_at: float | None = None
    finished_at: float | None = None
    stop_reason: StopReason | None = None
    waived: float = 0.0
    """Seconds of play that the server took, which count against no time limit."""

    @property
    def penalty_sum(self) -> float:
        """Sum of all penalties; zero or negative."""
        return sum(self.penalties.values(), 0.0) if self.penalties else 0.0

    @property
    def is_over(self) -> bool:
        """Whether no further call will ever run."""
        return self.phase not in LIVE


class CallOutcome(NamedTuple):
    """The outcome of a call, before the policy is applied."""

    kind: OutcomeKind
    reward: float | None = None
    """The tool's reward, already admitted by the policy."""
    finished: bool = False
    """Whether the tool returned `finished=True`."""
    causes: tuple[PenaltyCause, ...] = ()
    """Penalties that the tool adds, each at most once."""
    metrics: Mapping[str, float] = MappingProxyType({})
    """Finite numbers by name that the tool reports besides its reward."""
    waived: float = 0.0
    """Seconds that the session waited for the server since the last step."""
    is_unjudged: bool = False
    """Whether a judgement that the call needed failed; it then neither pays nor costs anything."""


class StepReward(NamedTuple):
    """The reward of a step, after the policy is applied."""

    number: int
    reward: float | None
    """The amount that is paid."""
    earned: float | None
    """The step's own reward and penalties; paid with it or held."""
    components: Mapping[str, float]
    finished: bool
    stop_reason: StopReason | None


def move(
    state: EpisodeState, event: EpisodeEvent, now: float, stop_reason: StopReason | None = None
) -> EpisodeState:
    """Apply one event of the table.

    Args:
        stop_reason: Why the episode ended, for events that end it; the first reason is kept.

    Raises:
        IllegalMoveError: If the table has no such transition.
    """
    target = TRANSITIONS.get((state.phase, event))
    if target is None:
        allowed = ", ".join(sorted(name for phase, name in TRANSITIONS if phase is state.phase))
        raise IllegalMoveError(
            f"an episode in phase {state.phase} expected {allowed or 'no event'}, got {event}"
        )
    if target is Phase.READY:
        return state._replace(phase=target, started_at=now)
    if target in PLAYABLE:
        return state if target is state.phase else state._replace(phase=target)
    return state._replace(
        phase=target,
        finished_at=now if state.finished_at is None else state.finished_at,
        stop_reason=stop_reason if state.stop_reason is None else state.stop_reason,
    )


def lapse(state: EpisodeState, policy: EpisodePolicy, now: float) -> EpisodeState:
    """End the episode if its time is up, at the moment when it was; otherwise return it as it is."""
    if policy.time_limit is None or state.started_at is None or state.phase not in PLAYABLE:
        return state
    deadline = state.started_at + policy.time_limit + state.waived
    return state if now < deadline else move(state, EpisodeEvent.END, deadline, StopReason.TIME_LIMIT)


def remaining_time(state: EpisodeState, policy: EpisodePolicy, now: float) -> float | None:
    """Return the seconds of play that are left, at least 0; `None` without a limit or before play begins."""
    if policy.time_limit is None or state.started_at is None:
        return None
    return max(0.0, state.started_at + policy.time_limit + state.waived - now)


def apply_outcome(
    state: EpisodeState, policy: EpisodePolicy, outcome: CallOutcome, now: float
) -> tuple[EpisodeState, StepReward]:
    """Count one call: number the step, charge penalties, decide whether the episode ends, move every sum.

    Under `emit="final"` each step's reward is held, and the step that ends the episode pays all of them. A
    step that ends it by a fault has an answer without a number: nothing is paid then, and what was held stays
    held. So it does if the judgement of this step or of an earlier one failed: the sum would lack a part.

    Args:
        state: The state before; its phase must be playable.

    Raises:
        IllegalMoveError: If the episode's phase allows no step.
    """
    number = state.steps + 1
    charged: Mapping[PenaltyCause, float] = NO_PENALTIES
    may_cost = outcome.kind is not OutcomeKind.COMPLETED or outcome.causes or policy.overlong_penalty
    if may_cost and not outcome.is_unjudged:
        charged = _penalties(policy, outcome, number)
    tool_reward = None if outcome.is_unjudged else outcome.reward
    earned = (tool_reward or 0.0) + sum(charged.values()) if charged else tool_reward
    stop_reason = _stop_reason(state, policy, outcome, number, now - outcome.waived)
    moved_state = state
    if stop_reason is not None or state.phase is not Phase.PLAYING:
        event = EpisodeEvent.STEP if stop_reason is None else EpisodeEvent.END
        moved_state = move(state, event, now, stop_reason)
    unjudged = state.unjudged_steps + outcome.is_unjudged
    can_pay = stop_reason is not None and outcome.kind not in _NEVER_CHARGED and not unjudged
    if policy.emit == "dense":
        reward, withheld = earned, state.withheld
    else:
        withheld = earned if state.withheld is None else state.withheld + (earned or 0.0)
        reward, withheld = (withheld, None) if can_pay else (None, withheld)
    components: dict[str, float] = {} if tool_reward is None else {TOOL_COMPONENT: tool_reward}
    penalties, metrics = state.penalties, state.metrics
    if charged:
        components.update((cause.value, amount) for cause, amount in charged.items())
        sums = dict(penalties)
        for cause, amount in charged.items():
            sums[cause] = sums.get(cause, 0.0) + amount
        penalties = MappingProxyType(sums)
    if outcome.metrics:
        joined = dict(metrics)
        for key, value in outcome.metrics.items():
            joined[key] = joined[key].joined(value) if key in joined else Metric.of(value)
        metrics = MappingProxyType(joined)
    if state.withheld is not None and withheld is None:
        components[WITHHELD] = state.withheld
    paid = 0.0 if reward is None else reward
    best = state.best_reward
    if earned is not None and (best is None or earned > best):
        best = earned
    new_state = EpisodeState(  # every field by name, which costs half of what `_replace` does
        created_at=moved_state.created_at,
        phase=moved_state.phase,
        steps=number,
        episode_return=state.episode_return + paid,
        discounted_return=state.discounted_return + policy.discount ** (number - 1) * paid,
        withheld=withheld,
        reward_sum=state.reward_sum + (tool_reward or 0.0),
        penalties=penalties,
        last_reward=state.last_reward if reward is None else reward,
        best_reward=best,
        metrics=metrics,
        ungraded_steps=state.ungraded_steps + (earned is None),
        failed_steps=state.failed_steps + (outcome.kind is OutcomeKind.FAULT),
        refused_steps=state.refused_steps + (outcome.kind is OutcomeKind.INVALID_CALL),
        penalised_steps=state.penalised_steps + bool(charged),
        unjudged_steps=unjudged,
        started_at=moved_state.started_at,
        last_call_at=now,
        finished_at=moved_state.finished_at,
        stop_reason=moved_state.stop_reason,
        waived=state.waived + outcome.waived,
    )
    return new_state, StepReward(number, reward, earned, components, stop_reason is not None, stop_reason)


def _penalties(policy: EpisodePolicy, outcome: CallOutcome, number: int) -> dict[PenaltyCause, float]:
    is_overlong = policy.overlong_penalty > 0 and number > policy.overlong_after
    own = _PENALISED.get(outcome.kind)
    if outcome.kind in _NEVER_CHARGED or not (own or outcome.causes or is_overlong):
        return {}
    named = ([] if own is None else [own], outcome.causes, [PenaltyCause.OVERLONG] if is_overlong else [])
    causes = dict.fromkeys(chain.from_iterable(named))
    return {cause: -policy.penalty(cause) for cause in causes if policy.penalty(cause) > 0}


def _stop_reason(
    state: EpisodeState, policy: EpisodePolicy, outcome: CallOutcome, number: int, now: float
) -> StopReason | None:
    if outcome.finished:
        return StopReason.COMPLETED
    if outcome.kind is OutcomeKind.FORBIDDEN and policy.forbidden_ends:
        return StopReason.BLOCKED
    if policy.step_limit is not None and number >= policy.step_limit:
        return StopReason.STEP_LIMIT
    left = None if policy.time_limit is None else remaining_time(state, policy, now)
    return StopReason.TIME_LIMIT if left is not None and left <= 0 else None
