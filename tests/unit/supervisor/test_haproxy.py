"""The front's configuration, before a real HAProxy and hosts that answer with their names."""

import asyncio
import base64
import contextlib
import json
import secrets
import shutil
import socket
from dataclasses import dataclass
from urllib.parse import quote, urlencode
from zlib import crc32

import pytest

from ors_server.doors.access import TOKEN_PREFIX
from ors_server.doors.mcp.mcp_results import SESSION_KEY
from ors_server.model.errors import InvalidRequestError, SettingsError
from ors_server.model.host_slot import SLOTS, HostSlot, slot_of, socket_path
from ors_server.supervisor.front_control import FrontControl, FrontControlError
from ors_server.supervisor.haproxy import FrontOptions, check_configuration, find_program, write_configuration
from ors_server.supervisor.supervising import inheritable

HOSTS = 3
ATTEMPTS = 100


def options_for(folder, **changes):
    values = {
        "folder": folder,
        "addresses": [f"unix:{socket_path(folder, number)}" for number in range(HOSTS)],
        "token_prefix": TOKEN_PREFIX,
        "session_key": SESSION_KEY,
        "max_connections": 200,
        "max_connections_per_address": 100,
        "max_header_bytes": 65_536,
        "header_seconds": 10.0,
    }
    return FrontOptions(**(values | changes))


async def answer(name, slots, reader, writer):
    """Answer with a host's name, or with the slots that it has."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = head.partition("content-length:")[2].partition("\r\n")[0].strip() or "0"
            await reader.readexactly(int(length))
            text = json.dumps({"slots": slots[name]}) if head.startswith("get /_ors/slots") else name
            writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(text)}\r\n\r\n{text}".encode())
            await writer.drain()
    writer.close()


@dataclass
class Front:
    """A running front; called with a request, it returns the body of the answer."""

    port: int
    control: FrontControl
    slots: dict[str, list[int]]
    """The slots that each host says it has."""

    async def __call__(self, method, path, headers=(), body=None):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        data = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"{method} {path} HTTP/1.1",
            "host: x",
            "connection: close",
            f"content-length: {len(data)}",
        ]
        lines += [f"{name}: {value}" for name, value in headers]
        writer.write("\r\n".join([*lines, "", ""]).encode() + data)
        answered = (await reader.read()).decode()
        writer.close()
        return answered.partition("\r\n\r\n")[2]


@contextlib.asynccontextmanager
async def front(folder, **changes):
    """Run HAProxy before fake hosts, and give what sends it a request."""
    async with contextlib.AsyncExitStack() as stack:
        slots = {f"h{number}": list(range(number, SLOTS, HOSTS)) for number in range(HOSTS)}
        for number in range(HOSTS):

            async def serve(reader, writer, name=f"h{number}"):
                await answer(name, slots, reader, writer)

            server = await asyncio.start_unix_server(serve, str(socket_path(folder, number)))
            stack.callback(server.close)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        descriptor = inheritable(listener)
        options = options_for(folder, **changes)
        control = FrontControl(folder, options.addresses)
        stack.push_async_callback(control.aclose)
        path = write_configuration(options, descriptor)
        check_configuration(find_program(), path, descriptor)
        command = [find_program(), "-db", "-q", "-f", str(path)]
        process = await asyncio.create_subprocess_exec(*command, pass_fds=[descriptor])
        stack.push_async_callback(process.wait)
        stack.callback(process.terminate)
        port = listener.getsockname()[1]
        yield Front(port, control, slots)


def places_of(session_id):
    """Return a request for each place in which a session's id may be."""
    claim = base64.urlsafe_b64encode(f"episode {session_id}".encode()).decode().rstrip("=")
    token = f"{TOKEN_PREFIX}{claim}.signature-_"
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    long = "x" * 20_000
    quoted = quote(session_id, safe="")
    return {
        "header": ("POST", "/call", [("X-Session-ID", session_id)], {"name": "x"}),
        "path of MCP": ("POST", f"/sessions/{quoted}/mcp", [], call),
        "path of the control API": ("GET", f"/_ors/sessions/{quoted}/steps?limit=1", []),
        "encoded path": ("GET", f"/_ors/sessions/{quoted.replace('-', '%2D')}", []),
        "token": ("POST", f"/agent/{token}/mcp", [], call),
        "argument": ("POST", "/mcp", [], {**call, "params": {"arguments": {"session_id": session_id}}}),
        "meta": ("POST", "/mcp", [], {**call, "params": {"_meta": {"a": 1, SESSION_KEY: session_id}}}),
        "body": ("POST", "/_ors/sessions", [], {"environment": "x", "session_id": session_id, "task": long}),
        "query of OpenEnv": ("GET", f"/openenv/x/ws?a=1&session_id={quoted}", []),
        "form's query of OpenEnv": ("GET", f"/openenv/x/state?{urlencode({'session_id': session_id})}", []),
        "body of OpenEnv": ("POST", "/openenv/x/step", [], {"action": {}, "session_id": session_id}),
        "JSON-RPC of OpenEnv": ("POST", "/openenv/x/mcp", [], {**call, "params": {"session_id": session_id}}),
    }


async def test_every_place_of_a_session_id_leads_to_its_host(tmp_path):
    ids = [secrets.token_hex(16) for _ in range(6)] + ["a", "A.b_c~d-e", "0" * 128]
    ids += ["my own session", "a@b+c=d#e%41?f", "{'a': [1];&|$!*}", "owner:run (2)"]
    async with front(tmp_path) as ask:
        for session_id in ids:
            expected = f"h{crc32(session_id.encode()) % 1024 % HOSTS}"
            answers = {place: await ask(*request) for place, request in places_of(session_id).items()}
            assert answers == dict.fromkeys(answers, expected), session_id


