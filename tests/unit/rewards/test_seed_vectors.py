"""ARISE's rewards and SQuAD's figures against recordings of them, case by case, to 1e-9."""

import re

import pytest

from ors_server.rewards import arise
from ors_server.rewards.composite import CompositeReward
from ors_server.rewards.define import as_reward
from ors_server.rewards.qa import QAOptions, normalise_answer, score_answer
from ors_server.rewards.reward_errors import RewardDefinitionError
from ors_server.rewards.scoring import gather_fields, score
from tests.fixtures.recorded_rewards import recorded_cases

SQUAD = "qa_squad"
SQUAD_CASES = recorded_cases(SQUAD)
WEIGHTED = re.compile(r"\((\w+|[-\d.]+),([-\d.]+)\)")


def player_of(reward):
    def play(case):
        given = dict(case["input"])
        if "n_steps" in given:
            given["steps"] = [{"action": str(step)} for step in range(given.pop("n_steps"))]
        asked = as_reward(reward)
        return asked.read(asked.judge(gather_fields(asked, given, {})))

    return play


def part(value):
    def judge():
        if value == "raises":
            raise KeyError("x")
        return float(value) if isinstance(value, str) else value

    return judge


def play_composite(case):
    given = case["input"]
    if isinstance(given, dict):  # the page's own blend, which the recording names beside the trajectory
        parts = arise.task_success, arise.code_execution_reward, arise.efficiency_reward
        trajectory = {key: value for key, value in given.items() if key != "composite"}
        blend = CompositeReward(list(zip(parts, (0.6, 0.3, 0.1), strict=True)))
        return player_of(blend)({**case, "input": trajectory})
    pairs = WEIGHTED.findall(given) if isinstance(given, str) else given
    asked = CompositeReward([(part(value), float(weight)) for value, weight in pairs])
    return asked.read(asked.judge({}))


PLAYERS = {
    "arise_task_success": player_of(arise.task_success),
    "arise_code_execution_reward": player_of(arise.code_execution_reward),
    "arise_answer_match_reward": player_of(arise.answer_match_reward),
    "arise_efficiency_reward": player_of(arise.efficiency_reward),
    "arise_composite_reward": play_composite,
}


def test_a_recorded_case_comes_out_as_there_or_the_table_says_why_not(vectors, case, compare):
    compare(vectors, case, PLAYERS[vectors])


@pytest.mark.parametrize("name", [name for name in PLAYERS if name != "arise_composite_reward"])
def test_arise_s_numbers_are_kept_without_exception(name, compare):
    assert not any(compare(name, case, PLAYERS[name]) for case in recorded_cases(name))


def near(figures):
    return {key: pytest.approx(value, abs=1e-9) for key, value in figures.items()}


def figures(case, **options):
    found = score_answer(case["prediction"], case["golds"], QAOptions(**options))
    return {"f1": found.f1, "em": found.em}


@pytest.mark.parametrize("case", SQUAD_CASES, ids=str)
def test_answers_are_compared_as_squad_does(case):
    wanted = case["squad_v2"]
    if isinstance(wanted, str):  # said in words: no golds at all are one empty gold
        assert case["golds"] == []
        wanted = {"f1": 0.0, "em": 0.0} if normalise_answer(case["prediction"]) else {"f1": 1.0, "em": 1.0}
    assert figures(case) == near(wanted)


@pytest.mark.parametrize("case", [one for one in SQUAD_CASES if "agentfly_hotpot" in one], ids=str)
def test_the_older_rules_are_options(case):
    assert figures(case, empty="squad1") == near(case["squad_v1"])
    assert figures(case, empty="squad1", yes_no="hotpot") == near(case["agentfly_hotpot"])
    assert figures(case)["em"] == case["search_r1"]["em"]
    first, *golds = case["normalized"]
    assert normalise_answer(case["prediction"]) == first
    assert [normalise_answer(gold) for gold in case["golds"][: len(golds)]] == golds


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_no_part_of_a_mean_is_other_than_finite(value):
    result = score(CompositeReward([(part(value), 1.0)]))
    assert (result.reward, result.status) == (None, "error")
    with pytest.raises(RewardDefinitionError):
        CompositeReward([(part(1.0), value)])
