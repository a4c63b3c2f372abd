"""Bytes that no honest client sends, on a socket: each is answered in time, never by a 500 or a traceback."""

import base64
import json
import re
import socket
from collections.abc import Sequence
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ors_server import Environment, GroupCandidate, Split, ToolOutput, tool
from tests.conformance.fuzz.raw_bodies import (
    ASKED,
    CALL,
    CONTROL_CALL,
    CREATE,
    DEEP,
    GROUP,
    LONG,
    ORDER,
    TASKS,
    bodies,
    odd_bodies,
    request_of,
)

SESSION = "fuzzed"
ANSWER_LIMIT = 10.0
"""Seconds within which a connection must have said what it has to say."""

bounded = settings(max_examples=75, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


class Fuzzed(Environment):
    """Takes anything and never fails by itself."""

    name = "fuzzed"

    @classmethod
    def list_splits(cls) -> list[Split]:
        return [Split(name="train", type="train")]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, int]]:
        return [{"number": index} for index in range(10)]

    def get_prompt(self) -> str:
        return "Do."

    async def score_group(self, candidates: Sequence[GroupCandidate]) -> list[float]:
        return [0.5 for _ in candidates]

    @tool
    async def echo(
        self, text: str = "", number: float = 0.0, whole: int = 0, more: dict | None = None
    ) -> ToolOutput:
        """Echoes."""
        return ToolOutput.ongoing(f"{text} {number} {whole}", reward=0.5, metadata={"more": more})


header_values = st.binary(max_size=60).map(lambda raw: raw.translate(None, b"\r\n\x00"))
headers = st.lists(
    st.tuples(
        st.sampled_from(
            b"X-Session-ID X-Secrets X-API-Key Authorization Accept Cookie Origin Host Content-Type Expect "
            b"Upgrade Mcp-Session-Id MCP-Protocol-Version Mcp-Method Mcp-Name Last-Event-ID Range".split()
        ),
        header_values,
    ),
    max_size=3,
)


def frame(method, path, body, extra=(), *, length=None, defaults=True):
    body = body.replace(LONG.encode(), b"x" * 70_000).replace(DEEP.encode(), b'[{"a":' * 10_000)
    names = {name.lower() for name, _ in extra}
    lines = [b"%s %s HTTP/1.1" % (method, path)]
    usual = [(b"Host", b"127.0.0.1"), (b"X-Session-ID", SESSION.encode()), (b"Connection", b"close")]
    usual += [(b"Content-Type", b"application/json"), (b"Accept", b"application/json, text/event-stream")]
    usual += [(b"Content-Length", b"%d" % len(body) if length is None else length)]
    if defaults:
        lines += [b"%s: %s" % pair for pair in usual if pair[0].lower() not in names]
    lines += [b"%s: %s" % pair for pair in extra]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def exchange(port, request, *, close=False):
    """Sends bytes and reads until the server closes; with `close`, nothing more will come from here."""
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_LIMIT) as connection:
        try:
            connection.sendall(request)
            if close:
                connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(65536):
                received += data
        except TimeoutError:
            raise
        except OSError:
            pass  # the server refused to read on and closed, which is an answer too
    return bytes(received)


def check(answer):
    """Checks what every answer must be, and gives its status; 0 for none."""
    lowered = answer.lower()
    assert b"traceback" not in lowered
    assert b'file "' not in lowered
    assert b"site-packages" not in lowered
    assert b"internal server error" not in lowered
    if not answer:
        return 0
    status = int(answer.split(b" ", 2)[1])
    assert 200 <= status < 500, answer
    assert b'"code":-32603' not in answer.replace(b" ", b""), answer
    return status


def ask(port, method, path, body=b""):
    answer = exchange(port, frame(method, path, body))
    assert check(answer) == 200, answer
    return answer.partition(b"\r\n\r\n")[2]


@pytest.fixture(scope="module")
def port(serve_live):
    """The port of a server without keys, so that requests get as deep as they can."""
    return serve_live(Fuzzed, max_sessions=100).port


@pytest.fixture(autouse=True)
def healthy(port):
    """A session before, and a server that still plays afterwards."""
    make_session(port)
    yield
    assert json.loads(ask(port, b"GET", b"/health"))["status"] == "ok"
    ask(port, b"POST", b"/delete")
    make_session(port)
    answer = ask(port, b"POST", b"/call", b'{"name":"echo","input":{"text":"still here"}}')
    assert b"still here" in answer


