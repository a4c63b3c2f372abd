"""AgentFly's rewards against recordings of them, case by case: the same figures, or a row of the table."""

import json

import pytest

from ors_server.rewards.agentfly import answers as agentfly
from ors_server.rewards.agentfly import chess as agentfly_chess
from ors_server.rewards.agentfly import exact as agentfly_em
from ors_server.rewards.agentfly import gui as agentfly_gui
from ors_server.rewards.define import as_reward
from ors_server.rewards.scoring import gather_fields
from tests.fixtures.recorded_rewards import recorded_cases

PICTURE = [{"type": "text", "text": "<think>t</think> done"}]


def chat(*messages):
    return [{"role": "user", "content": "q"}, *messages]


def said(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(arguments):
    return [{"id": "1", "type": "function", "function": {"name": "submit", "arguments": arguments}}]


TOOL = {"role": "tool", "content": [{"type": "text", "text": "Paris"}]}
TRAJECTORIES = {
    "empty": lambda _: [],
    "plain": lambda response: chat(said(response)),
    "think_tool": lambda response: chat(said("<think>t</think>"), TOOL, said(response)),
    "nothink": lambda response: chat(said("I look."), TOOL, said(response)),
    "last_tool": lambda _: chat(said("<think>t</think>"), TOOL),
    "tool_call_answer_dict": lambda response: chat(said(response, tool_calls=call({"answer": "Paris"}))),
    "tool_call_answer_str": lambda response: chat(
        said(response, tool_calls=call(json.dumps({"answer": "Paris"})))
    ),
    "none": lambda _: chat(),
    "tool_only": lambda _: chat(TOOL),
    "thought_all": lambda _: chat(said("Thought: a"), TOOL, said("thought: b")),
    "thought_some": lambda _: chat(said("Thought: a"), TOOL, said("no more")),
    "think_all": lambda _: chat(said("<think>a</think>"), TOOL, said("<think>b</think> so")),
    "think_some": lambda _: chat(said("<think>a</think>"), TOOL, said("no more")),
    "list_content": lambda _: chat(said(PICTURE), TOOL),
    "none_content": lambda _: chat(said(None), TOOL),
}
"""What the recordings call by name. The responses stand in the inputs."""

SAID_IN_WORDS = {
    "trajectory entry without role": {"final_response": "a", "answer": "a", "trajectory": [{"content": "r"}]},
    "trajectory of strings": {"final_response": "a", "answer": "a", "trajectory": ["q", "a"]},
    "empty answer_eval": {"final_response": "a", "answer": "a", "answer_eval": [], "n_tool": 2},
    "missing trajectory": {"final_response": "a", "answer": "a"},
}
COUNTS = ("n_tool", "n_tool_messages")


def trajectory_of(given):
    trajectory = given.get("trajectory")
    if isinstance(trajectory, str):
        return named(TRAJECTORIES, trajectory)(given["final_response"])
    count = next((given[name] for name in COUNTS if name in given), None)
    return trajectory if count is None else chat(*[TOOL] * count)


def fields_of(case):
    given = case["input"]
    return named(SAID_IN_WORDS, given) if isinstance(given, str) else given


def named(known, name):
    if name not in known:
        pytest.fail(f"{name!r} is not played")  # no exception, which the comparison would take for a reward's
    return known[name]


def player_of(reward):
    def play(case):
        given = fields_of(case)
        asked = as_reward(reward)
        others = {name: value for name, value in given.items() if name not in {*COUNTS, "trajectory"}}
        fields = gather_fields(asked, trajectory_of(given), others)
        return asked.read(asked.judge(fields))

    return play


def play_equal(case):
    if case["input"] == "positional args":
        return agentfly.math_equal_reward.read(agentfly.math_equal_reward("\\boxed{42}", "42"))
    return player_of(agentfly.math_equal_reward)(case)


def play_chess(case):
    given = case["input"]
    simple, dense = agentfly_chess.chess_puzzle_reward_simple, agentfly_chess.chess_puzzle_reward
    return player_of(simple if given.get("simple") else dense)(case)


PLAYERS = {
    "agentfly_qa_f1_reward": player_of(agentfly.qa_f1_reward),
    "agentfly_qa_f1_reward_tool": player_of(agentfly.qa_f1_reward_tool),
    "agentfly_qa_em_reward": player_of(agentfly_em.qa_em_reward),
    "agentfly_qa_em_format_reward": player_of(agentfly_em.qa_em_format_reward),
    "agentfly_qa_em_reward_tool_call": player_of(agentfly_em.qa_em_reward_tool_call),
    "agentfly_ok_vqa_reward": player_of(agentfly.ok_vqa_reward),
    "agentfly_infoseek_reward": player_of(agentfly.infoseek_reward),
    "agentfly_math_equal_reward": play_equal,
    "agentfly_math_equal_reward_tool": player_of(agentfly.math_equal_reward_tool),
    "agentfly_math_equal_reward_think": player_of(agentfly.math_equal_reward_think),
    "agentfly_math_reward_thought_with_tool": player_of(agentfly.math_reward_thought_with_tool),
    "agentfly_math_string_equal_reward_tool": player_of(agentfly.math_string_equal_reward_tool),
    "agentfly_gui_reward": player_of(agentfly_gui.gui_reward),
    "agentfly_chess_puzzle_reward": play_chess,
}


def test_a_recorded_case_comes_out_as_there_or_the_table_says_why_not(vectors, case, compare):
    compare(vectors, case, PLAYERS[vectors])


@pytest.mark.parametrize(
    ("name", "count"),
    [("agentfly_qa_f1_reward_tool", "n_tool_messages"), ("agentfly_math_equal_reward_tool", "n_tool")],
)
def test_the_documented_three_values_are_all_that_the_tool_rewards_pay(name, count):
    for case in recorded_cases(name):
        if isinstance(case["input"], str):
            continue
        result = PLAYERS[name](case)
        right = result.extras.get("em", result.extras.get("acc")) == 1.0
        paid = (1.0 if right else 0.1) if case["input"][count] else 0.0
        assert result.reward == paid, case
