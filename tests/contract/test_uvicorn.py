"""What `http_server` takes for granted of uvicorn, from which it derives; a failure names what changed."""

import ast
import asyncio
import inspect
from collections import deque
from collections.abc import AsyncGenerator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import pytest
from typing_extensions import override

from ors_server.doors.http import bounded_protocol, bounded_server
from ors_server.doors.http.bounded_protocol import (
    BaseProtocol,
    Config,
    RequestResponseCycle,
    Server,
    ServerState,
)
from ors_server.doors.http.connection_limits import ConnectionLimits, Connections

PROTOCOL = {
    "access_logger", "app_state", "asgi_version", "client", "config", "cycle", "expect_100_continue", "flow",
    "headers", "logger", "loop", "parser", "pipeline", "scheme", "server", "server_state",
    "timeout_keep_alive", "transport", "url",
}  # fmt: skip
"""Attributes of uvicorn's protocol that `BoundedProtocol` uses."""
CYCLE = {
    "body", "disconnected", "message_event", "more_body", "response_complete", "response_started",
    "run_asgi", "scope",
}  # fmt: skip
OWN_CYCLE = {
    "chunked_encoding", "default_headers", "disconnected", "expected_content_length", "flow", "keep_alive",
    "message_event", "on_response", "response_complete", "response_started", "scope", "transport",
    "waiting_for_100_continue",
}  # fmt: skip
"""Attributes of uvicorn's cycle that `BoundedCycle` uses."""
FLOW = {"pause_reading", "read_paused", "resume_reading"}
PARSER = {
    "feed_data", "get_http_version", "get_method", "set_dangerous_leniencies", "should_keep_alive",
    "should_upgrade",
}  # fmt: skip
SERVER = {"config", "force_exit", "lifespan", "server_state", "servers"}
STATE = {"connections", "default_headers", "tasks", "total_requests"}
OVERRIDDEN_PROTOCOL = {
    "connection_made": ["transport"],
    "connection_lost": ["exc"],
    "data_received": ["data"],
    "on_message_begin": [],
    "on_header": ["name", "value"],
    "on_headers_complete": [],
    "on_body": ["body"],
    "on_message_complete": [],
    "on_response_complete": [],
    "shutdown": [],
}
OVERRIDDEN_SERVER = {"startup": ["sockets"], "on_tick": ["counter"], "shutdown": ["sockets"]}


def class_of(module: Any, name: str) -> ast.ClassDef:
    tree = ast.parse(Path(module.__file__).read_text())
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def uses(node: ast.AST, *owners: str) -> set[str]:
    return {
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute) and ast.unparse(one.value) in owners
    }


def own_names(node: ast.ClassDef) -> set[str]:
    methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    return methods | {name for name in uses(node, "self") if name.startswith("_")}


def overridden(node: ast.ClassDef) -> set[str]:
    return {
        one.name
        for one in node.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(ast.unparse(mark) == "override" for mark in one.decorator_list)
    } - {"__init__"}


def test_the_tables_name_everything_that_is_inherited():
    protocol = class_of(bounded_protocol, "BoundedProtocol")
    assert uses(protocol, "self") - own_names(protocol) == PROTOCOL
    assert uses(protocol, "cycle", "self.cycle") - {"on_unread"} == CYCLE
    cycle = class_of(bounded_protocol, "BoundedCycle")
    assert uses(cycle, "self") - own_names(cycle) - {"started_at", "status"} == OWN_CYCLE
    assert overridden(cycle) == {"send"}
    assert uses(protocol, "self.flow") == FLOW
    assert uses(protocol, "self.parser") == PARSER
    assert overridden(protocol) == OVERRIDDEN_PROTOCOL.keys()
    server = class_of(bounded_server, "BoundedServer")
    assert uses(server, "self") - own_names(server) == SERVER
    assert overridden(server) == OVERRIDDEN_SERVER.keys()
    ours = {"limits", "open", "refused"}
    used = uses(protocol, "self.server_state") | uses(server, "self.server_state", "state")
    assert used - ours == STATE


