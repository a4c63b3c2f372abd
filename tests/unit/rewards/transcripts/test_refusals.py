"""What is not understood is refused, by name: a key, a role, a type, or a transcript beyond the bounds."""

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from ors_server.rewards.arise import efficiency_reward, task_success
from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.reward_trajectory import Trajectory, read_trajectory
from ors_server.rewards.scoring import score
from ors_server.rewards.structures.tool_calls import tool_call_match_reward
from ors_server.rewards.transcripts import conversation, turns
from tests.fixtures.processor_time import processor_seconds
from tests.fixtures.transcripts import CONVERSATIONS, EPISODES, RECORDS

USER = {"role": "user", "content": "q"}
DONE = {"role": "assistant", "content": "done"}
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"foo": 1}, "'foo'"),
        ({"success": False}, "'success'"),
        ({"outcome": "a", "sucess": False}, "'sucess'"),
        ({}, "'{}'"),
        ({"steps": [{"tool": "f", "args": {}}]}, "'tool'"),
        ({"steps": [{}]}, "step 1"),
        ({"steps": {"action": "f"}}, "steps"),
        ({"steps": [3]}, "step 1"),
        ({"outcome": "a", "messages": [{"role": "agent", "content": "a"}]}, "'agent'"),
        ([{"role": "Assistant", "content": "a"}], "'Assistant'"),
        ([{"role": "bot", "content": "a"}], "'bot'"),
        ([{"role": None, "content": "a"}], "None"),
        ([{"role": ["user"], "content": "a"}], "['user']"),
        ([{"content": "a"}], "role"),
        ([{"speaker": "a", "text": "b"}], "'speaker'"),
        ([USER, {**DONE, "toolcalls": [CALL]}], "'toolcalls'"),
        ([USER, {**DONE, "toolCalls": [CALL]}], "'toolCalls'"),
        ([USER, {**DONE, "tools_used": ["f"]}], "'tools_used'"),
        ([USER, {**DONE, "tool_calls": CALL}], "tool_calls"),
        ([USER, {**DONE, "tool_calls": [{"tool": "f", "arguments": {}}]}], "'tool'"),
        ([USER, {**DONE, "tool_calls": [{"name": "f", "input": {}}]}], "'input'"),
        ([USER, {**DONE, "tool_calls": [{"function": {"name": "f", "args": {}}}]}], "'args'"),
        ([USER, {**DONE, "tool_calls": [{"function": {"name": None}}]}], "name"),
        ([USER, {**DONE, "tool_calls": [{"name": "f", "type": "web_search"}]}], "'web_search'"),
        ([USER, {**DONE, "content": {"text": "a"}}], "content"),
        ([USER, {**DONE, "content": [{"type": "tool-call", "name": "f"}]}], "'tool-call'"),
        ([USER, {**DONE, "content": [{"type": "server_tool_use", "name": "f"}]}], "'server_tool_use'"),
        ([USER, {**DONE, "content": [{"type": "tool_use", "name": "f", "args": {}}]}], "'args'"),
        ([USER, {**DONE, "content": [{"value": "a"}]}], "None"),
        ([{**USER, "tool_calls": [CALL]}, DONE], "'tool_calls'"),
        ([USER, {"role": "user", "content": [{"type": "tool_use", "name": "f", "input": {}}]}], "user"),
        ([USER, CALLING, {"role": "tool", "tool_call_id": "2", "content": "r"}], "'2'"),
        ([USER, CALLING, {"role": "tool", "tool_call_id": "1", "content": {"a": 1}}], "content"),
        ([USER, CALLING, {"role": "tool", "tool_call_id": "1", "content": "r", "is_error": "no"}], "'no'"),
        ([USER, {"type": "web_search_call", "id": "1", "status": "completed"}], "'web_search_call'"),
        ([USER, {"type": "function_call", "name": "f", "args": "{}", "call_id": "1"}], "'args'"),
        ([USER, {"type": "remove", "id": "1"}], "'remove'"),
        ([{"type": "human", "content": "q"}, {"type": "ai", "content": "a", "toolcalls": []}], "'toolcalls'"),
        ([{"type": "human", "data": {"content": "q"}, "extra": 1}], "'extra'"),
        ([{"type": "tool", "content": "a", "tool_call_id": "1", "status": "late"}], "'late'"),
        ([{"lc": 1, "type": "constructor", "id": ["langchain", "Other"], "kwargs": {}}], "'Other'"),
        ([{"from": "human", "value": "q"}, {"from": "bot", "value": "a"}], "'bot'"),
        ([{"from": "human", "value": "q"}, {"from": "gpt", "value": "a", "calls": []}], "'calls'"),
        ([{"from": "human", "value": "q"}, {"from": "function_call", "value": "f()"}], "f()"),
        ([{"from": "human", "value": "q"}, {"from": "function_call", "value": "[]"}], "none"),
        ([{"role": "user", "parts": [{"text": "q"}]}, {"role": "bot", "parts": [{"text": "a"}]}], "'bot'"),
        ([{"role": "model", "parts": [{"executableCode": {"code": "1"}}]}], "'executableCode'"),
        ([{"role": "model", "parts": [{"functionCall": {"name": "f", "arguments": {}}}]}], "'arguments'"),
        ([{"role": "model", "parts": [{}]}], "part"),
        ([{"role": "user", "parts": [{"functionCall": {"name": "f"}}]}], "user"),
        ({"messages": [USER, DONE], "outcomes": []}, "'outcomes'"),
        ({"prompt": [USER], "completion": [DONE], "completions": []}, "'completions'"),
        ({"prompt": [USER], "chosen": [DONE], "rejected": [DONE]}, "preferences"),
        ({"data_source": "d", "prompt": [USER], "reward_model": {}}, "responses"),
        ({"data_source": "d", "prompt": [USER], "responses": ["a", "b"]}, "2 responses"),
        ({"object": "response", "output": [], "error": {"code": "server_error"}}, "server_error"),
        ({"choices": [{"message": DONE}, {"message": DONE}]}, "choices"),
        ({"input": "q", "instructions": "be brief"}, "output"),
        ({"contents": [{"role": "model", "parts": [{"text": "a"}]}], "content": 1}, "'content'"),
        ({"episode_id": "1", "session_id": "2", "return": 1.0}, "'episode_id'"),
        ("a text", "a text"),
        (5, "5"),
        ([5], "5"),
        (["a text"], "a text"),
        ([[USER]], "object"),
    ],
    ids=map(str, itertools.count()),
)
def test_what_is_not_understood_is_named(value, name):
    with pytest.raises(RewardFieldError) as raised:
        read_trajectory(value)
    assert name in str(raised.value)
    asked: list[tuple[Any, dict[str, Any]]] = [
        (task_success, {}),
        (efficiency_reward, {}),
        (tool_call_match_reward, {"answer": []}),
    ]
    for reward, fields in asked:
        result = score(reward, value, **fields)
        assert (result.status, result.reward) == ("error", None)
        assert name in str(result.reason)


