"""What the record says of episodes of clients that send a task by value and have no field for labels."""

import json
from typing import Any, ClassVar

import httpx2
import pytest

from ors_server import Environment, Split, ToolOutput, tool
from ors_server.app import App
from ors_server.doors.access import parse_keys
from ors_server.environments.loading import definitions_of
from ors_server.model.settings import Settings

TRAINER, AGENT = "trainer-key-0123456789", "agent-key-0123456789abc"


class Numbers(Environment):
    """Has the tasks of two splits, one of which both have."""

    name = "numbers"
    reads: ClassVar[list[tuple[str, int]]] = []

    @classmethod
    def list_splits(cls) -> list[Split]:
        return [Split(name="train", type="train"), Split(name="test", type="test")]

    @classmethod
    def num_tasks(cls, split: str) -> int:
        return 30_000 if split == "train" else 3

    @classmethod
    def get_task(cls, split: str, index: int) -> dict[str, Any]:
        if not 0 <= index < cls.num_tasks(split):
            raise IndexError(index)
        return {"number": index if split == "train" else index + 29_999, "text": "\N{SNOWMAN}"}

    def get_prompt(self) -> str:
        return f"Task {self.task_spec['number']}."

    @tool
    def submit(self) -> ToolOutput:
        """Hand in."""
        return ToolOutput.final("done", reward=1.0)


@pytest.fixture
async def client(tmp_path):
    keys = tmp_path / "keys.toml"
    keys.write_text(
        f'[[keys]]\nid = "t"\nrole = "trainer"\nkey = "{TRAINER}"\n'
        'labels = {run = "of the key", team = "a"}\n'
        f'[[keys]]\nid = "a"\nrole = "agent"\nkey = "{AGENT}"\nlabels = {{run = "of the agent"}}\n'
    )
    app = App(definitions_of(Numbers), Settings(store="memory", api_keys_file=keys))
    async with app.running():
        transport = httpx2.ASGITransport(app)
        headers = {"X-API-Key": TRAINER}
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", headers=headers
        ) as one:
            yield one


async def created(client, body, **headers):
    answer = await client.post("/create", json=body, headers={"X-Session-ID": "one", **headers})
    assert answer.status_code == 200, answer.text
    session = (await client.get("/_ors/sessions/one")).json()
    await client.post("/delete", headers={"X-Session-ID": "one"})
    recorded = (await client.get(f"/_ors/episodes/{session['episode_id']}")).json()
    assert (recorded["split"], recorded["index"]) == (session["split"], session["index"])
    return recorded


async def test_a_task_that_was_handed_out_is_recorded_with_its_split_and_index(client):
    asked = {"split": "train", "start": 25_000, "stop": 25_010}
    tasks = (await client.post("/numbers/task_range", json=asked)).json()["tasks"]
    recorded = await created(client, {"env_name": "numbers", "task_spec": tasks[4]})
    assert (recorded["split"], recorded["index"]) == ("train", 25_004)
    one = (await client.post("/numbers/task", json={"split": "train", "index": 27_000})).json()["task"]
    recorded = await created(client, {"env_name": "numbers", "task_spec": one})
    assert (recorded["split"], recorded["index"]) == ("train", 27_000)


async def test_a_task_of_an_earlier_server_is_looked_up(client):
    recorded = await created(
        client, {"env_name": "numbers", "task_spec": {"text": "\N{SNOWMAN}", "number": 7}}
    )
    assert (recorded["split"], recorded["index"]) == ("train", 7)


async def test_a_task_of_its_own_and_one_of_two_splits_have_no_place(client):
    recorded = await created(client, {"env_name": "numbers", "task_spec": {"number": 7}})
    assert (recorded["split"], recorded["index"]) == (None, None)
    for split, index in (("train", 29_999), ("test", 0)):
        asked = {"split": split, "start": index, "stop": index + 1}
        (task,) = (await client.post("/numbers/task_range", json=asked)).json()["tasks"]
    recorded = await created(client, {"env_name": "numbers", "task_spec": task})
    assert (recorded["split"], recorded["index"]) == (None, None)


async def test_a_header_and_a_key_name_the_run_of_a_client_that_cannot(client):
    body = {"env_name": "numbers", "split": "test", "index": 1}
    assert (await created(client, body))["labels"] == {"run": "of the key", "team": "a"}
    recorded = await created(client, body, **{"X-ORS-Labels": "run=monday%2C early, attempt=2"})
    assert recorded["labels"] == {"run": "monday, early", "team": "a", "attempt": "2"}
    found = (await client.get("/_ors/episodes", params={"label": ["run=monday, early", "team=a"]})).json()
    assert [episode["episode_id"] for episode in found["episodes"]] == [recorded["episode_id"]]


async def test_the_labels_of_a_request_win_over_those_of_its_header(client):
    body = {"split": "test", "index": 1, "labels": {"run": "of the body"}}
    answer = await client.post("/_ors/sessions", json=body, headers={"X-ORS-Labels": "run=x,attempt=3"})
    labels = answer.json()["status"]["labels"]
    assert labels == {"run": "of the body", "team": "a", "attempt": "3"}


@pytest.mark.parametrize("text", ["run", "=monday", "a=1,b", "run=" + "x" * 257, "a%3Db=1"])
async def test_labels_of_another_form_are_refused_and_no_session_is_made(client, text):
    body = {"env_name": "numbers", "split": "test", "index": 1}
    answer = await client.post("/create", json=body, headers={"X-Session-ID": "one", "X-ORS-Labels": text})
    assert (answer.status_code, "X-ORS-Labels" in answer.text) == (400, True)
    assert (await client.get("/_ors/sessions")).json()["sessions"] == []


async def test_an_agents_key_labels_its_episodes_and_its_header_does_not(client):
    call = {"name": "start_episode", "arguments": {"environment": "numbers", "split": "train", "index": 5}}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**call, "_meta": meta}}
    headers = {
        "X-API-Key": AGENT,
        "X-ORS-Labels": "attempt=7,team=b",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "start_episode",
    }
    answer = await client.post("/mcp", json=request, headers=headers)
    assert answer.status_code == 200, answer.text
    (session,) = (await client.get("/_ors/sessions")).json()["sessions"]
    assert session["labels"] == {"run": "of the agent", "attempt": "1"}


def test_keys_of_a_variable_have_no_labels():
    (key,) = parse_keys(f"trainer:t:{TRAINER}")
    assert json.dumps(dict(key.labels)) == "{}"
