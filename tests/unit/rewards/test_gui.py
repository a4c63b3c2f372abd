"""Points on a screen: nearness, boxes, and responses that point at several places."""

import pytest

from ors_server.rewards.scoring import score
from ors_server.rewards.structures.points import gui_box_reward, gui_point_reward


@pytest.mark.parametrize(
    ("response", "reward"),
    [
        ("(0.5, 0.5)", 1.0),
        ("click(0.5,0.5)", 1.0),
        ("[0.50, 0.5]", 1.0),
        ("I click at x=0.5, y=0.5.", 1.0),
        ('{"x": 0.5, "y": 0.5}', 1.0),
        ("<point>0.5 0.5</point>", 1.0),
        ("<think>(0.1, 0.1)</think>(0.5, 0.5)", 1.0),
        ("(0.5, 0.5), as I said: (0.5, 0.5)", 1.0),
        ("(0.56, 0.5)", 0.36),
        ("(0.53, 0.54)", (1 - 0.05 / 0.15) ** 2),
        ("(0.65, 0.5)", 0.0),
        ("(1, 1)", 0.0),
    ],
)
def test_a_point_is_paid_by_its_distance(response, reward):
    result = score(gui_point_reward, final_response=response, answer=[0.5, 0.5])
    assert result.status == "graded"
    assert result.reward == pytest.approx(reward, abs=1e-9)


@pytest.mark.parametrize(
    "response",
    [
        "",
        "in the middle",
        "0.5, 0.5",
        "(0.5, 0.5) or (0.1, 0.1)",
        "(1.5, 0.5)",
        "(-0.5, 0.5)",
        "(nan, 1)",
        "(0.5)",
        "(0.5, 0.5)" + " " * 20_000,
        "x=1" + " " * 19_000,
    ],
    ids=lambda response: f"{response[:25]} {len(response)}",
)
@pytest.mark.parametrize(
    ("reward", "answer"), [(gui_point_reward, [0.5, 0.5]), (gui_box_reward, [0, 0, 1, 0.6])]
)
def test_a_response_without_one_point_on_the_screen_is_read_by_nobody(response, reward, answer):
    result = score(reward, final_response=response, answer=answer)
    assert (result.status, result.reward) == ("unparsed_answer", 0.0)


@pytest.mark.parametrize(
    ("response", "reward"),
    [("(10, 20)", 1.0), ("(30, 40)", 1.0), ("(20.5, 30)", 1.0), ("(31, 40)", 0.0), ("(0, 0)", 0.0)],
)
def test_a_box_is_hit_or_missed(response, reward):
    fields = {"answer": [10, 20, 30, 40], "size": [100, 50]}
    assert score(gui_box_reward, final_response=response, **fields).reward == reward


def test_pixels_are_parts_of_the_screen():
    result = score(
        gui_point_reward, final_response="(1006, 500)", answer=[1000, 500], size=[2000, 1000], radius=0.006
    )
    assert result.reward == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("reward", "answer"),
    [
        (gui_point_reward, [0.5]),
        (gui_point_reward, [0.5, 1.5]),
        (gui_point_reward, ["0.5", 0.5]),
        (gui_point_reward, [True, 0.5]),
        (gui_point_reward, [float("nan"), 0.5]),
        (gui_point_reward, "(0.5, 0.5)"),
        (gui_point_reward, None),
        (gui_box_reward, [0.5, 0.5, 0.4, 0.6]),
        (gui_box_reward, [0, 0, 1, 1]),
        (gui_box_reward, [0, 0, 1]),
        (gui_box_reward, "0011"),
    ],
)
def test_a_gold_off_the_screen_is_a_bad_gold(reward, answer):
    for response in ("(0.5, 0.5)", ""):
        assert score(reward, final_response=response, answer=answer).status == "bad_gold"


@pytest.mark.parametrize(
    "option", [{"size": [0, 1]}, {"size": [1]}, {"radius": 0}, {"radius": float("inf")}], ids=str
)
def test_an_option_that_makes_no_sense_is_an_error(option):
    assert score(gui_point_reward, final_response="(1, 1)", answer=[1, 1], **option).status == "error"
