"""Who may do what at the MCP door, and what it refuses.

Source: MCP 2025-11-25, basic/security_best_practices.
"""

import httpx2
import mcp_types as types
import pytest
from mcp import MCPError

from ors_server.doors.mcp.extension import EnvironmentsExtension
from ors_server.doors.mcp.mcp_results import EXTENSION, SESSION_KEY

TRAINER_KEY = "trainer-key-0123456789"
AGENT_KEY = "agent-key-0123456789"
OTHER_KEY = "other-key-0123456789"
KEYS = f"trainer:t:{TRAINER_KEY},agent:a:{AGENT_KEY},agent:b:{OTHER_KEY}"


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
async def closed_site(make_site):
    return await make_site(api_keys=KEYS)


@pytest.mark.parametrize("headers", [{}, {"X-API-Key": "nonsense"}, bearer("agt_forged.token")])
async def test_a_stranger_is_told_to_bring_a_credential(closed_site, headers):
    answer = await closed_site.post("/mcp", "tools/list", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("headers", [{"X-API-Key": TRAINER_KEY}, bearer(TRAINER_KEY)])
async def test_a_trainer_plays_any_session(closed_site, headers):
    session_id = await closed_site.start()
    answer = await closed_site.post(f"/sessions/{session_id}/mcp", "tools/call", {"name": "look"}, headers)
    assert answer.json()["result"]["content"][0]["text"] == "step 1"


async def test_an_agents_token_opens_its_own_session_wherever_it_knocks(closed_site):
    session_id = await closed_site.start()
    token = closed_site.app.agent_token(session_id)
    answers = [
        await closed_site.post(f"/sessions/{session_id}/mcp", "tools/call", {"name": "look"}, bearer(token)),
        await closed_site.post("/mcp", "tools/call", {"name": "look"}, bearer(token)),
        await closed_site.post(f"/agent/{token}/mcp", "tools/call", {"name": "look"}),
    ]
    texts = [answer.json()["result"]["content"][0]["text"] for answer in answers]
    assert texts == ["step 1", "step 2", "step 3"]


async def test_an_agents_token_ends_with_its_episode_though_the_id_is_used_again(closed_site):
    session_id = await closed_site.start(session_id="again")
    former = closed_site.app.agent_token(session_id)
    await closed_site.app.manager.delete(session_id)
    await closed_site.start(session_id="again")
    token = closed_site.app.agent_token(session_id)
    look = {"name": "look"}
    status: dict[str, list[int]] = {}
    for one in (former, token):
        key = {"X-API-Key": one, "X-Session-ID": session_id}
        doors = [
            await closed_site.post(f"/agent/{one}/mcp", "tools/call", look),
            await closed_site.post("/mcp", "tools/call", look, bearer(one)),
        ]
        async with httpx2.AsyncClient(base_url=closed_site.url, headers=key) as http:
            paths = ("/prompt", "/task_tools", f"/_ors/sessions/{session_id}/prompt")
            doors += [await http.get(path) for path in paths]
            doors.append(await http.post("/call", json={"name": "look", "input": {}}))
            call = {"name": "look", "arguments": {}}
            doors.append(await http.post(f"/_ors/sessions/{session_id}/calls", json=call))
        status[one] = [403 if "earlier episode" in answer.text else answer.status_code for answer in doors]
    assert status == {former: [403] * 7, token: [200] * 7}
    assert (await closed_site.summary(session_id)).steps == 4


async def test_an_agents_token_opens_no_other_session(closed_site):
    own, other = await closed_site.start(), await closed_site.start()
    token = closed_site.app.agent_token(own)
    call = {"name": "look", "_meta": {SESSION_KEY: other}}
    answers = [
        await closed_site.post(f"/sessions/{other}/mcp", "tools/call", {"name": "look"}, bearer(token)),
        await closed_site.post(
            "/mcp", "tools/call", {"name": "look"}, {**bearer(token), "X-Session-ID": other}
        ),
        await closed_site.post("/mcp", "tools/call", call, bearer(token)),
    ]
    assert [answer.json()["error"]["data"]["code"] for answer in answers] == ["forbidden"] * 3
    assert (await closed_site.summary(other)).steps == 0


async def test_the_url_of_an_agent_opens_its_session_whatever_the_headers_say(closed_site):
    own, other = await closed_site.start(), await closed_site.start()
    path = f"/agent/{closed_site.app.agent_token(own)}/mcp"
    await closed_site.post(path, "tools/call", {"name": "look"}, {"X-Session-ID": other})
    assert (await closed_site.summary(own)).steps == 1
    assert (await closed_site.summary(other)).steps == 0


async def test_a_guessed_agent_url_is_refused(closed_site):
    session_id = await closed_site.start()
    token = closed_site.app.agent_token(session_id)
    for guess in (f"{token}x", token[:-2], "agt_", "nothing"):
        assert (await closed_site.post(f"/agent/{guess}/mcp", "tools/list")).status_code == 401


async def test_an_agents_key_plays_what_it_started_in_the_lobby_and_nothing_else(closed_site):
    async def call(tool: str, arguments: dict, key: str) -> dict:
        answer = await closed_site.post(
            "/mcp", "tools/call", {"name": tool, "arguments": arguments}, bearer(key)
        )
        result: dict = answer.json()["result"]
        return result

    started = await call("start_episode", {"environment": "desk", "split": "test", "index": 0}, AGENT_KEY)
    handle = {"session_id": started["_meta"][SESSION_KEY]}
    foreign = {"session_id": await closed_site.start()}
    assert (await call("look", handle, AGENT_KEY))["content"][0]["text"] == "step 1"
    assert (await call("look", handle, OTHER_KEY))["isError"]
    assert (await call("look", foreign, AGENT_KEY))["isError"]
    assert (await call("look", handle, TRAINER_KEY))["content"][0]["text"] == "step 2"


METHODS = [
    "list",
    "splits",
    "tasks",
    "create",
    "prompt",
    "episode",
    "snapshot",
    "snapshots",
    "fork",
    "delete",
]


@pytest.mark.parametrize("name", METHODS)
async def test_vendor_methods_are_for_trainers(closed_site, name):
    session_id = await closed_site.start()
    params = {"session_id": session_id, "environment": "desk", "split": "test", "index": 0}
    for headers in (bearer(AGENT_KEY), bearer(closed_site.app.agent_token(session_id))):
        answer = await closed_site.post("/mcp", f"{EXTENSION}/{name}", params, headers)
        assert answer.json()["error"]["data"]["code"] == "forbidden"
    if name == "create":
        params["session_id"] = "another"
    answer = await closed_site.post("/mcp", f"{EXTENSION}/{name}", params, bearer(TRAINER_KEY))
    assert "result" in answer.json(), answer.text


async def test_a_program_that_speaks_only_mcp_runs_an_episode_by_vendor_methods(site):
    async def ask(name: str, **params: object) -> dict:
        answer = (await site.post("/mcp", f"{EXTENSION}/{name}", params)).json()
        assert "result" in answer, answer
        result: dict = answer["result"]
        return result

    environments = (await ask("list"))["environments"]
    assert [one["name"] for one in environments] == ["desk", "shelf"]
    assert "say" in [tool["name"] for tool in environments[0]["tools"]]
    splits = (await ask("splits", environment="desk"))["splits"]
    assert splits[0] == {"name": "train", "type": "train", "num_tasks": 3}
    tasks = (await ask("tasks", environment="desk", split="train", start=1))["tasks"]
    assert [task["word"] for task in tasks] == ["train1", "train2"]
    created = await ask("create", environment="desk", task_spec={"word": "own"}, visibility="hidden")
    assert (await ask("prompt", session_id=created["session_id"]))["blocks"]
    for path in (created["path"], created["agent_path"]):
        await site.post(path, "tools/call", {"name": "say", "arguments": {"text": "no"}})
    await site.post(created["agent_path"], "tools/call", {"name": "say", "arguments": {"text": "own"}})
    episode = (await ask("episode", session_id=created["session_id"]))["episode"]
    assert (episode["steps"], episode["return"], episode["stop_reason"]) == (3, 1.0, "completed")
    assert (await ask("delete", session_id=created["session_id"]))["deleted"] is True
    assert (await ask("delete", session_id=created["session_id"]))["deleted"] is False


async def test_a_program_that_speaks_only_mcp_forks_a_session_and_goes_back(site):
    async def ask(name: str, **params: object) -> dict:
        answer = (await site.post("/mcp", f"{EXTENSION}/{name}", params)).json()
        assert "result" in answer, answer
        result: dict = answer["result"]
        return result

    parent = (await ask("create", environment="desk", task_spec={"word": "own"}))["session_id"]
    kept = await ask("snapshot", session_id=parent)
    assert [one["snapshot_id"] for one in (await ask("snapshots", session_id=parent))["snapshots"]] == [
        kept["snapshot_id"]
    ]
    (child,) = (await ask("fork", session_id=parent))["sessions"]
    (past,) = (await ask("fork", session_id=parent, snapshot_id=kept["snapshot_id"]))["sessions"]
    for one in (child, past):
        assert (await ask("episode", session_id=one["session_id"]))["forked_from"]["session_id"] == parent
    assert await ask("restore", session_id=parent, snapshot_id=kept["snapshot_id"]) | {"resultType": 0} == (
        kept | {"resultType": 0}
    )
    left = await ask("discard", session_id=parent, snapshot_id=kept["snapshot_id"])
    assert left["snapshots"] == []


async def test_wrong_parameters_of_a_vendor_method_are_a_protocol_error(site):
    wrong = [
        ("tasks", {"environment": "desk"}, types.INVALID_PARAMS),
        ("create", {"environment": "desk"}, types.INVALID_PARAMS),
        ("create", {"environment": "bench", "split": "test", "index": 0}, types.INVALID_PARAMS),
        ("tasks", {"environment": "desk", "split": "final"}, types.INVALID_PARAMS),
    ]
    for name, params, code in wrong:
        answer = (await site.post("/mcp", f"{EXTENSION}/{name}", params)).json()
        assert answer["error"]["code"] == code, name


async def test_the_server_says_that_it_has_the_extension(site, era):
    async with site.client("/mcp", era) as client:
        capabilities = client.server_capabilities
    extensions = capabilities.extensions if era == "2026-07-28" else capabilities.experimental
    assert EnvironmentsExtension.identifier in extensions
    assert f"{EXTENSION}/create" in extensions[EXTENSION]["methods"]


@pytest.mark.parametrize("path", ["/mcp", "/sessions/any/mcp", "/agent/any/mcp"])
async def test_a_request_for_a_foreign_host_is_refused(site, path):
    answer = await site.post(path, "server/discover", headers={"Host": "evil.example.com"})
    assert answer.status_code == 421


async def test_a_request_from_a_foreign_page_is_refused(site):
    answer = await site.post("/mcp", "server/discover", headers={"Origin": "http://evil.example.com"})
    assert answer.status_code == 403


async def test_a_host_that_the_settings_allow_is_served(make_site):
    site = await make_site(allowed_hosts=["envs.example.com"], allowed_origins=["https://envs.example.com"])
    for host in ("envs.example.com", "envs.example.com:8443"):
        headers = {"Host": host, "Origin": "https://envs.example.com"}
        assert (await site.post("/mcp", "server/discover", headers=headers)).status_code == 200
    assert (
        await site.post("/mcp", "server/discover", headers={"Host": "evil.example.com"})
    ).status_code == 421


async def test_a_path_that_is_none_of_the_doors_is_not_found(site):
    for path in ("/sessions/a", "/sessions/a/b/mcp", "/mcp/more", "/agent/mcp"):
        assert (await site.post(path, "server/discover")).status_code == 404, path


async def test_a_body_beyond_the_limit_is_refused(make_site):
    site = await make_site(max_body_bytes=2048)
    params = {"name": "say", "arguments": {"text": "x" * 4096}}
    assert (await site.post("/mcp", "tools/call", params)).status_code == 413


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b'{"jsonrpc":"2.0","id":1}',
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","id":1,"method":5}',
    ],
)
async def test_a_broken_body_is_refused_in_both_eras(site, body):
    common = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with httpx2.AsyncClient() as http:
        for version in ("2026-07-28", "2025-11-25"):
            headers = {**common, "MCP-Protocol-Version": version}
            answer = await http.post(f"{site.url}/mcp", content=body, headers=headers)
            assert 400 <= answer.status_code < 500
            assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "params",
    [
        {"name": 5},
        {"name": "look", "arguments": 5},
        {"name": "look", "arguments": []},
        {},
        {"arguments": {}},
        {"name": "look", "_meta": {SESSION_KEY: 5}},
    ],
)
async def test_malformed_calls_are_protocol_errors(site, params):
    session_id = await site.start()
    path = "/mcp" if SESSION_KEY in params.get("_meta", {}) else f"/sessions/{session_id}/mcp"
    headers = {"Mcp-Name": str(params.get("name", ""))} if "name" in params else {}
    answer = await site.post(path, "tools/call", params, headers)
    assert "error" in answer.json()
    assert (await site.summary(session_id)).steps == 0


async def test_a_call_before_the_handshake_is_refused(site):
    session_id = await site.start()
    with pytest.RaisesGroup(MCPError, flatten_subgroups=True):
        async with site.client(f"/sessions/{session_id}/mcp", "2025-11-25") as client:
            raise MCPError(0, str(client.protocol_version))
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look"}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    async with httpx2.AsyncClient() as http:
        answer = await http.post(f"{site.url}/sessions/{session_id}/mcp", json=body, headers=headers)
    assert answer.status_code == 400
    assert (await site.summary(session_id)).steps == 0
