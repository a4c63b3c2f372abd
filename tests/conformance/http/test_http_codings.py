"""Bodies that come compressed, at every door: decoded within the limit, or refused with what is known."""

import gzip
import json
import zlib

import pytest

from tests.conformance.http.conftest import INITIALIZE, request

JSON = ("Content-Type: application/json", "Accept: application/json, text/event-stream")
ORDER = b'{"split": "train", "index": 0}'
DOORS = {"/refenv/num_tasks": b'{"split": "train"}', "/_ors/sessions": ORDER, "/mcp": INITIALIZE}
doors = pytest.mark.parametrize("path", DOORS)


def post(path: str, body: bytes, coding: str = "gzip") -> bytes:
    return request(f"POST {path}", *JSON, f"Content-Encoding: {coding}", body=body)


@doors
@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip", "identity, gzip"])
def test_gzip_is_decoded(ask, path, coding):
    assert ask(post(path, gzip.compress(DOORS[path]), coding)).status in (200, 201)


@doors
def test_what_is_not_coded_is_left_alone(ask, path):
    assert ask(post(path, DOORS[path], "identity")).status in (200, 201)


@doors
def test_several_members_are_one_body(ask, path):
    body = DOORS[path]
    members = gzip.compress(body[:7]) + gzip.compress(b"") + gzip.compress(body[7:])
    assert ask(post(path, members)).status in (200, 201)


def test_a_long_body_comes_out_whole(ask):
    text = " ".join(f"{number:x}" * 40 for number in range(24_000))
    assert len(text) > 3_000_000
    session = ask(request("POST /_ors/sessions", body=ORDER)).json["session_id"]
    call = json.dumps({"name": "echo", "arguments": {"text": text}}).encode()
    answer = ask(post(f"/_ors/sessions/{session}/calls", gzip.compress(call)))
    assert answer.json["output"]["blocks"][0]["text"] == text


@doors
@pytest.mark.parametrize("layers", [1, 2])
def test_a_bomb_is_refused_at_the_limit(ask, path, layers):
    bomb = gzip.compress(b" " * (64 << 20))
    if layers == 2:
        bomb = bomb * 8
    answer = ask(post(path, bomb))
    assert (answer.status, answer.json["code"]) == (413, "payload_too_large")


@doors
@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        gzip.compress(INITIALIZE)[:-1],
        gzip.compress(INITIALIZE)[:20],
        gzip.compress(INITIALIZE) + b"rubbish",
        gzip.compress(INITIALIZE)[:-8] + b"\x00" * 8,
        zlib.compress(INITIALIZE),
        gzip.compress(b"") * 100,
        b"\x1f",
    ],
    ids=["plain", "cut", "cut early", "more", "wrong sum", "zlib", "many members", "one byte"],
)
def test_what_only_claims_to_be_gzip_is_told_so(ask, path, body):
    answer = ask(post(path, body))
    assert (answer.status, answer.json["code"]) == (400, "malformed_request")
    assert "gzip" in answer.json["detail"]


@doors
@pytest.mark.parametrize("coding", ["br", "deflate", "zstd", "gzip, gzip", "gzip, br", "nonsense"])
def test_another_coding_is_refused_with_what_is_known(ask, path, coding):
    answer = ask(post(path, b"whatever", coding))
    assert (answer.status, answer.json["code"]) == (415, "unsupported_coding")
    assert answer.headers["accept-encoding"] == "gzip, identity"


def test_nothing_needs_no_decoding(ask):
    assert ask(request("GET /version", "Content-Encoding: br")).status == 200
    assert ask(request("POST /create_session", "Content-Encoding: gzip", body=b"")).status == 200
