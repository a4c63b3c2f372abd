"""Recomputes an episode's sums from its steps and compares them with its summary."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from math import isclose
from typing import Any, cast

from ors_server.model.episode import PLAYABLE, Phase, StopReason
from ors_server.model.policy import WITHHELD
from ors_server.model.trajectory import (
    FIGURES,
    RAN,
    STEP_COUNTS,
    STEP_MAXIMA,
    EpisodeOrigin,
    EpisodeSummary,
    Step,
    StepStatus,
)

TOLERANCE = 1e-9
"""Relative difference that two sums of the same floats may have; the absolute one is this times the sum of
their magnitudes, or times 1 if that is less.
"""
_CLOCK = timedelta(milliseconds=1)
"""Difference that two times of one event may have, because durations are floats."""
_REASONS_OF_STEPS = frozenset(
    {StopReason.COMPLETED, StopReason.BLOCKED, StopReason.STEP_LIMIT, StopReason.TIME_LIMIT}
)
_UNPAID = frozenset({StepStatus.FAILED, StepStatus.CANCELLED})


def is_same(one: float, other: float, scale: float = 1.0) -> bool:
    """Return whether two sums are equal but for rounding.

    Args:
        scale: Sum of the magnitudes of their terms.
    """
    return isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE * max(1.0, scale))


class StepSums:
    """The sums over an episode's steps, added in step order."""

    def __init__(self, origin: EpisodeOrigin) -> None:
        self._origin = origin
        discount = origin.policy.get("discount", 1.0)
        self._discount = float(discount) if isinstance(discount, int | float) and 0 < discount <= 1 else None
        self._pays_at_end = origin.policy.get("emit") == "final"
        self._last: Step | None = None
        self._scale = 0.0
        self._withheld: float | None = None
        self.steps = 0
        self.total = 0.0
        self._discounted = 0.0
        self._tool_rewards = 0.0
        self._penalties: dict[str, float] = {}
        self._last_reward: float | None = None
        self._greatest: dict[str, float | None] = dict.fromkeys(STEP_MAXIMA)
        self._counts = dict.fromkeys(STEP_COUNTS, 0)

    @property
    def is_finished(self) -> bool:
        """Whether the last step ended the episode."""
        return self._last is not None and self._last.finished

    def add(self, step: Step) -> Iterator[str]:
        """Add the next step, and yield its contradictions."""
        where = f"step {step.number}"
        if self.is_finished:
            yield f"{where} follows one that ended the episode"
        withheld = step.components.get(WITHHELD)
        if withheld is not None and not self._is_same(withheld, self._withheld or 0.0):
            expected = self._withheld or 0.0
            yield f"{where}: it pays {withheld!r} of earlier steps, which had withheld {expected!r}"
        self._count(step)
        yield from (f"{where}: {complaint}" for complaint in _contradictions(step))
        yield from (f"{where}: {complaint}" for complaint in self._check_time(step))
        stated = (step.metadata or {}).get("episode")
        if isinstance(stated, dict):
            yield from self._check_stated(step, cast("dict[str, Any]", stated))
        self._last = step

    def differences(self, summary: EpisodeSummary, unstated: Collection[str] = ()) -> Iterator[str]:
        """Yield every figure of a summary that differs from the steps.

        Args:
            unstated: Figures that the server did not know which wrote the summary.
        """
        if summary.steps != self.steps:
            yield f"the summary states {summary.steps} steps, the store has {self.steps}"
        if not self._is_same(summary.episode_return, self.total):
            stated = summary.episode_return
            yield f"the summary's return is {stated!r}, the steps' rewards add up to {self.total!r}"
        sums: dict[str, float | None] = {
            "reward_sum": self._tool_rewards,
            "penalty_sum": sum(self._penalties.values(), 0.0),
            "withheld": self._withheld or 0.0,
            "last_reward": self._last_reward,
            **self._greatest,
        }
        if self._discount is None:
            discount = self._origin.policy.get("discount")
            yield f"the policy's discount is {discount!r}, expected a number in (0, 1]"
        else:
            sums["discounted_return"] = self._discounted
        for name, computed in (*sums.items(), *self._counts.items()):
            claimed = getattr(summary, name)
            if name not in unstated and not self._agrees(claimed, computed):
                words = (
                    f"number of {FIGURES[name].words} steps" if name in STEP_COUNTS else FIGURES[name].words
                )
                yield f"the summary's {words} is {claimed!r}, computed from the steps it is {computed!r}"
        if not self._are_same(summary.penalties, self._penalties):
            named = dict(summary.penalties)
            yield f"the summary's penalties are {named!r}, the steps add up to {self._penalties!r}"
        yield from self._check_end(summary)
        yield from self._check_times(summary)

    def _count(self, step: Step) -> None:
        self.steps += 1
        paid = step.reward or 0.0
        self._scale += abs(paid) + sum(abs(amount) for amount in step.components.values())
        self.total += paid
        if self._discount is not None:
            self._discounted += self._discount ** (max(step.number, 1) - 1) * paid
        self._tool_rewards += step.components.get("tool", 0.0)
        for name, amount in step.components.items():
            if name not in {"tool", WITHHELD}:
                self._penalties[name] = self._penalties.get(name, 0.0) + amount
        earned = step.earned
        if self._pays_at_end:
            self._withheld = earned if self._withheld is None else self._withheld + (earned or 0.0)
            if step.reward is not None:
                self._withheld = None
        if step.reward is not None:
            self._last_reward = step.reward
        for name, number_of in STEP_MAXIMA.items():
            number, so_far = number_of(step), self._greatest[name]
            if number is not None and (so_far is None or number > so_far):
                self._greatest[name] = number
        for name, is_counted in STEP_COUNTS.items():
            self._counts[name] += is_counted(step)

    def _check_time(self, step: Step) -> Iterator[str]:
        if self._origin.forked_from is not None:  # steps copied from another episode keep their times
            return
        if step.started_at < self._origin.created_at - _CLOCK:
            yield "it began before the episode was created"
        if self._last is not None and _end(step) < _end(self._last) - _CLOCK:
            yield f"it ended before step {self._last.number}"

    def _check_stated(self, step: Step, stated: Mapping[str, Any]) -> Iterator[str]:
        """Compare the figures that the step's answer contained with the sums."""
        sums_by_name = {
            "step": float(step.number),
            "return": self.total,
            "withheld": self._withheld or 0.0,
            "penalty_sum": sum(self._penalties.values(), 0.0),
        }
        wrong = [
            name
            for name, computed in sums_by_name.items()
            if name in stated and not self._agrees(stated[name], computed)
        ]
        maps = {"penalties": self._penalties, "components": step.components}
        wrong += [
            name for name, sums in maps.items() if name in stated and not self._are_same(stated[name], sums)
        ]
        if "stop_reason" in stated and (stated["stop_reason"] is not None) != step.finished:
            wrong.append("stop_reason")
        if wrong:
            yield f"step {step.number}: its answer stated another {', '.join(wrong)} than the steps add up to"

    def _check_end(self, summary: EpisodeSummary) -> Iterator[str]:
        if summary.stop_reason == StopReason.COMPLETED and not self.is_finished:
            yield "the summary says that the episode was completed, and its last step does not"
        if self.is_finished and summary.stop_reason not in _REASONS_OF_STEPS:
            yield "the last step ended the episode, and the summary has another stop reason"
        is_over = summary.phase not in {*PLAYABLE, Phase.CREATED}
        if is_over != (summary.stop_reason is not None) or is_over != (summary.finished_at is not None):
            yield f"the phase {summary.phase!r} contradicts the stop reason or the time of the end"
        if self.steps and summary.phase == Phase.CREATED:
            yield f"there are steps, and the phase is {summary.phase!r}"

    def _check_times(self, summary: EpisodeSummary) -> Iterator[str]:
        if summary.created_at != self._origin.created_at:
            yield "the summary and the origin disagree about when the episode was created"
        last = self._last
        if (summary.last_call_at is not None) != (last is not None) or (last and summary.started_at is None):
            yield "the summary's times of the start and of the last call do not match the steps"
        if self._origin.forked_from is not None:
            return
        if last and summary.last_call_at and abs(summary.last_call_at - _end(last)) > _CLOCK:
            yield f"the summary's last call ended at {summary.last_call_at}, the last step at {_end(last)}"
        if any(
            moment is not None and moment < summary.created_at - _CLOCK
            for moment in (summary.started_at, summary.finished_at)
        ):
            yield "the episode began or ended before it was created"

    def _is_same(self, one: float, other: float) -> bool:
        return is_same(one, other, self._scale)

    def _agrees(self, one: Any, other: float | None) -> bool:
        if one is None or other is None:
            return one is other
        return isinstance(one, int | float) and self._is_same(one, other)

    def _are_same(self, one: Any, other: Mapping[str, float]) -> bool:
        return (
            isinstance(one, Mapping)
            and one.keys() == other.keys()
            and all(self._agrees(one[name], amount) for name, amount in other.items())
        )


def _end(step: Step) -> datetime:
    return step.started_at + timedelta(seconds=step.duration)


def _contradictions(step: Step) -> Iterator[str]:
    parts = sum(step.components.values())
    scale = sum(abs(amount) for amount in step.components.values())
    if step.reward is not None and not is_same(step.reward, parts, scale):
        yield f"its reward is {step.reward!r}, its components add up to {parts!r}"
    if step.status in _UNPAID and (step.reward is not None or step.components):
        yield f"its status is {step.status.value}, and it has a reward"
    if step.status in RAN and (step.status is StepStatus.UNGRADED) != (step.earned is None):
        yield f"its status {step.status.value} contradicts its components"
    if (step.status not in RAN or step.error is not None) and step.error_code is None:
        yield "it failed or was refused, and has no error code"
