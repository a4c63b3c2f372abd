"""AgentFly's rewards: answers in tags and tool calls, chess puzzles, actions on a screen, golds of sums."""

import json

import pytest

from ors_server.rewards import math_equal_reward, math_equal_reward_tool
from ors_server.rewards.agentfly.chess import MAX_MOVES, chess_puzzle_reward, chess_puzzle_reward_simple
from ors_server.rewards.agentfly.exact import (
    qa_em_format_reward,
    qa_em_reward,
    qa_em_reward_tool_call,
    read_form,
    tagged_answer,
)
from ors_server.rewards.agentfly.gui import gui_reward, read_action
from ors_server.rewards.result import RewardStatus
from ors_server.rewards.reward_trajectory import Step, Trajectory
from ors_server.rewards.scoring import score
from tests.fixtures.case_tables import tables

THOUGHT = {"role": "assistant", "content": "<think>t</think>"}
TOOL = {"role": "tool", "content": "r"}
ALL = [qa_em_reward, qa_em_format_reward, qa_em_reward_tool_call]


def calling(arguments, *, is_flat=False):
    call = {"name": "submit", "arguments": arguments}
    call = call if is_flat else {"function": call}
    return [{"role": "assistant", "content": "", "tool_calls": [call]}]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer> Paris </answer>", "Paris"),
        ("<answer>a</answer><answer>b</answer>", "a"),
        ("</answer>x<answer>a</answer>", "a"),
        ("<answer>Paris", "<answer>Paris"),
        ("Paris</answer>", "Paris</answer>"),
        ("<answer></answer>", ""),
        ("", ""),
    ],
)
def test_the_first_pair_of_tags_holds_the_answer_else_all_of_it_does(text, answer):
    assert tagged_answer(text) == answer


def test_tags_without_an_end_are_read_in_one_go():
    assert len(tagged_answer("<answer>" * 500_000)) == 4_000_000


@pytest.mark.parametrize(
    ("messages", "handed_in"),
    [
        (calling({"answer": "Paris"}), "Paris"),
        (calling(json.dumps({"answer": "Paris"})), "Paris"),
        (calling({"answer": 4}, is_flat=True), "4"),
        (calling({"other": "Paris"}), None),
        (calling("no JSON with answer"), None),
        (calling("[" * 100_000), None),
        (calling('["answer"]'), None),
        ([{"role": "assistant", "content": "x", "tool_calls": []}], None),
        ([THOUGHT, {"role": "tool", "content": [{"type": "text", "text": "Paris"}]}], "Paris"),
        ([*calling({"answer": "Paris"}), THOUGHT], None),
    ],
)
def test_the_last_message_may_hand_an_answer_in(messages, handed_in):
    assert read_form("r", Trajectory(messages=messages)).handed_in == handed_in
    paid = score(
        qa_em_reward_tool_call, messages, final_response="Lyon", golden_answers=["Paris", "4"]
    ).reward
    assert paid == float(handed_in is not None)


@pytest.mark.parametrize(
    ("messages", "response", "paid"),
    [
        ([THOUGHT, TOOL, {"role": "assistant", "content": "last"}], "<answer>Paris</answer>", 1.0),
        ([THOUGHT, TOOL, {"role": "assistant", "content": "last"}], "<answer>Lyon</answer>", 0.1),
        ([THOUGHT, TOOL, {"role": "assistant", "content": "last"}], "Paris", 0.0),
        ([{"role": "assistant", "content": "no thought"}, TOOL, THOUGHT], "<answer>Paris</answer>", 0.0),
        ([{"role": "assistant", "content": ""}, TOOL, THOUGHT], "<answer>Paris</answer>", 1.0),
    ],
)
def test_the_form_is_worth_a_tenth_and_lets_the_answer_count(messages, response, paid):
    fields = {"final_response": response, "golden_answers": "Paris"}
    assert score(qa_em_format_reward, messages, **fields).reward == paid


def test_a_record_of_steps_will_do_for_a_conversation():
    steps = [Step(action="search", reasoning="<think>t</think>", result="r")]
    result = score(
        qa_em_reward, Trajectory(steps=steps, outcome="<answer>Paris</answer>"), golden_answers="Paris"
    )
    assert result.reward == 1.0
    assert (result.extras["fmt"], result.extras["fmt_tool"]) == (1.0, 1.0)
    bare = score(qa_em_reward, final_response="Paris", golden_answers=["Paris"])
    assert (bare.reward, bare.extras["fmt_tool"]) == (1.0, 0.0)


@pytest.mark.parametrize("asked", ALL)
@pytest.mark.parametrize("golds", [[], None, 4, ["Paris", None]])
def test_golds_that_are_none_are_bad(asked, golds):
    result = score(asked, [THOUGHT], final_response="Paris", golden_answers=golds)
    assert (result.reward, result.status) == (None, RewardStatus.BAD_GOLD)
    assert "Paris" not in str(result.reason)


@pytest.mark.parametrize("asked", ALL)
def test_an_empty_trajectory_is_an_error(asked):
    with pytest.raises(IndexError):
        asked(final_response="Paris", golden_answers=["Paris"], trajectory=[])


