"""Actions on a screen: what is read of them, what they pay, and what hostile ones do."""

import pytest

from ors_server.rewards.agentfly.gui import gui_reward, read_action
from ors_server.rewards.result import RewardStatus
from ors_server.rewards.scoring import score
from tests.fixtures.case_tables import tables

TABLES = tables("agentfly_gui")

MIDDLE = "Action: click(start_box='(960,540)')"


@pytest.mark.parametrize(("text", "kind", "arguments"), TABLES["read"])
def test_an_action_is_read(text, kind, arguments):
    action = read_action(text)
    assert (action.kind, dict(action.arguments)) == (kind, arguments)


@pytest.mark.parametrize("text", TABLES["no_actions"])
def test_what_is_no_action_is_unparsed_and_pays_nothing(text):
    assert read_action(text) is None
    result = score(gui_reward, final_response=text, gt_action="click", gt_bbox=[0.5, 0.5])
    assert (result.reward, result.status) == (0.0, RewardStatus.UNPARSED_ANSWER)


@pytest.mark.parametrize(("text", "right", "accuracy"), TABLES["paid"])
def test_type_and_parameters_are_half_each(text, right, accuracy):
    result = score(gui_reward, prediction=text, **right)
    assert result.extras["accuracy"] == accuracy
    assert result.reward == pytest.approx(0.8 * accuracy + 0.2)


@pytest.mark.parametrize(
    "right", [{}, {"gt_action": "click", "gt_bbox": [0.5]}, {"gt_input_text": "no input text"}]
)
def test_a_task_without_anything_right_is_a_bad_gold(right):
    result = score(gui_reward, final_response=MIDDLE, **right)
    assert (result.reward, result.status) == (None, RewardStatus.BAD_GOLD)


def test_the_last_turn_counts_where_the_response_is_empty():
    chat = [{"role": "assistant", "content": MIDDLE}, {"role": "assistant", "content": ""}]
    assert gui_reward(final_response=" ", trajectory=chat, gt_action="click")["reward"] == 1.0
    assert score(gui_reward, gt_action="click").status == RewardStatus.ERROR


@pytest.mark.parametrize(
    "part", ["a(x='", "a(", "x='y',", " ", "\\", "(", "a()\n\n", "a(x='b\n\n", "Action:", "x "]
)
def test_hostile_actions_cost_no_more_than_their_length(part):
    text = f"Action: a({part * 20_000}"
    result = score(gui_reward, final_response=text, gt_action="click")
    assert result.reward is not None
    assert result.reward < 0.7
