"""An episode played over MCP: where it is found, what it offers, what a call gives back.

Sources: MCP 2026-07-28 and 2025-11-25, server/tools, server/prompts, server/resources.
"""

import mcp_types as types
import pytest
from mcp import MCPError

from ors_server.doors.mcp.mcp_results import EPISODE_OVER, RESULT_KEY, SESSION_KEY
from tests.conformance.mcp.conftest import text_of


def figures_of(result: types.CallToolResult) -> dict:
    return (result.meta or {})[RESULT_KEY]


async def test_an_episode_is_found_by_its_url_by_the_session_header_or_by_the_request_itself(site, era):
    session_id = await site.start()
    async with site.client(f"/sessions/{session_id}/mcp", era) as client:
        result = await client.call_tool("look", {})
    assert text_of(result) == "step 1"
    assert (await site.summary(session_id)).steps == 1
    session_id = await site.start()
    async with site.client("/mcp", era, headers={"X-Session-ID": session_id}) as client:
        listed = await client.list_tools()
        result = await client.call_tool("look", {})
    assert [tool.name for tool in listed.tools] == ["say", "look", "stumble", "collapse", "wait", "count"]
    assert text_of(result) == "step 1"
    session_id = await site.start()
    async with site.client("/mcp", era) as client:
        result = await client.call_tool("look", {}, meta={SESSION_KEY: session_id})
    assert text_of(result) == "step 1"


async def test_the_url_wins_over_the_header_and_the_header_over_the_request(site):
    by_url, by_header, by_meta = [await site.start() for _ in range(3)]
    params = {"name": "look", "_meta": {SESSION_KEY: by_meta}}
    headers = {"X-Session-ID": by_header}
    await site.post(f"/sessions/{by_url}/mcp", "tools/call", params, headers)
    await site.post("/mcp", "tools/call", params, headers)
    steps = [(await site.summary(session_id)).steps for session_id in (by_url, by_header, by_meta)]
    assert steps == [1, 1, 0]


async def test_steps_go_on_when_each_call_has_a_connection_of_its_own(site, era):
    session_id = await site.start()
    seen = []
    for _ in range(3):
        async with site.client(f"/sessions/{session_id}/mcp", era) as client:
            seen.append(figures_of(await client.call_tool("look", {}))["step"])
    assert seen == [1, 2, 3]


async def test_the_task_is_a_prompt_and_a_resource_and_in_the_instructions(site, era):
    async with site.play(era) as (_, client):
        prompts = await client.list_prompts()
        prompt = await client.get_prompt("task")
        resource = await client.read_resource("ors://session/task")
        instructions = client.instructions
    assert [one.name for one in prompts.prompts] == ["task"]
    assert [message.content.text for message in prompt.messages] == ["Be brief.", "Say test0."]
    assert "Say test0." in "".join(part.text for part in resource.contents)
    assert instructions is not None
    assert "Say test0." in instructions


async def test_nothing_on_an_agents_endpoint_holds_the_tasks_answer(site, era):
    async with site.play(era) as (_, client):
        everything = [
            client.instructions,
            (await client.list_tools()).model_dump_json(),
            (await client.get_prompt("task")).model_dump_json(),
            (await client.list_resources()).model_dump_json(),
            (await client.read_resource("ors://session/task")).model_dump_json(),
            (await client.call_tool("look", {})).model_dump_json(),
        ]
    assert not any("secret" in str(part) for part in everything)


async def test_figures_travel_beside_the_content_by_default(site, era):
    async with site.play(era) as (_, client):
        judged = await client.call_tool("say", {"text": "no"})
        not_judged = await client.call_tool("look", {})
    assert judged.structured_content is None
    assert {key: figures_of(judged)[key] for key in ("reward", "finished", "step")} == {
        "reward": 0.0,
        "finished": False,
        "step": 1,
    }
    assert "reward" in figures_of(not_judged)
    assert figures_of(not_judged)["reward"] is None
    assert figures_of(judged)["metadata"]["episode"]["return"] == 0.0


async def test_a_visible_episode_gives_whole_outputs_that_fit_the_announced_schema(site, era):
    async with site.play(era, order={"visibility": "visible"}) as (_, client):
        listed = await client.list_tools()
        result = await client.call_tool("say", {"text": "test0"})
        mistake = await client.call_tool("say", {"text": 5})
    assert all(tool.output_schema for tool in listed.tools)
    assert result.structured_content["reward"] == 1.0
    assert result.structured_content["finished"] is True
    assert result.structured_content["blocks"][0]["text"] == "Right."
    assert mistake.is_error


async def test_a_hidden_episode_gives_no_figure_at_all(site, era):
    async with site.play(era, order={"visibility": "hidden"}) as (session_id, client):
        listed = await client.list_tools()
        results = [await client.call_tool("say", {"text": text}) for text in ("no", "test0", "late")]
    assert not any(tool.output_schema for tool in listed.tools)
    for result in results:
        assert result.structured_content is None
        assert RESULT_KEY not in (result.meta or {})
    assert (await site.summary(session_id)).episode_return == 1.0


async def test_the_last_result_says_in_words_that_the_episode_is_over(site, era):
    async with site.play(era) as (session_id, client):
        result = await client.call_tool("say", {"text": "test0"})
        after = await client.call_tool("say", {"text": "test0"})
    assert text_of(result) == f"Right.\n\n{EPISODE_OVER}"
    assert figures_of(result)["finished"] is True
    assert after.is_error
    assert figures_of(after) == {
        "reward": None,
        "finished": True,
        "step": None,
        "metadata": None,
        "refused": "episode_finished",
    }
    assert (await site.summary(session_id)).episode_return == 1.0


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("nothing", {}, "not a valid tool"),
        ("say", {}, "validation error"),
        ("stumble", {}, "You stumbled."),
        ("collapse", {}, "no fault of yours"),
    ],
)
async def test_what_an_agent_can_react_to_is_an_erroneous_result(site, era, tool, arguments, words):
    async with site.play(era) as (_, client):
        result = await client.call_tool(tool, arguments)
        after = await client.call_tool("look", {})
    assert result.is_error
    assert words in text_of(result)
    assert not after.is_error


async def test_an_unknown_session_is_a_protocol_error_in_calls_and_at_the_handshake(site):
    for method, params in (("tools/list", {}), ("tools/call", {"name": "look"}), ("server/discover", {})):
        answer = (await site.post("/sessions/nobody/mcp", method, params)).json()
        assert answer["error"]["data"]["code"] == "session_not_found", method
    with pytest.RaisesGroup(pytest.RaisesExc(MCPError, match="no live session"), flatten_subgroups=True):
        async with site.client("/sessions/nobody/mcp", "2025-11-25"):
            pass


async def test_an_ended_session_is_a_protocol_error(site, era):
    async with site.play(era) as (session_id, client):
        await site.app.manager.delete(session_id)
        with pytest.raises(MCPError) as caught:
            await client.call_tool("look", {})
    assert caught.value.data["code"] == "session_not_found"


async def test_an_unknown_resource_or_prompt_is_a_protocol_error_that_names_it(site, era):
    session_id = await site.start()
    async with site.client(f"/sessions/{session_id}/mcp", era) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("ors://session/answer")
    assert caught.value.code == (types.INVALID_PARAMS if era == "2026-07-28" else -32002)
    assert caught.value.data == {"uri": "ors://session/answer"}
    session_id = await site.start()
    async with site.client(f"/sessions/{session_id}/mcp", era) as client:
        with pytest.raises(MCPError, match="no prompt"):
            await client.get_prompt("answer")
