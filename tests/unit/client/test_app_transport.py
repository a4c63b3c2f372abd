"""Requests to an application of this process: whole answers, streams, their ends, the lifespan."""

import functools
from typing import Any

import anyio
import httpx2
import pytest
from anyio.lowlevel import checkpoint
from pydantic import SecretStr

from ors_server.app import create_app
from ors_server.client import (
    AppTransport,
    AsyncClient,
    ClientOptions,
    Patience,
    UnreachableError,
    app_transport,
)
from ors_server.model.errors import UnauthenticatedError
from ors_server.model.settings import Settings

URL = "http://in.process/below"
AT_ONCE = Patience(seconds=0.0)


def client_of(app: Any) -> AsyncClient:
    return AsyncClient(
        "http://localhost", options=ClientOptions(transport=AppTransport(app), patience=AT_ONCE)
    )


def reader_of(app: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=AppTransport(app), base_url=URL)


async def start(send: Any, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"x-a", b"b")]})


async def test_an_episode_is_played_and_its_sum_is_the_servers(slope):
    app = create_app([slope], Settings())
    async with app.running(), app.client() as client:
        async with client.episode(split="train", index=0) as episode:
            assert (await episode.tools()).tools
            result = await episode.call("climb", {"reward": 0.5})
            assert (result.reward, result.step) == (0.5, 1)
            assert (await episode.check()).episode_return == 0.5
        assert (await client.summary(episode.session_id)).phase == "deleted"


async def test_an_episode_is_played_over_mcp(slope):
    app = create_app([slope], Settings())
    async with app.running(), app.client() as client, client.mcp_episode(split="train", index=0) as episode:
        assert (await episode.call("climb", {"reward": 0.25})).reward == 0.25
        assert (await episode.check()).episode_return == 0.25


async def test_whoever_runs_an_application_needs_none_of_its_keys(slope):
    app = create_app([slope], Settings(api_keys=SecretStr("trainer:me:0123456789abcdef0123456789abcdef")))
    async with app.running(), app.client() as client, client_of(app) as stranger:
        assert await client.num_tasks("train") == 3
        for key in (None, "", app.keyring.own_key[:-1]):
            with pytest.raises(UnauthenticatedError):
                await AsyncClient("http://localhost", key, options=stranger.options).num_tasks("train")


async def test_a_request_has_the_path_query_headers_and_body_that_were_given():
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["path"], scope["query_string"], dict(scope["headers"]), await receive()))
        await start(send, 201)
        await send({"type": "http.response.body", "body": b"[1]"})

    async with reader_of(app) as http:
        answer = await http.post("/a%20b?c=d", content=b"body")
    assert (answer.status_code, answer.headers["x-a"], answer.json()) == (201, "b", [1])
    path, query, headers, body = seen[0]
    assert (path, query, headers[b"host"]) == ("/below/a b", b"c=d", b"in.process")
    assert body == {"type": "http.request", "body": b"body", "more_body": False}


async def test_a_stream_is_read_while_it_is_written_and_leaving_it_is_noticed():
    went_on, noticed = anyio.Event(), anyio.Event()

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await start(send)
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await went_on.wait()
        await send({"type": "http.response.body", "body": b"two", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.body", "body": b"nobody reads this", "more_body": True})
        noticed.set()

    with anyio.fail_after(10):
        async with reader_of(app) as http:
            async with http.stream("GET", "/") as answer:
                pieces = answer.aiter_bytes()
                assert await anext(pieces) == b"one"
                went_on.set()
                assert await anext(pieces) == b"two"
            await noticed.wait()


async def test_a_writer_waits_for_a_reader_that_is_slow():
    written: list[int] = []
    most = app_transport.MAX_WAITING

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await start(send)
        for number in range(3 * most):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            written.append(number)
        await send({"type": "http.response.body"})

    async with reader_of(app) as http, http.stream("GET", "/") as answer:
        await anyio.wait_all_tasks_blocked()
        assert most <= len(written) <= most + 1
        assert len(await answer.aread()) == 3 * most


async def test_an_application_that_fails_is_an_error_that_says_so():
    async def raises(*_: Any) -> None:
        raise ValueError("kaboom")

    async def breaks_off(_scope: Any, _receive: Any, send: Any) -> None:
        await start(send)
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise ValueError("kaboom")

    async def is_silent(*_: Any) -> None:
        pass

    for app in (raises, is_silent):
        async with client_of(app) as client:
            with pytest.raises(UnreachableError, match="the application failed GET"):
                await client.environments()
        async with reader_of(app) as http:
            with pytest.raises(httpx2.RemoteProtocolError, match="the application failed"):
                await http.get("/")
    async with reader_of(breaks_off) as http:
        with pytest.raises(httpx2.RemoteProtocolError, match="kaboom"):
            await http.get("/")


async def test_closing_ends_requests_that_would_go_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(app_transport, "CLOSING_SECONDS", 0.05)
    ended = anyio.Event()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await start(send)
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with anyio.fail_after(10):
        async with reader_of(app) as http, http.stream("GET", "/"):
            await http.aclose()
            assert ended.is_set()


async def test_a_call_goes_on_when_its_caller_is_cancelled(slope, monkeypatch: pytest.MonkeyPatch):
    gate = anyio.Event()
    monkeypatch.setattr(slope, "gate", gate)
    monkeypatch.setattr(slope, "runs", [])
    app = create_app([slope], Settings())
    async with app.running(), app.client() as client, client.episode(split="train", index=0) as episode:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(functools.partial(episode.call, "rest", call_id="late"))
            while not slope.runs:
                await checkpoint()
            tasks.cancel_scope.cancel()
        gate.set()
        assert (await episode.call("rest", call_id="late")).text == "rested"
        assert slope.runs == ["rest"]
        assert (await episode.check()).steps == 1


async def test_a_lifespan_is_run_around_the_requests_of_an_application(slope):
    app = create_app([slope], Settings())
    async with AppTransport.running(app) as transport:
        options = ClientOptions(transport=transport, patience=AT_ONCE)
        assert await AsyncClient("http://localhost", options=options).environments() == ["slope"]
    with pytest.raises(Exception, match="does not run"):
        _ = app.manager


async def test_a_lifespan_that_fails_says_why_and_one_that_is_missing_is_none():
    async def fails(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no disk"})

    async def lacks(scope: Any, _receive: Any, _send: Any) -> None:
        assert scope["type"] == "http"

    with anyio.fail_after(10):
        with pytest.raises(UnreachableError, match="startup failed: no disk"):
            async with AppTransport.running(fails):
                pass
        async with AppTransport.running(lacks):
            pass
