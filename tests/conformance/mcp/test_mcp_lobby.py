"""The lobby: its own tools until an episode starts, episodes by handle.

Source: MCP 2026-07-28, server/tools: the list may not vary by connection.
"""

from typing import Any, Literal

import anyio
import mcp_types as types
import pytest
from pydantic import BaseModel, create_model

from ors_server import Environment, ImageBlock, TextBlock, tool
from ors_server.doors.mcp.lobby_tools import LobbyTools
from ors_server.doors.mcp.mcp_results import RESULT_KEY, SESSION_KEY
from ors_server.environments.loading import define
from tests.conformance.mcp.conftest import HANDSHAKE, LIMIT, text_of
from tests.fixtures.single_task import SingleTask


async def start(client, environment: str = "desk", index: int = 1) -> str:
    result = await client.call_tool(
        "start_episode", {"environment": environment, "split": "test", "index": index}
    )
    assert not result.is_error, text_of(result)
    session_id: str = (result.meta or {})[SESSION_KEY]
    assert f"session_id: {session_id}" in text_of(result)
    return session_id


OWN = ["list_environments", "list_tasks", "start_episode"]
DESKS = ["say", "look", "stumble", "collapse", "wait", "count"]


class Board(SingleTask):
    """A board to look at."""

    name = "board"

    @tool
    async def look(self) -> str:
        """Looks."""
        return "chess"


async def names_at(site, path, era, **options):
    async with site.client(path, era, **options) as client:
        return [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]


async def test_the_lobby_lists_its_own_tools_until_an_episode_starts(site, era):
    async with site.client("/mcp", era) as client:
        before = (await client.list_tools()).tools
        await start(client)
        after = (await client.list_tools(cache_mode="bypass")).tools
        await start(client, "shelf", 0)
        both = (await client.list_tools(cache_mode="bypass")).tools
    assert [tool.name for tool in before] == OWN
    assert [tool.name for tool in after] == OWN + DESKS
    assert [tool.name for tool in both] == [*OWN, *DESKS, "put"]
    assert after == both[:-1]
    assert after[4].input_schema["required"] == ["session_id"]
    assert await names_at(site, "/mcp", era) == [*OWN, *DESKS, "put"]  # whatever the connection


async def test_a_url_lists_every_environments_tools_for_hosts_that_list_once(site, era):
    assert await names_at(site, "/mcp?tools=all", era) == [*OWN, *DESKS, "put"]
    assert await names_at(site, "/mcp?tools=none", era) == OWN


async def test_a_server_with_one_environment_lists_its_tools_from_the_beginning(make_site, era):
    site = await make_site(Board)
    assert await names_at(site, "/mcp", era) == [*OWN, "look"]


async def test_what_one_key_plays_changes_no_list_of_another(make_site, era):
    keys = "agent:ann:agent-key-0123456789,agent:bob:agent-key-9876543210"
    site = await make_site(api_keys=keys)
    ann, bob = ({"X-API-Key": f"agent-key-{number}"} for number in ("0123456789", "9876543210"))
    async with site.client("/mcp", era, ann) as client:
        await start(client)
    assert await names_at(site, "/mcp", era, headers=ann) == OWN + DESKS
    assert await names_at(site, "/mcp", era, headers=bob) == OWN


async def test_a_client_of_the_handshake_era_is_told_once_that_the_list_has_changed(site):
    told = []

    async def hear(message):
        if isinstance(message, types.ToolListChangedNotification):
            told.append(message)

    async with site.client("/mcp", HANDSHAKE, message_handler=hear) as client:
        assert client.server_capabilities.tools.list_changed
        for _ in range(2):
            await start(client)
    assert len(told) == 1


async def test_a_client_of_the_later_era_follows_the_list_until_the_server_stops(site):
    async with site.client("/mcp") as client:
        assert client.server_capabilities.tools.list_changed
        assert not client.server_capabilities.prompts.list_changed
        async with client.listen(tools_list_changed=True) as changes:
            await start(client)
            with anyio.fail_after(LIMIT):
                first = await anext(aiter(changes))
                site.app.begin_to_stop()
                rest = [change async for change in changes]
    assert (type(first).__name__, rest) == ("ToolsListChanged", [])


async def test_an_episodes_list_never_changes_and_says_so(site, era):
    async with site.play(era) as (session_id, client):
        assert not client.server_capabilities.tools.list_changed
    answer = await site.post(
        f"/sessions/{session_id}/mcp", "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
    )
    assert answer.json()["error"]["code"] == types.METHOD_NOT_FOUND


