"""What a model wrote is kept with its calls, through every door and in every store, and exports have it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ors_server import ToolOutput, tool
from ors_server.app import create_app
from ors_server.client import AsyncClient
from ors_server.client.connection import HttpRequest
from ors_server.evaluation.agents.agent_choice import ReplayAgent
from ors_server.evaluation.agents.chat_agent import ChatAgent, ChatOptions
from ors_server.evaluation.local_target import open_local_target
from ors_server.evaluation.runner import RunControls
from ors_server.export.episodes import ExportCounts
from ors_server.export.formats import FormatOptions, export_rows, make_format
from ors_server.model.errors import InvalidRequestError
from ors_server.model.settings import Settings
from ors_server.rewards.reward_trajectory import read_trajectory
from ors_server.store.episode_filter import EpisodeFilter
from ors_server.store.memory import MemoryStore
from ors_server.store.open import open_store
from tests.fixtures.chat_server import ChatServer, said
from tests.fixtures.evaluated_environments import Guessing
from tests.fixtures.evaluation_plays import make_run, play_run
from tests.fixtures.single_task import SingleTask

KEY = "org.openrewardstandard/model_turn"
pytestmark = pytest.mark.timeout(60)


class Sums(SingleTask):
    """Adds, and takes an answer; its state can be copied."""

    name = "sums"
    WORDS = "What is 2 + 3?"

    def save_state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        assert state == {}

    @tool
    async def add(self, a: int, b: int) -> ToolOutput:
        """Add."""
        return ToolOutput.ongoing(str(a + b), reward=None, metadata={"carry": 0})

    @tool
    async def submit(self, answer: str) -> ToolOutput:
        """Submit."""
        return ToolOutput.final("thanks", reward=float(answer == "5"))


def called(name: str, arguments: str, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


THOUGHT = {
    "role": "assistant",
    "content": "I add twice.",
    "reasoning_content": "2 and 3 are few.",
    "tool_calls": [called("add", '{"a":2,"b":3}', "x1"), called("add", '{"a":3,"b":2}', "x2")],
    "prompt_token_ids": [1, 2, 3],
    "completion_token_ids": [4, 5],
    "logprobs": [-0.5, -0.25],
}
FIRST = {"messages": [THOUGHT], "tool_call_id": "x1"}
SECOND = {"tool_call_id": "x2"}
LAST = {
    "messages": [
        {"role": "assistant", "content": "It is 5."},
        {"role": "user", "content": "Submit it."},
        {"role": "assistant", "content": None, "tool_calls": [called("submit", '{"answer":"5"}', "y1")]},
    ],
    "tool_call_id": "y1",
}


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "record.db")
    return str(request.getfixturevalue("postgres").create_database())


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[AsyncClient]:
    app = create_app([Sums], Settings(**settings))
    async with app.running(), app.client() as client:
        yield client


async def rows(episodes: Any, name: str) -> list[Any]:
    form = make_format(name, FormatOptions(with_episode=True))
    return [row async for row in export_rows(episodes, form, ExportCounts())]


async def test_each_door_keeps_what_the_model_wrote_and_its_answer_does_not_repeat_it(location):
    async with serving(store=location) as client:
        async with client.episode("sums", split="train", index=0) as ors:
            first = await ors.call("add", {"a": 2, "b": 3}, model_turn=FIRST)
            refused = await ors.call("add", {"a": "two"}, call_id="wrong", model_turn=SECOND)
            again = await ors.call("add", {"a": "two"}, call_id="wrong")
            await ors.call("submit", {"answer": "5"}, model_turn=LAST)
            kept = [step["metadata"] for step in await ors.steps()]
        async with client.mcp_episode("sums", split="train", index=0) as mcp:
            over_mcp = await mcp.call("add", {"a": 2, "b": 3}, model_turn=FIRST)
            kept_over_mcp = (await mcp.steps())[0]["metadata"]
    assert [metadata[KEY]["tool_call_id"] for metadata in kept] == ["x1", "x2", "y1"]
    assert kept[0][KEY]["messages"] == [THOUGHT]
    assert kept[0]["carry"] == 0
    assert [message.get("content") for message in kept[2][KEY]["messages"]] == [
        "It is 5.",
        "Submit it.",
        None,
    ]
    assert kept_over_mcp[KEY] == kept[0][KEY]
    for answer in (first, over_mcp):
        assert answer.metadata["carry"] == 0
        assert KEY not in (answer.metadata or {})
    assert refused.refusal == again.refusal == "input_validation"


async def test_a_fork_begins_with_what_the_model_wrote_before_it(location):
    async with (
        serving(store=location) as client,
        client.episode("sums", split="train", index=0) as episode,
    ):
        await episode.call("add", {"a": 2, "b": 3}, model_turn=FIRST)
        path = f"/_ors/sessions/{episode.session_id}/fork"
        fork = await client.server.connection.ask(HttpRequest("POST", path, {}))
        session = fork["sessions"][0]["session_id"]
        steps = await client.server.all_steps(session)
    assert steps[0]["metadata"][KEY]["messages"] == [THOUGHT]


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        ({"messages": [{"role": "user", "content": "5"}]}, "expected the assistant's message"),
        ({"messages": [{"role": "judge", "content": "5"}]}, "messages.0.role"),
        ({"messages": [{"role": "assistant", "content": "9" * 5000}]}, "max_output_bytes"),
        ({"words": []}, "words"),
        ("words", "cannot be read"),
    ],
)
async def test_a_turn_that_cannot_be_kept_is_refused_and_nothing_runs(turn, problem):
    async with (
        serving(store="memory", max_output_bytes=4096) as client,
        client.episode("sums", split="train", index=0) as episode,
    ):
        with pytest.raises(InvalidRequestError, match=problem):
            await episode.call("add", {"a": 2, "b": 3}, model_turn=turn)
        assert (await episode.summary()).steps == 0


async def test_exports_of_conversations_have_the_text_and_join_the_calls_of_one_message(tmp_path):
    location = str(tmp_path / "record.db")
    async with (
        serving(store=location) as client,
        client.episode("sums", split="train", index=0) as episode,
    ):
        await episode.prompt()
        await episode.call("add", {"a": 2, "b": 3}, model_turn=FIRST)
        await episode.call("add", {"a": 3, "b": 2}, model_turn=SECOND)
        await episode.call("submit", {"answer": "5"}, model_turn=LAST)
    store = await open_store(location)
    try:
        exported = {
            name: (await rows(store.stream(), name))[0] for name in ("openai", "trl", "verl", "sharegpt")
        }
    finally:
        await store.aclose()
    messages = exported["openai"]["messages"]
    assert [message["role"] for message in messages] == [
        "user", "assistant", "tool", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert messages[1]["content"] == "I add twice."
    assert [call["function"]["name"] for call in messages[1]["tool_calls"]] == ["add", "add"]
    assert [message["tool_call_id"] for message in messages[2:4]] == ["step_1", "step_2"]
    assert [message["content"] for message in messages[4:]] == ["It is 5.", "Submit it.", None]
    trl = exported["trl"]["completion"]
    assert (trl[0]["content"], trl[0]["reasoning_content"]) == ("I add twice.", "2 and 3 are few.")
    assert exported["verl"]["messages"][1]["content"] == "I add twice."
    said_and_called = exported["sharegpt"]["conversations"][1]
    assert (said_and_called["from"], said_and_called["text"]) == ("function_call", "I add twice.")
    for name in ("openai", "trl", "sharegpt"):
        assert "I add twice." in json.dumps([dict(m) for m in read_trajectory(exported[name]).messages])


async def test_an_evaluation_keeps_every_message_of_its_model_and_a_replay_repeats_them(tmp_path):
    store = MemoryStore()
    with ChatServer().serving() as server:
        server.script = [
            said("Which number?", reasoning_content="Hm."),
            said("First the hint.", ("hint", {}), ("hint", "{broken")),
            said("Two.", ("guess", {"number": 2})),
        ]
        agent = ChatAgent("m", ChatOptions.of({"base_url": server.url, "system": "Be brief."}))
        run = make_run(indices=(2,), attempts=1)
        async with open_local_target(Guessing, store=store) as target:
            await play_run(target, agent, tmp_path / "first", run, RunControls(concurrency=1))
        await agent.aclose()
    again = MemoryStore()
    async with open_local_target(Guessing, store=again) as target:
        await play_run(target, ReplayAgent(store, "memory"), tmp_path / "second", run, RunControls())
    conversations = [(await rows(kept.stream(), "openai"))[0]["messages"] for kept in (store, again)]
    assert [(message["role"], message["content"]) for message in conversations[0]] == [
        ("system", "Be brief."),
        ("user", "Guess the number, which is 2."),
        ("assistant", "Which number?"),
        ("user", "The task is not over. Continue by calling one of the tools."),
        ("assistant", "First the hint."),
        ("tool", "It is small."),
        ("assistant", "Two."),
    ]
    assert conversations[0] == conversations[1]
    (record,) = await store.page(EpisodeFilter())
    turn = (await store.steps(record.origin.episode_id))[0].metadata[KEY]
    assert turn["messages"][1]["reasoning_content"] == "Hm."
    assert turn["messages"][-1]["usage"]["prompt_tokens"] == 100