FREE = ("arguments", "args", "input", "action_input", "response", "additional_kwargs", "response_metadata")
"""Keys whose values are free: arguments, results, and what providers keep beside a message."""


def closed(value: Any) -> Iterator[dict[str, Any]]:
    """Every object whose keys are known, free ones left out."""
    if isinstance(value, list):
        for entry in value:
            yield from closed(entry)
    elif isinstance(value, dict):
        yield value
        for key, entry in value.items():
            if key not in {*FREE, "metadata", "inlineData", "inline_data", "extra_info", "reward_model"}:
                yield from closed(entry)


SHAPES = [name for name in CONVERSATIONS if not name.endswith("object") and "trajectory" not in name]


@pytest.mark.parametrize("shape", SHAPES)
def test_an_unknown_key_anywhere_is_refused(shape):
    whole = CONVERSATIONS[shape](EPISODES["one call"])
    count = len(list(closed(whole)))
    assert count >= 2
    for number in range(count):
        changed = copy.deepcopy(whole)
        list(closed(changed))[number]["surprise"] = [{"name": "f", "arguments": {}}]
        result = score(tool_call_match_reward, changed, answer=[])
        assert (result.status, result.reward) == ("error", None), list(closed(changed))[number]
        assert "surprise" in str(result.reason)


