"""What counts as a request: spellings that stock clients use, and near misses with two readings."""

import gc
import json
import random

import pytest

from ors_server.doors.http.bounded_protocol import BoundedCycle
from tests.conformance.http.conftest import INITIALIZE, request

MCP = ("Content-Type: application/json", "Accept: application/json, text/event-stream")
UPGRADE = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
SPLIT = b'{"split": "train"}'
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def test_a_request_that_would_upgrade_is_answered_with_its_body_as_http_1(ask):
    answer = ask(request("POST /refenv/num_tasks", *UPGRADE, body=SPLIT))
    assert (answer.status, answer.headers.get("upgrade")) == (200, None)
    assert answer.json["num_tasks"] > 0
    assert ask(request("POST /mcp", *UPGRADE, *MCP, body=INITIALIZE)).status == 200


@pytest.mark.parametrize(
    "wish",
    [
        ("Connection: upgrade", "Upgrade: websocket"),
        ("Connection: keep-alive, Upgrade", "Upgrade: h2c, TLS/1.0"),
        ("Connection: Upgrade", "Connection: HTTP2-Settings", "Upgrade: h2c"),
        ("UPGRADE: h2c", "CONNECTION: UPGRADE"),
        ("Upgrade: h2c",),
        ("Connection: Upgrade",),
    ],
)
@pytest.mark.parametrize("pieces", [1, 7, 1_000_000])
def test_no_wish_for_another_protocol_loses_a_body(dial, port, wish, pieces):
    wire = dial(port)
    sent = request("POST /refenv/num_tasks", *wish, body=SPLIT)
    for _ in range(2):
        wire.write(*(sent[start : start + pieces] for start in range(0, len(sent), pieces)))
        assert wire.read().status == 200


def test_a_chunked_body_survives_the_wish_for_an_upgrade(ask):
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (SPLIT[:5], SPLIT[5:]))
    sent = request("POST /refenv/num_tasks", *UPGRADE, "Transfer-Encoding: chunked") + chunks + b"0\r\n\r\n"
    assert ask(sent).status == 200


def test_an_answered_request_is_freed_without_the_garbage_collector(dial, port):
    wire = dial(port)
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(item, BoundedCycle) for item in gc.get_objects())
        for _ in range(20):
            wire.write(request("POST /refenv/num_tasks", body=SPLIT))
            assert wire.read().status == 200
        kept = sum(isinstance(item, BoundedCycle) for item in gc.get_objects()) - before
    finally:
        gc.enable()
    assert kept <= 2  # the last one, which its connection knows


def test_white_space_around_a_value_is_not_the_value(ask):
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "list_environments", "arguments": {}, "_meta": META},
    }
    headers = (
        "MCP-Protocol-Version: 2026-07-28 \t",
        "Mcp-Method: \t tools/call  ",
        "Mcp-Name:list_environments \t ",
    )
    answer = ask(request("POST /mcp", *MCP, *headers, body=json.dumps(call).encode()))
    assert answer.status == 200
    assert answer.json["result"]["isError"] is False


@pytest.mark.parametrize("host", ["LOCALHOST", "LocalHost:8080", "127.0.0.1:1", "[::1]:9", "localhost:"])
def test_a_host_is_the_same_in_any_case_at_every_door(ask, host):
    for path in ("GET /health", "GET /_ors/health"):
        assert ask(request(path, host=host)).status == 200
    assert ask(request("POST /mcp", *MCP, body=INITIALIZE, host=host)).status == 200


@pytest.mark.parametrize(
    "host", ["localhost:80:80", "localhost:x", "localhost@evil.example", "[::1", "localhost/x"]
)
def test_a_host_that_is_only_nearly_one_is_not_served(ask, host):
    assert ask(request("GET /health", host=host)).status == 421


@pytest.mark.parametrize(
    "hosts",
    [(), ("Host: evil.example", "Host: localhost"), ("Host: localhost", "Host: localhost")],
    ids=["none", "two", "twice"],
)
def test_a_request_has_one_host(ask, hosts):
    answer = ask(request("GET /health", *hosts, host=None))
    assert (answer.status, answer.json["code"]) == (400, "malformed_request")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/health", 200),
        ("/refenv/tools", 200),
        ("/_ors/environments", 200),
        ("/_ors/nothing", 404),
        ("/nothing", 404),
        ("/mcp", 406),
        ("/create", 405),
    ],
)
def test_head_is_answered_as_get_without_a_body(dial, port, path, status):
    wire = dial(port)
    wire.write(request(f"GET {path}"))
    got = wire.read()
    wire.write(request(f"HEAD {path}"))
    headed = wire.read(has_body=False)
    assert (got.status, headed.status) == (status, status)
    own = {"date", "content-length", "mcp-session-id"}
    assert {name: value for name, value in headed.headers.items() if name not in own} == {
        name: value for name, value in got.headers.items() if name not in own
    }
    wire.write(request("GET /version"))  # no body came between
    assert wire.read().json["version"]


