"""Calls that are written as text: read, or refused, and never no call."""

import itertools
import json
from contextlib import suppress

import pytest

from ors_server.rewards.agentfly.answers import math_equal_reward_tool
from ors_server.rewards.reward_trajectory import read_trajectory
from ors_server.rewards.scoring import score
from ors_server.rewards.structures.tool_calls import tool_call_match_reward
from ors_server.rewards.transcripts.text_calls import read_text_calls
from ors_server.rewards.transcripts.turns import TranscriptError
from tests.fixtures.processor_time import processor_seconds

USER = {"role": "user", "content": "q"}
JSON = '{"name": "f", "arguments": {"a": 1}}'
BEGIN, END = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (f"<tool_call>{JSON}</tool_call>", ""),
        (f"I look.\n<tool_call>\n{JSON}\n</tool_call>", "I look."),
        (f"<think>Which?</think>I look.<tool_call>{JSON}</tool_call>", "<think>Which?</think>I look."),
        (f"<tool_call>{JSON}", ""),
        ('<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>', ""),
        (f"[TOOL_CALLS] [{JSON}]", ""),
        (f"[TOOL_CALLS]{JSON}", ""),
        ('[TOOL_CALLS]f[ARGS]{"a": 1}', ""),
        ('[TOOL_CALLS]f[CALL_ID]abc[ARGS]{"a": 1}</s>', ""),
        ('[TOOL_CALLS]f{"a": 1}', ""),
        ('<function=f>{"a": 1}</function>', ""),
        ('<|python_tag|>{"name": "f", "parameters": {"a": 1}}<|eom_id|>', ""),
        (BEGIN + 'function<｜tool▁sep｜>f\n```json\n{"a": 1}\n```' + END, ""),
        ("So:" + BEGIN + 'f<｜tool▁sep｜>{"a": 1}' + END, "So:"),
        (JSON, JSON),
        (f"[{JSON}]", f"[{JSON}]"),
        ('{"name": "f", "parameters": {"a": 1}}', '{"name": "f", "parameters": {"a": 1}}'),
    ],
)
def test_a_call_in_a_models_own_form_is_a_call(text, rest):
    read = read_text_calls(text, "message 1")
    assert ([(call.name, call.arguments) for call in read.calls], read.text) == ([("f", {"a": 1})], rest)
    messages = [USER, {"role": "assistant", "content": text}]
    answer = [{"name": "f", "arguments": {"a": 1}}]
    assert score(tool_call_match_reward, messages, answer=answer).reward == 1.0
    assert score(tool_call_match_reward, messages, answer=[]).reward == 0.0
    assert score(tool_call_match_reward, final_response=text, answer=[]).reward == 0.0
    assert score(tool_call_match_reward, {"outcome": text}, answer=[]).reward == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>f(a=1)</tool_call>",
        "<tool_call></tool_call>",
        "<tool_call>",
        "</tool_call>",
        f"<tool_call>{JSON[:-1]}",
        f"<tool_call>{JSON}<tool_call>{JSON}</tool_call>",
        f"<tool_call>{JSON}</tool_call></tool_call>",
        '<tool_call>{"name": "f", "args": {"a": 1}}</tool_call>',
        '<tool_call>{"tool": "f"}</tool_call>',
        '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
        "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
        f"<TOOL_CALL>{JSON}</TOOL_CALL>",
        f"< tool_call >{JSON}",
        f"<toolcall>{JSON}</toolcall>",
        f"<tool_calls>[{JSON}]</tool_calls>",
        f"<think>I could do <tool_call>{JSON}</tool_call></think>No.",
        f"[TOOL_CALLS] {JSON[:-1]}",
        "[TOOL_CALLS]",
        "[TOOL_CALLS] f",
        '<function=f>{"a": 1}',
        "<function=f>a = 1</function>",
        '<function=>{"a": 1}</function>',
        "<|python_tag|>print(1)",
        '<|python_tag|>search.call(query="a")',
        f"<|tool_call|>[{JSON}]<|/tool_call|>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0",
        "<｜tool▁calls▁begin｜>f<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}",
        "<｜DSML｜function_calls>",
        '<function_calls><invoke name="f"></invoke></function_calls>',
        "<minimax:tool_call></minimax:tool_call>",
        "<|channel|>commentary to=functions.f <|message|>{}",
        "Action: f\nAction Input: {}",
        "```tool_code\nf(a=1)\n```",
        "<tool_response>r</tool_response>",
        "<tool_call>" + "[" * 100_000,
        "[TOOL_CALLS]" + "[" * 100_000,
    ],
    ids=map(str, itertools.count()),
)
def test_a_form_that_cannot_be_read_is_refused_and_named(text):
    with pytest.raises(TranscriptError, match="call"):
        read_text_calls(text, "message 2")
    for judged in ([USER, {"role": "assistant", "content": text}], {"outcome": text}):
        result = score(tool_call_match_reward, judged, answer=[])
        assert (result.status, result.reward) == ("error", None)
        assert "a call is written as text" in str(result.reason)


