"""Who gets the numbers of a call over MCP, and that nobody else does.

Some hosts show `_meta` to the model. So numbers go to callers that asked for them, and everybody is told in
words when an episode is over.
"""

import json
import logging

import httpx2
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.client.extension import advertise

from ors_server import EpisodePolicy, ImageBlock, TextBlock, ToolOutput, tool
from ors_server.doors.mcp.mcp_results import EPISODE_OVER, RESULT_KEY
from tests.fixtures.single_task import SingleTask

GOLD = "forty-two"
PRICE = 77.125
TRAINER_KEY = "trainer-key-0123456789"
AGENT_KEY = "agent-key-0123456789"
KEYS = f"trainer:t:{TRAINER_KEY},agent:a:{AGENT_KEY}"
UNASKED = {"X-Nothing": "1"}


class Vault(SingleTask):
    """A vault whose code fails with the answer in its hands."""

    name = "vault"
    policy = EpisodePolicy(reward_range=(0.0, 1.0))
    SPLIT = "test"
    TASKS = ({"gold": GOLD}, {"gold": GOLD, "breaks": True})
    WORDS = "Open the vault."

    async def setup(self) -> None:
        if self.task_spec.get("breaks"):
            raise KeyError(self.task_spec["gold"])

    @tool
    async def open(self) -> ToolOutput:
        """Opens it."""
        return ToolOutput.final("It is open.", reward=0.75, metadata={"gold": GOLD})

    @tool
    async def turn(self) -> ToolOutput:
        """Turns the wheel."""
        return ToolOutput.ongoing("It turns.", reward=0.25)

    @tool
    async def pay(self) -> ToolOutput:
        """Pays too much."""
        return ToolOutput.ongoing("Paid.", reward=PRICE)

    @tool
    async def drop(self) -> ToolOutput:
        """Raises what it looked for."""
        return ToolOutput.ongoing({}[self.task_spec["gold"]])


def text_of(result: types.CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, types.TextContent))


def numbers_of(result: types.CallToolResult) -> dict | None:
    return (result.meta or {}).get(RESULT_KEY)


@pytest.mark.parametrize("path", ["/sessions/{id}/mcp", "/agent/{token}/mcp", "/mcp"])
async def test_a_caller_that_did_not_ask_gets_no_number(make_site, era, path):
    site = await make_site(Vault)
    session_id = await site.start("vault")
    where = path.format(id=session_id, token=site.app.agent_token(session_id))
    handle = {"session_id": session_id} if path == "/mcp" else {}
    async with site.client(where, era, headers=UNASKED) as client:
        results = [await client.call_tool(name, handle) for name in ("turn", "open", "turn")]
    for result in results:
        said = result.model_dump_json()
        assert numbers_of(result) is None
        assert result.structured_content is None
        assert GOLD not in said
        assert "0.25" not in said
        assert "0.75" not in said
    assert text_of(results[1]) == f"It is open.\n\n{EPISODE_OVER}"
    assert results[2].is_error
    assert (await site.summary(session_id)).episode_return == 1.0


async def test_a_caller_asks_by_a_header_of_one_value_and_no_other(make_site, era):
    site = await make_site(Vault)
    for path in ("/sessions/{}/mcp", "/agent/{}/mcp"):
        session_id = await site.start("vault")
        word = site.app.agent_token(session_id) if path.startswith("/agent") else session_id
        async with site.client(path.format(word), era, headers={"X-ORS-Rewards": "Meta"}) as client:
            assert numbers_of(await client.call_tool("turn"))["reward"] == 0.25
    site = await make_site(Vault)
    session_id = await site.start("vault")
    async with site.client(f"/sessions/{session_id}/mcp", era, headers={"X-ORS-Rewards": "no"}) as client:
        assert numbers_of(await client.call_tool("turn")) is None


async def test_a_client_asks_by_declaring_the_extension(make_site):
    site = await make_site(Vault)
    session_id = await site.start("vault")
    declared = [advertise(RESULT_KEY)]
    async with site.client(f"/sessions/{session_id}/mcp", headers=UNASKED, extensions=declared) as client:
        assert numbers_of(await client.call_tool("turn"))["reward"] == 0.25


async def test_a_client_of_the_handshake_asks_in_its_capabilities(make_site):
    site = await make_site(Vault)
    session_id = await site.start("vault")
    url = f"{site.url}/sessions/{session_id}/mcp"
    common = {"Accept": "application/json, text/event-stream"}
    for kind in ("experimental", "extensions"):
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {kind: {RESULT_KEY: {}}},
            "clientInfo": {"name": "t", "version": "1"},
        }
        async with httpx2.AsyncClient(headers=common) as http:
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
            hello = await http.post(url, json=body)
            known = {"Mcp-Session-Id": hello.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await http.post(url, json=ready, headers=known)
            call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "turn"}}
            said = (await http.post(url, json=call, headers=known)).text
        assert '"reward":0.25' in said


async def test_a_trainers_key_asks_and_an_agents_key_does_not(make_site, era):
    site = await make_site(Vault, api_keys=KEYS)
    session_id = await site.start("vault")
    headers = {"Authorization": f"Bearer {TRAINER_KEY}"}
    async with site.client(f"/sessions/{session_id}/mcp", era, headers=headers) as client:
        assert numbers_of(await client.call_tool("turn"))["reward"] == 0.25
    async with site.client("/mcp", era, headers={"Authorization": f"Bearer {AGENT_KEY}"}) as client:
        started = await client.call_tool(
            "start_episode", {"environment": "vault", "split": "test", "index": 0}
        )
        own = started.meta["org.openrewardstandard/session"]
        assert numbers_of(await client.call_tool("turn", {"session_id": own})) is None