@pytest.fixture(scope="module")
def legacy_session(port):
    """The id of a connection of the earlier era, which begins with a handshake."""
    make_session(port)
    params = '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"fuzz","version":"0"}}'
    answer = exchange(
        port, frame(b"POST", b"/sessions/fuzzed/mcp", request_of("initialize", params).encode())
    )
    assert check(answer) == 200
    found = re.search(rb"(?i)^mcp-session-id: *(\S+)", answer, re.MULTILINE)
    assert found
    return found[1]


def make_session(port):
    """Sees to it that the session lives and that there is room for more."""
    listed = exchange(port, frame(b"GET", b"/_ors/sessions?limit=500", b"")).partition(b"\r\n\r\n")[2]
    for session in json.loads(listed)["sessions"]:
        if session["session_id"] != SESSION:
            exchange(
                port, frame(b"POST", b"/delete", b"", [(b"X-Session-ID", session["session_id"].encode())])
            )
    check(exchange(port, frame(b"POST", b"/create", b'{"task_spec":{}}')))


def play(port, method, path, body, extra=()):
    status = check(exchange(port, frame(method, path, body, extra)))
    assert status, "a whole request was left without an answer"
    if status == 429:
        make_session(port)


@pytest.mark.parametrize(
    ("path", "templates"),
    [
        (b"/call", CALL),
        (b"/create", CREATE),
        *((path, TASKS) for path in (b"/tasks", b"/num_tasks", b"/task", b"/task_range")),
        (b"/score_group", GROUP),
        (b"/_ors/sessions", ORDER),
        (b"/_ors/sessions/fuzzed/calls", CONTROL_CALL),
    ],
)
def test_no_place_in_a_body_minds_what_stands_there(port, path, templates):
    for body in odd_bodies(templates):
        play(port, b"POST", path, body)


@pytest.mark.parametrize(("method", "params"), ASKED)
def test_no_place_in_a_request_of_mcp_minds_what_stands_there(port, legacy_session, method, params):
    modern = [
        (b"MCP-Protocol-Version", b"2026-07-28"),
        (b"Mcp-Method", method.encode()),
        (b"Mcp-Name", b"echo"),
    ]
    for body in odd_bodies([request_of(method, params)]):
        play(port, b"POST", b"/sessions/fuzzed/mcp", body, modern)
        play(port, b"POST", b"/sessions/fuzzed/mcp", body, [(b"Mcp-Session-Id", legacy_session)])
        play(port, b"POST", b"/mcp", body, modern)


@bounded
@given(body=bodies(CALL), extra=headers)
def test_call_survives_any_body(port, body, extra):
    play(port, b"POST", b"/call", body, extra)
    play(port, b"POST", b"/fuzzed/call", body)


@bounded
@given(body=bodies(CREATE), extra=headers)
def test_create_survives_any_body(port, body, extra):
    play(port, b"POST", b"/create", body, [(b"X-Session-ID", b"made"), *extra])
    play(port, b"POST", b"/delete", b"", [(b"X-Session-ID", b"made")])


@bounded
@given(
    body=bodies(TASKS + GROUP),
    path=st.sampled_from(["tasks", "num_tasks", "task", "task_range", "score_group"]),
)
def test_tasks_survive_any_body(port, body, path):
    play(port, b"POST", f"/{path}".encode(), body)


@bounded
@given(
    data=st.data(),
    path=st.sampled_from([b"/mcp", b"/sessions/fuzzed/mcp", b"/sessions/absent/mcp"]),
    extra=headers,
)
def test_mcp_survives_any_body(port, legacy_session, data, path, extra):
    method, params = data.draw(st.sampled_from(ASKED))
    body = data.draw(bodies([request_of(method, params)]))
    modern = [
        (b"MCP-Protocol-Version", b"2026-07-28"),
        (b"Mcp-Method", method.encode()),
        (b"Mcp-Name", b"echo"),
    ]
    play(port, b"POST", path, body, modern)
    play(port, b"POST", b"/sessions/fuzzed/mcp", body, [(b"Mcp-Session-Id", legacy_session)])
    play(port, b"POST", path, body, extra)


SECRETS = [
    '{"KEY":{"value":<text>}}',
    '{<text>:{"value":<any>}}',
    '{"KEY":{"value":"a","allowed_domains":<any>}}',
    "<any>",
]