@pytest.mark.parametrize(
    "text",
    [
        "The function f = 3 calls a tool.",
        "Use a tool_call for that.",
        '{"name": "Oslo", "population": 700000}',
        '{"name": "f", "arguments": 3}',
        '[{"name": "f", "arguments": {}}, 3]',
        "Action: click(start_box='(1,2)')",
        "a < b and c > d",
        "<answer>4</answer>",
        "",
    ],
)
def test_ordinary_text_has_no_call(text):
    read = read_text_calls(text, "message 1")
    assert (read.calls, read.text) == ((), text)


def test_a_call_is_counted_once_where_the_text_repeats_it():
    call = {"function": {"name": "f", "arguments": '{"a": 1}'}}
    text = f"<tool_call>{JSON}</tool_call>"
    message = {"role": "assistant", "content": text, "tool_calls": [call]}
    assert len(read_trajectory([USER, message]).steps) == 1
    other = {**message, "tool_calls": [{"function": {"name": "g", "arguments": "{}"}}]}
    assert score(tool_call_match_reward, [USER, other], answer=[]).status == "error"


def test_a_call_in_a_final_response_is_no_result_of_a_tool():
    response = f"<tool_call>{JSON}</tool_call> \\boxed{{5}}"
    assert score(math_equal_reward_tool, final_response=response, answer="4").reward == 0.0


def test_results_in_the_users_text_are_results():
    messages = [
        USER,
        {"role": "assistant", "content": f"<tool_call>{JSON}</tool_call>"},
        {"role": "user", "content": "<tool_response>\nrain\n</tool_response>"},
        {"role": "assistant", "content": "rain"},
    ]
    read = read_trajectory(messages)
    assert [message["role"] for message in read] == ["user", "assistant", "tool", "assistant"]
    assert [step.full_result for step in read.steps] == ["rain"]
    mixed = [*messages[:2], {"role": "user", "content": "Look: <tool_response>rain</tool_response>"}]
    assert score(tool_call_match_reward, mixed, answer=[]).status == "error"


@pytest.mark.parametrize(
    "piece",
    [
        f"<tool_call>{JSON}</tool_call>",
        "<tool_call>",
        "<" + " " * 50,
        "<function=",
        "[TOOL_CALLS]",
        f"[TOOL_CALLS][{JSON}]",
        "<|python_tag|>",
        "action input",
        "</think><think>",
        '{"name"',
        json.dumps("<tool_response>"),
    ],
)
def test_reading_takes_time_in_proportion_to_the_text(piece):
    def took(count: int) -> float:
        text = piece * count

        def read() -> None:
            with suppress(TranscriptError):
                read_text_calls(text, "message 1")

        return processor_seconds(read, times=3)

    took(100)
    assert took(20_000) < 60 * max(took(1_000), 0.002)
