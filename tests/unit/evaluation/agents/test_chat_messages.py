"""Prompts, tools and replies keep their meaning in the words of the chat API."""

import json

import pytest

from ors_server.client.call_result import CallResult
from ors_server.evaluation.agents.base import AgentError
from ors_server.evaluation.agents.chat_messages import as_chat, as_results, for_reading, read_reply
from ors_server.export.offered_tools import as_functions
from ors_server.model.wire import (
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolListing,
    ToolOutput,
    ToolResultBlock,
    ToolSpec,
)
from tests.fixtures.chat_server import said

PICTURE = ImageBlock(data="AAAA", mimeType="image/png")
SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_a_recorded_conversation_keeps_its_order_calls_and_results():
    messages = [
        Message(role="system", blocks=[TextBlock(text="Rules."), PICTURE]),
        Message(role="user", blocks=[TextBlock(text="Go.")]),
        Message(
            role="assistant",
            blocks=[
                ReasoningBlock(text="Hm."),
                TextBlock(text="I look."),
                ToolCallBlock(id="a", name="look", input={"at": 1}),
            ],
        ),
        Message(
            role="user",
            blocks=[
                ToolResultBlock(tool_call_id="a", blocks=[TextBlock(text="A cat."), PICTURE]),
                TextBlock(text="Well?"),
            ],
        ),
        Message(role="assistant", blocks=[TextBlock(text="A cat it is.")]),
        Message(role="user", blocks=[ToolResultBlock(tool_call_id="b", blocks=[])]),
    ]
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    assert as_chat(messages) == [
        {"role": "system", "content": "Rules.\n\n[image]"},
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "A cat.\n\n[image: it follows]"},
        {"role": "user", "content": [SHOWN]},
        {"role": "user", "content": "Well?"},
        {"role": "assistant", "content": "A cat it is."},
        {"role": "tool", "tool_call_id": "b", "content": "(no output)"},
    ]


def test_a_prompt_with_a_picture_shows_it_or_says_that_there_is_one():
    messages = [Message(role="user", blocks=[TextBlock(text="What is this?"), PICTURE])]
    assert as_chat(messages)[0]["content"] == [{"type": "text", "text": "What is this?"}, SHOWN]
    assert as_chat(messages, images=False)[0]["content"] == "What is this?\n\n[image]"


def test_a_tool_without_parameters_is_announced_with_an_empty_object():
    listing = ToolListing(tools=[ToolSpec(name="go", description="Goes.", input_schema=None)])
    assert as_functions(listing.tools)[0]["function"]["parameters"] == {"type": "object", "properties": {}}


def test_pictures_of_several_answers_follow_all_of_them():
    results = [
        CallResult(name, "look", ToolOutput(blocks=[block], finished=False))
        for name, block in (("a", PICTURE), ("b", TextBlock(text="x")))
    ]
    assert [message["role"] for message in as_results(results)] == ["tool", "tool", "user"]


def test_a_reply_is_read_whatever_form_its_parts_have():
    _, _, body = said(None, ("a", {"x": 1}), ("b", ""))
    content = [{"type": "text", "text": "So "}, {"type": "text", "text": "be it."}]
    body["choices"][0]["message"]["content"] = content
    calls = body["choices"][0]["message"]["tool_calls"]
    calls[0]["function"]["arguments"] = {"x": 1}
    del calls[1]["id"]
    reply = read_reply(body)
    assert reply.text == "So be it."
    calls = [(call.id, call.tool, call.arguments) for call in reply.calls]
    assert calls == [("id-0", "a", {"x": 1}), ("call_1", "b", {})]
    assert reply.message["tool_calls"][1]["function"]["arguments"] == "{}"


def test_reasoning_goes_on_only_where_it_is_kept():
    _, _, body = said("Yes.", reasoning="Hm.", reasoning_details=[{"text": "Hm."}])
    kept = read_reply(body, keeps_reasoning=True).message
    assert (kept["reasoning"], kept["reasoning_details"]) == ("Hm.", [{"text": "Hm."}])
    assert set(read_reply(body).message) == {"role", "content"}


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"choices": []},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"tool_calls": [1]}}]},
    ],
    ids=json.dumps,
)
def test_what_is_no_completion_is_refused(body):
    with pytest.raises(AgentError, match="not a chat completion"):
        read_reply(body)


def test_for_people_pictures_are_left_out():
    line = for_reading({"role": "user", "content": [{"type": "text", "text": "Look"}, SHOWN]})
    assert json.loads(line)["content"][1] == {"type": "text", "text": "[image]"}
    assert json.loads(for_reading({"role": "user", "content": "ü"}))["content"] == "ü"