BEST = {"best": "e2e4", "change": 0}


@pytest.mark.parametrize(
    ("analysis", "matches", "quality"),
    [
        ([BEST, BEST], 2, 100.0),
        ([BEST, {"best": "d2d4", "change": -150}], 1, 75.0),
        ([BEST, {"best": "d2d4", "change": -900}], 1, 50.0),
        ([BEST], 1, 50.0),
        ([BEST, BEST, BEST], 2, 100.0),
        ([], 0, 0.0),
    ],
)
def test_the_quality_is_the_mean_over_all_moves(analysis, matches, quality):
    result = score(chess_puzzle_reward, is_solved=True, moves_made=["e2e4", "e2e4"], analysis=analysis)
    assert result.extras["best_move_matches"] == matches
    assert result.extras["centipawn_score"] == quality
    assert result.reward == pytest.approx(0.6 + 0.4 * quality / 100)


@pytest.mark.parametrize(
    ("solution", "played", "paid"),
    [
        ("abcd", 0, 0.0),
        ("abcd", 1, 0.0),
        ("abcd", 2, 0.1),
        ("abcd", 4, 0.3),
        ("abcd", 99, 0.3),
        ("a", 1, 0.0),
        ("", 3, 0.0),
    ],
)
def test_half_of_the_way_counts_where_the_puzzle_is_not_solved(solution, played, paid):
    fields = {"moves_made": ["x"], "solution_moves": list(solution), "current_solution_idx": played}
    assert score(chess_puzzle_reward, is_solved=False, **fields).reward == pytest.approx(paid)


def test_no_moves_are_worth_what_they_are_there():
    assert score(chess_puzzle_reward, is_solved=False, moves_made=[]).reward == 0.2


@pytest.mark.parametrize(
    ("moves", "analysis"),
    [
        (["a"], [{"best": "b", "change": 1}]),
        (["a"], [{"best": "b", "change": float("nan")}]),
        (["a"], [{"best": "b"}]),
        (["a"] * (MAX_MOVES + 1), []),
    ],
)
def test_what_cannot_be_is_an_error_and_no_number(moves, analysis):
    result = score(chess_puzzle_reward, is_solved=False, moves_made=moves, analysis=analysis)
    assert (result.reward, result.status) == (None, "error")


def test_the_simple_one_looks_at_nothing_else():
    assert score(chess_puzzle_reward_simple, is_solved=True).reward == 1.0
    assert score(chess_puzzle_reward_simple, is_solved=False, moves_made=["a"]).reward == 0.0


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


@pytest.mark.parametrize(
    ("gold", "response", "wanted"),
    [
        (42, "42", 1.0),
        (42.0, r"\boxed{42}", 1.0),
        (42, "43", 0.0),
        (0.5, r"\frac12", 1.0),
        (-3, "the answer is -3", 1.0),
        (10**20, "100000000000000000000", 1.0),
        (1e20, "100000000000000000000", 1.0),
        ("1{,}000", "1000", 1.0),
    ],
)
def test_a_number_is_a_gold(gold, response, wanted):
    result = score(math_equal_reward, final_response=response, answer=gold)
    assert (result.reward, result.status) == (wanted, "graded")


@pytest.mark.parametrize("gold", [None, True, ["42"], {"answer": 42}, float("nan"), float("inf")])
@pytest.mark.parametrize(
    "reward", [math_equal_reward, math_equal_reward_tool], ids=lambda reward: reward.name
)
def test_anything_else_is_a_bad_gold(reward, gold):
    result = score(reward, [{"role": "tool", "content": "4"}], final_response="42", answer=gold)
    assert (result.reward, result.status) == (None, "bad_gold")
    assert "as text or a finite number" in (result.reason or "")


TOOL_USE = [{"role": "tool", "content": "4"}]


@pytest.mark.parametrize(
    "answer",
    [
        "1e999999999",
        "100000!",
        "7" * 4001,
        "7" * 3000,
        "1" + "+1" * 3000,
        "(" * 500 + "1" + ")" * 500,
        "9^{9^{9^{9}}}",
        r"\cos(2^{40})+1",
        "x" * 100_001,
    ],
)
def test_an_answer_that_is_beyond_the_grader_is_wrong_and_says_why(answer):
    result = score(math_equal_reward, final_response=answer, answer="5")
    assert (result.reward, result.status) in ((0.0, "graded"), (0.0, "unparsed_answer"))
    assert result.status == "unparsed_answer" or result.reason
    with_tool = score(math_equal_reward_tool, TOOL_USE, final_response=answer, answer="5")
    assert with_tool.reward == score(math_equal_reward_tool, TOOL_USE, final_response="6", answer="5").reward


@pytest.mark.parametrize("gold", ["1e999999999", "100000!", "7" * 4001, r"1+\cos(2^{41})", r"\frac{1}{"])
def test_a_gold_that_is_beyond_the_grader_leaves_no_number(gold):
    result = score(math_equal_reward, final_response="6", answer=gold)
    assert (result.reward, result.status) == (None, "bad_gold")
