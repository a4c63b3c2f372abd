"""The client against servers that speak the standard and nothing more, as both reference servers do.

Source of their behaviour: captures of `openreward` 0.1.167 and `ors-sdk` 0.1.0.
"""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from ors_server.client import (
    AsyncClient,
    BrokenAnswerError,
    CallLostError,
    ClientOptions,
    Patience,
    UnreachableError,
)
from ors_server.model import errors
from tests.fixtures.hurried_clock import HurriedClock

OUTPUT = {
    "ok": True,
    "output": {
        "blocks": [{"text": "done", "detail": None, "type": "text"}],
        "metadata": None,
        "reward": 0.5,
        "finished": True,
    },
}


def sse(*events: tuple[str, str]) -> bytes:
    return b"".join(f"event: {name}\r\ndata: {data}\r\n\r\n".encode() for name, data in events)


@dataclass
class Reference(httpx2.AsyncBaseTransport):
    """A server that knows its own ids of calls only, forgets them if told to, and never runs one twice."""

    kind: str = "openreward"
    streams: list[Any] = field(default_factory=list)
    """What the next calls are answered: bytes, bytes after which the connection breaks, or an error."""
    asked: list[tuple[str, str, Any, dict[str, str]]] = field(default_factory=list)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        content = await request.aread()
        body = json.loads(content) if content else None
        path = request.url.path
        self.asked.append((request.method, path, body, dict(request.headers)))
        handler = getattr(self, "on_" + path.rpartition("/")[2], None)
        if handler is None or path.startswith("/_ors"):
            return httpx2.Response(308, headers={"location": f"/refenv{path}"})
        return handler(body)

    def on_version(self, _body: Any) -> httpx2.Response:
        if self.kind == "openreward":
            return httpx2.Response(200, json={"version": "0.1.167", "build_sha": None})
        return httpx2.Response(308, headers={"location": "/refenv/version"})

    def on_list_environments(self, _body: Any) -> httpx2.Response:
        return httpx2.Response(200, json=[] if self.kind == "empty" else ["refenv", "other"])

    def on_create_session(self, _body: Any) -> httpx2.Response:
        if self.kind == "written":
            return httpx2.Response(200, json={"sid": "sid-1"})
        events = [("end", "")] if self.kind == "mute" else [("task_id", "sid-1"), ("end", "")]
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=sse(*events))

    def on_create(self, _body: Any) -> httpx2.Response:
        made = [body for _, path, body, _ in self.asked if path == "/create"]
        if len(made) == 1 and self.kind == "lossy":
            raise httpx2.ReadError("lost")
        if len(made) == 2:
            return httpx2.Response(400, json={"detail": "Session already exists"})
        return httpx2.Response(200, json={"sid": "sid-1"})

    def on_ping(self, _body: Any) -> httpx2.Response:
        return httpx2.Response(200, json={"status": "ok"})

    on_delete = on_delete_session = on_ping

    def on_prompt(self, _body: Any) -> httpx2.Response:
        return httpx2.Response(200, json=[{"text": "Play.", "detail": None, "type": "text"}])

    def on_messages(self, _body: Any) -> httpx2.Response:
        return httpx2.Response(404, json={"detail": "Not Found"})

    def on_task_tools(self, _body: Any) -> httpx2.Response:
        tool = {"name": "go", "description": "Goes.", "input_schema": None}
        return httpx2.Response(200, json={"tools": [tool], "later": 1})

    def on_task(self, body: Any) -> httpx2.Response:
        return httpx2.Response(200, json={"task": {"id": body["index"]}})

    def on_call(self, _body: Any) -> httpx2.Response:
        answer = self.streams.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx2.Response):
            return answer
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Stream(*answer))

    def calls(self) -> list[Any]:
        return [body for _, path, body, _ in self.asked if path == "/refenv/call"]