def test_head_of_a_stream_ends_at_once(dial, port):
    wire = dial(port)
    wire.write(request("POST /_ors/sessions", body=b'{"split": "train", "index": 0}'))
    session = wire.read().json["session_id"]
    wire.write(request("POST /mcp", *MCP, body=INITIALIZE))
    listener = f"Mcp-Session-Id: {wire.read().headers['mcp-session-id']}"
    for path in (f"/_ors/episodes/{session}/events", "/mcp"):
        for _ in range(2):
            wire.write(request(f"HEAD {path}", listener, "Accept: text/event-stream"))
            assert wire.read(has_body=False).status == 200
            wire.write(request("GET /version"))
            assert wire.read().status == 200


def test_a_trailer_is_no_header(ask):
    body = b"2\r\n{}\r\n0\r\nX-Session-ID: somebody-elses\r\n\r\n"
    answer = ask(request("POST /ping", "Transfer-Encoding: chunked") + body)
    assert (answer.status, answer.json["detail"]) == (400, "X-Session-ID header is required")


@pytest.mark.parametrize("width", [1, 2, 3, 17])
def test_a_request_may_come_in_pieces_of_any_length(dial, port, width):
    wire = dial(port)
    sent = request("POST /refenv/num_tasks", "X-Empty:", "X-Blank: \t ", "X-A: b", body=SPLIT)
    wire.write(*(sent[start : start + width] for start in range(0, len(sent), width)))
    assert wire.read().status == 200


def test_requests_may_come_before_the_answers_to_others(dial, port):
    wire = dial(port)
    chunked = request("POST /refenv/num_tasks", "Transfer-Encoding: chunked")
    chunked += b"%x;extension=1\r\n%b\r\n0\r\n\r\n" % (len(SPLIT), SPLIT)
    sent = [request("GET /version"), chunked, request("POST /refenv/num_tasks", body=SPLIT)] * 20
    wire.write(b"".join(sent))
    keys = [next(iter(wire.read().json)) for _ in sent]
    assert keys == ["version", "num_tasks", "num_tasks"] * 20


def test_what_is_wrong_after_a_request_does_not_cost_its_answer(dial, port):
    wire = dial(port)
    wire.write(request("GET /version") + request("GET /version") + b"\x00 nonsense\r\n\r\n")
    assert [wire.read().status for _ in range(3)] == [200, 200, 400]
    assert wire.rest() == b""


NEAR_MISSES = {
    "two lengths": request("POST /ping", "Content-Length: 3", "Content-Length: 4") + b"abcd",
    "length and chunks": request("POST /ping", "Content-Length: 3", "Transfer-Encoding: chunked")
    + b"0\r\n\r\n",
    "length of many": request("POST /ping", "Content-Length: 3, 3") + b"abc",
    "length with a sign": request("POST /ping", "Content-Length: +3") + b"abc",
    "coding after chunked": request("POST /ping", "Transfer-Encoding: chunked, gzip") + b"0\r\n\r\n",
    "chunk that is too long": request("POST /ping", "Transfer-Encoding: chunked") + b"1\r\nab\r\n0\r\n\r\n",
    "chunk of no size": request("POST /ping", "Transfer-Encoding: chunked") + b"x\r\n\r\n",
    "space before the colon": request("GET /health", "X-A : b"),
    "folded header": request("GET /health", "X-A: b\r\n c"),
    "control character": request("GET /health", "X-A: b\x01c"),
    "no colon": request("GET /health", "X-A"),
    "name of nothing": request("GET /health", ": b"),
    "newlines alone": request("GET /health").replace(b"\r\n", b"\n"),
    "other version": request("GET /health").replace(b"HTTP/1.1", b"HTTP/3.7"),
    "two spaces": b"GET /health HTTP/1.1 extra\r\nHost: localhost\r\n\r\n",
    "no method": b" /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "proxy": b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "bytes in the path": b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("sent", NEAR_MISSES.values(), ids=NEAR_MISSES)
def test_a_near_miss_is_told_what_is_wrong_and_closes_the_connection(dial, port, sent):
    wire = dial(port)
    wire.write(sent)
    answer = wire.read()
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert (answer.json["code"], answer.json["blame"]) == ("malformed_request", "client")
    assert answer.json["detail"]
    assert wire.rest() == b""


def test_damaged_requests_never_hurt_others(dial, port):
    chance = random.Random(11)  # noqa: S311  (damage, not a secret)
    whole = request("POST /refenv/num_tasks", *UPGRADE, "X-Session-ID: a", body=SPLIT)
    bystander = dial(port)
    for _ in range(150):
        damaged = bytearray(whole * chance.randint(1, 3))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(damaged))
            damaged[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
        wire = dial(port)
        cuts = sorted(chance.randrange(len(damaged)) for _ in range(3))
        wire.write(*(bytes(damaged[a:b]) for a, b in zip([0, *cuts], [*cuts, None], strict=True)))
        wire.close()
    bystander.write(request("GET /version"))
    assert bystander.read().status == 200
