"""A public server: anyone plays, and nobody without a key does or reads anything else."""

import json
import re
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from ors_server import Environment, EpisodePolicy, Split, ToolOutput, tool
from ors_server.app import App
from ors_server.doors.access import Keyring
from ors_server.doors.visitors import Visitors
from ors_server.environments.loading import definitions_of
from ors_server.model.errors import CapacityError, SettingsError
from ors_server.model.settings import Settings, load_settings
from ors_server.sessions.key_limits import MAX_BUCKETS, CallRates, KeyLimits
from ors_server.store.episode_filter import EpisodeFilter
from ors_server.store.memory import MemoryStore

EVERYWHERE = "192.0.2.1"
SECRET = "the-answer-is-42"
TRAINER = "trainer-key-0123456789"
ORIGIN = {"origin": "http://localhost:8080"}
RPC = {"accept": "application/json, text/event-stream"}


class Riddles(Environment):
    """Riddles whose answers, metadata and errors state what nobody may read."""

    name = "riddles"
    policy = EpisodePolicy(reward_range=(0.0, 1.0))
    answer_fields = ("answer",)

    @classmethod
    def list_splits(cls) -> list[Split]:
        return [Split(name="train", type="train"), Split(name="test", type="test")]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return [{"question": f"{split} {i}?", "answer": SECRET} for i in range(3)]

    def get_prompt(self) -> str:
        return f"Riddle: {self.task_spec['question']}"

    @tool
    async def submit(self, answer: str) -> ToolOutput:
        """Submits an answer."""
        reward = float(answer == SECRET)
        return ToolOutput.final("Thank you.", reward=reward, metadata={"expected": SECRET})

    @tool
    async def crash(self) -> str:
        """Fails, and its reason has the answer."""
        raise KeyError(SECRET)


@asynccontextmanager
async def public(address="203.0.113.5", **settings: Any):
    values = {"public": True, "host": EVERYWHERE, **settings}
    app = App(definitions_of(Riddles), Settings(**values), store=MemoryStore())
    async with app.running(), visitor(app, address) as client:
        yield app, client


def visitor(app: App, address: str) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app, client=(address, 4321))
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost:8080")


async def start(client, index=0, split="train"):
    page = await client.get("/console/play")
    csrf = re.search(r'name="csrf" value="([^"]+)"', page.text)[1]
    form = {"csrf": csrf, "environment": "riddles", "split": split, "index": str(index)}
    return await client.post("/console/play", data=form, headers=ORIGIN)


async def call(client, place, tool_name, **arguments):
    csrf = re.search(r'name="csrf" value="([^"]+)"', (await client.get(place)).text)[1]
    form = {"csrf": csrf, "tool": tool_name, **{f"arg:{name}": value for name, value in arguments.items()}}
    return await client.post(f"{place}/call", data=form, headers=ORIGIN)


async def rpc(client, method, params, path="/mcp", **headers):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    more = {"mcp-protocol-version": "2026-07-28", "mcp-method": method, **headers}
    if "name" in params:
        more["mcp-name"] = params["name"]
    answer = await client.post(path, json=body, headers={**RPC, **more})
    text = answer.text
    data = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return json.loads(data[-1] if data else text)


async def mcp_start(client, **arguments):
    params = {"name": "start_episode", "arguments": {"split": "train", "index": 0, **arguments}}
    return (await rpc(client, "tools/call", params))["result"]


@pytest.mark.parametrize("visibility", ["negotiated", "visible"])
async def test_a_visitor_plays_by_hand_and_reads_rewards_only_where_they_are_visible(visibility):
    async with public(visibility=visibility) as (app, client):
        assert (await client.get("/console")).headers["location"] == "/console/play"
        begun = await start(client)
        place = begun.headers["location"]
        assert "Riddle: train 0?" in (await client.get(place)).text
        crashed = await call(client, place, "crash")
        assert crashed.status_code == 303
        assert (await call(client, place, "submit", answer=SECRET[::-1])).status_code == 303
        page = (await client.get(place)).text
        assert "Thank you." in page
        assert "through no fault of yours" in page
        assert "The episode is over" in page
        assert ("Return 0" in page) == (visibility == "visible")
        assert SECRET not in page
        assert "/episodes/" not in page
        (record,) = await app.manager.services.store.page(EpisodeFilter(), limit=5)
        assert record.summary.steps == 2
        assert "203.0.113.5" not in repr(record)


