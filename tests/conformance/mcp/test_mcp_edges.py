"""The MCP door where things go wrong: setups that fail, sessions that end, clients that leave, limits."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import MCPError

from ors_server import (
    CallContext,
    Environment,
    ImageBlock,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Toolset,
    terminal,
    tool,
)
from ors_server.doors.mcp import episode_endpoint as episode_endpoint_module
from ors_server.doors.mcp import log_levels as log_levels_module
from ors_server.doors.mcp import mcp_calls as mcp_calls_module
from ors_server.doors.mcp.input_requests import InputRequests, RequestKey
from ors_server.doors.mcp.log_levels import LogLevels
from ors_server.doors.mcp.mcp_results import CALL_ID_KEY, EXTENSION
from ors_server.model.errors import ShuttingDownError
from tests.conformance.mcp.conftest import text_of

LIMIT = 20.0


class Tools(Toolset):
    """Tools that come from elsewhere."""

    @tool
    async def borrow(self) -> str:
        """Borrows."""
        return "borrowed"


class Stage(Environment):
    """A stage whose setup is told by the task to fail or to take its time."""

    name = "stage"
    toolsets: ClassVar[Sequence[type[Toolset]]] = (Tools,)
    curtain: ClassVar[anyio.Event]
    reported: ClassVar[anyio.Event]

    @classmethod
    def list_splits(cls) -> Sequence[str]:
        return ["test"]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[dict[str, Any]]:
        return [{}]

    async def setup(self) -> None:
        if self.task_spec.get("fail"):
            raise RuntimeError("no stage")
        if self.task_spec.get("wait"):
            await type(self).curtain.wait()

    def get_messages(self) -> list[Message]:
        call = ToolCallBlock(id="c", name="borrow", input={})
        result = ToolResultBlock(tool_call_id="c", blocks=[TextBlock(text="borrowed")])
        return [
            Message(
                role="user", blocks=[TextBlock(text="Look."), ImageBlock(data="AAAA", mimeType="image/png")]
            ),
            Message(role="assistant", blocks=[call]),
            Message(role="user", blocks=[result]),
        ]

    @tool
    async def play(self, context: CallContext) -> str:
        """Plays until the curtain."""
        await context.report_progress(1, 2)
        type(self).reported.set()
        await type(self).curtain.wait()
        return "played"

    @tool
    async def nothing(self, context: CallContext) -> str:
        """Asks nothing."""
        return str(len(await context.ask({})))

    @tool
    @terminal
    async def bow(self) -> str:
        """Bows."""
        return "bowed"


def of_task(**task: bool) -> dict[str, Any]:
    """Asks for a session of a task that is in no split."""
    return {"task_spec": task, "split": None, "index": None}


@pytest.fixture
async def stage(make_site):
    Stage.curtain = anyio.Event()
    Stage.reported = anyio.Event()
    return await make_site(Stage, max_sessions=3)


async def test_a_failed_setup_shows_in_every_answer_but_the_handshake(stage, era):
    async with stage.play(era, "stage", order=of_task(fail=True)) as (_, client):
        assert "You play one episode" in str(client.instructions)
        for ask in (client.get_prompt("task"), client.call_tool("borrow", {})):
            with pytest.raises(MCPError) as caught:
                await ask
            assert caught.value.data["code"] == "environment_failed"


async def test_a_slow_setup_does_not_hold_up_the_handshake_or_the_list(stage, era, monkeypatch):
    monkeypatch.setattr(episode_endpoint_module, "PROMPT_PATIENCE", 0.01)
    async with stage.play(era, "stage", order=of_task(wait=True)) as (_, client):
        listed = [one.name for one in (await client.list_tools()).tools]
        assert "Look." not in str(client.instructions)
        Stage.curtain.set()
        assert text_of(await client.call_tool("borrow", {})) == "borrowed"
    assert sorted(listed) == ["borrow", "bow", "nothing", "play"]


async def test_a_conversation_as_task_becomes_prompt_messages(stage, era):
    async with stage.play(era, "stage") as (_, client):
        prompt = await client.get_prompt("task")
        resource = await client.read_resource("ors://session/task")
    assert [(one.role, one.content.type) for one in prompt.messages] == [
        ("user", "text"),
        ("user", "image"),
        ("assistant", "text"),
        ("user", "text"),
    ]
    assert '"name":"borrow"' in prompt.messages[2].content.text
    assert "image/png" in [part.mime_type for part in resource.contents]


async def test_tools_of_toolsets_are_in_the_lobby_and_a_question_of_nothing_is_answered(stage, era):
    async with stage.client("/mcp", era) as client:
        names = [one.name for one in (await client.list_tools()).tools]
    assert "borrow" in names
    async with stage.play(era, "stage") as (_, client):
        assert text_of(await client.call_tool("nothing", {})) == "0"


async def test_a_session_that_ends_during_a_call_ends_the_call(stage, era):
    session_id = await stage.start("stage")
    caught: list[MCPError] = []
    async with stage.client(f"/sessions/{session_id}/mcp", era) as client, anyio.create_task_group() as tasks:

        async def call() -> None:
            with pytest.raises(MCPError) as raised:
                await client.call_tool("play", {})
            caught.append(raised.value)

        tasks.start_soon(call)
        with anyio.fail_after(LIMIT):
            await Stage.reported.wait()
        await stage.app.manager.delete(session_id)
    assert caught[0].data["code"] == "session_deleted"


async def test_a_full_server_says_when_to_come_back(stage):
    for _ in range(3):
        await stage.start("stage")
    params = {"environment": "stage", "split": "test", "index": 0}
    error = (await stage.post("/mcp", f"{EXTENSION}/create", params)).json()["error"]
    assert error["data"]["code"] == "capacity"
    assert error["data"]["retry_after"] >= 1


async def test_a_client_that_leaves_a_reported_call_is_told_no_more(stage):
    session_id = await stage.start("stage")
    path = f"/sessions/{session_id}/mcp"
    meta = {CALL_ID_KEY: "mine", "progressToken": "p"}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.post, path, "tools/call", {"name": "play", "_meta": meta})
        with anyio.fail_after(LIMIT):
            await Stage.reported.wait()
        tasks.cancel_scope.cancel()
    call = await stage.app.manager.find(session_id).resume("mine")
    with anyio.fail_after(LIMIT):
        while call.listeners:
            await anyio.lowlevel.checkpoint()
    Stage.curtain.set()
    again = {"name": "play", "_meta": {CALL_ID_KEY: "mine"}}
    answer = (await stage.post(path, "tools/call", again)).json()
    assert answer["result"]["content"][0]["text"] == "played"


async def test_a_client_that_could_be_asked_withdraws_its_call_by_leaving(stage):
    session_id = await stage.start("stage")
    path = f"/sessions/{session_id}/mcp"
    capabilities: dict[str, Any] = {"elicitation": {}}
    meta = {"io.modelcontextprotocol/clientCapabilities": capabilities}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.post, path, "tools/call", {"name": "play", "_meta": meta})
        with anyio.fail_after(LIMIT):
            await Stage.reported.wait()
        tasks.cancel_scope.cancel()
    async with stage.client(path) as client:
        assert text_of(await client.call_tool("borrow", {})) == "borrowed"
    steps = await stage.app.manager.steps(session_id)
    assert [step.status for step in steps] == ["cancelled", "ungraded"]


async def test_signs_of_life_stop_once_the_tool_reports_itself(stage, monkeypatch):
    monkeypatch.setattr(mcp_calls_module, "HEARTBEAT", 0.0)
    session_id = await stage.start("stage")
    seen = []

    async def note(progress: float, _total: float | None, _message: str | None) -> None:
        seen.append(progress)
        if progress == 1.0:
            Stage.curtain.set()

    async with stage.client(f"/sessions/{session_id}/mcp") as client:
        with anyio.fail_after(LIMIT):
            result = await client.call_tool("play", {}, progress_callback=note)
    assert text_of(result) == "played"
    assert seen[-1] == 1.0


async def test_the_lobby_has_no_episode_to_show(site, era):
    async with site.client("/mcp", era) as client:
        for ask in (client.get_prompt("task"), client.read_resource("ors://session/task")):
            with pytest.raises(MCPError, match="request them at an episode"):
                await ask


async def test_answers_to_a_question_that_the_lobby_never_asked_are_refused(site):
    session_id = await site.start()
    params = {"name": "look", "arguments": {"session_id": session_id}, "requestState": "made-up"}
    answer = (await site.post("/mcp", "tools/call", params)).json()
    assert answer["error"]["code"] == types.INVALID_PARAMS


async def test_a_call_before_the_endpoint_runs_is_refused():
    asked = RequestKey(owner="session", subject="call")
    context: Any = SimpleNamespace(request_id=1)

    async def run(_client: object) -> dict[str, Any]:
        raise AssertionError

    with pytest.raises(ShuttingDownError):
        await InputRequests().start(asked, context, {}, run)


async def test_the_log_levels_of_the_oldest_connections_are_forgotten(monkeypatch):
    monkeypatch.setattr(log_levels_module, "_MAX_CONNECTIONS", 1)
    levels = LogLevels()
    contexts: list[Any] = [
        SimpleNamespace(request=SimpleNamespace(headers={"mcp-session-id": name})) for name in ("old", "new")
    ]
    for context in contexts:
        await levels.set_level(context, types.SetLevelRequestParams(level="emergency"))
    assert [len(levels.of(context)()) for context in contexts] == [8, 1]


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
LONG = [
    {"clientInfo": {"name": "t" * 70_000, "version": "1"}},
    {"capabilities": {"experimental": {"a": {"b": "x" * 70_000}}}},
    {"_meta": {"a": ["x"] * 20_000}},
]


async def shake_hands(site, headers=None, **more):
    accepted = {"Accept": "application/json, text/event-stream", **(headers or {})}
    async with httpx2.AsyncClient(headers=accepted) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {**HELLO, **more}}
        return await http.post(f"{site.url}/mcp", json=body)


@pytest.mark.parametrize("more", LONG, ids=lambda more: next(iter(more)))
async def test_a_client_that_describes_itself_at_length_is_refused_and_not_kept(make_site, more):
    site = await make_site(Stage)
    refused = await shake_hands(site, **more)
    assert refused.status_code == 413
    assert "expected at most 65,536 bytes of a request without Mcp-Session-Id" in refused.text
    assert "mcp-session-id" not in refused.headers
    welcome = await shake_hands(site, clientInfo={"name": "t" * 30_000, "version": "1"})
    assert "serverInfo" in welcome.text
    again = await shake_hands(site, {"Mcp-Session-Id": welcome.headers["mcp-session-id"]}, **more)
    assert "expected at most 65,536 bytes as the parameters of initialize" in again.text
