"""Rewards of groups where a package hands over a batch: which rows are of one task, and their results."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ors_server.rewards.define import Reward
from ors_server.rewards.group import evaluate_group, is_group_reward, score_group_with
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_errors import RewardDefinitionError

Row = Mapping[str, Any]

_OWN: Final = frozenset({"completion", "final_response", "trajectory", "ids", "length", "completion_ids"})
"""Fields that each rollout of a task has for itself."""


def gather_groups(asked: Reward, rows: Sequence[Row]) -> list[list[int]]:
    """Find the rows of each task: those with the same prompt, and the same in every field that is taken.

    Args:
        asked: The reward.
        rows: The fields of each judgement, with `prompt`.

    Returns:
        The numbers of the rows of each group, in order.
    """
    names = sorted(({"prompt"} | asked.signature.required | asked.signature.optional) - _OWN)
    groups: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        key = json.dumps([row.get(name) for name in names], sort_keys=True, default=repr)
        groups.setdefault(key, []).append(number)
    return list(groups.values())


def score_groups(asked: Reward, rows: Sequence[Row]) -> list[RewardResult]:
    """Ask a group reward about the groups of a batch, outside any event loop.

    Args:
        asked: A reward that takes `rollouts`.
        rows: The fields of each judgement, with `prompt` and `trajectory`.

    Returns:
        One result per row, in order.
    """
    results: dict[int, RewardResult] = {}
    for numbers in gather_groups(asked, rows):
        group = [rows[number] for number in numbers]
        judged = score_group_with(asked, [row["trajectory"] for row in group], **_shared(group))
        results.update(zip(numbers, judged, strict=True))
    return [results[number] for number in range(len(rows))]


async def evaluate_groups(asked: Reward, rows: Sequence[Row]) -> list[RewardResult]:
    """Ask a group reward about the groups of a batch, from within an event loop.

    Args:
        asked: As for `score_groups`.
        rows: As for `score_groups`.

    Returns:
        As `score_groups`.
    """
    results: dict[int, RewardResult] = {}
    for numbers in gather_groups(asked, rows):
        group = [rows[number] for number in numbers]
        judged = await evaluate_group(asked, [row["trajectory"] for row in group], _shared(group))
        results.update(zip(numbers, judged, strict=True))
    return [results[number] for number in range(len(rows))]


def demand_single(asked: Reward, package: str) -> Reward:
    """Return a reward, if it judges single responses.

    Args:
        asked: The reward.
        package: Who calls with one response at a time.

    Raises:
        RewardDefinitionError: If it judges groups.
    """
    if is_group_reward(asked):
        raise RewardDefinitionError(
            f"{asked.name} compares the rollouts of a task, and {package} hands over one response at a time"
        )
    return asked


def _shared(group: Sequence[Row]) -> dict[str, Any]:
    return {name: value for name, value in group[0].items() if name not in _OWN}