async def test_agents_of_a_public_server_read_no_metadata_and_no_reason_of_a_failure():
    for visibility in ("negotiated", "meta", "visible"):
        async with public(visibility=visibility) as (app, client):
            asks = {"x-ors-rewards": "meta"}
            begun = await mcp_start(client)
            session = begun["_meta"]["org.openrewardstandard/session"]
            for name, arguments in (("crash", {}), ("submit", {"answer": SECRET})):
                params = {"name": name, "arguments": {"session_id": session, **arguments}}
                answer = await rpc(client, "tools/call", params, **asks)
                assert SECRET not in json.dumps(answer)
                result = answer["result"]["_meta"]["org.openrewardstandard/result"]
                assert result["reward"] == (1.0 if name == "submit" else None)
            place = (await start(client)).headers["location"]
            token = place.rpartition("/")[2]
            own = next(live.id for live in app.manager.live_sessions if live.id != session)
            for body in ({"name": "crash", "input": {}}, {"name": "submit", "input": {"answer": SECRET}}):
                headers = {"x-api-key": token, "x-session-id": own}
                answer = await client.post("/riddles/call", json=body, headers=headers)
                assert answer.status_code == 200
                assert SECRET not in answer.text
                assert ('"reward":1.0' in answer.text) == (
                    visibility == "visible" and "answer" in body["input"]
                )


CLOSED = [
    ("GET", "/metrics"),
    ("GET", "/_ors/status"),
    ("GET", "/_ors/settings"),
    ("POST", "/_ors/shutdown"),
    ("POST", "/_ors/restart"),
    ("GET", "/_ors/environments"),
    ("GET", "/_ors/environments/riddles/splits/train/tasks"),
    ("GET", "/_ors/environments/riddles/splits/train/tasks/0"),
    ("POST", "/_ors/sessions"),
    ("GET", "/_ors/sessions"),
    ("POST", "/_ors/batches/sessions"),
    ("GET", "/_ors/episodes"),
    ("GET", "/_ors/events"),
    ("GET", "/_ors/runs"),
    ("GET", "/riddles/splits"),
    ("POST", "/riddles/tasks"),
    ("POST", "/riddles/task"),
    ("POST", "/riddles/task_range"),
    ("POST", "/create_session"),
    ("POST", "/create"),
    ("POST", "/delete"),
    ("POST", "/openenv/riddles/reset"),
    ("GET", "/openenv/riddles/metadata"),
    ("GET", "/openenv/riddles/ws"),
    ("GET", "/console/environments"),
    ("GET", "/console/environments/riddles"),
    ("GET", "/console/episodes"),
    ("GET", "/console/runs"),
    ("GET", "/console/compare"),
    ("GET", "/console/settings"),
    ("GET", "/console/sign-in"),
    ("GET", "/console/sign-out"),
    ("GET", "/console/play/agt_forged.token"),
]


async def test_everything_but_play_is_closed_from_every_address_and_over_forged_headers():
    async with public() as (app, client):
        begun = await start(client)
        token = begun.headers["location"].rpartition("/")[2]
        (record,) = await app.manager.services.store.page(EpisodeFilter(), limit=5)
        session, episode = record.origin.session_id, record.origin.episode_id
        paths = [
            *CLOSED,
            ("GET", f"/_ors/sessions/{session}"),
            ("GET", f"/_ors/sessions/{session}/steps"),
            ("POST", f"/_ors/sessions/{session}/token"),
            ("DELETE", f"/_ors/sessions/{session}"),
            ("GET", f"/_ors/sessions/{session}/prompt"),
            ("GET", f"/_ors/episodes/{episode}"),
            ("GET", f"/console/episodes/{episode}"),
            ("GET", f"/console/play/{episode}"),
            ("POST", f"/console/play/{episode}/undo"),
        ]
        forged = {"x-forwarded-for": "127.0.0.1", "x-real-ip": "127.0.0.1", "forwarded": "for=127.0.0.1"}
        async with visitor(app, "127.0.0.1") as local:
            for method, path in paths:
                for who, headers in ((client, {}), (client, forged), (local, {})):
                    answer = await who.request(method, path, headers={**headers, **ORIGIN})
                    assert answer.status_code in {401, 403, 404}, (method, path, answer.status_code)
                    assert SECRET not in answer.text
                # The token of an episode plays it, and reads nothing of its record.
                with_token = {"x-api-key": token, **ORIGIN}
                if method == "GET" and path.endswith("/prompt"):
                    continue
                answer = await client.request(method, path, headers=with_token)
                assert answer.status_code in {401, 403, 404}, (method, path, answer.status_code)
        refused = await rpc(client, "org.openrewardstandard/environments/tasks", {})
        assert "error" in refused