@pytest.mark.parametrize(("visibility", "count"), [("meta", 1), ("visible", 2), ("hidden", 0)])
async def test_other_settings_do_not_depend_on_asking(make_site, era, visibility, count):
    site = await make_site(Vault)
    for headers in (UNASKED, None):
        async with site.play(era, "vault", order={"visibility": visibility}, headers=headers) as (_, client):
            result = await client.call_tool("open")
        told = [numbers_of(result), result.structured_content]
        assert sum(figures is not None for figures in told) == count
        assert EPISODE_OVER in text_of(result)


@pytest.mark.parametrize("visibility", ["negotiated", "hidden"])
@pytest.mark.parametrize(("tool_name", "secret"), [("pay", str(PRICE)), ("drop", GOLD)])
async def test_a_failure_reaches_the_agent_as_an_id_and_the_trainer_in_words(
    make_site, era, visibility, tool_name, secret, caplog
):
    site = await make_site(Vault)
    session_id = await site.start("vault", visibility=visibility)
    with caplog.at_level(logging.WARNING, "ors_server"):
        async with site.client(f"/sessions/{session_id}/mcp", era, headers=UNASKED) as client:
            result = await client.call_tool(tool_name)
    assert result.is_error
    assert secret not in result.model_dump_json()
    (step,) = await site.app.manager.steps(session_id)
    assert step.call_id in text_of(result)
    assert secret in str(step.error)
    logged = [record.getMessage() for record in caplog.records]
    assert any(step.call_id in line and secret in line for line in logged)


async def test_a_failure_is_told_in_words_to_a_program_that_asked_and_not_in_the_content(make_site, era):
    site = await make_site(Vault)
    async with site.play(era, "vault") as (_, client):
        result = await client.call_tool("drop")
    assert GOLD not in text_of(result)
    assert GOLD in numbers_of(result)["failed"]["detail"]


async def test_a_failing_setup_keeps_its_words_to_itself(make_site, era):
    site = await make_site(Vault)
    session_id = await site.start("vault", index=1)
    token = site.app.agent_token(session_id)
    async with site.client(f"/agent/{token}/mcp", era, headers=UNASKED) as client:
        for ask in (
            lambda: client.get_prompt("task"),
            lambda: client.read_resource("ors://session/task"),
            lambda: client.call_tool("turn"),
        ):
            with pytest.raises(MCPError) as refused:
                await ask()
            said = json.dumps(refused.value.error.model_dump(mode="json"))
            assert GOLD not in said
            assert "The server's log and record hold the reason" in said
    async with site.client("/mcp", era, headers=UNASKED) as client:
        started = await client.call_tool(
            "start_episode", {"environment": "vault", "split": "test", "index": 1}
        )
    assert started.is_error
    assert GOLD not in started.model_dump_json()


async def test_an_agent_of_the_standard_reads_no_author_words_and_a_trainer_does(make_site):
    site = await make_site(Vault, api_keys=KEYS)
    session_id = await site.start("vault")
    token = site.app.agent_token(session_id)
    seen = {}
    async with httpx2.AsyncClient() as http:
        for who, key in (("agent", token), ("trainer", TRAINER_KEY)):
            headers = {"X-API-Key": key, "X-Session-ID": session_id}
            called = [
                await http.post(f"{site.url}/call", json={"name": name, "input": {}}, headers=headers)
                for name in ("drop", "pay")
            ]
            body = {"name": "drop", "arguments": {}}
            called.append(
                await http.post(f"{site.url}/_ors/sessions/{session_id}/calls", json=body, headers=headers)
            )
            broken = await site.start("vault", index=1)
            own = headers | {"X-Session-ID": broken}
            if who == "agent":
                own["X-API-Key"] = site.app.agent_token(broken)
            called.append(await http.get(f"{site.url}/prompt", headers=own))
            called.append(await http.get(f"{site.url}/_ors/sessions/{broken}/prompt", headers=own))
            seen[who] = [answer.text for answer in called]
    for said in seen["agent"]:
        assert GOLD not in said
        assert str(PRICE) not in said
        assert "the reason, under the id" in said
    assert [GOLD in said or str(PRICE) in said for said in seen["trainer"]] == [True] * 5


async def test_the_closing_words_join_the_last_text(make_site, era):
    class Shapes(SingleTask):
        """Ends in every shape."""

        name = "shapes"
        SPLIT = "test"
        WORDS = "End."

        @tool
        async def end(self, shape: str) -> ToolOutput:
            """Ends."""
            image = ImageBlock(data="iVBORw0KGgo=", mimeType="image/png")
            blocks = {"none": [], "text": [TextBlock(text="a")], "image": [image]}
            blocks["both"] = [TextBlock(text="a"), TextBlock(text="b"), image]
            return ToolOutput.final(*blocks[shape], reward=1.0)

    site = await make_site(Shapes)
    told = {}
    for shape in ("none", "text", "image", "both"):
        async with site.play(era, "shapes", headers=UNASKED) as (_, client):
            content = (await client.call_tool("end", {"shape": shape})).content
        told[shape] = [getattr(part, "text", part.type) for part in content]
    assert told == {
        "none": [EPISODE_OVER],
        "text": [f"a\n\n{EPISODE_OVER}"],
        "image": ["image", EPISODE_OVER],
        "both": ["a", f"b\n\n{EPISODE_OVER}", "image"],
    }
