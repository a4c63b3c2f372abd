"""An episode's state as figures: those that the record keeps, and those that each answer states."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ors_server.episode import EpisodeState, Metric, remaining_time
from ors_server.policy import EpisodePolicy
from ors_server.trajectory import EpisodeOrigin, EpisodeSummary

EPISODE_KEY = "episode"
"""Key of an output's metadata under which the server states the episode's state, over any author's."""

_NONE: Mapping[str, float] = {}
"""Of the many episodes without penalties or metrics: each dictionary would take 64 bytes."""


def summarise(origin: EpisodeOrigin, state: EpisodeState) -> EpisodeSummary:
    """Return the figures of a state."""
    penalties, metrics = state.penalties, state.metrics
    return EpisodeSummary(
        phase=str(state.phase),
        steps=state.steps,
        episode_return=state.episode_return,
        withheld=state.held or 0.0,
        reward_sum=state.reward_sum,
        penalty_sum=state.penalty_sum,
        penalties={cause.value: amount for cause, amount in penalties.items()} if penalties else _NONE,
        discounted_return=state.discounted_return,
        last_reward=state.last_reward,
        best_reward=state.best_reward,
        ungraded_steps=state.ungraded_steps,
        failed_steps=state.failed_steps,
        unjudged_steps=state.unjudged_steps,
        stop_reason=None if state.stop_reason is None else state.stop_reason.value,
        created_at=origin.created_at,
        started_at=None if state.started_at is None else wall_time(origin, state, state.started_at),
        last_call_at=None if state.last_call_at is None else wall_time(origin, state, state.last_call_at),
        finished_at=None if state.finished_at is None else wall_time(origin, state, state.finished_at),
        metrics=describe_metrics(metrics) if metrics else _NONE,
    )


def wall_time(origin: EpisodeOrigin, state: EpisodeState, moment: float) -> datetime:
    """Turn a moment of the clock (seconds from its origin) into a time of day."""
    return origin.created_at + timedelta(0, moment - state.created_at)


def describe_metrics(metrics: Mapping[str, Metric]) -> dict[str, float]:
    """Write metrics out under the names that AgentFly logs them by: `reward_extra/KEY/mean`, `max`, `min`."""
    return {
        f"reward_extra/{key}/{figure}": value
        for key, metric in metrics.items()
        for figure, value in (("mean", metric.mean), ("max", metric.greatest), ("min", metric.least))
    }


def describe_state(state: EpisodeState, policy: EpisodePolicy, now: float) -> dict[str, Any]:
    """Describe an episode's state after its latest step.

    Returns:
        `step`, `return`, `withheld` (earned and charged, and not paid yet), `penalty_sum`, `penalties` by
        cause, `unjudged_steps` (steps whose judgement failed), `steps_remaining` and `time_remaining`
        (seconds; `None` without a limit), and `stop_reason`.
    """
    left = remaining_time(state, policy, now)
    return {
        "step": state.steps,
        "return": state.episode_return,
        "withheld": state.held or 0.0,
        "penalty_sum": state.penalty_sum,
        "penalties": {cause.value: amount for cause, amount in state.penalties.items()},
        "unjudged_steps": state.unjudged_steps,
        "steps_remaining": None if policy.step_limit is None else max(0, policy.step_limit - state.steps),
        "time_remaining": None if left is None else round(left, 3),
        "stop_reason": None if state.stop_reason is None else state.stop_reason.value,
    }