ROLE_KEYS = ("role", "from", "type")


@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "arise"])
def test_an_unknown_role_anywhere_is_refused(shape):
    whole = CONVERSATIONS[shape](EPISODES["one call"])
    spots = [
        (number, key)
        for number, entry in enumerate(closed(whole))
        for key in ROLE_KEYS
        if isinstance(entry.get(key), str)
    ]
    assert spots
    for number, key in spots:
        changed = copy.deepcopy(whole)
        list(closed(changed))[number][key] = "strange"
        result = score(tool_call_match_reward, changed, answer=[])
        assert (result.status, result.reward) == ("error", None), (number, key)
        assert "strange" in str(result.reason), (number, key)


def test_a_null_says_nothing_and_is_allowed():
    assert score(efficiency_reward, [USER, {**DONE, "anything": None}]).reward == 1.0


def test_rows_of_the_table_of_steps_are_one_whole_episode():
    rows = RECORDS["export steps"](EPISODES["parallel calls"])
    other = [rows[0], {**rows[1], "episode_id": "another"}]
    for broken in (rows[1:], rows[::-1], other, [{**rows[0], "status": "done"}]):
        assert score(efficiency_reward, broken).status == "error"


def test_an_export_that_leaves_out_what_matters_says_which_option_adds_it():
    def reason(shape, change):
        row = RECORDS[shape](EPISODES["one call"])
        change(row)
        result = score(efficiency_reward, row)
        assert (result.status, result.reward) == ("error", None)
        return str(result.reason)

    assert "--with-episode" in reason("export openai", lambda row: row.pop("episode"))
    assert "export it again" in reason("export verl", lambda row: row.pop("statuses"))
    limited = {"stop_reason": "step_limit"}
    assert "--last-result" in reason("export trl", lambda row: row["episode"].update(limited))
    assert "'done'" in reason("export trl", lambda row: row["episode"].update(statuses=["done", "graded"]))
    assert "statuses" in reason("export trl", lambda row: row["episode"].pop("statuses"))


def test_a_conversation_without_a_turn_of_the_agent_is_not_judged():
    for silent in ([USER], {"prompt": [USER], "completion": []}, {"messages": [USER]}):
        assert score(task_success, silent).status == "error"
    assert score(task_success, foo=1).status == "error"
    assert score(task_success, messages=[USER]).status == "error"
    assert score(task_success, success=True).reward == 1.0


def test_calls_of_a_prompt_are_not_the_agents():
    shown = [USER, CALLING, {"role": "tool", "tool_call_id": "1", "content": "r"}, DONE, USER]
    row = {"prompt": shown, "completion": [DONE]}
    assert score(tool_call_match_reward, row, answer=[]).reward == 1.0
    assert score(tool_call_match_reward, row, answer=[{"name": "f"}]).reward == 0.0
    played = {"prompt": [USER], "completion": [*shown[1:3], DONE]}
    assert score(tool_call_match_reward, played, answer=[{"name": "f"}]).reward == 1.0


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [USER, CALLING]},
        {"prompt": [USER], "completion": [CALLING]},
        {"conversations": CONVERSATIONS["sharegpt"](EPISODES["one call"])["conversations"]},
        CONVERSATIONS["gemini"](EPISODES["one call"]),
    ],
)
def test_a_row_of_a_file_is_read_by_its_fields(row):
    assert score(tool_call_match_reward, **row, answer=[]).reward == 0.0
    assert score(tool_call_match_reward, row, answer=[]).reward == 0.0


