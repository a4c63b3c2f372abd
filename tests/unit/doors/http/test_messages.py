"""Bounded bodies, guarded hosts, clients that leave."""

import json

import anyio
import pytest

from ors_server.doors.http.messages import (
    ClientGoneError,
    HostGuard,
    read_body,
    read_headers,
    send_fault,
    send_json,
    watching_for_disconnect,
)
from ors_server.model.errors import CapacityError, PayloadTooLargeError, StartingError


def channel(*messages):
    rest = list(messages)

    async def receive():
        if rest:
            return rest.pop(0)
        return await anyio.sleep_forever()

    return receive


def part(body, *, more):
    return {"type": "http.request", "body": body, "more_body": more}


GONE = {"type": "http.disconnect"}


class Sent:
    """An answer that was sent."""

    def __init__(self):
        self.status, self.headers, self.body = 0, {}, b""

    async def __call__(self, message):
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]


async def test_a_body_is_read_to_its_end():
    assert (
        await read_body(channel(part(b"ab", more=True), part(b"", more=True), part(b"c", more=False)), 3)
        == b"abc"
    )
    assert await read_body(channel({"type": "http.request"}), 0) == b""


@pytest.mark.parametrize(
    "parts", [[part(b"abcd", more=False)], [part(b"ab", more=True), part(b"cd", more=True)]]
)
async def test_a_body_beyond_the_limit_is_refused_without_reading_on(parts):
    with pytest.raises(PayloadTooLargeError):
        await read_body(channel(*parts), 3)


@pytest.mark.parametrize("messages", [[GONE], [part(b"ab", more=True), GONE]])
async def test_a_client_that_left_has_no_request(messages):
    with pytest.raises(ClientGoneError):
        await read_body(channel(*messages), 100)


@pytest.mark.parametrize(
    ("messages", "is_gone"),
    [([GONE], True), ([], False), ([part(b"", more=False)], False), ([part(b"", more=False), GONE], True)],
)
async def test_whether_a_client_left_is_known_without_waiting(messages, is_gone):
    with watching_for_disconnect(channel(*messages)) as has_left:
        assert await has_left() is is_gone


async def test_json_is_ascii_and_has_a_length():
    sent = Sent()
    await send_json(sent, {"é": "\ud800"}, 201, {"x-extra": "1"})
    assert (sent.status, json.loads(sent.body)) == (201, {"é": "\ud800"})
    assert sent.headers == {
        "content-type": "application/json",
        "content-length": str(len(sent.body)),
        "x-extra": "1",
    }


@pytest.mark.parametrize(
    ("error", "status", "headers"),
    [
        (CapacityError("full", retry_after=7), 429, {"retry-after": "7"}),
        (StartingError("not yet"), 503, {"retry-after": "2", "x-backend-state": "starting"}),
    ],
    ids=str,
)
async def test_a_fault_has_its_status_and_its_advice(error, status, headers):
    sent = Sent()
    await send_fault(sent, error)
    assert sent.status == status
    assert json.loads(sent.body)["detail"] == str(error)
    assert headers.items() <= sent.headers.items()


def test_of_a_repeated_header_the_last_counts():
    assert read_headers({"headers": [(b"a", b"1"), (b"b", b"\xe9"), (b"a", b"2")]}) == {"a": "2", "b": "é"}


async def ask(guard, host, origin=None):
    sent = Sent()
    headers = [] if host is None else [(b"host", host.encode())]
    headers += [] if origin is None else [(b"origin", origin.encode())]
    await guard({"type": "http", "method": "GET", "headers": headers}, channel(), sent)
    return sent.status


async def served(_scope, _receive, send):
    await send_json(send, {})


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8080", 200),
        ("127.0.0.1:1", 200),
        ("[::1]", 200),
        ("[::1]:8080", 200),
        ("mine.example", 200),
        ("mine.example:99", 200),
        ("exact.example:80", 200),
        ("exact.example:81", 421),
        ("exact.example", 421),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("mine.example.evil.example", 421),
        ("[::2]", 421),
        ("", 421),
        (None, 421),
    ],
)
async def test_only_known_hosts_are_served(host, status):
    guard = HostGuard(served, hosts=["Mine.example", "exact.example:80"], origins=[])
    assert await ask(guard, host) == status


async def test_every_host_may_be_served():
    assert await ask(HostGuard(served, hosts=["*"], origins=[]), "evil.example") == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 200),
        ("http://localhost:3000", 200),
        ("http://127.0.0.1", 200),
        ("http://[::1]:80", 200),
        ("https://mine.example", 200),
        ("http://mine.example", 403),
        ("https://mine.example.evil.example", 403),
        ("http://localhost.evil.example", 403),
        ("null", 403),
        ("http://[::1", 403),
        ("", 403),
    ],
)
async def test_only_known_origins_are_served(origin, status):
    guard = HostGuard(served, hosts=[], origins=["https://mine.example"])
    assert await ask(guard, "localhost", origin) == status
