"""A result as an output: the number where there is one, and everything else where only the trainer reads."""

import pytest

from ors_server import RewardResult, RewardStatus, TextBlock, graded_output
from ors_server.model.wire import ToolOutput
from ors_server.rewards.result_output import describe_result, has_result, numeric_extras

NO_NUMBER = [RewardStatus.BAD_GOLD, RewardStatus.ERROR, RewardStatus.LIMIT]


def test_a_plain_number_says_nothing_more():
    output = graded_output(RewardResult(0.5), "Noted.")
    assert (output.reward, output.finished, output.metadata) == (0.5, False, None)
    assert output.blocks == [TextBlock(text="Noted.")]


def test_an_unparsed_answer_is_a_number_and_says_so():
    output = graded_output(
        RewardResult(-1.0, RewardStatus.UNPARSED_ANSWER, reason="no answer"), finished=True
    )
    assert (output.reward, output.finished) == (-1.0, True)
    assert output.metadata == {"reward_status": "unparsed_answer", "reward_reason": "no answer"}


@pytest.mark.parametrize("status", NO_NUMBER)
def test_a_result_without_a_number_is_no_number(status):
    output = graded_output(RewardResult.without(status, "why", {"tokens": 7}), "Noted.", finished=True)
    assert (output.reward, output.finished) == (None, True)
    assert output.metadata == {
        "reward_status": status.value,
        "reward_reason": "why",
        "reward_extras": {"tokens": 7},
    }


def test_extras_and_the_tools_own_metadata_stand_beside_each_other():
    output = graded_output(RewardResult(1.0, extras={"f1": 1.0}), metadata={"value": "12"})
    assert output.metadata == {"value": "12", "reward_extras": {"f1": 1.0}}


def test_the_tools_metadata_cannot_speak_for_the_reward():
    output = graded_output(RewardResult.without(RewardStatus.ERROR, "x"), metadata={"reward_status": "fine"})
    assert output.metadata is not None
    assert output.metadata["reward_status"] == "error"


def test_no_content_of_the_result_is_shown_to_the_agent():
    result = RewardResult.without(RewardStatus.BAD_GOLD, "the gold 42 cannot be read", {"gold": 42})
    assert graded_output(result, "Noted.").blocks == [TextBlock(text="Noted.")]


def test_an_output_with_a_number_or_a_status_was_judged_already():
    assert has_result(ToolOutput(reward=0.0))
    assert has_result(graded_output(RewardResult.without(RewardStatus.ERROR, "x")))
    assert not has_result(ToolOutput(metadata={"value": 1}))


def test_of_the_extras_only_finite_numbers_are_metrics():
    extras = {"f1": 0.5, "hit": True, "n": 3, "text": "no", "none": None, "list": [1], "huge": 10**400}
    stated = {"reward_extras": extras}
    assert numeric_extras(stated) == {"f1": 0.5, "hit": 1.0, "n": 3.0}
    assert numeric_extras(None) == numeric_extras({"reward_extras": "none"}) == {}
    assert numeric_extras({"reward_extras": {"nan": float("nan"), "inf": float("-inf")}}) == {}


def test_a_description_is_empty_for_a_plain_number_only():
    assert describe_result(RewardResult(0.0)) == {}
    assert describe_result(RewardResult(0.0, extras={"em": 0.0})) == {"reward_extras": {"em": 0.0}}
