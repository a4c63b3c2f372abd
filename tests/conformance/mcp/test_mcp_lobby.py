"""The lobby: one list of tools for everybody, episodes by handle.

Source: MCP 2026-07-28, server/tools: the list may not vary by connection.
"""

import mcp_types as types
import pytest
from pydantic import BaseModel, create_model

from ors_server import Environment, tool
from ors_server.authoring.loading import define
from ors_server.transports.mcp.catalogue import Catalogue
from ors_server.transports.mcp.content import RESULT_KEY, SESSION_KEY

pytestmark = pytest.mark.anyio


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def start(client, environment: str = "desk") -> str:
    result = await client.call_tool(
        "start_episode", {"environment": environment, "split": "test", "index": 1}
    )
    assert not result.is_error, text_of(result)
    session_id: str = (result.meta or {})[SESSION_KEY]
    assert f"session_id: {session_id}" in text_of(result)
    return session_id


async def test_the_lobby_lists_its_own_tools_and_those_of_every_environment(site, era):
    async with site.client("/mcp", era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == [
        "list_environments",
        "list_tasks",
        "start_episode",
        "say",
        "look",
        "stumble",
        "collapse",
        "wait",
        "count",
        "put",
    ]
    assert tools["look"].input_schema["required"] == ["session_id"]


async def test_the_list_does_not_change_when_an_episode_starts(site, era):
    async with site.client("/mcp", era) as client:
        before = await client.list_tools()
        await start(client)
        after = await client.list_tools(cache_mode="bypass")
    assert before.tools == after.tools


async def test_an_agent_finds_a_task_and_plays_it_by_its_handle(site, era):
    async with site.client("/mcp", era) as client:
        environments = text_of(await client.call_tool("list_environments", {}))
        tasks = text_of(await client.call_tool("list_tasks", {"environment": "desk"}))
        session_id = await start(client)
        steps = []
        for text in ("no", "test1"):
            result = await client.call_tool("say", {"session_id": session_id, "text": text})
            steps.append(result.meta[RESULT_KEY]["step"])
    assert environments.splitlines()[0] == "desk: A desk with a tool for every way in which a call may go."
    assert tasks.splitlines() == [
        "train (train): 3 tasks, index 0 to 2",
        "test (test): 3 tasks, index 0 to 2",
    ]
    assert steps == [1, 2]
    assert (await site.summary(session_id)).episode_return == 1.0


async def test_the_task_comes_with_the_handle(site, era):
    async with site.client("/mcp", era) as client:
        result = await client.call_tool(
            "start_episode", {"environment": "desk", "split": "train", "index": 2}
        )
    assert "Say train2." in text_of(result)
    assert "secret" not in result.model_dump_json()


async def test_episodes_of_one_connection_do_not_meet(site, era):
    async with site.client("/mcp", era) as client:
        first, second = await start(client), await start(client)
        for _ in range(2):
            await client.call_tool("look", {"session_id": first})
        last = await client.call_tool("look", {"session_id": second})
    assert text_of(last) == "step 1"


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("look", {}, "pass the session_id"),
        ("look", {"session_id": "nobody"}, "no episode has the session_id 'nobody'"),
        ("nothing", {}, "'nothing' is not a valid tool"),
        ("list_tasks", {}, "the argument 'environment' is a string"),
        ("list_tasks", {"environment": "bench"}, "unknown environment"),
        ("start_episode", {"environment": "desk", "split": "test"}, "the argument 'index' is an integer"),
        ("start_episode", {"environment": "desk", "split": "test", "index": True}, "is an integer"),
        ("start_episode", {"environment": "desk", "split": "test", "index": -1}, "a number from 0"),
        ("start_episode", {"environment": "desk", "split": "test", "index": 9}, "9"),
        ("start_episode", {"environment": "desk", "split": "final", "index": 0}, "final"),
    ],
)
async def test_a_wrong_turn_in_the_lobby_is_an_erroneous_result(site, era, tool, arguments, words):
    async with site.client("/mcp", era) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert words in text_of(result)


async def test_the_lobby_has_no_prompts_or_resources_of_its_own(site, era):
    async with site.client("/mcp", era) as client:
        assert (await client.list_prompts()).prompts == []
        assert (await client.list_resources()).resources == []
        assert (await client.list_resource_templates()).resource_templates == []
        assert "start_episode" in str(client.instructions)


async def test_a_tool_with_a_parameter_called_session_id_keeps_it(site, era):
    async with site.client("/mcp", era) as client:
        result = await client.call_tool(
            "start_episode", {"environment": "shelf", "split": "test", "index": 0}
        )
        handle = result.meta[SESSION_KEY]
        put = await client.call_tool("put", {"ors_session_id": handle, "session_id": "a book"})
    assert text_of(put) == "put a book"


async def test_one_announcement_speaks_for_tools_that_share_a_name(site):
    definitions = list(site.app.engine.environments.values())
    say = next(tool for tool in Catalogue(definitions).tools if tool["name"] == "say")
    assert say["description"] == "In desk: Says a word.\n\nIn shelf: Says words."
    schema = say["inputSchema"]
    assert schema["type"] == "object"
    assert schema["required"] == ["session_id", "text"]
    assert [part["type"] for part in schema["properties"]["text"]["anyOf"]] == ["string", "array"]
    assert "loud" in schema["properties"]


async def test_tools_that_share_a_name_are_played_by_their_own_rules(site, era):
    async with site.client("/mcp", era) as client:
        desk, shelf = await start(client), None
        result = await client.call_tool(
            "start_episode", {"environment": "shelf", "split": "test", "index": 0}
        )
        shelf = result.meta[SESSION_KEY]
        answers = [
            await client.call_tool("say", {"session_id": desk, "text": "a"}),
            await client.call_tool("say", {"session_id": desk, "text": ["a"]}),
            await client.call_tool("say", {"session_id": shelf, "text": ["a", "b"], "loud": "yes"}),
            await client.call_tool("say", {"session_id": shelf, "text": "a"}),
        ]
    assert [answer.is_error for answer in answers] == [False, True, False, True]
    assert text_of(answers[2]) == "a b!"


def one_tool(name: str, parameter: type[BaseModel]) -> type[Environment]:
    """Makes an environment whose tool `put` takes a model."""

    async def put(self: Environment, item: BaseModel, other: int = 0) -> str:
        """Puts something."""
        return f"{item} {other}"

    put.__annotations__["item"] = parameter
    body = {
        "name": name,
        "put": tool(put),
        "list_splits": classmethod(lambda _cls: ["test"]),
        "list_tasks": classmethod(lambda _cls, _split: [{}]),
        "get_prompt": lambda _self: "",
    }
    return type(name.title(), (Environment,), body)


def test_names_of_nested_types_stay_apart_when_schemas_are_merged():
    kinds = [create_model("Item", value=(kind, ...)) for kind in (int, str)]
    environments = [one_tool(name, kind) for name, kind in zip(("one", "two"), kinds, strict=True)]
    schema = Catalogue([define(environment) for environment in environments]).tools[-1]["inputSchema"]
    references = [part["$ref"].removeprefix("#/$defs/") for part in schema["properties"]["item"]["anyOf"]]
    values = [schema["$defs"][reference]["properties"]["value"]["type"] for reference in references]
    assert values == ["integer", "string"]
