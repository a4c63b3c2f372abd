"""What another program answers is read within bounds: bytes after decompression, codings, redirects, JSON."""

import contextlib
import gzip
import json
import ssl
import subprocess
import sys
import time
from typing import Any

import httpx2
import pytest
from anyio.lowlevel import checkpoint

from ors_server.client import AsyncClient
from ors_server.client.bounded_http import (
    ACCEPTED_CODINGS,
    MAX_PROBLEM_BYTES,
    AnswerBounds,
    BrokenAnswerError,
    refuse_foreign_redirect,
    tls_context,
)
from ors_server.model.json_bounds import MAX_DEPTH, MAX_VALUES, parse_json
from tests.fixtures.hostile_servers import MIB, Asked, HostileServer, Proper, packed
from tests.fixtures.loop_slices import measured_slices, yardstick

SMALL = AnswerBounds(max_bytes=MIB, max_stream_bytes=1_000, max_values=100)
PLENTY = 500_000


@contextlib.contextmanager
def answering(answer):
    """Starts a server with one answer, which is spoilt only in what the answer itself is."""
    with HostileServer(lambda _: answer, "types", 0, first=10**9).serving() as server:
        yield server.url


def client(bounds=SMALL, **options):
    hooks = {"response": [refuse_foreign_redirect, bounds.apply]}
    return httpx2.AsyncClient(headers=ACCEPTED_CODINGS, event_hooks=hooks, **options)


def proper(body, status=200, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Proper(status, {"content-type": "application/json", **named}, body)


async def test_certificates_are_read_once_and_again_where_the_environment_names_others(monkeypatch, tmp_path):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    made = []
    make = ssl.create_default_context

    def recorded(**paths):
        made.append(paths)
        return make(**paths)

    monkeypatch.setattr(ssl, "create_default_context", recorded)
    for _ in range(3):
        await AsyncClient("http://127.0.0.1:9").aclose()
    assert made == [{"capath": str(tmp_path)}]
    first = tls_context()
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path.parent))
    assert tls_context() is not first
    assert made[1:] == [{"capath": str(tmp_path.parent)}]


async def test_an_answer_within_the_bounds_is_read_whole_and_decompressed():
    value = {"text": "é" * 1_000}
    body = json.dumps(value).encode()
    for coded, headers in ((body, {}), (gzip.compress(body), {"content_encoding": "gzip"})):
        with answering(proper(coded, **headers)) as url:
            async with client() as http:
                response = await http.get(url)
        assert await SMALL.parse(response.content, "application/json", "it") == value


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (proper(b" " * (MIB + 1)), "more than the 1,048,576 bytes"),
        (proper(packed(b"a", 20 * MIB), content_encoding="gzip"), "more than the 1,048,576 bytes"),
        (proper(b"{}", content_encoding="br"), "coded as 'br'; expected gzip or deflate"),
        (proper(gzip.compress(b"{}"), content_encoding="gzip, gzip"), "coded as 'gzip, gzip'"),
        (proper(b"{}", content_encoding="gzip"), "cannot be decompressed"),
        (proper(gzip.compress(b"{}")[:-8], content_encoding="gzip"), "ended within its compressed data"),
        (proper(gzip.compress(b"{}") + b"{}", content_encoding="gzip"), "after the end of its compressed"),
        (
            proper(b"", 307, location="http://127.0.0.1:9/x"),
            "redirects to another origin, http://127.0.0.1:9",
        ),
        (proper(b"", 307, location="//localhost/x"), "redirects to another origin"),
        (proper(b"", 307, location="file:///etc/passwd"), "redirects to another origin, file:"),
    ],
)
async def test_an_answer_beyond_a_bound_is_refused_with_its_reason(answer, problem):
    with answering(answer) as url:
        async with client() as http:
            with pytest.raises(BrokenAnswerError, match=problem):
                await http.get(url, follow_redirects=True)


async def test_a_requested_stream_has_its_own_bound_and_an_unsuccessful_answer_is_cut():
    stream = Proper(200, {"content-type": "text/event-stream"}, b"a" * 2_000)
    with answering(stream) as url:
        async with client() as http:
            assert len((await http.get(url)).content) == 2_000
            with pytest.raises(BrokenAnswerError, match="1,000 bytes"):
                await http.get(url, headers={"accept": "text/event-stream"})
    with answering(proper(packed(b"a", 20 * MIB), 500, content_encoding="gzip")) as url:
        async with client() as http:
            assert len((await http.get(url)).content) == MAX_PROBLEM_BYTES


async def test_a_slow_charset_is_not_decoded():
    with answering(Proper(500, {"content-type": "text/html; charset=punycode"}, b"a" * 60_000)) as url:
        async with client() as http:
            response = await http.get(url)
    began = time.thread_time()
    assert response.text == "a" * 60_000
    assert time.thread_time() - began < 0.1


