"""The seeds' rewards against recordings of the packages that they come from, to 1e-9."""

import ast
import json
from pathlib import Path

import pytest

from ors_server.rewards import agentfly, arise
from ors_server.rewards.compose import CompositeReward
from ors_server.rewards.errors import RewardDefinitionError, RewardValueError
from ors_server.rewards.qa import score_answer
from ors_server.rewards.result import RewardResult
from ors_server.rewards.scoring import score

DATA = Path(__file__).parents[2] / "data" / "rewards"
NEAR = pytest.approx

# Where the documented contract and the recorded code differ, the contract is followed.
BY_CONTRACT = {
    "agentfly_qa_f1_reward_tool": "0, 0.1 and 1.0 by one tool result and an exact answer, as documented; "
    "the code pays F1 from two tool results on",
    "agentfly_math_equal_reward": "graded by this library's own grader, which reads more and trusts less",
    "agentfly_math_equal_reward_tool": "graded by this library's own grader, which reads more",
}
TOOLS = {"agentfly_qa_f1_reward_tool": "n_tool_messages", "agentfly_math_equal_reward_tool": "n_tool"}


def cases(name):
    return json.loads((DATA / f"{name}.json").read_text())["cases"]


def named(name):
    return [pytest.param(case, id=str(number)) for number, case in enumerate(cases(name))]


def chat(tool_results):
    return [{"role": "user", "content": "q"}, *[{"role": "tool", "content": "r"}] * tool_results]


@pytest.mark.parametrize(
    "name", ["task_success", "code_execution_reward", "answer_match_reward", "efficiency_reward"]
)
def test_arise_s_numbers_are_kept(name):
    for case in cases(f"arise_{name}"):
        given = case["input"]
        steps = [{"action": str(step)} for step in range(given.get("n_steps", 0))]
        result = score(getattr(arise, name), given if "n_steps" not in given else {"steps": steps})
        assert result.reward == NEAR(case["output"]["value"], abs=1e-9), case


@pytest.mark.parametrize("case", named("qa_squad"))
def test_answers_are_compared_as_squad_2_does(case):
    expected = case["squad_v2"]
    if isinstance(expected, str):
        expected = {"f1": 0.0, "em": 0.0}  # said in words: no golds at all count as one empty gold
    found = score_answer(case["prediction"], case["golds"])
    assert found.f1 == NEAR(expected["f1"], abs=1e-9)
    assert found.em == expected["em"]


@pytest.mark.parametrize("case", named("agentfly_qa_f1_reward"))
def test_token_f1_is_agentfly_s(case):
    given, output = case["input"], case["output"]
    result = score(agentfly.qa_f1_reward, **given)
    if "error" in output:
        assert result.reward is None
        return
    value = dict(output["value"])
    assert result.reward == NEAR(value.pop("reward"), abs=1e-9)
    assert dict(result.extras) == {key: NEAR(number, abs=1e-9) for key, number in value.items()}


@pytest.mark.parametrize("name", ["ok_vqa_reward", "infoseek_reward"])
def test_the_best_of_several_answers_counts(name):
    for case in cases(f"agentfly_{name}"):
        given = case["input"]
        if isinstance(given, str):
            assert score(getattr(agentfly, name), chat(2), final_response="x", answer_eval=[]).reward is None
            continue
        given = dict(given)
        trajectory = chat(given.pop("n_tool", 0))
        result = score(getattr(agentfly, name), trajectory, **given)
        assert result.reward == NEAR(case["output"]["value"]["reward"], abs=1e-9), case


@pytest.mark.parametrize("name", BY_CONTRACT)
def test_where_the_contract_is_followed_the_values_are_the_documented_ones(name):
    reward = getattr(agentfly, name.removeprefix("agentfly_"))
    played = [case for case in cases(name) if isinstance(case["input"], dict)]
    agreed = 0
    for case in played:
        given = dict(case["input"])
        given.pop("trajectory", None)
        tool_results = given.pop(TOOLS.get(name, ""), 0)
        result = score(reward, chat(tool_results), **given)
        assert result.reward in ({None, 0.0, 1.0} if name not in TOOLS else {None, 0.0, 0.1, 1.0}), case
        if name in TOOLS and not tool_results:
            assert result.reward == 0.0
        recorded = case["output"].get("value", {}).get("reward")
        agreed += result.reward is not None and result.reward == recorded
    assert agreed >= len(played) // 2


def constant(value):
    return lambda: value


def test_weights_are_normalised_as_arise_does():
    for case in cases("arise_composite_reward"):
        weighted, expected = case["input"], case["output"].get("value")
        if not isinstance(weighted, list) or any(isinstance(value, str) for value, _ in weighted):
            continue
        if expected == "NaN":  # weights whose sum is infinite
            continue
        reward = CompositeReward([(constant(value), weight) for value, weight in weighted])
        assert score(reward).reward == NEAR(expected, abs=1e-9), case


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_no_part_of_a_mean_is_other_than_finite(value):
    result = score(CompositeReward([(constant(value), 1.0)]))
    assert (result.reward, result.status) == (None, "error")
    with pytest.raises(RewardDefinitionError):
        CompositeReward([(constant(1.0), value)])


def test_the_seed_s_blend_is_its_own_sum():
    (case,) = [case for case in cases("arise_composite_reward") if isinstance(case["input"], dict)]
    blend = CompositeReward(
        [(arise.task_success, 0.6), (arise.code_execution_reward, 0.3), (arise.efficiency_reward, 0.1)]
    )
    assert score(blend, case["input"]).reward == NEAR(case["output"]["value"], abs=1e-9)


@pytest.mark.parametrize("case", named("agentfly_reward_result_from_raw"))
def test_what_a_reward_may_return(case):
    text, output = case["input"], case["output"]
    value = float("nan") if text == "nan" else ast.literal_eval(text)
    if "error" in output or text == "nan":  # theirs lets NaN through; here it is refused
        with pytest.raises(RewardValueError):
            RewardResult.from_raw(value)
    else:
        result = RewardResult.from_raw(value)
        assert {"reward": result.reward, "extras": dict(result.extras)} == output["value"]
