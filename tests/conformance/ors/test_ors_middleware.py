"""The application inside others: what is put around an ASGI application must not change what it answers."""

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount

from ors_server.app import create_app
from ors_server.model.settings import Settings
from tests.conformance.ors.conftest import ENVIRONMENTS


class Passing(BaseHTTPMiddleware):
    """Passes requests on, as tracing and authentication do."""

    async def dispatch(self, request, call_next):
        answer = await call_next(request)
        answer.headers["x-passed"] = "yes"
        return answer


class Reading(BaseHTTPMiddleware):
    """Reads the body first, as signing does."""

    async def dispatch(self, request, call_next):
        await request.body()
        return await call_next(request)


@pytest.mark.parametrize("around", [[], [Passing], [Reading], [Passing, Reading, Passing], [GZipMiddleware]])
@pytest.mark.parametrize("round_trip", range(2))
async def test_an_episode_is_played_through_whatever_is_around(around, round_trip):
    app = create_app(ENVIRONMENTS, Settings())
    outer = Starlette(routes=[Mount("/", app)], middleware=[Middleware(each) for each in around])
    transport = httpx2.ASGITransport(app=outer)
    async with app.running(), httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        with anyio.fail_after(60):
            named = {"X-Session-ID": f"s{round_trip}"}
            order = {"split": "train", "index": 0}
            created = await client.post("/create", json=order, headers=named)
            assert (created.status_code, created.json()) == (200, {"sid": f"s{round_trip}"})
            assert (await client.post("/create", json=order, headers=named)).status_code == 400
            assert (await client.get("/refenv/prompt", headers=named)).status_code == 200
            call = {"name": "count", "input": {}}
            assert '"ok":true' in (await client.post("/refenv/call", json=call, headers=named)).text
            assert (await client.post("/delete", headers=named)).status_code == 200


async def test_a_creation_is_repeated_after_its_client_left_behind_a_middleware():
    app = create_app(ENVIRONMENTS, Settings())
    outer = Passing(app)
    headers = [(b"host", b"localhost"), (b"x-session-id", b"s")]
    scope = {"type": "http", "method": "POST", "path": "/create", "headers": headers, "query_string": b""}
    body = b'{"split": "train", "index": 0}'

    async def create(*, leaves: bool) -> int:
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        status = 0

        async def receive():
            if messages:
                return messages.pop()
            return {"type": "http.disconnect"} if leaves else await anyio.sleep_forever()

        async def send(message):
            nonlocal status
            status = message.get("status", status)

        await outer(dict(scope), receive, send)
        return status

    async with app.running():
        with anyio.fail_after(60):
            await create(leaves=True)
            assert await create(leaves=False) == 200
            assert await create(leaves=False) == 400
