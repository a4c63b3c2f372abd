"""What one client may take: the size of headers, the time for them and for bodies, and connections."""

import contextlib
import resource
import socket

import pytest

from tests.conformance.http.conftest import Wire, request

HEADER_BYTES = 64 * 1024
PIECE = b"x" * (1 << 20)
SPLIT = b'{"split": "train"}'


@pytest.fixture(scope="module")
def hasty(serve_live, refenv):
    """The port of a server that waits for nobody."""
    return serve_live(f"{refenv}:RefEnv", header_seconds=1.0, body_seconds=1.0).port


def refused(wire: Wire, status: int, code: str) -> None:
    answer = wire.read()
    assert (answer.status, answer.json["code"]) == (status, code)
    assert answer.headers["connection"] == "close"
    assert wire.rest() == b""


def padded(size: int) -> bytes:
    """A request whose line and headers have so many bytes, line ends not counted for the line."""
    counted = len("/version") + len("hostlocalhost") + 4 + len("x-pad") + 4
    return request("GET /version", "X-Pad: " + "p" * (size - counted))


def test_headers_of_60_megabytes_are_refused_before_they_are_there(dial, port):
    wire = dial(port)
    wire.write(b"GET /version HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
    with contextlib.suppress(ConnectionError):
        for _ in range(60):
            wire.socket.sendall(PIECE)
    refused(wire, 431, "header_too_large")


@pytest.mark.parametrize("pieces", [1000, 4096, HEADER_BYTES, 10 * HEADER_BYTES])
@pytest.mark.parametrize(("size", "status"), [(HEADER_BYTES, 200), (HEADER_BYTES + 1, 431)])
def test_the_limit_on_headers_is_exact_however_they_come(dial, port, size, status, pieces):
    wire = dial(port)
    sent = request("POST /refenv/num_tasks", body=SPLIT) + padded(size)
    wire.write(*(sent[start : start + pieces] for start in range(0, len(sent), pieces)))
    assert [wire.read().status, wire.read().status] == [200, status]


@pytest.mark.parametrize(
    "endless",
    [
        [b"GET /", b"a" * 5000],
        [b"GET / HTTP/1.1\r\n", b"X: " + b"a" * 5000 + b"\r\n"],
        [b"GET / HTTP/1.1\r\nX: ", b"a" * 5000],
        [b"GET / HTTP/1.1\r\n", b"a" * 5000],
        [b"GET / HTTP/1.1\r\n", b"a:\r\n" * 1000],
        [request("POST /ping", "Transfer-Encoding: chunked") + b"0\r\n", b"X: " + b"a" * 5000 + b"\r\n"],
        [request("POST /ping", "Transfer-Encoding: chunked") + b"1;", b"a" * 5000],
    ],
    ids=["path", "headers", "value", "name", "many", "trailers", "extension"],
)
def test_nothing_is_kept_without_end(dial, port, endless):
    wire = dial(port)
    first, rest = endless
    wire.write(first, *[rest] * 100)
    refused(wire, 431, "header_too_large")


def test_a_body_may_be_longer_than_headers(dial, port):
    wire = dial(port)
    body = SPLIT + b" " * (4 * HEADER_BYTES)
    for _ in range(2):
        wire.write(request("POST /refenv/num_tasks", body=body))
        assert wire.read().status == 200
    wire.write(request("POST /refenv/num_tasks", body=b" " * (5 << 20)))
    assert wire.read().status == 413


@pytest.mark.parametrize(
    "begun", [b"G", b"GET /version HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\nX"]
)
def test_headers_that_stop_are_refused(dial, hasty, begun):
    wire = dial(hasty)
    wire.write(begun)
    refused(wire, 408, "request_timeout")


@pytest.mark.parametrize("framing", ["Content-Length: 9", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("path", ["/ping", "/mcp", "/_ors/sessions"])
def test_bodies_that_stop_are_refused_at_every_door(dial, hasty, path, framing):
    wire = dial(hasty)
    wire.write(request(f"POST {path}", framing) + b"1")
    refused(wire, 408, "request_timeout")


def test_who_says_nothing_is_left_without_a_word(dial, hasty):
    assert dial(hasty).rest() == b""


def test_a_connection_between_requests_is_kept(dial, hasty):
    idle, slow = dial(hasty), dial(hasty)
    idle.write(request("GET /version"))
    assert idle.read().status == 200
    slow.write(b"G")
    refused(slow, 408, "request_timeout")
    idle.write(b"\r\n" + request("GET /version"))
    assert idle.read().status == 200


@pytest.mark.parametrize(
    "part", [request("GET /version", "X-Long: " + "a" * 200), request("POST /ping", body=b" " * 200)]
)
def test_byte_after_byte_is_too_slow(dial, hasty, part):
    wire = dial(hasty)
    wire.socket.settimeout(0.05)
    wire.write(part[:150] if b"GET" in part else part[:-199])
    for _ in range(400):
        with contextlib.suppress(TimeoutError):
            if wire.socket.recv(4, socket.MSG_PEEK):
                break
        wire.write(b"a")
    wire.socket.settimeout(30)
    assert wire.read().status == 408


def test_a_refusal_waits_for_its_turn(dial, hasty):
    wire = dial(hasty)
    wire.write(request("GET /version") + request("GET /version")[:-2])
    assert wire.read().status == 200
    refused(wire, 408, "request_timeout")


def test_only_so_many_connections_come_from_one_address(dial, serve_live, refenv):
    port = serve_live(f"{refenv}:RefEnv", max_connections_per_address=3).port
    wires = [dial(port) for _ in range(3)]
    for wire in wires:
        wire.write(request("GET /version"))
        assert wire.read().status == 200
    late = dial(port)
    late.write(request("GET /version"), PIECE)
    answer = late.read()
    assert (answer.status, answer.json["code"]) == (503, "too_many_connections")
    assert answer.headers["retry-after"]
    other = socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0), timeout=30)
    with other:
        other.sendall(request("GET /version", "Connection: close"))
        assert other.recv(12) == b"HTTP/1.1 200"
    wires[0].close()
    _until_served(dial, port)


def test_only_so_many_connections_are_open_in_all(dial, serve_live, refenv):
    port = serve_live(f"{refenv}:RefEnv", max_connections=2).port
    wires = [dial(port), dial(port)]
    for wire in wires:
        wire.write(request("GET /version"))
        assert wire.read().status == 200
    flood = [dial(port) for _ in range(300)]  # far more than are told why
    wires[0].write(request("GET /version"))
    assert wires[0].read().status == 200
    for wire in (*flood, wires[1]):
        wire.close()
    _until_served(dial, port)


def _until_served(dial, port):
    """Tries again, as Retry-After says: the server has to see first that a connection is closed."""
    for _ in range(200):
        wire = dial(port)
        wire.write(request("GET /version"))
        with contextlib.suppress(AssertionError):
            if wire.read().status == 200:
                return
        wire.close()
    raise AssertionError("nobody was let in again")


def test_half_open_requests_leave_room_for_others(serve_live, refenv):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    try:
        port = serve_live(f"{refenv}:RefEnv", header_seconds=2.0).port
        with contextlib.ExitStack() as half_open:
            for _ in range(500):
                begun = half_open.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
                begun.sendall(b"POST /mcp HTTP/1.1\r\nHost: loc")
            wire = Wire(port)
            half_open.callback(wire.close)
            for _ in range(200):
                wire.write(request("GET /version"))
                assert wire.read().status == 200
            assert begun.recv(12) == b"HTTP/1.1 408"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