@pytest.mark.parametrize("arguments", [[1], 3, "[1]", "not JSON", '{"a": 1, "a": 2}'])
def test_arguments_that_are_no_object_are_a_call_that_matches_nothing(arguments):
    made = [USER, {**DONE, "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}]
    assert score(tool_call_match_reward, made, answer=[{"name": "f"}]).reward == 0.0
    assert score(tool_call_match_reward, made, answer=[]).reward == 0.0


def test_results_that_cannot_be_told_apart_are_refused():
    two = [{"function": {"name": "f", "arguments": {"a": number}}} for number in (1, 2)]
    made = [USER, {"role": "assistant", "tool_calls": two}]
    answer = {"role": "tool", "content": "r"}
    assert score(efficiency_reward, [*made, answer, answer, DONE]).reward == 0.9
    assert "2 calls have 1 results" in str(score(efficiency_reward, [*made, answer, DONE]).reason)
    assert score(efficiency_reward, [*made, answer, answer, answer]).status == "error"


def test_the_same_id_may_come_again_in_a_later_turn():
    answer = {"role": "tool", "tool_call_id": "1", "content": "r"}
    read = read_trajectory([USER, CALLING, answer, CALLING, answer, DONE])
    assert [step.full_result for step in read.steps] == ["r", "r"]


def test_calls_beside_a_content_and_in_it_are_the_same_or_refused():
    inside = {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}
    beside = {"name": "f", "args": {"a": 1}, "id": "1", "type": "tool_call"}
    message = {"type": "ai", "content": [inside], "tool_calls": [beside]}
    assert len(read_trajectory([message]).steps) == 1
    other = {**message, "tool_calls": [{**beside, "args": {"a": 2}}]}
    assert "same arguments" in str(score(efficiency_reward, [other]).reason)


def test_a_trajectory_whose_messages_have_more_calls_than_it_has_steps_is_refused():
    made = Trajectory(messages=[USER, CALLING, CALLING, DONE], steps=read_trajectory([CALLING]).steps)
    assert "2 calls and 1 steps" in str(score(efficiency_reward, made).reason)


@pytest.mark.parametrize(
    "value",
    [
        [USER] * (turns.MAX_MESSAGES + 1),
        [USER, {**DONE, "content": [{"type": "text", "text": "a"}] * (turns.MAX_PARTS + 1)}],
        [USER, {**DONE, "tool_calls": [CALL] * (conversation.MAX_TURN_CALLS + 1)}],
        [USER, {**DONE, "content": "a" * (conversation.MAX_CHARACTERS + 1)}],
    ],
    ids=["messages", "parts", "calls", "characters"],
)
def test_a_transcript_beyond_the_bounds_is_refused(value):
    result = score(efficiency_reward, value)
    assert (result.status, result.reward) == ("error", None)
    assert "at most" in str(result.reason)


def nested(depth: int) -> Any:
    value: Any = "a"
    for _ in range(depth):
        value = [{"type": "tool_result", "tool_use_id": "1", "content": value}]
    return value


@pytest.mark.parametrize("depth", [3, 50, 100_000])
def test_a_deep_transcript_is_refused_without_being_followed(depth):
    assert score(efficiency_reward, [USER, {"role": "user", "content": nested(depth)}]).status == "error"


def test_a_long_transcript_takes_time_in_proportion():
    def took(count: int) -> float:
        ids = [str(number) for number in range(count)]
        messages = [
            message
            for call_id in ids
            for message in (
                {"role": "assistant", "content": "x", "tool_calls": [{**CALL, "id": call_id}]},
                {"role": "tool", "tool_call_id": call_id, "content": "r"},
            )
        ]
        assert len(read_trajectory(messages).steps) == count
        return processor_seconds(lambda: read_trajectory(messages), times=1)

    took(100)
    assert took(8_000) < 40 * max(took(800), 0.01)