@bounded
@given(secrets=bodies(SECRETS) | st.just(b"not base64"), token=header_values)
def test_credentials_and_secrets_may_be_anything(port, secrets, token):
    made = [(b"X-Session-ID", b"made")]
    play(port, b"POST", b"/create", b'{"task_spec":{}}', [*made, (b"X-Secrets", base64.b64encode(secrets))])
    play(port, b"POST", b"/create", b'{"task_spec":{}}', [*made, (b"X-Secrets", token)])
    play(port, b"POST", b"/delete", b"", made)
    for credential in (token, b"agt_" + token, b"agt_" + base64.urlsafe_b64encode(token) + b"." + token):
        play(port, b"POST", b"/call", b'{"name":"echo","input":{}}', [(b"X-API-Key", credential)])
        play(port, b"GET", b"/_ors/sessions/fuzzed/tools", b"", [(b"Authorization", b"Bearer " + credential)])
        play(port, b"POST", b"/agent/" + quote(credential).encode() + b"/mcp", b"{}")


@bounded
@given(
    order=bodies(ORDER),
    call=bodies(CONTROL_CALL),
    query=st.binary(max_size=30).map(lambda raw: raw.translate(None, b" \r\n\x00#")),
)
def test_the_control_api_survives_any_body_and_query(port, order, call, query):
    play(port, b"POST", b"/_ors/sessions", order)
    play(port, b"POST", b"/_ors/sessions/fuzzed/calls", call)
    query = bytes(byte for byte in query if 0x20 < byte < 0x7F)
    play(port, b"GET", b"/_ors/sessions/fuzzed/steps?start=" + query, b"")
    play(port, b"GET", b"/_ors/sessions?cursor=" + query, b"")
    play(port, b"GET", b"/_ors/sessions/fuzzed/steps", b"")


segments = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#?"), max_size=12)


@bounded
@given(
    path=st.lists(
        segments | st.sampled_from(["_ors", "sessions", "mcp", "agent", "%2e%2e", "%", "%ff", "%00"]),
        max_size=5,
    ),
    method=st.sampled_from([b"GET", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"HEAD", b"TRACE"]),
)
def test_any_path_gets_an_answer(port, path, method):
    play(port, method, ("/" + "/".join(path)).encode(), b"")


LENGTHS = [
    b"0",
    b"1",
    b"5",
    b"99999999999999999999",
    b"-1",
    b"+3",
    b"x",
    b"",
    b"1e3",
    b"0x10",
    b"3, 3",
    b" 7 ",
]
CHUNKED = [
    b"0\r\n\r\n",
    b"5\r\nabc",
    b"zz\r\n",
    b"ffffffffffffffff\r\nx",
    b"-1\r\n",
    b"3\r\nabc\r\n0\r\n\r\n",
    b"\r\n",
]
TARGETS = [
    b"/call",
    b"/create",
    b"/mcp",
    b"/sessions/fuzzed/mcp",
    b"/_ors/sessions",
    b"/_ors/sessions/fuzzed/calls",
]


@bounded
@given(target=st.sampled_from(TARGETS), length=st.sampled_from(LENGTHS), body=bodies(CALL))
def test_a_wrong_content_length_hangs_nobody(port, target, length, body):
    check(exchange(port, frame(b"POST", target, body, length=length), close=True))


@bounded
@given(
    target=st.sampled_from(TARGETS),
    chunks=st.lists(st.sampled_from(CHUNKED) | st.binary(max_size=20), max_size=4),
)
def test_wrong_chunks_hang_nobody(port, target, chunks):
    extra = [(b"Transfer-Encoding", b"chunked"), (b"Content-Length", b"5")]
    check(exchange(port, frame(b"POST", target, b"".join(chunks), extra[:1], length=b"3"), close=True))
    check(exchange(port, frame(b"POST", target, b"".join(chunks), extra), close=True))


@bounded
@given(head=st.binary(max_size=300), target=st.sampled_from(TARGETS), name=header_values, value=header_values)
def test_bytes_that_are_no_http_hang_nobody(port, head, target, name, value):
    check(exchange(port, head, close=True))
    check(exchange(port, b"POST " + target + b" HTTP/1.1\r\n" + head, close=True))
    check(exchange(port, frame(b"POST", target, b"{}", [(name, value)]), close=True))


@bounded
@given(target=st.sampled_from(TARGETS), sent=st.integers(0, 60))
def test_a_client_that_leaves_in_the_middle_hurts_nobody(port, target, sent):
    whole = frame(b"POST", target, b'{"name":"echo","input":{"text":"' + b"x" * 200 + b'"}}')
    check(exchange(port, whole[: len(whole) - sent * 4], close=True))


def test_a_body_beyond_the_limit_is_refused_everywhere(port):
    body = b'{"name":"echo","input":{"text":"' + b"x" * (5 * 1024 * 1024) + b'"}}'
    for target in TARGETS:
        assert check(exchange(port, frame(b"POST", target, body))) in {0, 413}
