"""The state of an episode on record, in the time of this process's clock; pure.

Time for which no server ran is neither played nor idle: what a time limit left at the last recorded step, it
leaves when the session continues.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import cast

from ors_server.model.clock import Clock
from ors_server.model.episode import TRANSITIONS, EpisodeState, Metric, Phase, StopReason
from ors_server.model.policy import EpisodePolicy, PenaltyCause
from ors_server.model.trajectory import (
    RAN,
    STEP_COUNTS,
    STEP_MAXIMA,
    EpisodeRecord,
    Step,
    Transition,
    greatest_of,
)
from ors_server.rewards.result_output import numeric_extras
from ors_server.sessions.episode_recorder import EPISODE_KEY


def latest_moment(record: EpisodeRecord) -> datetime:
    """Return the latest time that a record states."""
    summary = record.summary
    times = (record.origin.created_at, summary.started_at, summary.last_call_at, summary.finished_at)
    return max([*(at for at in times if at is not None), *(move.at for move in record.transitions)])


class RecordedTimes:
    """Turns times of a record into moments of a clock, in seconds from its origin.

    Now is never before the latest recorded time, even if the machine's clock was set back.
    """

    def __init__(self, record: EpisodeRecord, clock: Clock) -> None:
        self._created_at = record.origin.created_at
        self.now = clock.monotonic()
        elapsed = max(clock.now(), latest_moment(record)) - self._created_at
        self.created = self.now - elapsed.total_seconds()
        """When the episode was created."""

    def moment(self, at: datetime | None) -> float | None:
        """Return the moment of a recorded time."""
        return None if at is None else self.created + (at - self._created_at).total_seconds()


def lost_transition(record: EpisodeRecord) -> Transition | None:
    """Return the transition to the summary's phase if it is not on record: no call waits for its writing.

    A fork's record does not say in which phase it began.
    """
    summary = record.summary
    if not record.transitions and record.origin.forked_from is not None:
        return None
    before = Phase(record.transitions[-1].phase) if record.transitions else Phase.CREATED
    target = Phase(summary.phase)
    if before is target:
        return None
    event = next(
        (event for (phase, event), after in TRANSITIONS.items() if (phase, after) == (before, target)), None
    )
    if event is None:
        return None
    at = max(summary.finished_at or summary.last_call_at or latest_moment(record), record.origin.created_at)
    return Transition(event.value, target.value, summary.stop_reason, at)


def playable_state(
    record: EpisodeRecord, steps: Sequence[Step], played: EpisodeState, policy: EpisodePolicy, clock: Clock
) -> EpisodeState:
    """Return the state of an episode whose calls were played again, with the times of the record."""
    times = RecordedTimes(record, clock)
    started = times.moment(record.summary.started_at)
    waived = 0.0
    if policy.time_limit is not None and started is not None:
        waived = times.now - started - policy.time_limit + _remaining_time(record, steps, policy.time_limit)
    return played._replace(
        created_at=times.created,
        started_at=started,
        last_call_at=times.moment(record.summary.last_call_at),
        waived=waived,
        # Of the recorded calls, not of the repeated ones: those may have taken another time.
        **greatest_of(steps),
    )


def over_state(record: EpisodeRecord, steps: Sequence[Step], clock: Clock) -> EpisodeState:
    """Return the state of an episode that is over; its figures are those of the record."""
    summary, times = record.summary, RecordedTimes(record, clock)
    return EpisodeState(
        created_at=times.created,
        phase=Phase(summary.phase),
        steps=summary.steps,
        episode_return=summary.episode_return,
        discounted_return=summary.discounted_return,
        withheld=summary.withheld or None,
        reward_sum=summary.reward_sum,
        penalties={PenaltyCause(cause): amount for cause, amount in summary.penalties.items()},
        last_reward=summary.last_reward,
        metrics=_metrics(steps),
        **{name: getattr(summary, name) for name in (*STEP_COUNTS, *STEP_MAXIMA)},
        started_at=times.moment(summary.started_at),
        last_call_at=times.moment(summary.last_call_at),
        finished_at=times.moment(summary.finished_at),
        stop_reason=None if summary.stop_reason is None else StopReason(summary.stop_reason),
    )


def _remaining_time(record: EpisodeRecord, steps: Sequence[Step], limit: float) -> float:
    """Return the seconds of play that were left after the last recorded step, at most the limit."""
    last = record.summary.last_call_at
    for step in reversed(steps):
        stated = (step.metadata or {}).get(EPISODE_KEY)
        left = (
            cast("Mapping[str, object]", stated).get("time_remaining") if isinstance(stated, dict) else None
        )
        if isinstance(left, int | float):
            ended = step.started_at + timedelta(seconds=step.duration)
            return left - (0.0 if last is None else max(0.0, (last - ended).total_seconds()))
    started = record.summary.started_at
    return limit if last is None or started is None else limit - (last - started).total_seconds()


def _metrics(steps: Sequence[Step]) -> Mapping[str, Metric]:
    metrics: dict[str, Metric] = {}
    for step in steps:
        if step.status in RAN and step.error_code is None and step.metadata:
            for key, value in numeric_extras(step.metadata).items():
                metrics[key] = metrics[key].joined(value) if key in metrics else Metric.of(value)
    return metrics
