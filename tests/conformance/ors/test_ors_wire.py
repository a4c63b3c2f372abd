"""The suite's own HTTP client, against scripted bytes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.stapled import MultiListener

from ors_server.conformance.ors_wire import BrokenWireError, OrsWire, WireRequest, get, post

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@asynccontextmanager
async def says(*pieces: bytes) -> AsyncIterator[OrsWire]:
    """Serves one connection after the other with the same bytes, piece by piece, and closes it."""

    async def answer(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            for piece in pieces:
                await stream.send(piece)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as serving:
        serving.start_soon(listener.serve, answer)
        yield OrsWire(url_of(listener))
        serving.cancel_scope.cancel()


def url_of(listener: MultiListener[SocketStream]) -> str:
    return f"http://127.0.0.1:{listener.extra_attributes[SocketAttribute.local_port]()}"


async def test_reads_a_body_of_a_declared_length_or_to_the_end_of_its_connection():
    async with says(
        b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{", b"}"
    ) as wire:
        answer = await wire.send(get("/x"))
    assert (answer.status, answer.json()) == (404, {})
    assert answer.is_refusal
    assert str(answer) == "404 {}"
    async with says(b"HTTP/1.0 200 OK\r\n\r\nall ", b"of it") as wire:
        assert (await wire.send(get("/x"))).body == b"all of it"


async def test_reads_events_from_pieces_cut_anywhere():
    pieces = (
        STREAM,
        b"9\r\nevent: ta\r\n",
        b"8\r\nsk_id\r\nd\r\n",
        b"7\r\nata: 1\n\r\n",
        b"14\r\n\n: ping\n\ndata: x\nid:\r\n",
        b"b\r\n 9\ndata:y\n\n\r\n",
        b"0\r\n\r\n",
    )
    async with says(*pieces) as wire, wire.stream(post("/x")) as stream:
        assert stream.is_stream
        events = await stream.rest()
    assert [(e.name, e.data) for e in events] == [("task_id", "1"), ("", "x\ny")]
    assert stream.comments == 1
    assert stream.is_complete


async def test_an_event_without_its_blank_line_is_none():
    async with says(STREAM, b"9\r\nevent: e\n\r\n", b"0\r\n\r\n") as wire, wire.stream(post("/x")) as stream:
        assert await stream.next() is None
    assert stream.lines == [b"event: e"]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"SSH-2.0-nonsense\r\n\r\n",
        b"HTTP/1.1 twohundred OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        STREAM + b"5\r\nshort",
        STREAM + b"zz\r\nwhat\r\n",
        b"x" * 70_000,
    ],
    ids=["nothing", "another protocol", "no status", "short body", "short chunk", "no size", "endless head"],
)
async def test_what_is_not_http_is_said_to_be_broken(said):
    async with says(said) as wire:
        with pytest.raises(BrokenWireError):
            await wire.send(get("/x"))


@pytest.mark.parametrize("kind", [b"text/plain", b"application/json"])
async def test_what_is_not_json_is_said_to_be_broken(kind):
    async with says(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nContent-Length: 2\r\n\r\n{]") as wire:
        answer = await wire.send(get("/x"))
    with pytest.raises(BrokenWireError):
        answer.json()


async def test_a_silent_server_is_given_up():
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener:
        wire = OrsWire(url_of(listener))
        with pytest.raises(TimeoutError):
            await wire.send(get("/x"), time_limit=0.1)


async def test_a_flood_stops_when_the_server_answers():
    async with says(b"HTTP/1.1 413 Too Large\r\n\r\n") as wire:
        status = await wire.flood(post("/x", {}, Content_Length="9999999"), max_bytes=8 * 1024**2)
    assert status == 413


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://example.org", "http://"])
def test_only_a_web_address_is_taken(url):
    with pytest.raises(ValueError, match="expected a URL"):
        OrsWire(url)


def test_a_request_keeps_the_path_of_the_servers_address_and_its_headers():
    wire = OrsWire("https://user@example.org/base/", {"X-API-Key": "k"})
    spelled = wire.encode(WireRequest("POST", "/create", b"{}", {"Content-Length": "7"})).decode()
    assert spelled.startswith("POST /base/create HTTP/1.1\r\nHost: example.org\r\n")
    assert "X-API-Key: k\r\n" in spelled
    assert "Content-Length: 7\r\n" in spelled
    assert spelled.endswith("\r\n\r\n{}")
