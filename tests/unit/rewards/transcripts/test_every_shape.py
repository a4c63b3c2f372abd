"""One episode in every shape, before every reward that reads a trajectory: the same number, or a refusal."""

import json
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from ors_server.rewards.catalogue import find_reward, reward_names
from ors_server.rewards.group import score_group_with
from ors_server.rewards.judges.judge_model import Completion, Sampling
from ors_server.rewards.learned import LearnedReward
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.scoring import score
from tests.fixtures.transcripts import CONVERSATIONS, EPISODES, RECORDS

SHAPES = {**CONVERSATIONS, **RECORDS}


class ReadingJudge:
    """A judge whose score tells apart whatever it is shown."""

    name = "reader"
    sampling = Sampling()

    async def complete(self, messages: Any, schema: Any = None, *, sample: int = 0) -> Completion:
        del schema, sample
        shown = zlib.crc32(json.dumps(list(messages)).encode()) % 10_000
        return Completion(json.dumps({"reason": "so", "score": shown / 10_000}))


JUDGE = ReadingJudge()
GOLDS = {"answer": "rain", "golden_answers": ["rain"], "answer_eval": ["rain"]}
CASES: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {
        **{name: (name, {}) for name in reward_names()},
        "task_success, expected": ("task_success", {"expected": "rain"}),
        "task_success, success": ("task_success", {"success": False}),
        "tool_call_match_reward, none": ("tool_call_match_reward", {"answer": []}),
        "tool_call_match_reward, ordered": ("tool_call_match_reward", {"ordered": True}),
        "tool_call_match_reward, fraction": ("tool_call_match_reward", {"pays": "fraction"}),
        "distinct_tool_use_reward, tools": ("distinct_tool_use_reward", {"by": "tool"}),
    }
)
"""Rewards, and options of them that look at other parts of an episode."""

LATENCY = "latency_cost_reward"
TURNS = frozenset({"math_equal_reward_think", "math_reward_thought_with_tool", "qa_em_format_reward"})
"""Rewards that pay for what the agent wrote between its calls, which a server's record does not have."""
TIMED = frozenset({"arise", "arise object", "plain", "export steps"})
"""Shapes with times; the others say nothing of them."""


def reads_episodes(name: str) -> bool:
    signature = find_reward(name).signature
    return bool({"trajectory", "rollouts"} & (signature.required | signature.optional))


NAMES = [case for case, (name, _) in CASES.items() if reads_episodes(name)]


def judged(case: str, episode: str, value: Any) -> RewardResult:
    name, options = CASES[case]
    fields: dict[str, Any] = {**GOLDS, **options, "task": EPISODES[episode].question}
    if name == "tool_call_match_reward" and "answer" not in options:
        fields["answer"] = EPISODES[episode].gold
    if name == "LearnedReward":
        return score(LearnedReward(min_examples=0, model=JUDGE), value, **fields)
    if name == "llm_judge_reward":
        fields |= {"model": JUDGE}
    if name == "gui_reward":
        fields |= {"gt_action": "click"}
    reward = find_reward(name)
    if "rollouts" in reward.signature.required:
        return score_group_with(reward, [value, "snow"], **fields)[0]
    if hasattr(value, "metadata"):
        value.metadata = fields
    return score(reward, value, **fields)


def results(case: str, episode: str) -> dict[str, RewardResult]:
    shapes: Mapping[str, Callable[..., Any]] = CONVERSATIONS if CASES[case][0] in TURNS else SHAPES
    written = {shape: write(EPISODES[episode]) for shape, write in shapes.items()}
    return {shape: judged(case, episode, value) for shape, value in written.items() if value is not None}


@pytest.mark.parametrize("episode", EPISODES)
@pytest.mark.parametrize("case", [case for case in NAMES if CASES[case][0] != LATENCY])
def test_an_episode_earns_the_same_in_every_shape(case, episode):
    outcomes = {
        shape: (result.status.value, result.reward, None if result.reward is None else dict(result.extras))
        for shape, result in results(case, episode).items()
    }
    assert len(outcomes) > 15
    expected = outcomes["openai"]
    assert outcomes == dict.fromkeys(outcomes, expected)


@pytest.mark.parametrize("episode", EPISODES)
def test_a_shape_without_times_has_no_price_for_them(episode):
    for shape, result in results(LATENCY, episode).items():
        is_known = shape in TIMED or not EPISODES[episode].calls
        assert (result.status is RewardStatus.GRADED) == is_known, shape
        assert is_known or "duration" in str(result.reason)


def test_the_table_tells_episodes_apart():
    def paid(case: str, episode: str) -> float | None:
        return results(case, episode)["openai"].reward

    assert paid("tool_call_match_reward, none", "no call") == 1.0
    assert paid("tool_call_match_reward, none", "a call where none is expected") == 0.0
    assert paid("tool_call_match_reward", "parallel calls") == 1.0
    assert paid("tool_call_match_reward", "a wrong answer") == 0.0
    assert paid("code_execution_reward", "an error") == 0.75
    assert paid("task_success", "an error") == 0.0
    assert paid("task_success, success", "one call") == 0.0
    assert paid("task_success, expected", "a wrong answer") == 0.0
    assert paid("efficiency_reward", "parallel calls") == pytest.approx(0.8)
    assert paid("qa_em_format_reward", "a thought before the call") == 1.0
    assert paid("distinct_tool_use_reward", "an error") == 0.5
