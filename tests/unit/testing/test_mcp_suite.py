"""The suite for MCP servers: a good server passes, a bad one fails where it is bad."""

import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import anyio
import pytest
import uvicorn

from ors_server.app import create_app
from ors_server.settings import Settings
from ors_server.testing.mcp_manifest import MCP_CHECKS, MCP_REQUIREMENTS
from ors_server.testing.mcp_suite import McpVerdict, check_mcp_server
from ors_server.testing.ors_manifest import Level


def check(url, **options):
    async def run():
        return await check_mcp_server(url, **options)

    return anyio.run(run)


@pytest.fixture(scope="module")
def good_url():
    app = create_app(["tests/fixtures/mcp_fixture.py"], Settings(port=0))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, ws="none", lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    gate = threading.Event()
    for _ in range(600):
        if server.started:
            break
        gate.wait(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    server.should_exit = True
    thread.join(30)


class Careless(BaseHTTPRequestHandler):
    """Says yes to everything."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b'{"jsonrpc": "2.0", "id": 1, "result": {}}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def careless_url():
    with HTTPServer(("127.0.0.1", 0), Careless) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()
        thread.join(10)


def test_a_good_server_meets_every_requirement(good_url):
    told: list[McpVerdict] = []
    report = check(good_url, on_verdict=told.append)
    assert [(v.requirement.id, v.outcome, v.reason) for v in report.verdicts if v.outcome == "fail"] == []
    assert report.is_conformant
    assert tuple(told) == report.verdicts
    assert len(report.verdicts) == len(MCP_REQUIREMENTS)


def test_a_careless_server_is_found_out(careless_url):
    report = check(careless_url, only=["M1", "M4", "M5", "M6"])
    assert [verdict.outcome for verdict in report.verdicts] == ["fail"] * 4
    assert all(verdict.reason for verdict in report.verdicts)
    assert not report.is_conformant


def test_a_server_that_nobody_runs_fails():
    report = check("http://127.0.0.1:9/mcp", only=["M1", "M5"], api_key="k" * 20)
    assert [verdict.outcome for verdict in report.verdicts] == ["fail", "fail"]


def test_the_manifest_names_a_source_and_a_check_for_every_requirement():
    assert [requirement.id for requirement in MCP_REQUIREMENTS] == list(MCP_CHECKS)
    for requirement in MCP_REQUIREMENTS:
        assert re.match(r"20\d\d-\d\d-\d\d [a-z]+", requirement.section)
        assert requirement.level in Level
        assert requirement.text
    assert len(set(MCP_CHECKS.values())) == len(MCP_CHECKS)
