"""The border around every door: a defect hurts its own request only."""

import json
from typing import Any

import pytest

from ors_server.app import App
from ors_server.environments.loading import define
from ors_server.model.settings import Settings
from tests.fixtures.paying_environment import Paying

SCOPE = {"type": "http", "method": "GET", "path": "/health", "headers": [(b"host", b"localhost")]}


async def silence():
    raise AssertionError("nothing is read here")


async def serve(door, sent):
    app = App([define(Paying)], Settings(store="memory"))
    app._ors = door

    async def send(message):
        sent.append(message)

    await app(SCOPE, silence, send)


async def test_a_defect_before_the_answer_is_a_500_that_tells_nothing_of_it():
    sent: list[dict[str, Any]] = []

    async def broken(scope, receive, send):
        raise RuntimeError("the inner workings")

    await serve(broken, sent)
    assert sent[0]["status"] == 500
    body = json.loads(sent[1]["body"])
    assert body["blame"] == "us"
    assert "inner workings" not in body["detail"]


async def test_a_defect_within_the_answer_breaks_the_answer_off():
    sent: list[dict[str, Any]] = []

    async def broken(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("the inner workings")

    with pytest.raises(RuntimeError):
        await serve(broken, sent)
    assert len(sent) == 1
