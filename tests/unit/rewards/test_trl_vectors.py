"""Every recorded case of TRL's rewards and of rouge-score: the same value, or a row that says why not."""

import pytest

from ors_server.rewards.deviations import deviations_of
from ors_server.rewards.scoring import score
from ors_server.rewards.text.lengths import (
    cosine_length_reward,
    repetition_penalty_reward,
    soft_overlong_reward,
)
from ors_server.rewards.text.overlap import rouge_l_reward, rouge_n_reward
from ors_server.rewards.text.response_format import think_format_reward
from tests.fixtures.deviations import explains
from tests.fixtures.recorded_rewards import all_cases, recorded_cases

TRL = {
    "trl_think_format_reward": think_format_reward,
    "trl_soft_overlong_punishment": soft_overlong_reward,
    "trl_repetition_penalty": repetition_penalty_reward,
    "trl_cosine_scaled_reward": cosine_length_reward,
}


@pytest.mark.parametrize(("name", "case"), all_cases(*TRL))
def test_a_reward_of_trl_gives_what_trl_gave(name, case):
    given = case["input"]
    fields = {"final_response": given} if isinstance(given, str) else given
    result = score(TRL[name], **fields)
    assert result.reward == pytest.approx(case["output"], abs=1e-9)
    assert deviations_of(name) == ()


def rouge(case):
    given = dict(case["input"])
    kind = given.pop("rouge")
    if kind == "rougeL":
        return score(rouge_l_reward, **given)
    return score(rouge_n_reward, n=int(kind.removeprefix("rouge")), **given)


@pytest.mark.parametrize(("name", "case"), all_cases("rouge_score"))
def test_rouge_is_what_rouge_score_gave_or_the_table_says_why_not(name, case):
    result, theirs = rouge(case), case["output"]
    if result.reward is not None and result.reward == pytest.approx(theirs["reward"], abs=1e-9):
        assert result.extras["precision"] == pytest.approx(theirs["precision"], abs=1e-9)
        assert result.extras["recall"] == pytest.approx(theirs["recall"], abs=1e-9)
        return
    assert result.status in {"graded", "bad_gold"}
    assert any(explains(row, name, case, result.reward) for row in deviations_of(name))


@pytest.mark.parametrize("row", deviations_of("rouge_score"), ids=lambda row: row.what[:30])
def test_every_row_about_rouge_is_needed_by_a_case(row):
    cases = recorded_cases("rouge_score")
    differing = [case for case in cases if rouge(case).reward != pytest.approx(case["output"]["reward"])]
    assert any(explains(row, "rouge_score", case, rouge(case).reward) for case in differing)