@pytest.mark.parametrize(
    ("body", "kind", "problem"),
    [
        (b"<html>", "text/html; charset=utf-8", "expected application/json, got text/html: '<html>'"),
        (b"<html>", "application/json", "expected JSON, got '<html>'"),
        (b'{"a": "\\ud800"}', "application/json", "expected JSON"),
        (b"NaN", "", "expected JSON"),
        (b"\xff\xff", "application/problem+json", "expected JSON"),
        (b"[" * 60_000, "application/json", "expected JSON"),
        (json.dumps(list(range(100_000))).encode(), "text/plain", "more than 100 values"),
    ],
)
async def test_what_is_no_json_says_what_was_expected_and_what_came(body, kind, problem):
    with pytest.raises(BrokenAnswerError) as caught:
        await SMALL.parse(body, kind, "the answer")
    assert str(caught.value).startswith("the answer: expected ")
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 1_000


def nested(depth):
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b",".join([b"[]"] * (PLENTY // 2 - 10)) + b"]",
        b"[" + b",".join([b'{"a":"b"}'] * (PLENTY // 3 - 10)) + b"]",
        b"[" + b",".join([b"12345"] * (PLENTY - 10)) + b"]",
        b"[" + b",".join([b"[]"] * (PLENTY // 2 + 10)) + b"]",
        b"[" * 15 * MIB,
        b'["' + b"a" * 15 * MIB + b'"]',
        b"[" + b'"a",' * MAX_VALUES + nested(MAX_DEPTH + 1) + b"]",
    ],
    ids=["lists", "objects", "numbers", "too many", "brackets", "text", "deep"],
)
async def test_no_json_holds_the_event_loop(body):
    with measured_slices() as slices, contextlib.suppress(ValueError):
        await parse_json(body, PLENTY)
    assert slices.worst < yardstick(), slices.where


@pytest.mark.parametrize("count", [10, MAX_VALUES + 10])
async def test_long_json_is_read_as_short_json_is(count):
    filler = b'[1.5, -2e3, true, false, null, "\\u00e9\\ud83d\\ude00", {"a": []}]'
    body = b"[" + b", ".join([filler] * count) + b"]"
    assert await parse_json(body, 100 * count) == json.loads(body)
    for wrong in (b'"\\ud800"', b"NaN", b"-Infinity", b"1,]", b"'a'", nested(MAX_DEPTH + 10)):
        with pytest.raises(ValueError, match=r"."):
            await parse_json(body[:-1] + b", " + wrong + b"]", 100 * count)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/list_environments", [{}] * 300_000),
        ("/tools", {"tools": [{}] * 300_000}),
        ("/splits", [{}] * 300_000),
        ("/list_environments", {f"{number * 7_919 % 249_989}": 0 for number in range(240_000)}),
        ("/list_environments", ["a"] * 400_000),
        ("/splits", [{"name": "a", "type": "test"}] * 100_000),
        ("/steps", {f"n{number}": 0 for number in range(240_000)}),
        ("/steps", {"steps": [{f"n{number}": 0 for number in range(240_000)}], "total": -1}),
    ],
)
async def test_no_answer_of_wrong_values_holds_the_event_loop(path, value):
    def answer(asked: Asked) -> Proper:
        return Proper.of(value if path in asked.path else ["guessing"])

    with HostileServer(answer, "types", 0, first=10**9).serving() as server:
        async with AsyncClient(server.url) as client:
            reads: dict[str, Any] = {"/tools": client.tools, "/steps": lambda: client.steps("s")}
            with measured_slices() as slices:
                with pytest.raises(BrokenAnswerError):
                    await reads.get(path, client.splits)()
                await checkpoint()  # so that the last slice is measured, too
    assert slices.worst < 2 * yardstick()


MEMORY = """
import resource, sys, anyio
from ors_server.client import AsyncClient, ClientOptions, Patience
from ors_server.model.errors import OrsServerError
async def main(url):
    options = ClientOptions(patience=Patience(seconds=1.0, answer_seconds=20.0, silence=2.0))
    async with AsyncClient(url, options=options) as client:
        try:
            await client.environments()
        except OrsServerError as error:
            print(error)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
anyio.run(main, sys.argv[1])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("way", ["endless", "endless chunks", "bomb", "bomb of a problem", "long promise"])
def test_a_client_needs_little_memory_whatever_is_sent(way):
    with HostileServer(lambda _: Proper.of(["a"]), way, 1).serving() as server:
        server.only_once = False  # a repeated request is to be answered in the same way
        program = [sys.executable, "-c", MEMORY, server.url]
        ended = subprocess.run(program, capture_output=True, timeout=60, check=False, text=True)
    assert ended.returncode == 0, ended.stderr
    *said, mebibytes = ended.stdout.split()
    assert said
    assert int(mebibytes) < 300
