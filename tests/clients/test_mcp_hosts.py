"""Frameworks load tools from the lobby and an agent's URL and play; models see no number and no gold."""

import json
import os
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "hosted_environments.py"
SCRIPT = Path(__file__).parent / "scripts" / "play_hosts.py"
LIMIT = 180
"""Seconds that a framework may take."""
GOLD = "tangerine"
NUMBERS = ("0.40625", "0.53125", "0.9375", '"reward"', "openrewardstandard/result")
OVER = "The episode is over."
FRAMEWORKS = {
    "llamaindex": "mcp_hosts",
    "smolagents": "mcp_hosts_1",
    "autogen": "mcp_hosts_1",
    "pydantic-ai": "mcp_hosts",
    "agent-framework": "mcp_hosts",
    "mcp-use": "mcp_hosts_1",
    "langchain": "langchain",
    "openai-agents": "langchain",
    "fastmcp": "fastmcp",
    "crewai-tools": "crewai_tools",
}
"""Framework -> the environment that has it."""
LISTS_ONCE = {"llamaindex"}
"""Frameworks that never learn of the tools that the lobby lists once an episode has started."""


@pytest.fixture(scope="module")
def url(serve_with: Callable[..., str]) -> str:
    """A server with two environments whose tools share names and differ in what they take."""
    return serve_with(None, f"{FIXTURE}:Safe", f"{FIXTURE}:Locker")


def agent_url(url: str) -> str:
    order = json.dumps({"environment": "safe", "split": "train", "index": 0}).encode()
    request = urllib.request.Request(f"{url}/_ors/sessions", order, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return str(json.load(answer)["agent_url"])


@pytest.fixture(scope="module", params=FRAMEWORKS)
def seen(request: pytest.FixtureRequest, url: str) -> dict[str, list[str]]:
    """What a framework's model would see of the calls, by endpoint."""
    client = FRAMEWORKS[request.param]
    python = Path(os.environ.get("ORS_TEST_VENVS", ROOT / ".venvs")) / client / "bin" / "python"
    if not python.exists():
        pytest.fail(f"no environment for {request.param} at {python}; run `make clients`")
    lobby = f"{url}/mcp?tools=all" if request.param in LISTS_ONCE else f"{url}/mcp"
    command = [python, SCRIPT, request.param, lobby, agent_url(url)]
    quiet = {
        "OTEL_SDK_DISABLED": "true",
        "MCP_USE_ANONYMIZED_TELEMETRY": "false",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "NO_PROXY": "127.0.0.1",
    }
    played = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT, check=False, env={**os.environ, **quiet}
    )
    assert played.returncode == 0, played.stderr
    told: dict[str, list[str]] = json.loads(played.stdout.splitlines()[-1])
    return told


def test_plays_in_the_lobby_and_at_an_agents_url(seen: Any) -> None:
    opening, *in_lobby = seen["lobby"]
    assert "Turn the wheel of the safe, then open it." in opening
    for turned, opened in (in_lobby, seen["agent"]):
        assert "It clicks." in turned
        assert "Open with sesame." in opened
        assert OVER in opened


def test_shows_a_model_no_number_and_no_gold(seen: Any) -> None:
    for shown in (*seen["lobby"], *seen["agent"]):
        assert GOLD not in shown
        assert not [number for number in NUMBERS if number in shown]
