"""HTTP clients of other languages, which wish for HTTP/2 where they may."""

import functools
import json
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "scripts"
LIMIT = 120
NUM_TASKS = '{"split": "train"}'
INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "other", "version": "1"},
        },
    }
)
DOORS = {"/refenv/num_tasks": NUM_TASKS, "/mcp": INITIALIZE}
doors = pytest.mark.parametrize("path", DOORS)


@functools.cache
def program(name: str, *, feature: str = "") -> str:
    found = shutil.which(name)
    if found is None or feature not in run(found, "--version"):
        pytest.fail(f"no {name} {feature} here; run `make packages`")
    return found


def run(*words: str | Path) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=True).stdout


@doors
@pytest.mark.parametrize("wish", ["--http2", "--http1.1", "--http1.0"])
def test_curl_posts(server_url, path, wish):
    curl = program("curl", feature="HTTP2")
    headers = ("-H", "Content-Type: application/json", "-H", "Accept: application/json, text/event-stream")
    said = run(
        curl,
        "-sS",
        wish,
        *headers,
        "-d",
        DOORS[path],
        "-w",
        "\n%{http_version} %{http_code}",
        server_url + path,
    )
    *answer, last = said.splitlines()
    assert last == "1.1 200"
    assert "num_tasks" in answer[0] or '"serverInfo"' in "".join(answer)


@doors
def test_the_default_client_of_java_posts(server_url, path):
    program("javac")
    short = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # it runs too briefly to be optimised
    lines = run(program("java"), *short, SCRIPTS / "Post.java", server_url + path, DOORS[path]).splitlines()
    assert [line.split(" ")[:2] for line in lines if line.startswith("HTTP")] == [["HTTP_1_1", "200"]] * 2