async def test_the_lobbys_tools_have_titles_hints_and_results_of_their_schema(site, era):
    async with site.client("/mcp", era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        found = await client.call_tool("list_environments", {})
        splits = await client.call_tool("list_tasks", {"environment": "desk"})
    assert {tool.title for tool in tools.values()} == {"List environments", "List tasks", "Start an episode"}
    assert [tool.annotations.read_only_hint for tool in tools.values()] == [True, True, False]
    assert all(tool.icons for tool in tools.values())
    assert [listed["name"] for listed in found.structured_content["environments"]] == ["desk", "shelf"]
    assert splits.structured_content["splits"][1] == {"name": "test", "type": "test", "num_tasks": 3}


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


async def test_handle_and_task_stand_in_one_block_and_pictures_after_it(make_site, era):
    class Gallery(SingleTask):
        """Shows pictures."""

        name = "gallery"
        SPLIT = "test"

        def get_prompt(self):
            picture = ImageBlock(data="iVBORw0KGgo=", mimeType="image/png")
            return [TextBlock(text="Look."), picture, TextBlock(text="What is it?")]

        @tool
        async def name_it(self, name: str) -> str:
            """Names it."""
            return name

    site = await make_site(Gallery)
    async with site.client("/mcp", era) as client:
        result = await client.call_tool(
            "start_episode", {"environment": "gallery", "split": "test", "index": 0}
        )
    assert [part.type for part in result.content] == ["text", "image"]
    assert f"session_id: {result.meta[SESSION_KEY]}\n" in result.content[0].text
    assert result.content[0].text.endswith("The task:\n\nLook.\n\nWhat is it?")


async def test_the_server_chooses_the_task_by_a_seed_and_says_which(site, era):
    async def begin(client, **arguments) -> tuple[str, int]:
        result = await client.call_tool("start_episode", {"environment": "desk", **arguments})
        assert not result.is_error, text_of(result)
        origin = (await site.app.manager.status(result.meta[SESSION_KEY])).origin
        told = f"The server chose the task: split {origin.split!r}, index {origin.index}, seed {origin.seed}."
        assert told in text_of(result)
        return origin.split, origin.index

    async with site.client("/mcp", era) as client:
        free = [await begin(client, seed=number) for number in range(12)]
        again = [await begin(client, seed=number) for number in range(12)]
        in_split = {await begin(client, split="train", seed=number) for number in range(12)}
        at_index = {await begin(client, index=2, seed=number) for number in range(12)}
        await begin(client)
        task = {"environment": "desk", "split": "test", "index": "0"}  # JSON text, as some hosts send numbers
        named = await client.call_tool("start_episode", task)
    assert free == again
    assert len(set(free)) > 3
    assert in_split == {("train", 0), ("train", 1), ("train", 2)}
    assert at_index == {("train", 2), ("test", 2)}
    assert not named.is_error, text_of(named)
    assert "The server chose" not in text_of(named)


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
        ("look", {}, "look needs the argument 'session_id'"),
        ("look", {"session_id": "nobody"}, "no episode has the session_id 'nobody'"),
        ("nothing", {}, "'nothing' is not a valid tool; the tools are list_environments, "),
        ("list_tasks", {}, "the argument 'environment' is missing"),
        ("list_tasks", {"environment": "bench"}, "unknown environment"),
        ("list_tasks", {"environment": 5}, "the argument 'environment' must be a string, got 5"),
        ("list_tasks", {"env": "desk"}, "list_tasks has no argument 'env'; its arguments are environment"),
        ("list_environments", {"environment": "desk"}, "it takes none"),
        ("start_episode", {}, "the argument 'environment' is missing; it is a string, one of desk, "),
        ("start_episode", {"environment": "desk", "index": True}, "must be an integer, got true"),
        ("start_episode", {"environment": "desk", "index": "one"}, 'must be an integer, got "one"'),
        ("start_episode", {"environment": "desk", "index": -1}, "must be a number from 0, got -1"),
        ("start_episode", {"environment": "desk", "seed": -1}, "must be a number from 0 and below"),
        ("start_episode", {"environment": "desk", "index": 9}, "no split of 'desk' has index 9"),
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
    definitions = list(site.app.manager.environments.values())
    say = next(tool for tool in LobbyTools(definitions).announced if tool["name"] == "say")
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
    schema = LobbyTools([define(environment) for environment in environments]).announced[-1]["inputSchema"]
    references = [part["$ref"].removeprefix("#/$defs/") for part in schema["properties"]["item"]["anyOf"]]
    values = [schema["$defs"][reference]["properties"]["value"]["type"] for reference in references]
    assert values == ["integer", "string"]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ((str, list[str]), ["string", "array"]),
        ((str | None, list[str] | None), ["string", "null", "array"]),
        ((int, int | None), ["integer", "null"]),
        ((Literal["a"], Literal["b", "c"], int), ["string", "string", "integer"]),
        ((Literal["a", 1], str), [None, "string"]),
        ((bool, float, dict[str, int]), ["boolean", "number", "object"]),
        ((int, str | int | None, list[int | str]), ["integer", "string", "null", "array"]),
        ((str, Any), None),
    ],
)
def test_merged_alternatives_stand_side_by_side_and_have_a_type(annotations, expected):
    environments = [one_tool(f"e{number}", kind) for number, kind in enumerate(annotations)]
    schema = LobbyTools([define(environment) for environment in environments]).announced[-1]["inputSchema"]
    item = schema["properties"]["item"]
    if expected is None:
        assert not item.keys() & {"anyOf", "type", "enum"}
        return
    kinds = item["anyOf"]
    assert [kind.get("type") for kind in kinds] == expected
    assert not any(kind.keys() & {"anyOf", "oneOf", "title", "default"} for kind in kinds)
    assert all("type" in kind or "enum" in kind for kind in kinds)


