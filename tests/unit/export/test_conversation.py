"""An episode as a conversation."""

import json

import pytest

from ors_server.environments.prompt_blocks import flatten_messages
from ors_server.export.conversation import ToolUse, read_conversation, read_prompt, result_of, text_of
from ors_server.export.episodes import ExportCounts
from ors_server.export.formats import export_rows, make_format
from ors_server.model.wire import Message, ReasoningBlock, TextBlock, ToolCallBlock, ToolResultBlock
from ors_server.store.memory import MemoryStore
from ors_server.testing import open_environment
from ors_server.testing.local_client import CallRefusedError
from tests.fixtures.recorded_episodes import (
    ASKED,
    FAILED,
    IMAGE,
    REFUSED,
    Played,
    conversation_prompt,
    step_of,
)


def read(played):
    return read_conversation(played.record, played.steps)


def test_a_step_is_a_call_of_the_agent_and_its_result():
    conversation = read(Played("one", [step_of(1)]))
    assert [turn.role for turn in conversation.turns] == ["user", "assistant", "tool"]
    asked, called, answered = conversation.turns
    assert asked.blocks == ASKED
    assert called.calls == (ToolUse("step_1", "add", {"a": 1, "b": 3}),)
    assert answered.answers == called.calls[0]
    assert text_of(answered.blocks) == "result 1"


def test_only_the_calls_of_the_steps_are_the_agents():
    conversation = read(Played("led", [step_of(1)], conversation_prompt()))
    assert [turn.is_agents for turn in conversation.turns] == [False] * 6 + [True, False]


def test_a_call_that_was_refused_is_a_call_that_did_not_run():
    conversation = read(Played("poor", [step_of(1, **REFUSED), step_of(2)]))
    assert [turn.has_run for turn in conversation.play if turn.calls] == [False, True]


def test_what_went_wrong_stands_where_there_was_no_output():
    assert text_of(result_of(step_of(1, **FAILED))) == "the tool raised ValueError"
    assert result_of(step_of(1, blocks=())) == ()


def test_the_result_of_the_last_call_can_be_left_away():
    conversation = read(Played("two", [step_of(1), step_of(2)]))
    assert [turn.role for turn in conversation.up_to_last_call().play] == ["assistant", "tool", "assistant"]
    assert read(Played("idle")).up_to_last_call().play == ()


def test_a_prompt_that_nobody_asked_for_is_no_prompt():
    assert read(Played("unasked", [step_of(1)], None)).prompt == ()


def test_a_conversation_prompt_is_taken_apart_again():
    turns = read_prompt(conversation_prompt())
    assert [(turn.role, text_of(turn.blocks)) for turn in turns] == [
        ("system", "Be brief."),
        ("user", "What is 1 + 1?"),
        ("assistant", ""),
        ("tool", "2"),
        ("assistant", "It is 2."),
        ("user", "And 2 + 3?"),
    ]
    assert turns[2].calls == (ToolUse("early", "add", {"a": 1, "b": 1}),)
    assert turns[3].answers == turns[2].calls[0]


def test_what_the_server_writes_of_a_conversation_is_what_is_read():
    call = ToolCallBlock(id="x", name="look", input={"at": "[sky]"})
    blocks = flatten_messages(
        [
            Message(role="user", blocks=[TextBlock(text="Hello"), IMAGE]),
            Message(role="assistant", blocks=[ReasoningBlock(text="so"), call]),
            Message(role="user", blocks=[ToolResultBlock(tool_call_id="x", blocks=[TextBlock(text="blue")])]),
            Message(role="user", blocks=[TextBlock(text="Go on")]),
        ]
    )
    asked, called, answered, last = read_prompt(blocks)
    assert (asked.blocks, last.role) == ((TextBlock(text="Hello"), IMAGE), "user")
    assert (text_of(called.blocks), called.calls) == (
        "<think>so</think>",
        (ToolUse("x", "look", {"at": "[sky]"}),),
    )
    assert (answered.role, text_of(answered.blocks)) == ("tool", "blue")