async def test_a_key_keeps_its_role_on_a_public_server_and_an_unknown_one_has_none():
    async with public(api_keys=f"trainer:tim:{TRAINER}") as (_, client):
        path = "/_ors/environments/riddles/splits/train/tasks/0"
        assert (await client.get(path, headers={"x-api-key": TRAINER})).status_code == 200
        assert (await client.get(path)).status_code == 403
        assert (await client.get(path, headers={"x-api-key": "unknown-key-0123456789"})).status_code == 401
        assert (await client.get("/console/episodes", headers={"x-api-key": TRAINER})).status_code == 404


async def test_one_address_has_a_limit_of_sessions_that_ended_episodes_free_and_others_do_not_share():
    async with public(public_sessions=2) as (app, client):
        places = [(await start(client)).headers["location"] for _ in range(2)]
        full = await start(client)
        assert full.status_code == 429
        assert "your address is at maximum capacity (2 sessions)" in full.text
        over_mcp = await mcp_start(client)
        assert over_mcp["isError"]
        async with visitor(app, "203.0.113.6") as other:
            assert (await start(other)).status_code == 303
        await call(client, places[0], "submit", answer="no")
        assert (await start(client)).status_code == 303
        assert len(app.manager.live_sessions) == 3
        assert "Thank you." in (await client.get(places[0])).text  # its record stays


async def test_calls_and_starts_of_one_address_count_together_over_every_door():
    async with public(public_calls_per_minute=4) as (app, client):
        place = (await start(client)).headers["location"]
        begun = await mcp_start(client)
        session = begun["_meta"]["org.openrewardstandard/session"]
        params = {"name": "crash", "arguments": {"session_id": session}}
        await rpc(client, "tools/call", params)
        await call(client, place, "crash")
        refused = await call(client, place, "crash")
        assert refused.status_code == 429
        assert "your address may make 4 calls per minute" in refused.text
        assert (await start(client)).status_code == 429
        async with visitor(app, "2001:db8::1") as other, visitor(app, "2001:db8::2") as neighbour:
            results = [(await start(who)).status_code for who in (other, neighbour, other, neighbour, other)]
            assert results == [303, 303, 303, 303, 429]  # one /64 is one address


async def test_another_address_s_session_is_closed_to_a_visitor():
    async with public() as (app, client):
        begun = await mcp_start(client)
        session = begun["_meta"]["org.openrewardstandard/session"]
        async with visitor(app, "203.0.113.6") as other:
            params = {"name": "crash", "arguments": {"session_id": session}}
            answer = await rpc(other, "tools/call", params)
            assert "another credential" in json.dumps(answer)


async def test_a_task_of_a_test_split_is_played_once_by_each_address():
    async with public() as (app, client):
        assert (await start(client, split="test")).status_code == 303
        again = await start(client, split="test")
        assert again.status_code == 403
        async with visitor(app, "203.0.113.6") as other:
            assert (await start(other, split="test")).status_code == 303


def scope(peer, *lines):
    return {
        "client": None if peer is None else (peer, 1),
        "headers": [(b"x-forwarded-for", line.encode()) for line in lines],
    }


