"""Rewards of a group: several rollouts of one task, judged together, one number for each.

A group reward takes the field `rollouts`, a list of trajectories, and returns a list of judgements in that
order, each of which is a number, a mapping with `reward`, or a result.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from typing_extensions import override

from ors_server.model.wire import GroupCandidate
from ors_server.rewards.define import DelegatingReward, Reward, as_reward
from ors_server.rewards.recorded_fields import read_episode
from ors_server.rewards.recorded_trajectory import trajectory_of_candidate
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import RewardValueError
from ors_server.rewards.reward_trajectory import Trajectory, from_response
from ors_server.rewards.scoring import evaluate, failure, score

ROLLOUTS = "rollouts"
"""The field that makes a reward one of groups."""

_RESULTS = "results"


def is_group_reward(reward: Reward) -> bool:
    """Whether a reward judges groups only."""
    return ROLLOUTS in reward.signature.required


def takes_group(reward: Reward) -> bool:
    """Whether a reward can judge groups, perhaps besides single rollouts."""
    return ROLLOUTS in reward.signature.required | reward.signature.optional


def score_group_with(
    reward: object, rollouts: Sequence[object], /, **fields: Any
) -> tuple[RewardResult, ...]:
    """Evaluate a group reward, outside any event loop.

    Args:
        reward: A reward that takes `rollouts`.
        rollouts: Of one task: trajectories, mappings with ARISE's fields, conversations in any shape that
            `score` reads, or final responses as strings.
        **fields: Everything else that the reward may take, by name.

    Returns:
        One result per rollout, in order. A reward that raised, or did not return one judgement per rollout,
        judged none of them: each result has the status `error`. A judgement that is not a legal number is the
        error of that rollout.

    Raises:
        RewardDefinitionError: It is not a reward.
    """
    whole = _WholeGroup(as_reward(reward), len(rollouts))
    return whole.results_of(score(whole, **{**fields, ROLLOUTS: rollouts}))


async def evaluate_group(
    reward: object, rollouts: Sequence[object], fields: Mapping[str, Any], *, time_limit: float | None = None
) -> tuple[RewardResult, ...]:
    """Evaluate a group reward within an event loop, as `score_group_with` does outside of one.

    After `time_limit` seconds every result is a `limit`.
    """
    whole = _WholeGroup(as_reward(reward), len(rollouts))
    named = {**fields, ROLLOUTS: rollouts}
    return whole.results_of(await evaluate(whole, named, time_limit=time_limit))


def read_rollout(value: object) -> Trajectory:
    """Read a trajectory in any form that `score` reads, a candidate of the wire, or a final response."""
    if isinstance(value, GroupCandidate):
        return trajectory_of_candidate(value)
    if isinstance(value, str):
        return from_response(value)
    return read_episode(value)


class _WholeGroup(DelegatingReward):
    """A group reward whose one result carries those of the rollouts."""

    def __init__(self, inner: Reward, size: int) -> None:
        super().__init__(inner)
        self._size = size

    @override
    def judge(self, fields: Mapping[str, Any]) -> Any:
        rollouts = [read_rollout(item) for item in fields[ROLLOUTS]]
        return self._inner.judge({**fields, ROLLOUTS: rollouts})

    @override
    def read(self, raw: object) -> RewardResult:
        if not isinstance(raw, Sequence) or isinstance(raw, str | bytes):
            raise RewardValueError(
                f"a group reward returns a list with one judgement per rollout, got a {type(raw).__name__}"
            )
        judgements = cast("Sequence[object]", raw)
        if len(judgements) != self._size:
            raise RewardValueError(f"{self.name} gave {len(judgements)} judgements for {self._size} rollouts")
        return RewardResult(0.0, extras={_RESULTS: tuple(map(self._read_one, judgements))})

    def results_of(self, whole: RewardResult) -> tuple[RewardResult, ...]:
        """Take the results out of the one that carries them; a failure is that of every rollout."""
        if whole.status is not RewardStatus.GRADED:
            return (whole,) * self._size
        results: tuple[RewardResult, ...] = whole.extras[_RESULTS]
        return results

    def _read_one(self, raw: object) -> RewardResult:
        try:
            return self._inner.read(raw)
        except RewardValueError as error:
            return failure(error)