@pytest.mark.parametrize("text", ["[tool_call look] {nonsense}", "[tool_call] look"], ids=["json", "form"])
def test_a_recorded_call_that_cannot_be_read_stays_text(text):
    mark = TextBlock(text="[assistant]", detail={"role": "assistant"})
    (turn,) = read_prompt([mark, TextBlock(text=text, detail={"type": "tool_call", "id": "x"})])
    assert (turn.calls, text_of(turn.blocks)) == ((), text)


def test_a_result_of_a_call_that_is_not_there_names_only_its_id():
    mark = TextBlock(text="[user]", detail={"role": "user"})
    header = TextBlock(text="[tool_result]", detail={"type": "tool_result", "tool_call_id": "lost"})
    (turn,) = read_prompt([mark, header])
    assert turn.answers == ToolUse("lost", "", {})


@pytest.mark.parametrize(
    "block",
    [TextBlock(text="[user]"), TextBlock(text="hello", detail={"role": "user"}), IMAGE],
    ids=["unmarked", "other-text", "image"],
)
def test_a_prompt_that_is_no_conversation_is_one_message_of_the_user(block):
    (turn,) = read_prompt([block, TextBlock(text="[assistant]")])
    assert turn.role == "user"
    assert len(turn.blocks) == 2


def test_a_note_stands_in_the_place_of_an_image():
    assert text_of([TextBlock(text="look"), IMAGE]) == "look\n[image: image/png]"


async def rows_of(store, name):
    return [row async for row in export_rows(store.stream(), make_format(name), ExportCounts())]


def called(message):
    return message["tool_calls"][0]["function"]["name"]


async def test_what_an_agent_called_and_was_answered_is_what_the_export_says(refenv):
    store = MemoryStore()
    async with open_environment(f"{refenv}:RefEnv", store=store) as client:
        session = await client.create(split="train", index=0)
        prompt = await session.prompt()
        await session.call("image")
        with pytest.raises(CallRefusedError):
            await session.call("nonsense")
        await session.call("echo", text="hello")
        summary = await session.summary()
    (row,) = await rows_of(store, "openai")
    asked, *rest = row["messages"]
    assert asked == {"role": "user", "content": prompt}
    assert [called(message) for message in rest[::2]] == ["image", "nonsense", "echo"]
    image, nonsense = [message["content"] for message in rest[1::2]]
    assert image == "a pixel\n[image: image/png]"
    assert nonsense.startswith("'nonsense' is not a valid tool; the tools are echo, ")
    (row,) = await rows_of(store, "trl")
    assert row["reward"] == summary.episode_return
    assert row["episode"]["rewards"] == [0.25, None, 1.0]


async def test_a_conversation_prompt_is_the_beginning_of_the_conversation(refenv):
    store = MemoryStore()
    async with open_environment(f"{refenv}:TermEnv", store=store) as client:
        session = await client.create(split="train", index=0)
        await session.prompt()
        await session.call("submit", answer="4")
    (row,) = await rows_of(store, "openai")
    told = [(message["role"], message["content"]) for message in row["messages"]]
    assert told == [
        ("system", "be terse"),
        ("user", "2+2?"),
        ("assistant", "<think>hm</think>"),
        ("tool", "4"),
        ("assistant", None),
    ]
    assert row["messages"][3]["tool_call_id"] == row["messages"][2]["tool_calls"][0]["id"] == "c1"
    assert json.loads(row["messages"][4]["tool_calls"][0]["function"]["arguments"]) == {"answer": "4"}
    assert [message.get("weight") for message in row["messages"]] == [None, None, 0, None, 1]


@pytest.mark.parametrize("call_id", [["a"], {}, None, 7])
def test_ids_of_calls_that_are_no_texts_join_nothing(call_id):
    message = {"role": "assistant", "content": "Now.", "tool_calls": [{"id": call_id}, "x"]}
    turn = {"messages": [message], "tool_call_id": "b"}
    first = step_of(1, metadata={"org.openrewardstandard/model_turn": turn})
    conversation = read(Played("odd", [first, step_of(2)]))
    assert [turn.role for turn in conversation.play] == ["assistant", "tool", "assistant", "tool"]
    assert text_of(conversation.play[0].blocks) == "Now."