@pytest.mark.parametrize(
    ("peer", "lines", "network"),
    [
        ("198.51.100.1", ["203.0.113.9"], "198.51.100.1"),  # not a trusted proxy: its word counts for nothing
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["127.0.0.1, 203.0.113.9"], "203.0.113.9"),  # the client wrote the first entry
        ("10.0.0.1", ["127.0.0.1", "203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["203.0.113.9, 10.0.0.2"], "203.0.113.9"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["203.0.113.9, nonsense"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9:5678"], "203.0.113.9"),
        ("::ffff:10.0.0.1", ["[2001:db8::7]:443"], "2001:db8::/64"),
        ("10.0.0.1", ["::ffff:203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["fe80::1%eth0"], "fe80::/64"),
        ("10.0.0.1", ["203.0.113.9, " + ", ".join(["10.0.0.2"] * 40)], "10.0.0.2"),
        (None, ["203.0.113.9"], ""),
    ],
)
def test_only_a_trusted_proxy_says_where_a_client_is(peer, lines, network):
    visitors = Visitors.read(KeyLimits(1, 1), ["10.0.0.0/8"])
    assert visitors.network_of_client(scope(peer, *lines)) == network


def test_a_spoofed_header_gives_a_client_no_second_allowance():
    ring = Keyring(visitors=Visitors.read(KeyLimits(1, 1), ["10.0.0.1"]))
    spoofed = {
        ring.caller_of({}, scope("10.0.0.1", f"1.2.3.{i}, 203.0.113.9")).credential_id for i in range(9)
    }
    direct = {ring.caller_of({}, scope("198.51.100.1", f"1.2.3.{i}")).credential_id for i in range(9)}
    assert len(spoofed) == len(direct) == 1
    assert spoofed != direct


def test_the_table_of_addresses_is_bounded_and_forgets_the_one_that_was_idle_longest():
    rates = CallRates(lambda _: KeyLimits(1, 1))
    for number in range(MAX_BUCKETS + 500):
        rates.admit(f"visitor:{number}", 0.0)
    assert len(rates._buckets) == MAX_BUCKETS
    with pytest.raises(CapacityError):
        rates.admit(f"visitor:{MAX_BUCKETS + 499}", 0.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"trusted_proxies": ["proxy.example.org"]}, "expected an address or a network"),
        ({"trusted_proxies": ["10.0.0.1/8"]}, "expected an address or a network"),
        ({"workers": 2}, "one process"),
        ({"openenv_root": True}, "set visibility to visible"),
    ],
)
def test_settings_that_would_not_hold_are_refused(settings, words):
    with pytest.raises(SettingsError, match=words):
        App(definitions_of(Riddles), Settings(public=True, host=EVERYWHERE, **settings), store=MemoryStore())


async def test_a_frame_is_only_for_origins_that_are_named_and_a_policy_cannot_be_added_to():
    async with public(allowed_frames=["https://huggingface.co"]) as (_, client):
        headers = (await client.get("/console/play")).headers
        assert "frame-ancestors https://huggingface.co" in headers["content-security-policy"]
        assert "x-frame-options" not in headers
    async with public() as (_, client):
        assert (
            "frame-ancestors 'none'" in (await client.get("/console/play")).headers["content-security-policy"]
        )
    with pytest.raises(SettingsError, match="expected origins"):
        load_settings(public=True, allowed_frames=["*; script-src *"])


async def test_forms_of_other_sites_start_nothing():
    async with public() as (app, client):
        page = await client.get("/console/play")
        csrf = re.search(r'name="csrf" value="([^"]+)"', page.text)[1]
        form = {"csrf": csrf, "environment": "riddles", "split": "train", "index": "0"}
        foreign = await client.post("/console/play", data=form, headers={"origin": "https://evil.example"})
        assert foreign.status_code == 403
        assert not app.manager.live_sessions


async def test_the_openenv_door_of_a_public_server_is_open_only_where_it_is_at_the_root():
    async with public(openenv_root=True, visibility="visible") as (_, client):
        assert (await client.get("/health")).json() == {"status": "healthy"}
        reset = (await client.post("/reset", json={})).json()
        session = reset["observation"]["session_id"]
        action = {"type": "call_tool", "tool_name": "crash", "arguments": {}}
        crashed = await client.post("/step", json={"session_id": session, "action": action})
        assert SECRET not in crashed.text
        action = {"type": "call_tool", "tool_name": "submit", "arguments": {"answer": SECRET}}
        paid = await client.post("/step", json={"session_id": session, "action": action})
        assert (paid.json()["reward"], paid.json()["done"]) == (1.0, True)
        for _ in range(70):
            opened = await client.post(
                "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
            )
        assert "clients of your address are known" in opened.text
        assert (await client.get("/_ors/episodes")).status_code == 403
