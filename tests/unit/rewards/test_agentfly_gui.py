"""Actions on a screen: what is read of them, what they pay, and what hostile ones do."""

import pytest

from ors_server.rewards.agentfly.gui import gui_reward, read_action
from ors_server.rewards.result import RewardStatus
from ors_server.rewards.scoring import score

MIDDLE = "Action: click(start_box='(960,540)')"


@pytest.mark.parametrize(
    ("text", "kind", "arguments"),
    [
        (MIDDLE, "click", {"start_box": "(960,540)"}),
        ("Thought: I see.\n" + MIDDLE, "click", {"start_box": "(960,540)"}),
        ("Action: click(point='<point>960 540</point>')", "click", {"start_box": "(960,540)"}),
        ("Action: right_single(start_point='(1,2)')", "click", {"start_box": "(1,2)"}),
        ("Action: type(content='it\\'s, (so)\\n')", "type", {"content": "it's, (so)\n"}),
        ('Action: type(content="two words")', "type", {"content": "two words"}),
        ("Action: press(key=enter)", "hotkey", {"key": "enter"}),
        (
            "Action: select(start_box='(1,2)', end_box='(3,4)')",
            "drag",
            {"start_box": "(1,2)", "end_box": "(3,4)"},
        ),
        ("Action: wait()", "wait", {}),
        ("Action: click(960, 540)", "click", {}),
        ("Action: click(start_box=(960,540))", "click", {}),
        ("Action: wait()\n\nAction: click(start_box='(1,2)')", "click", {"start_box": "(1,2)"}),
        ("Action: click(start_box='(1,2)')\n\nscroll(direction='up')", "click", {"start_box": "(1,2)"}),
        ("Action: no call\n\n)\n\nscroll(direction='up')", "scroll", {"direction": "up"}),
        ("Action: type(content='')", "type", {}),
    ],
)
def test_an_action_is_read(text, kind, arguments):
    action = read_action(text)
    assert (action.kind, dict(action.arguments)) == (kind, arguments)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "click(start_box='(1,2)')",
        "Action: ",
        "Action: click",
        "Action: click(start_box='(a,b)')",
        "Action: click(start_box='(nan,1)')",
        "Action: click(start_box='(1,2)') and more)",
        "Action: click(start_box='(1,2)' end_box='(1,2)')",
        "Action: __import__('os').system('x')",
        "Action: ((((",
    ],
)
def test_what_is_no_action_is_unparsed_and_pays_nothing(text):
    assert read_action(text) is None
    result = score(gui_reward, final_response=text, gt_action="click", gt_bbox=[0.5, 0.5])
    assert (result.reward, result.status) == (0.0, RewardStatus.UNPARSED_ANSWER)


@pytest.mark.parametrize(
    ("text", "right", "accuracy"),
    [
        (MIDDLE, {"gt_action": "click", "gt_bbox": [0.5, 0.5]}, 1.0),
        (MIDDLE, {"gt_action": "CLICK", "gt_bbox": [0.4, 0.4, 0.6, 0.6]}, 1.0),
        (MIDDLE, {"gt_action": "click", "gt_bbox": [0.6, 0.5]}, 0.5),
        (MIDDLE, {"gt_action": "click"}, 1.0),
        (MIDDLE, {"gt_action": "type", "gt_input_text": "hello"}, 0.0),
        ("Action: click()", {"gt_action": "click", "gt_bbox": [0.5, 0.5]}, 0.5),
        ("Action: click(start_box='(1,2,3)')", {"gt_action": "click", "gt_bbox": [0.5, 0.5]}, 0.5),
        ("Action: click(start_box='(950,530,970,550)')", {"gt_action": "click", "gt_bbox": [0.5, 0.5]}, 1.0),
        ("Action: type(content='Hello, you')", {"gt_action": "type", "gt_input_text": "hello"}, 1.0),
        ("Action: type(content='bye')", {"gt_action": "type", "gt_input_text": "no input text"}, 1.0),
        ("Action: scroll()", {"gt_action": "scroll", "gt_input_text": "Down"}, 1.0),
        ("Action: hotkey(key='ctrl c')", {"gt_action": "hotkey", "gt_input_text": "ctrl c"}, 0.5),
        ("Action: finished(content='x')", {"gt_action": "finished", "gt_input_text": "x"}, 0.5),
    ],
)
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
