"""Rewards of groups where a package passes a batch: which rows belong to one task, and their results."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ors_server.rewards.define import Reward
from ors_server.rewards.group import evaluate_group, is_group_reward, score_group_with
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_errors import RewardDefinitionError

Row = Mapping[str, Any]

_OWN: Final = frozenset({"completion", "final_response", "trajectory", "ids", "length", "completion_ids"})
"""Fields that each rollout of a task has for itself."""


def gather_groups(reward: Reward, rows: Sequence[Row]) -> list[list[int]]:
    """Return the indices of each task's rows: those with the same prompt and the same shared fields."""
    names = sorted(({"prompt"} | reward.signature.required | reward.signature.optional) - _OWN)
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        key = json.dumps([row.get(name) for name in names], sort_keys=True, default=repr)
        groups.setdefault(key, []).append(index)
    return list(groups.values())


def score_groups(reward: Reward, rows: Sequence[Row]) -> list[RewardResult]:
    """Judge the groups of a batch, outside any event loop; one result per row, in order."""
    results: dict[int, RewardResult] = {}
    for indices, rollouts, fields in _groups(reward, rows):
        results.update(zip(indices, score_group_with(reward, rollouts, **fields), strict=True))
    return [results[index] for index in range(len(rows))]


async def evaluate_groups(reward: Reward, rows: Sequence[Row]) -> list[RewardResult]:
    """Judge the groups of a batch, within an event loop; one result per row, in order."""
    results: dict[int, RewardResult] = {}
    for indices, rollouts, fields in _groups(reward, rows):
        results.update(zip(indices, await evaluate_group(reward, rollouts, fields), strict=True))
    return [results[index] for index in range(len(rows))]


def demand_single(reward: Reward, package: str) -> Reward:
    """Return a reward that judges single responses.

    Raises:
        RewardDefinitionError: If it judges groups, which the package cannot pass.
    """
    if is_group_reward(reward):
        raise RewardDefinitionError(
            f"{reward.name} compares the rollouts of a task, and {package} passes one response at a time"
        )
    return reward


def _groups(reward: Reward, rows: Sequence[Row]) -> Iterator[tuple[list[int], list[Any], dict[str, Any]]]:
    """Yield the indices, the trajectories and the shared fields of each group."""
    for indices in gather_groups(reward, rows):
        shared = {name: value for name, value in rows[indices[0]].items() if name not in _OWN}
        yield indices, [rows[index]["trajectory"] for index in indices], shared