def test_private_names_of_uvicorn_are_used_in_one_method_only():
    private = {"_options", "_app", "_limits"}
    for module, name in ((bounded_protocol, "BoundedProtocol"), (bounded_server, "BoundedServer")):
        node = class_of(module, name)
        methods = {
            one.name for one in ast.walk(node) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        stored = {
            one.attr
            for one in ast.walk(node)
            if isinstance(one, ast.Attribute)
            and isinstance(one.ctx, ast.Store)
            and ast.unparse(one.value) == "self"
        }
        inherited = {one for one in uses(node, "self") if one.startswith("_")} - methods - stored - private
        assert not inherited, f"{name} uses {inherited} of uvicorn: give it a public name in bounded_protocol"


def test_the_version_is_one_that_was_checked():
    message = "uvicorn moved: check bounded_protocol.py against it, then its docstring, pin and this test"
    assert version("uvicorn").split(".")[:2] == ["0", "54"], message


@pytest.mark.parametrize("name", OVERRIDDEN_PROTOCOL)
def test_a_method_of_the_protocol_takes_what_the_override_takes(name):
    method = getattr(BaseProtocol, name)
    assert list(inspect.signature(method).parameters) == ["self", *OVERRIDDEN_PROTOCOL[name]]
    assert not inspect.iscoroutinefunction(method)


@pytest.mark.parametrize("name", OVERRIDDEN_SERVER)
def test_a_method_of_the_server_takes_what_the_override_takes(name):
    method = getattr(Server, name)
    assert list(inspect.signature(method).parameters) == ["self", *OVERRIDDEN_SERVER[name]]
    assert inspect.iscoroutinefunction(method)


def test_status_lines_are_whole_lines():
    assert bounded_protocol.STATUS_LINE[431] == b"HTTP/1.1 431 Request Header Fields Too Large\r\n"


class FakeTransport(asyncio.Transport):
    """Keeps what is written; the far end is at a fixed address."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.7", 1234), "sockname": ("192.0.2.1", 80)})
        self.written = b""
        self.is_closed = False

    @override
    def write(self, data: Any) -> None:
        self.written += bytes(data)

    @override
    def close(self) -> None:
        self.is_closed = True

    @override
    def is_closing(self) -> bool:
        return self.is_closed

    @override
    def pause_reading(self) -> None:
        pass

    @override
    def resume_reading(self) -> None:
        pass


class App:
    """Answers each request once it is let through, and counts those that began."""

    def __init__(self) -> None:
        self.began = 0
        self.let_through = anyio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.began += 1
        await self.let_through.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


REQUEST = b"GET /a HTTP/1.1\r\nHost: here\r\nX-One: 1\r\n\r\n"


@pytest.fixture
async def connection() -> AsyncGenerator[tuple[BaseProtocol, FakeTransport, App]]:
    app, transport = App(), FakeTransport()
    protocol = BaseProtocol(Config(app, ws="none", interface="asgi3"), ServerState(), {})
    protocol.connection_made(transport)
    yield protocol, transport, app
    protocol.connection_lost(None)


async def until(condition: Any) -> None:
    with anyio.fail_after(30):
        while not condition():
            await anyio.lowlevel.checkpoint()


async def test_a_new_connection_has_what_is_read_of_it(connection):
    protocol, transport, _ = connection
    assert protocol.client == ("192.0.2.7", 1234)
    assert protocol.transport is transport
    assert protocol.cycle is None
    assert protocol.pipeline == deque()
    assert protocol.loop is asyncio.get_running_loop()
    assert all(hasattr(protocol.parser, name) for name in PARSER)
    assert all(hasattr(protocol.flow, name) for name in FLOW)
    assert protocol.server_state.connections == {protocol}


async def test_a_request_has_a_cycle_and_a_task(connection):
    protocol, transport, app = connection
    protocol.data_received(REQUEST)
    assert protocol.url == b"/a"
    assert (b"x-one", b"1") in protocol.headers
    assert protocol.expect_100_continue is False
    assert isinstance(protocol.cycle, RequestResponseCycle)
    assert all(hasattr(protocol.cycle, name) for name in CYCLE)
    assert not protocol.cycle.more_body
    assert not protocol.cycle.response_started
    assert len(protocol.server_state.tasks) == 1
    app.let_through.set()
    await until(lambda: protocol.cycle.response_complete and not protocol.server_state.tasks)
    assert transport.written.startswith(bounded_protocol.STATUS_LINE[204])


async def test_a_pipelined_request_waits_with_the_newest_first(connection):
    protocol, _, app = connection
    protocol.data_received(REQUEST * 3)
    first_waiting = [cycle for cycle, _ in protocol.pipeline]
    assert first_waiting[0] is protocol.cycle
    assert len(first_waiting) == 2
    app.let_through.set()
    await until(lambda: app.began == 3 and protocol.cycle.response_complete)


async def test_a_cycle_that_is_marked_as_disconnected_tells_its_application(connection):
    protocol, _, _ = connection
    protocol.data_received(b"POST /a HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\n")
    assert protocol.cycle.more_body
    protocol.cycle.disconnected = True
    protocol.cycle.message_event.set()
    assert await protocol.cycle.receive() == {"type": "http.disconnect"}


async def test_shutting_down_closes_an_idle_connection_and_lets_a_busy_one_finish(connection):
    protocol, transport, app = connection
    protocol.data_received(REQUEST)
    protocol.shutdown()
    assert not protocol.cycle.keep_alive
    assert not transport.is_closed
    app.let_through.set()
    await until(lambda: transport.is_closed)


class Lifespan:
    """A server's lifespan that counts."""

    should_exit = False

    def __init__(self, config: Config) -> None:
        self.state: dict[str, Any] = {}
        self.started = 0
        self.ended = 0

    async def startup(self) -> None:
        self.started += 1

    async def shutdown(self) -> None:
        self.ended += 1


class TickingServer(Server):
    """Stops at its third tick."""

    ticks: list[int]

    @override
    async def on_tick(self, counter: int) -> bool:
        self.ticks.append(counter)
        self.should_exit = len(self.ticks) > 2
        return await super().on_tick(counter)


async def test_a_server_starts_ticks_and_shuts_down_through_the_methods_that_are_overridden():
    config = Config(App(), port=0, ws="none", interface="asgi3", log_config=None, lifespan="off")
    config.load()
    config.lifespan_class = Lifespan
    server = TickingServer(config)
    server.ticks = []
    state = server.server_state = ServerState()
    with anyio.fail_after(30):
        await server._serve()
    assert server.ticks == [0, 1, 2]
    assert (server.lifespan.started, server.lifespan.ended) == (1, 1)
    assert len(server.servers) == 1
    assert not server.force_exit
    assert state.default_headers[0][0] == b"date"
    assert (state.connections, state.tasks) == (set(), set())


class CountingTransport(FakeTransport):
    """Also keeps each write by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    @override
    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))
        super().write(data)


class Answers:
    """Answers each request with a head and a body of one piece; without a length, as a stream."""

    def __init__(self, *, has_length: bool) -> None:
        self.headers = [(b"content-length", b"2")] if has_length else []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.headers})
        await send({"type": "http.response.body", "body": b"ok"})


async def bounded(app: Any) -> tuple[bounded_protocol.BoundedProtocol, CountingTransport]:
    limits = ConnectionLimits()
    config = Config(app, ws="none", interface="asgi3", timeout_keep_alive=5)
    state = bounded_protocol.BoundedServerState(limits, Connections(limits))
    protocol, transport = bounded_protocol.BoundedProtocol(config, state, {}), CountingTransport()
    protocol.connection_made(transport)
    protocol.data_received(REQUEST)
    await until(lambda: protocol.cycle.response_complete and not state.tasks)
    return protocol, transport


async def test_the_head_of_an_answer_leaves_with_its_body_and_that_of_a_stream_at_once():
    _, whole = await bounded(Answers(has_length=True))
    assert whole.writes == [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"]
    _, stream = await bounded(Answers(has_length=False))
    assert stream.writes == [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        b"2\r\nok\r\n0\r\n\r\n",
    ]


async def test_a_connection_that_is_idle_for_too_long_is_closed():
    protocol, transport = await bounded(Answers(has_length=True))
    protocol.check_progress(4.9)
    assert not transport.is_closed
    protocol.data_received(REQUEST)
    await until(lambda: protocol.cycle.response_complete)
    protocol.check_progress(4.9)
    assert not transport.is_closed
    protocol.check_progress(0.2)
    assert transport.is_closed
