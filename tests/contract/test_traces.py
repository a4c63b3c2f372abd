"""`serve --otel-endpoint`: spans of requests and tool calls as a collector receives them."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
import httpx2
import pytest
from opentelemetry import context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from ors_server.client import AsyncMcpClient, Client
from ors_server.errors import OrsServerError
from ors_server.timing.trace_budget import TRACES_PER_SECOND
from tests.fixtures.trace_collector import TraceCollector

COMMAND = Path(sys.executable).with_name("ors-server")
KEY = "k" * 32
PATIENCE = 60.0
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
CLIENT_TRACE = "1bf7651916cd43dd8448eb211c80319d"
PLACE = {"environment": "steps", "split": "train", "index": 0}
SERVER_KIND = 2
SOURCE = '''
from ors_server import Environment, Split, TextBlock, ToolOutput, tool

class Steps(Environment):
    @classmethod
    def list_splits(cls):
        return [Split(name="train", type="train")]

    @classmethod
    def list_tasks(cls, split):
        return [{"number": 1}]

    def get_prompt(self):
        return [TextBlock(text="Work.")]

    @tool
    def work(self, secret_word: str) -> ToolOutput:
        """Pay."""
        return ToolOutput(blocks=[TextBlock(text="a text of the tool")], reward=0.5)

    @tool
    def break_down(self) -> ToolOutput:
        """Fail."""
        raise RuntimeError("a defect")
'''


class Served:
    def __init__(self, process, url, collector, log):
        self.process, self.url, self.collector, self.log = process, url, collector, log


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    (folder / "steps.py").write_text(SOURCE)
    with ExitStack() as stack:
        collector = stack.enter_context(TraceCollector())
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        stack.callback(collector.shutdown)
        variables = {
            **os.environ,
            "ORS_API_KEYS": f"trainer:t:{KEY}",
            "OTEL_BSP_SCHEDULE_DELAY": "50",  # milliseconds until spans are sent
        }
        command = [COMMAND, "serve", folder / "steps.py", "--port", "0", "--json", "--store", "memory"]
        command += ["--log-format", "json", "--otel-endpoint", collector.url]
        log = folder / "log"
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=stack.enter_context(log.open("w")),
            text=True,
            env=variables,
        )
        stack.callback(process.stdout.close)
        stack.callback(process.wait, PATIENCE)
        stack.callback(process.terminate)
        line = process.stdout.readline()
        assert line, log.read_text()
        yield Served(process, json.loads(line)["url"], collector, log)


def tool_spans(spans, name="work"):
    return [span for span in spans if span.name == f"execute_tool {name}"]


def by_id(spans):
    return {span.span_id: span for span in spans}


def test_a_call_over_ors_is_a_span_below_its_request_and_its_caller(served):
    with httpx2.Client(base_url=served.url) as http:
        created = http.post("/create_session", headers={"X-API-Key": KEY})
        session = re.findall(r"[0-9a-f-]{36}", created.text)[-1]
        headers = {"X-API-Key": KEY, "X-Session-ID": session}
        http.post("/create", headers=headers, json={"env_name": "steps", "split": "train", "index": 0})
        body = {"name": "work", "input": {"secret_word": "xyzzy"}}
        http.post("/steps/call", headers={**headers, "traceparent": PARENT}, json=body)
        episode_id = http.get(f"/_ors/sessions/{session}", headers=headers).json()["episode_id"]
    spans = served.collector.wait_for(lambda spans: any(span.trace_id == TRACE for span in tool_spans(spans)))
    span = next(span for span in tool_spans(spans) if span.trace_id == TRACE)
    assert span.attributes | {"gen_ai.tool.call.id": ""} == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "work",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "",
        "ors.environment": "steps",
        "ors.session.id": session,
        "ors.episode.id": episode_id,
        "ors.outcome": "graded",
        "ors.step": 1,
        "ors.reward": 0.5,
    }
    spans = served.collector.wait_for(lambda spans: span.parent_id in by_id(spans))
    request = by_id(spans)[span.parent_id]
    assert (request.kind, request.parent_id, request.trace_id) == (SERVER_KIND, PARENT.split("-")[2], TRACE)
    assert request.attributes["http.request.method"] == "POST"
    assert request.attributes["url.path"] == "/steps/call"
    assert request.attributes["http.response.status_code"] == 200
    assert served.collector.resources[0]["service.name"] == "ors-server"


def test_our_clients_name_their_span_over_http_and_in_mcps_meta(served):
    parent = SpanContext(
        int(CLIENT_TRACE, 16), 0xB7AD6B7169203331, is_remote=False, trace_flags=TraceFlags(1)
    )

    async def play_over_mcp():
        async with AsyncMcpClient(served.url, KEY) as client, client.episode(**PLACE) as episode:
            await episode.call("work", {"secret_word": "a"})

    token = context.attach(set_span_in_context(NonRecordingSpan(parent)))
    try:
        with Client(served.url, KEY) as client, client.episode(**PLACE) as episode:
            episode.call("work", {"secret_word": "a"})
        anyio.run(play_over_mcp)
    finally:
        context.detach(token)

    def of_client(spans):
        return [span for span in tool_spans(spans) if span.trace_id == CLIENT_TRACE]

    assert len(of_client(served.collector.wait_for(lambda spans: len(of_client(spans)) == 2))) == 2


def test_no_span_carries_arguments_outputs_or_tokens(served):
    with Client(served.url, KEY) as client, client.episode(**PLACE) as episode:
        episode.call("work", {"secret_word": "xyzzy"})
        agent_url = episode.access["agent_url"]
        token = agent_url.rstrip("/").rsplit("/", 2)[1]
        with httpx2.Client() as http:
            http.post(agent_url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    spans = served.collector.wait_for(
        lambda spans: any("/agent/" in span.attributes.get("url.path", "") for span in spans)
    )
    assert token.startswith("agt_")
    everything = repr(spans)
    for text in ("xyzzy", "a text of the tool", token, KEY):
        assert text not in everything


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_a_call_over_mcp_is_below_the_sdks_span_and_that_below_its_own_request(served, era):
    async def play():
        async with AsyncMcpClient(served.url, KEY, era=era) as client, client.episode(**PLACE) as episode:
            await episode.call("work", {"secret_word": "a"})
            await episode.call("work", {"secret_word": "b"})
            return episode.session_id

    session_id = anyio.run(play)

    def calls_of(spans):
        return [span for span in tool_spans(spans) if span.attributes["ors.session.id"] == session_id]

    calls = calls_of(served.collector.wait_for(lambda spans: len(calls_of(spans)) == 2))
    spans = served.collector.wait_for(lambda spans: all(call.parent_id in by_id(spans) for call in calls))
    parents = [by_id(spans)[call.parent_id] for call in calls]
    assert [parent.scope for parent in parents] == ["mcp-python-sdk"] * 2
    assert {parent.attributes["mcp.method.name"] for parent in parents} == {"tools/call"}
    spans = served.collector.wait_for(
        lambda spans: all(parent.parent_id in by_id(spans) for parent in parents)
    )
    requests = [by_id(spans)[parent.parent_id] for parent in parents]
    assert {request.attributes["ors.door"] for request in requests} == {"mcp"}
    assert len({request.span_id for request in requests}) == 2


def test_a_tool_that_fails_is_an_error_and_its_log_event_names_the_trace(served):
    with Client(served.url, KEY) as client, client.episode(**PLACE) as episode, suppress(OrsServerError):
        episode.call("break_down", {})
    spans = served.collector.wait_for(lambda spans: bool(tool_spans(spans, "break_down")))
    span = tool_spans(spans, "break_down")[0]
    assert span.is_error
    assert span.attributes["error.type"] == "failed"
    events = [json.loads(line) for line in served.log.read_text().splitlines()]
    event = next(event for event in events if event["event"] == "tool_failed")
    assert (event["trace_id"], event["span_id"]) == (span.trace_id, span.span_id)


def test_a_busy_server_traces_few_calls_whole_and_every_call_of_a_traced_caller(served):
    """The last of the tests of this server: within the same second nothing else is traced."""
    calls, traced = 150, 3
    with httpx2.Client(base_url=served.url, headers={"X-API-Key": KEY}) as http:
        created = http.post("/_ors/sessions", json=PLACE).json()
        session = created["session_id"]
        begun = time.monotonic()
        for number in range(calls + traced):
            parent = {"traceparent": f"00-{number + 1:032x}-b7ad6b7169203331-01"} if number >= calls else {}
            body = {"name": "work", "arguments": {"secret_word": "a"}}
            http.post(f"/_ors/sessions/{session}/calls", json=body, headers=parent).raise_for_status()
        seconds = time.monotonic() - begun
    wanted = {f"{number + 1:032x}" for number in range(calls, calls + traced)}

    def of_session(spans):
        return [span for span in tool_spans(spans) if span.attributes["ors.session.id"] == session]

    spans = served.collector.wait_for(lambda spans: wanted <= {span.trace_id for span in of_session(spans)})
    mine = of_session(spans)
    spans = served.collector.wait_for(lambda spans: all(span.parent_id in by_id(spans) for span in mine))
    others = {span.trace_id for span in mine} - wanted
    # Each request is a trace; so many begin within a second by the clock, of which the calls touch a few.
    assert 0 < len(others) <= TRACES_PER_SECOND * (int(seconds) + 2)
    if seconds < 1:
        assert len(others) < calls


def test_without_the_sdk_the_option_says_what_to_install(tmp_path):
    (tmp_path / "steps.py").write_text(SOURCE)
    code = (
        "import sys; sys.modules['opentelemetry.sdk'] = None; from ors_server.cli.main import main; "
        f"sys.exit(main(['serve', {str(tmp_path / 'steps.py')!r}, '--port', '0', '--store', 'memory', "
        "'--otel-endpoint', 'http://127.0.0.1:9']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode not in {0, None}
    assert "OpenTelemetry's SDK, which is not installed" in done.stderr
    assert "[otel]" in done.stderr