class Stream(httpx2.AsyncByteStream):
    """A body that ends with its last byte, whatever it had to say."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


def whole(*events: tuple[str, str]) -> tuple[bytes]:
    return (sse(*events),)


@pytest.fixture
def open_client():
    @asynccontextmanager
    async def opened(reference: Reference) -> AsyncIterator[AsyncClient]:
        options = ClientOptions(
            transport=reference, patience=Patience(ping_seconds=HurriedClock.LONG), clock=HurriedClock()
        )
        async with AsyncClient("http://localhost:9", options=options) as client:
            yield client

    return opened


async def play(open_client, reference, **wishes):
    async with (
        open_client(reference) as client,
        client.episode(**({"split": "train", "index": 0} | wishes)) as episode,
    ):
        return episode, await episode.call("go", {"far": True})


@pytest.mark.parametrize("kind", ["openreward", "ors-sdk", "written"])
async def test_everything_but_the_summary_works(open_client, kind):
    reference = Reference(kind, [whole(("task_id", "t1"), ("end", json.dumps(OUTPUT)))])
    async with open_client(reference) as client:
        assert await client.task("train", 3) == {"id": 3}
        async with client.episode("refenv", split="train", index=0) as episode:
            assert await episode.prompt() == "Play."
            assert (await episode.messages())[0].role == "user"
            assert [tool.name for tool in (await episode.tools()).tools] == ["go"]
            result = await episode.call("go", {"far": True})
            assert (result.text, result.reward, result.finished) == ("done", 0.5, True)
            assert (episode.ledger.total, episode.access) == (0.5, {})
            with pytest.raises(errors.NotSupportedError, match="no summary"):
                await episode.check()
    assert reference.calls() == [{"name": "go", "input": {"far": True}}]
    ends = [path for _, path, _, _ in reference.asked][-2:]
    assert ends == ["/delete", "/delete_session"]


async def test_what_the_standard_has_no_words_for_is_refused_before_anything_is_made(open_client):
    reference = Reference()
    with pytest.raises(errors.NotSupportedError, match="seed"):
        await play(open_client, reference, seed=1)
    assert not [path for _, path, _, _ in reference.asked if path.startswith("/create")]


@pytest.mark.parametrize(("kind", "in_header"), [("openreward", True), ("ors-sdk", False)])
async def test_secrets_go_where_the_server_reads_them(open_client, kind, in_header):
    reference = Reference(kind, [whole(("task_id", "t1"), ("end", json.dumps(OUTPUT)))])
    await play(open_client, reference, secrets={"K": "v"})
    body, headers = next((body, headers) for _, path, body, headers in reference.asked if path == "/create")
    assert ("secrets" in body) is not in_header
    if in_header:
        assert json.loads(base64.b64decode(headers["x-secrets"])) == {"K": {"value": "v"}}


async def test_a_creation_whose_answer_was_lost_is_found_to_exist(open_client):
    reference = Reference("lossy", [whole(("task_id", "t1"), ("end", json.dumps(OUTPUT)))])
    _, result = await play(open_client, reference)
    assert result.reward == 0.5


async def test_an_answer_is_fetched_by_the_id_that_the_server_told(open_client):
    reference = Reference(
        streams=[
            (sse(("task_id", "t1")),),
            httpx2.Response(502, text="gateway"),
            whole(("task_id", "t1"), ("chunk", json.dumps(OUTPUT)[:30]), ("end", json.dumps(OUTPUT)[30:])),
        ]
    )
    episode, result = await play(open_client, reference)
    assert (result.reward, episode.ledger.total) == (0.5, 0.5)
    assert [call.get("task_id") for call in reference.calls()] == [None, "t1", "t1"]


@pytest.mark.parametrize(
    "accident",
    [httpx2.ReadError("broken"), (b": ping\n\n",), (b"event: task_id\ndata: t1\n",)],
    ids=["no answer", "no id", "half an id"],
)
async def test_a_call_that_may_have_run_is_never_sent_again(open_client, accident):
    reference = Reference(streams=[accident])
    with pytest.raises(CallLostError, match="it may have run"):
        await play(open_client, reference)
    assert len(reference.calls()) == 1


async def test_a_gateway_that_does_not_know_is_no_reason_to_call_again(open_client):
    reference = Reference(streams=[httpx2.Response(502, json={"detail": "who knows"})])
    with pytest.raises(errors.MachineryError, match="who knows"):
        await play(open_client, reference)
    assert len(reference.calls()) == 1


async def test_a_call_that_was_never_sent_or_not_taken_is_sent_again(open_client):
    starting = httpx2.Response(503, headers={"x-backend-state": "starting", "retry-after": "2"}, json={})
    done = whole(("task_id", "t1"), ("end", json.dumps(OUTPUT)))
    reference = Reference(streams=[httpx2.ConnectError("refused"), starting, done])
    _, result = await play(open_client, reference)
    assert result.reward == 0.5


async def test_an_answer_that_was_forgotten_or_a_stream_that_always_breaks_is_given_up(open_client):
    reference = Reference(streams=[(sse(("task_id", "t1")),), whole(("error", "unknown task_id"))])
    with pytest.raises(CallLostError, match="no longer remembers"):
        await play(open_client, reference)
    reference = Reference(streams=[(sse(("task_id", "t1")),)] * 99)
    with pytest.raises(UnreachableError, match="ended before its result"):
        await play(open_client, reference)
    assert len(reference.calls()) == Patience().attempts


async def test_an_error_is_the_environments_and_a_refusal_an_answer(open_client):
    reference = Reference(streams=[whole(("task_id", "t1"), ("error", "kaboom"))])
    with pytest.raises(errors.ToolFailedError, match="kaboom"):
        await play(open_client, reference)
    refused = {"ok": False, "error": "'go' is not a valid tool"}
    reference = Reference(streams=[whole(("task_id", "t1"), ("end", json.dumps(refused)))])
    _, result = await play(open_client, reference)
    assert (result.refusal, result.is_error) == ("not_found", True)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ok": true}', '{"ok": false}'], ids=repr)
async def test_a_result_of_another_form_is_no_answer(open_client, text):
    reference = Reference(streams=[whole(("task_id", "t1"), ("end", text))])
    with pytest.raises(BrokenAnswerError, match="form"):
        await play(open_client, reference)


@pytest.mark.parametrize("reward", ['"1.0"', "true", "NaN", "Infinity", "1e999", "[1]", "{}"])
@pytest.mark.parametrize("extra", ["", ', "later": 1'], ids=["all fields", "an unknown field"])
async def test_a_reward_that_is_no_number_is_never_received(open_client, reward, extra):
    output = f'{{"blocks": [], "metadata": null, "reward": {reward}, "finished": false{extra}}}'
    text = f'{{"ok": true, "output": {output}}}'
    reference = Reference(streams=[whole(("task_id", "t1"), ("end", text))])
    with pytest.raises(BrokenAnswerError, match="form"):
        await play(open_client, reference)


@pytest.mark.parametrize("reward", [1, 0.5, None])
async def test_a_result_reads_the_same_with_and_without_unknown_fields(open_client, reward):
    output = {"blocks": [{"text": "a", "type": "text"}], "metadata": {"a": [1]}, "reward": reward}
    results = list[object]()
    for fields in ({**output, "finished": True}, {**output, "finished": True, "later": 1}):
        text = json.dumps({"ok": True, "output": fields})
        _, result = await play(open_client, Reference(streams=[whole(("task_id", "t1"), ("end", text))]))
        assert type(result.reward) is (float if reward is not None else type(None))
        results.append(result.output)
    assert results[0] == results[1]


async def test_what_a_server_lacks_is_told_by_name(open_client):
    gone = httpx2.Response(404, json={"detail": "Active environment not found"})
    with pytest.raises(errors.SessionNotFoundError, match="Active environment"):
        await play(open_client, Reference(streams=[gone]))
    async with open_client(Reference()) as client:
        with pytest.raises(errors.UnknownEnvironmentError, match="nonesuch"):
            await client.tools("nonesuch")
    async with open_client(Reference("empty")) as client:
        with pytest.raises(errors.UnknownEnvironmentError, match="the server has no environment"):
            await client.splits()
    with pytest.raises(BrokenAnswerError, match="expected a session id"):
        await play(open_client, Reference("mute"))
    async with open_client(Reference()) as client:
        with pytest.raises(errors.NotSupportedError, match="MCP"):
            async with client.mcp_episode(split="train", index=0):
                pass


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize(
    "location", ["https://refenv.example/{path}", "http://127.0.0.1:9/secret", "//x/refenv/{path}", "/{path}"]
)
async def test_a_redirect_elsewhere_is_named_and_not_taken_for_a_missing_environment(
    open_client, status, location
):
    class Elsewhere(Reference):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            target = location.format(path=request.url.path[1:])
            return httpx2.Response(status, headers={"location": target}, text="moved")

    async with open_client(Elsewhere()) as client:
        with pytest.raises(BrokenAnswerError) as caught:
            await client.tools("refenv")
    target = location.format(path="refenv/tools")
    assert f"GET /refenv/tools redirects to {target}, which is not followed" in str(caught.value)


class EndlessSteps(httpx2.AsyncBaseTransport):
    """States more steps than it has shown, with every page."""

    def __init__(self) -> None:
        self.starts: list[int] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.starts.append(int(request.url.params["start"]))
        return httpx2.Response(200, json={"steps": [{"number": 1}], "total": 10**9})


async def test_steps_without_an_end_are_given_up_after_a_thousand_pages(open_client):
    server = EndlessSteps()
    async with open_client(server) as client:
        with pytest.raises(BrokenAnswerError, match=r"within 1,000 pages, got 1,000 steps so far"):
            await client.steps("s")
    assert server.starts == list(range(1_000))


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(200, content=b"<h1>Welcome!</h1>", headers={"content-type": "text/html"}),
        httpx2.Response(200, content=b"\xff" * 100),
        httpx2.Response(302, headers={"location": "http://127.0.0.1:9/_ors/version"}),
        httpx2.Response(302, headers={"location": ""}),
    ],
    ids=["a page", "no text", "a redirect", "a redirect to nowhere"],
)
async def test_an_answer_that_cannot_be_read_does_not_say_that_a_server_is_another_one(open_client, answer):
    class Garbled(Reference):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.url.path == "/_ors/version":
                return answer
            return await super().handle_async_request(request)

    with pytest.raises(BrokenAnswerError, match=r"_ors/version|HTTP status 302"):
        await play(open_client, Garbled())
