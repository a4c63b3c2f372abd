"""The suite for MCP servers: a good server passes, a bad one fails where it is bad."""

import contextlib
import itertools
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import anyio
import mcp_types as types
import pytest
import uvicorn
from mcp.server import Server

from ors_server.app import create_app
from ors_server.conformance.mcp_checks import MCP_CHECKS
from ors_server.conformance.mcp_suite import check_mcp_server
from ors_server.conformance.ors_manifest import Level
from ors_server.conformance.report import RequirementVerdict
from ors_server.model.settings import Settings


def check(url, **options):
    async def run():
        return await check_mcp_server(url, **options)

    return anyio.run(run)


@contextlib.contextmanager
def served(app):
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


@pytest.fixture(scope="module")
def good_url():
    with served(create_app(["tests/fixtures/mcp_fixture.py"], Settings(port=0))) as url:
        yield url


@pytest.fixture(scope="module")
def sloppy_url():
    """A server of the real package's whose tools break every rule of tools."""
    counter = itertools.count()

    async def list_tools(context, params):
        fresh = types.Tool(name=f"tool.{next(counter)}", input_schema={"type": "object"})
        odd = types.Tool(
            name="odd", input_schema={"type": "object", "properties": {"x": {"type": "nonsense"}}}
        )
        needy = types.Tool(name="odd", input_schema={"type": "object", "required": ["x"]})
        return types.ListToolsResult(tools=[fresh, odd, needy])

    async def call_tool(context, params):
        return types.CallToolResult(content=[])

    with served(
        Server("sloppy", on_list_tools=list_tools, on_call_tool=call_tool).streamable_http_app()
    ) as url:
        yield url


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
    told: list[RequirementVerdict] = []
    report = check(good_url, on_verdict=told.append)
    assert [(v.requirement.id, v.outcome, v.reason) for v in report.verdicts if v.outcome == "fail"] == []
    assert report.is_conformant
    assert tuple(told) == report.verdicts
    assert len(report.verdicts) == len(MCP_CHECKS)


def test_a_careless_server_is_found_out(careless_url):
    report = check(careless_url, only=["M1", "M4", "M5", "M6"])
    assert [verdict.outcome for verdict in report.verdicts] == ["fail"] * 4
    assert all(verdict.reason for verdict in report.verdicts)
    assert not report.is_conformant


def test_sloppy_tools_are_found_out(sloppy_url):
    verdicts = {verdict.requirement.id: verdict for verdict in check(sloppy_url).verdicts}
    failed = {name for name, verdict in verdicts.items() if verdict.outcome == "fail"}
    assert failed == {"M7", "M8", "M9", "M10", "M11", "M12", "M13"}, {
        n: v.reason for n, v in verdicts.items()
    }
    assert {name for name, verdict in verdicts.items() if verdict.outcome == "skip"} == {"M14", "M15"}


def test_a_server_that_nobody_runs_fails():
    report = check("http://127.0.0.1:9/mcp", only=["M1", "M5"], api_key="k" * 20)
    assert [verdict.outcome for verdict in report.verdicts] == ["fail", "fail"]


def test_the_manifest_names_a_source_and_a_check_for_every_requirement():
    assert len({requirement.id for requirement in MCP_CHECKS}) == len(MCP_CHECKS)
    for requirement in MCP_CHECKS:
        assert re.match(r"20\d\d-\d\d-\d\d [a-z]+", requirement.section)
        assert requirement.level in Level
        assert requirement.text
    assert len(set(MCP_CHECKS.values())) == len(MCP_CHECKS)
