"""The border around every door: a defect hurts its own request only."""

import json

import pytest

from ors_server.transports.http import DefectGuard

SCOPE = {"type": "http", "path": "/somewhere", "headers": []}


async def silence():
    raise AssertionError("nothing is read here")


async def test_a_defect_before_the_answer_is_a_500_that_tells_nothing_of_it():
    sent = []

    async def broken(scope, receive, send):
        raise RuntimeError("the inner workings")

    async def send(message):
        sent.append(message)

    await DefectGuard(broken)(SCOPE, silence, send)
    assert sent[0]["status"] == 500
    body = json.loads(sent[1]["body"])
    assert body["blame"] == "us"
    assert "inner workings" not in body["detail"]


async def test_a_defect_within_the_answer_breaks_the_answer_off():
    sent = []

    async def broken(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("the inner workings")

    async def send(message):
        sent.append(message)

    with pytest.raises(RuntimeError):
        await DefectGuard(broken)(SCOPE, silence, send)
    assert len(sent) == 1
