"""Episodes that were really played, exported."""

import json

import pytest

from ors_server.export.episodes import ExportCounts
from ors_server.export.formats import export_rows, make_format
from ors_server.store.memory import MemoryStore
from ors_server.testing import open_environment
from ors_server.testing.local_client import CallRefusedError


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