def test_one_kind_with_several_notes_stays_one_kind():
    one, two = one_tool("one", int), one_tool("two", int)
    vars(one)["put"].__doc__ = "Puts.\n\nArgs:\n    item: How many.\n"
    vars(two)["put"].__doc__ = "Puts.\n\nArgs:\n    item: How much.\n"
    item = LobbyTools([define(one), define(two)]).announced[-1]["inputSchema"]["properties"]["item"]
    assert item == {"type": "integer", "description": "How many. / How much."}


TRAINER_KEY = "trainer-key-0123456789"
AGENT_KEY = "agent-key-0123456789"
OTHER_KEY = "other-key-0123456789"
KEYS = f"trainer:t:{TRAINER_KEY},agent:a:{AGENT_KEY},agent:b:{OTHER_KEY}"


async def start_attempt(site, key: str, split: str = "test", index: int = 0) -> dict:
    arguments = {"environment": "desk", "split": split, "index": index}
    headers = {"Authorization": f"Bearer {key}"}
    answer = await site.post("/mcp", "tools/call", {"name": "start_episode", "arguments": arguments}, headers)
    result: dict = answer.json()["result"]
    return result


async def label(site, result: dict) -> str | None:
    """Gives the count that stands in the record."""
    status = await site.app.manager.status(result["_meta"][SESSION_KEY])
    return status.origin.labels.get("attempt")


async def test_an_agents_key_starts_a_task_of_a_test_split_once(make_site):
    site = await make_site(api_keys=KEYS)
    first, second = [await start_attempt(site, AGENT_KEY) for _ in range(2)]
    assert await label(site, first) == "1"
    assert second["isError"]
    assert second["content"][0]["text"] == (
        "this key has started desk/test/0 1 times, and may do so 1 times (setting attempts_per_task); "
        "start another task"
    )
    assert not (await start_attempt(site, AGENT_KEY, index=1))["isError"]
    assert not (await start_attempt(site, OTHER_KEY))["isError"]


async def test_a_training_task_and_a_trainers_task_are_started_any_number_of_times(make_site):
    site = await make_site(api_keys=KEYS)
    labels = [await label(site, await start_attempt(site, AGENT_KEY, "train")) for _ in range(3)]
    assert labels == ["1", "2", "3"]
    site = await make_site(api_keys=KEYS)
    results = [await start_attempt(site, TRAINER_KEY) for _ in range(3)]
    assert [result["isError"] for result in results] == [False] * 3
    assert await label(site, results[0]) is None


@pytest.mark.parametrize(("limit", "started"), [(2, 2), (0, 4)])
async def test_the_setting_says_how_often_on_every_split(make_site, limit, started):
    site = await make_site(api_keys=KEYS, attempts_per_task=limit)
    for split in ("test", "train"):
        errors = [(await start_attempt(site, AGENT_KEY, split))["isError"] for _ in range(4)]
        assert errors.count(False) == started


async def test_the_count_outlives_the_sessions_and_the_server(make_site, tmp_path):
    store = str(tmp_path / "episodes.db")
    site = await make_site(api_keys=KEYS, store=store)
    first = await start_attempt(site, AGENT_KEY)
    await site.app.manager.delete(first["_meta"][SESSION_KEY])
    assert (await start_attempt(site, AGENT_KEY))["isError"]
    other = await make_site(api_keys=KEYS, store=store)
    assert (await start_attempt(other, AGENT_KEY))["isError"]


async def test_two_servers_of_one_record_admit_no_more_than_one(make_site, tmp_path):
    store = str(tmp_path / "episodes.db")
    sites = [await make_site(api_keys=KEYS, store=store) for _ in range(2)]
    for index in range(3):
        results: list[dict] = []

        async def go(site, index=index, results=results) -> None:
            results.append(await start_attempt(site, AGENT_KEY, index=index))

        async with anyio.create_task_group() as tasks:
            for site in sites * 2:
                tasks.start_soon(go, site)
        assert [result["isError"] for result in results].count(False) == 1
        assert sum("attempts_per_task" in result["content"][0]["text"] for result in results) == 3


async def test_two_at_once_are_one_too_many(make_site):
    site = await make_site(api_keys=KEYS)
    results: list[dict] = []

    async def go() -> None:
        results.append(await start_attempt(site, AGENT_KEY))

    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(go)
    assert [result["isError"] for result in results].count(False) == 1
