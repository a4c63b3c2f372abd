"""Real MCP clients of both majors of the SDK play an episode of a served environment over HTTP."""

import json
import os
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import two_hosts

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "mcp_fixture.py"
SCRIPTS = Path(__file__).parent / "scripts"
LIMIT = 120
"""Seconds that a client may take."""
OVER = "The episode is over."
RESULT_KEY = "org.openrewardstandard/result"


@pytest.fixture(scope="module", params=["one host", "two hosts"])
def episode(
    request: pytest.FixtureRequest, serve_with: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[str, str]]:
    """Starts episodes of the counter; each is given by its URL and its server's."""
    hosts = two_hosts(tmp_path_factory.mktemp("hosts")) if request.param == "two hosts" else {}
    url = serve_with(None, f"{FIXTURE}:Counter", **hosts)

    def start(session_id: str) -> tuple[str, str]:
        body = b'{"env_name": "counter", "split": "test", "index": 0}'
        headers = {"X-Session-ID": session_id, "Content-Type": "application/json"}
        request = urllib.request.Request(f"{url}/create", body, headers)
        urllib.request.urlopen(request, timeout=20).close()
        return f"{url}/sessions/{session_id}/mcp", url

    return start


def play(client: str, script: str, *arguments: str) -> dict[str, Any]:
    python = Path(os.environ.get("ORS_TEST_VENVS", ROOT / ".venvs")) / client / "bin" / "python"
    if not python.exists():
        pytest.fail(f"no environment for the {client} client at {python}; run `make clients`")
    command = [python, SCRIPTS / script, *arguments]
    played = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert played.returncode == 0, played.stderr
    seen: dict[str, Any] = json.loads(played.stdout)
    return seen


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_fastmcp_plays_an_episode_with_a_connection_per_call(episode, mode):
    url, _ = episode(f"fastmcp-{mode}")
    seen = play("fastmcp", "play_fastmcp.py", url, mode)
    assert seen["tools"] == ["count", "stop"]
    assert "Call count until it says 3" in seen["prompt"]
    assert seen["texts"] == ["step 1", "step 2", "step 3"]
    assert seen["wrong"] is True
    assert seen["last"][0].startswith(f"Stopped.\n\n{OVER}")
    assert RESULT_KEY not in (seen["meta"] or {})
    assert seen["asked"][RESULT_KEY]["finished"] is True
    assert seen["late"] is True


def test_langchain_counts_steps_though_it_opens_a_session_for_each_call(episode):
    url, _ = episode("langchain")
    seen = play("langchain", "play_langchain.py", url)
    assert seen["tools"] == ["count", "stop"]
    assert seen["texts"] == ["step 1", "step 2", "step 3"]
    assert "Call count until it says 3" in seen["prompt"]
    assert "Stopped." in seen["last"]
    assert OVER in seen["last"]
    assert "no further tool calls" in seen["late"]


def test_an_agent_of_the_openai_sdk_plays_an_episode_and_sees_no_figures(episode):
    url, _ = episode("openai-agents")
    seen = play("langchain", "play_openai_agents.py", url)
    assert seen["tools"] == ["count", "stop"]
    assert "Call count until it says 3" in seen["prompt"]
    assert seen["final"] == "Done."
    assert [f"step {number}" in text for number, text in enumerate(seen["texts"][:3], 1)] == [True] * 3
    assert OVER in seen["texts"][3]
    assert "reward" not in "".join(seen["texts"])
    assert seen["late"] is True