async def test_an_mcp_connection_stays_with_the_host_that_its_id_names(tmp_path):
    async with front(tmp_path) as ask:
        answers = [
            await ask("POST", "/mcp", [("Mcp-Session-Id", f"h{number}-0123")], {"id": 1})
            for number in range(HOSTS)
        ]
        strange = await ask("POST", "/mcp", [("Mcp-Session-Id", "h99999999999999999999-0")], {"id": 1})
    assert answers == ["h0", "h1", "h2"]
    assert strange in answers


async def test_requests_about_no_session_are_shared_out(tmp_path):
    async with front(tmp_path) as ask:
        answers = [await ask("GET", "/list_environments") for _ in range(2 * HOSTS)]
    assert sorted(answers) == ["h0", "h0", "h1", "h1", "h2", "h2"]


async def test_slots_that_a_host_has_taken_lead_to_it_from_then_on(tmp_path):
    ids = [secrets.token_hex(16) for _ in range(20)]
    async with front(tmp_path) as ask:
        before = {await ask("POST", "/call", [("X-Session-ID", session_id)]) for session_id in ids}
        ask.slots |= {"h0": list(range(0, SLOTS, 2)), "h1": [], "h2": list(range(1, SLOTS, 2))}
        await ask.control.update_slots()
        for session_id in ids:
            found = await ask("POST", "/call", [("X-Session-ID", session_id)])
            assert found == f"h{2 * (slot_of(session_id) % 2)}"
        unkeyed = [await ask("GET", "/list_environments") for _ in range(4)]
        connection = await ask("POST", "/mcp", [("Mcp-Session-Id", "h1-0123")], {"id": 1})
    assert before == {"h0", "h1", "h2"}
    assert set(unkeyed) == {"h0", "h2"}
    assert connection in {"h0", "h2"}  # which know no such connection, so that the client makes another one


async def test_a_host_that_gets_no_traffic_is_answered_for_with_503(tmp_path):
    session_id = next(name for n in range(100) if slot_of(name := f"session-{n}") % HOSTS == 1)
    async with front(tmp_path) as ask:
        assert await ask("GET", "/health") in {"h0", "h1", "h2"}  # HAProxy runs
        await ask.control.set_traffic(1, is_open=False)
        refused = await ask("POST", "/call", [("X-Session-ID", session_id)])
        await ask.control.set_traffic(1, is_open=True)
        answered = await ask("POST", "/call", [("X-Session-ID", session_id)])
    assert json.loads(refused)["code"] == "starting"
    assert answered == "h1"


async def test_a_front_that_does_not_run_cannot_be_changed(tmp_path):
    control = FrontControl(tmp_path, options_for(tmp_path).addresses)
    with pytest.raises(FrontControlError, match="HAProxy does not answer at its admin socket"):
        await control.set_traffic(0, is_open=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [("2/2", "expected a number below 2, got 2/2"), ("0/2", "host_slot needs host_address")],
)
def test_a_host_that_does_not_exist_or_cannot_be_reached_is_refused(text, message):
    with pytest.raises(SettingsError, match=message):
        HostSlot.read(text, None)


async def test_the_console_is_the_first_hosts(tmp_path):
    async with front(tmp_path) as ask:
        paths = ("/console", "/console/episodes/abc?step=2", "/console/sign-in")
        answers = [await ask("GET", path) for path in paths for _ in range(HOSTS)]
        others = {await ask("GET", "/consoles") for _ in range(2 * HOSTS)}
    assert set(answers) == {"h0"}
    assert others == {"h0", "h1", "h2"}


async def test_one_address_has_a_limited_number_of_connections(tmp_path):
    async with front(tmp_path, max_connections_per_address=1) as ask:
        assert await ask("GET", "/health") in {"h0", "h1", "h2"}
        answers = await asyncio.gather(*(ask("GET", "/health") for _ in range(8)), return_exceptions=True)
    assert any(isinstance(answered, ConnectionError) or not answered for answered in answers)


def test_a_refused_configuration_is_an_error_with_haproxys_reason(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        descriptor = inheritable(listener)
        FrontControl(tmp_path, options_for(tmp_path).addresses)
        path = write_configuration(options_for(tmp_path, certificate=tmp_path / "none.pem"), descriptor)
        with pytest.raises(SettingsError, match=r"none\.pem"):
            check_configuration(find_program(), path, descriptor)


def test_a_machine_without_haproxy_says_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    monkeypatch.setattr("ors_server.supervisor.haproxy.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"HAProxy.*workers.*haproxy"):
        find_program()


def test_a_host_knows_the_sockets_of_the_others_on_its_machine_before_they_start(tmp_path):
    slot = HostSlot.read("1/2/9", tmp_path)
    assert [slot.address_of(number) for number in (0, 1)] == [
        f"unix:{socket_path(tmp_path, number)}" for number in (0, 1)
    ]
    far = HostSlot.read("1/2", None, "host-b:8080")
    assert [far.address_of(number) for number in (0, 1)] == [None, "host-b:8080"]


@pytest.mark.parametrize("session_id", ["", " a", "a ", "a/b", "a,b", 'a"b', "a\\b", "a\tb", "é", "a" * 201])
def test_an_id_that_not_every_place_of_a_request_carries_is_refused(tmp_path, session_id):
    with pytest.raises(InvalidRequestError, match="1 to 200 visible ASCII characters"):
        HostSlot.read("0/2/9", tmp_path).check(session_id)


def test_a_host_draws_ids_of_its_own_slot():
    for number in range(5):
        slot = HostSlot.read(f"{number}/5", None, "host:8080")
        drawn = {slot.draw_session_id() for _ in range(20)}
        assert len(drawn) == 20
        assert {slot_of(session_id) % 5 for session_id in drawn} == {number}
