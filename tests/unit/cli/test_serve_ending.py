"""How a server goes: whoever it let in gets an answer, and the log has no traceback for it."""

import json
import signal
import socket
import threading
import urllib.request

import pytest

REFENV = "tests/fixtures/refenv.py"
LIMIT = 60
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
JSON = ("Content-Type: application/json", "Accept: application/json, text/event-stream")
CLIENT = {"name": "raw", "version": "1"}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}


class Caller:
    """A client that waits for its answers in a thread."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
        self._stream = self.socket.makefile("rb")
        self.answer = b""
        self._thread = threading.Thread(target=self._wait, daemon=True)

    def send(self, method, path, *headers, body=None):
        data = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", "Host: localhost", *JSON, *headers]
        head += [f"Content-Length: {len(data)}", "", ""]
        self.socket.sendall("\r\n".join(head).encode() + data)

    def head(self):
        lines = [line.decode().partition(":") for line in iter(self._stream.readline, b"\r\n")]
        return {name.lower(): value.strip() for name, _, value in lines}

    def wait(self):
        self._thread.start()

    def _wait(self):
        self.answer = self._stream.read()

    def join(self):
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        self.close()
        return self.answer

    def close(self):
        self._stream.close()
        self.socket.close()


@pytest.fixture
def running(serve):
    """A server in which a session of each door plays a slow tool; its callers by the door."""

    def start(seconds):
        server = serve(f"{REFENV}:RefEnv")
        port = int(server.url.rpartition(":")[2])
        callers = {}
        for door in ("ors", "control", "mcp", "pipelined"):
            maker = Caller(port)
            order = {"split": "train", "index": 0, "session_id": door}
            maker.send("POST", "/_ors/sessions", "Connection: close", body=order)
            maker.wait()
            assert b"201" in maker.join()
            callers[door] = Caller(port)
        arguments = {"seconds": seconds}
        call = {"name": "slow_count", "input": arguments}
        callers["ors"].send("POST", "/refenv/call", "X-Session-ID: ors", body=call)
        params = {"name": "slow_count", "arguments": arguments}
        callers["control"].send("POST", "/_ors/sessions/control/calls", body=params)
        params = {**params, "_meta": META}
        request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        named = ("MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: slow_count")
        callers["mcp"].send("POST", "/sessions/mcp/mcp", *named, body=request)
        callers["pipelined"].send("POST", "/refenv/call", "X-Session-ID: pipelined", body=call)
        callers["pipelined"].send("GET", "/version")
        for caller in callers.values():
            caller.wait()
        last = Caller(port)  # whoever answers this has read what came before
        last.send("GET", "/version", "Connection: close")
        last.wait()
        assert b"200 OK" in last.join()
        return server, callers

    return start


def test_what_ends_in_time_is_answered_in_full(running):
    server, callers = running(2.0)
    log = server.stop(with_signal=signal.SIGTERM)
    answers = {door: caller.join() for door, caller in callers.items()}
    assert b"event: end" in answers["ors"]
    assert b'"kind":"completed"' in answers["control"]
    assert b'"isError":false' in answers["mcp"]
    assert answers["pipelined"].count(b"HTTP/1.1 200 OK") == 2
    assert "Traceback" not in log


def test_what_does_not_end_is_told_that_the_server_goes(running):
    server, callers = running(3000.0)
    log = server.stop(with_signal=signal.SIGTERM)
    answers = {door: caller.join() for door, caller in callers.items()}
    assert b"event: error\ndata: the server is shutting down" in answers["ors"]
    assert b'"code":"shutting_down"' in answers["control"]
    assert b'"code":"shutting_down"' in answers["mcp"]
    for door, answer in answers.items():
        assert answer.startswith(b"HTTP/1.1 "), door
        assert b"Internal Server Error" not in answer
    assert "Traceback" not in log
    assert server.process.returncode == -signal.SIGTERM


def test_a_listening_client_does_not_hold_it_up(serve):
    server = serve(f"{REFENV}:RefEnv")
    port = int(server.url.rpartition(":")[2])
    caller = Caller(port)
    caller.send("POST", "/mcp", body=INITIALIZE)
    listener = f"Mcp-Session-Id: {caller.head()['mcp-session-id']}"
    listening = Caller(port)
    listening.send("GET", "/mcp", listener, "MCP-Protocol-Version: 2025-06-18")
    assert listening.head()["content-type"] == "text/event-stream"
    listening.wait()
    log = server.stop(with_signal=signal.SIGTERM)
    assert listening.join().endswith(b"0\r\n\r\n")  # a whole answer, not one that was cut off
    caller.close()
    assert "Traceback" not in log
    assert "requests_cut_off" not in log


def test_the_record_says_that_the_server_ended_an_episode_and_not_its_client(serve, run, tmp_path):
    store = str(tmp_path / "episodes.db")
    server = serve(f"{REFENV}:RefEnv", "--store", store)

    def ask(method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{server.url}/_ors{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return json.load(answer)

    for name in ("deleted", "live", "over"):
        ask("POST", "/sessions", {"split": "train", "index": 0, "session_id": name})
    ask("DELETE", "/sessions/deleted")
    ask("POST", "/sessions/over/calls", {"name": "finish", "arguments": {"reward": 1.0}})
    server.stop(with_signal=signal.SIGTERM)
    listed = run("episodes", "list", "--store", store, "--json").out.splitlines()
    entries = {entry["session_id"]: entry for entry in map(json.loads, listed)}
    reasons = {name: entry["episode"]["stop_reason"] for name, entry in entries.items()}
    assert reasons == {"deleted": "deleted", "live": "shutdown", "over": "completed"}
    assert all(entry["closed"] for entry in entries.values())
    found = run("episodes", "list", "--store", store, "--stop-reason", "shutdown", "--json")
    assert found.json["session_id"] == "live"
    assert run("store", "verify", "--store", store).status == 0
