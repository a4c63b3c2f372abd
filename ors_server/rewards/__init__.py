"""Rewards: functions from what an episode left behind to a number, or to the reason why it has no number.

The names here, and every reward of the catalogue, are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ors_server.rewards.agentfly.answers import (
        math_equal_reward,
        math_equal_reward_tool,
        qa_f1_reward,
        qa_f1_reward_tool,
    )
    from ors_server.rewards.arise import (
        answer_match_reward,
        code_execution_reward,
        efficiency_reward,
        task_success,
    )
    from ors_server.rewards.catalogue import CatalogueEntry, find_reward, list_rewards
    from ors_server.rewards.composite import (
        ClippedReward,
        CompositeReward,
        GatedReward,
        MinReward,
        ProductReward,
    )
    from ors_server.rewards.define import BaseReward, Reward, as_reward, reward
    from ors_server.rewards.group import evaluate_group, score_group_with
    from ors_server.rewards.judged import llm_judge_reward
    from ors_server.rewards.learned import LearnedReward
    from ors_server.rewards.result import RewardResult, RewardStatus
    from ors_server.rewards.result_output import graded_output
    from ors_server.rewards.reward_errors import RewardError
    from ors_server.rewards.reward_trajectory import Step, Trajectory
    from ors_server.rewards.scoring import calculate_reward, evaluate, score

__all__ = [
    "BaseReward",
    "CatalogueEntry",
    "ClippedReward",
    "CompositeReward",
    "GatedReward",
    "LearnedReward",
    "MinReward",
    "ProductReward",
    "Reward",
    "RewardError",
    "RewardResult",
    "RewardStatus",
    "Step",
    "Trajectory",
    "answer_match_reward",
    "as_reward",
    "calculate_reward",
    "code_execution_reward",
    "efficiency_reward",
    "evaluate",
    "evaluate_group",
    "find_reward",
    "graded_output",
    "list_rewards",
    "llm_judge_reward",
    "math_equal_reward",
    "math_equal_reward_tool",
    "qa_f1_reward",
    "qa_f1_reward_tool",
    "reward",
    "score",
    "score_group_with",
    "task_success",
]

_HOMES = {
    name: module
    for module, names in {
        "catalogue": "CatalogueEntry find_reward list_rewards",
        "composite": "ClippedReward CompositeReward GatedReward MinReward ProductReward",
        "define": "BaseReward Reward as_reward reward",
        "group": "evaluate_group score_group_with",
        "result": "RewardResult RewardStatus",
        "result_output": "graded_output",
        "reward_errors": "RewardError",
        "reward_trajectory": "Step Trajectory",
        "scoring": "calculate_reward evaluate score",
    }.items()
    for name in names.split()
}
"""Modules of the names that are not rewards; the catalogue has those of the rewards."""


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name)
    module = f"{__name__}.{home}" if home else import_module(f"{__name__}.catalogue").home_of(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value
