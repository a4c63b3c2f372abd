"""The ORS door's own edges: lost creations, wrong bodies, agents, streams that must end."""

import base64
import json
import math
from typing import Any

import anyio
import httpx2
import pytest

from ors_server import ToolOutput, tool
from ors_server.app import App, create_app
from ors_server.doors.access import Caller, Role
from ors_server.doors.ors.app import MAX_PROBLEMS
from ors_server.doors.ors.calls import CallStreams, ResultReader, encode_result
from ors_server.doors.ors.creates import MAX_LOST, CreateRetries, fingerprint_of, read_secrets
from ors_server.model.errors import OrsServerError
from ors_server.model.json_bounds import MAX_ALL_DIGITS, MAX_DIGITS, MAX_VALUES
from ors_server.model.settings import Settings
from ors_server.model.visibility import Visibility
from ors_server.model.wire import GroupScore, TextBlock
from ors_server.sessions.session_call import Call, Completed, Failure, Refusal, RefusalReason, Scored
from ors_server.testing.store_promises import make_step
from tests.fixtures.loop_slices import measured_slices, yardstick
from tests.fixtures.single_task import SingleTask

KEY = "trainer-key-0123456789"


class Shop(SingleTask):
    """Sells."""

    name = "shop"
    TASKS = ({"n": 1}, {"n": 2})
    WORDS = "buy"

    def score_group(self, candidates):
        return [1.0 for _ in candidates]

    @tool
    async def buy(self, price: float = 1.0) -> ToolOutput:
        """Buys."""
        return ToolOutput.ongoing("bought", reward=price, metadata={"answer": 42})

    @tool
    async def take(self, values: list[float]) -> ToolOutput:
        """Takes numbers."""
        return ToolOutput.ongoing(str(len(values)))

    @tool
    async def tell(self) -> str:
        """Tells the secrets."""
        return json.dumps(self.secrets, sort_keys=True)


class Odd(Shop):
    """Has tasks that are no JSON."""

    name = "odd"

    @classmethod
    def list_tasks(cls, split):
        return [{"n": float("nan")}, {"n": object()}]


@pytest.fixture
async def open_door():
    stack: list[Any] = []

    async def start(*environments, **settings):
        app = create_app(environments or [Shop], Settings(**settings))
        running = app.running()
        await running.__aenter__()
        client: Any = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost")
        stack.extend([running, client])
        client.app = app
        return client

    yield start
    for item in reversed(stack):
        await item.__aexit__(None, None, None)


def sid(value="s", **more):
    return {"X-Session-ID": value, **more}


async def start(door, session="s", **headers):
    return await door.post("/create", json={"task_spec": {}}, headers=sid(session, **headers))


async def test_a_body_with_a_number_that_json_does_not_know_is_refused_in_json(open_door):
    door = await open_door()
    for path, body in [
        ("/task", '{"split":"train","index":NaN}'),
        ("/task", '{"split":"train","index":1e999}'),
    ]:
        answer = await door.post(path, content=body)
        assert answer.status_code in {400, 422}
        assert answer.json()["detail"]


async def test_very_many_problems_are_only_counted_and_a_long_wrong_value_is_not_repeated(open_door):
    door = await open_door()
    body = {"split": "train"} | {f"x{n}": n for n in range(500)}
    (problem,) = (await door.post("/num_tasks", json=body)).json()["detail"]
    assert problem["type"] == "too_many_problems"
    body = {"split": "train"} | {f"x{n}": n for n in range(MAX_PROBLEMS)}
    assert len((await door.post("/num_tasks", json=body)).json()["detail"]) == MAX_PROBLEMS
    door = await open_door()
    answer = await door.post("/task", json={"split": "train", "index": "x" * 100_000})
    assert len(answer.content) < 1_000


async def test_tasks_that_are_no_json_are_the_authors_fault(open_door):
    door = await open_door(Odd)
    for path, body in [("/tasks", {"split": "train"}), ("/task", {"split": "train", "index": 1})]:
        answer = await door.post(path, json=body)
        assert answer.status_code == 500
        assert "not JSON" in answer.json()["detail"]


def carry(value):
    return base64.b64encode(json.dumps(value).encode()).decode()


def test_secrets_come_with_or_without_domains():
    header = carry({"A": {"value": "1", "allowed_domains": ["x"]}, "B": {"value": "2"}})
    assert read_secrets(header) == {"A": "1", "B": "2"}
    assert read_secrets(None) == {}


@pytest.mark.parametrize(
    "header",
    [
        "",
        "!!!",
        "s3cr3t",
        carry([]),
        carry({"A": "s3cr3t"}),
        carry({"A": {"value": 5}}),
        carry("s3cr3t"),
        "é",
    ],
)
def test_secrets_of_another_form_are_refused_without_repeating_them(header):
    with pytest.raises(OrsServerError) as raised:
        read_secrets(header)
    assert "s3cr3t" not in str(raised.value)


async def test_secrets_of_the_header_win_over_those_of_the_body(open_door):
    door = await open_door()
    headers = sid(**{"X-Secrets": carry({"A": {"value": "header"}})})
    await door.post("/create", json={"task_spec": {}, "secrets": {"A": "body", "B": "body"}}, headers=headers)
    answer = await door.post("/call", json={"name": "tell", "input": {}}, headers=sid())
    assert r"{\"A\": \"header\", \"B\": \"body\"}" in answer.text.replace("\\\\", "\\")


async def test_an_agent_plays_its_own_session_and_nothing_else(open_door):
    door = await open_door(api_keys=f"trainer:t:{KEY}")
    await start(door, **{"X-API-Key": KEY})
    await start(door, "other", **{"X-API-Key": KEY})
    agent = {"Authorization": f"Bearer {door.app.agent_token('s')}"}
    assert (await door.get("/prompt", headers=sid(**agent))).status_code == 200
    assert (await door.get("/tools", headers=agent)).status_code == 200
    played = await door.post("/call", json={"name": "buy", "input": {}}, headers=sid(**agent))
    assert '"reward":null' in played.text
    assert "answer" not in played.text
    for method, path, headers in [
        ("GET", "/prompt", sid("other")),
        ("POST", "/ping", sid("other")),
        ("POST", "/call", sid("other")),
        ("POST", "/tasks", {}),
        ("POST", "/task", {}),
        ("GET", "/splits", {}),
        ("POST", "/create", sid("new")),
        ("POST", "/create_session", {}),
        ("POST", "/delete", sid()),
        ("POST", "/score_group", sid()),
    ]:
        body = {"name": "buy", "input": {}} if path == "/call" else {}
        answer = await door.request(
            method, path, headers=headers | agent, json=None if method == "GET" else body
        )
        assert answer.status_code == 403, path
    assert (await door.get("/prompt", headers=sid())).status_code == 401
    assert (await door.get("/health")).status_code == 200


async def test_unknown_paths_environments_and_methods_are_told_apart(open_door):
    door = await open_door()
    assert (await door.get("/a/b")).json() == {"detail": "Not Found"}
    assert (await door.get("/a/b/c")).status_code == 404
    unknown = (await door.get("/nosuch/tools")).json()
    assert "unknown environment 'nosuch'" in unknown["detail"]
    assert (unknown["code"], unknown["blame"]) == ("unknown_environment", "client")
    health = await door.get("/shop/health")
    assert (health.status_code, health.json()) == (404, {"detail": "Not Found"})
    wrong = await door.get("/shop/call")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert (await door.get("/SHOP/tools/")).status_code == 200


async def test_groups_are_scored_for_trainers(open_door):
    door = await open_door()
    await start(door)
    body = {"candidates": [{"messages": []}], "task_id": "mine"}
    for _ in range(2):
        answer = await door.post("/score_group", json=body, headers=sid())
        assert '{"scores":[{"reward":1.0,"metadata":null}]}' in answer.text


TRAINER = Caller(Role.TRAINER)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (
            Completed(make_step(1, blocks=(), metadata=None, reward=0.5)),
            '{"ok":true,"output":{"blocks":[],"metadata":null,"reward":0.5',
        ),
        (Refusal(RefusalReason.NOT_FOUND, "no"), '{"ok":false,"error":"no","reason":"not_found"}'),
        (Failure(OrsServerError("")), "event: error\ndata: OrsServerError"),
        (Failure(OrsServerError("a\nb")), "event: error\ndata: a\ndata: b"),
        (Scored((GroupScore(reward=1.0),)), '{"scores":[{"reward":1.0,"metadata":null}]}'),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else None,
)
def test_every_kind_of_result_ends_a_stream(result, words):
    assert words in encode_result(result, TRAINER, Visibility.META).decode()


async def test_a_result_that_cannot_be_written_ends_its_stream_with_an_error():
    sent = []

    async def send(message):
        sent.append(message)

    call = Call("mine", "buy", {})
    call.resolve(Completed(make_step(1, reward=float("nan"))))
    await CallStreams(10.0).follow(call, ResultReader(TRAINER, Visibility.META), send)
    assert b"event: error\ndata: the server failed" in sent[-1]["body"]


async def test_a_running_call_is_followed_with_signs_of_life_to_its_one_end():
    sent, pinged = [], anyio.Event()

    async def send(message):
        sent.append(message)
        if b"ping" in message.get("body", b""):
            pinged.set()

    call = Call("mine", "buy", {})
    async with anyio.create_task_group() as group:
        group.start_soon(CallStreams(0.01).follow, call, ResultReader(TRAINER, Visibility.META), send)
        with anyio.fail_after(10):
            await pinged.wait()
        call.resolve(Completed(make_step(1)))
    stream = b"".join(message.get("body", b"") for message in sent).decode()
    assert stream.startswith("event: task_id\ndata: mine\n\n: ping")
    assert stream.count("event: end") == 1
    assert not sent[-1].get("more_body", False)


async def leave(app: App, session: str, body: bytes, *, gone: bool, key: bytes = b"") -> tuple[int, bytes]:
    """Sends a creation from a client that has left by the time of the answer, or has not."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    status, answer = 0, b""

    async def receive():
        if messages:
            return messages.pop()
        if gone:
            return {"type": "http.disconnect"}
        return await anyio.sleep_forever()

    async def send(message):
        nonlocal status, answer
        status = message.get("status", status)
        answer += message.get("body", b"")

    headers = [(b"host", b"localhost"), (b"x-session-id", session.encode()), (b"x-secrets", key)]
    scope = {"type": "http", "method": "POST", "path": "/create", "headers": headers[: 2 + bool(key)]}
    await app(scope, receive, send)
    return status, answer


BODY = b'{"task_spec": {"n": 1}}'


async def test_a_creation_whose_answer_was_lost_may_be_repeated_byte_for_byte_and_once(open_door):
    app = (await open_door()).app
    assert (await leave(app, "s", BODY, gone=True))[0] == 200
    assert (await leave(app, "s", BODY, gone=True))[0] == 200
    assert (await leave(app, "s", BODY, gone=False)) == (200, b'{"sid":"s"}')
    assert (await leave(app, "s", BODY, gone=False))[0] == 400
    assert len(await app.manager.sessions()) == 1


@pytest.mark.parametrize(
    "different", [(b'{"task_spec": {"n":1}}', b""), (BODY, b"e30=")], ids=["body", "secrets"]
)
async def test_another_creation_is_no_repetition(open_door, different):
    app = (await open_door()).app
    body, key = different
    await leave(app, "s", BODY, gone=True)
    assert (await leave(app, "s", body, gone=False, key=key))[0] == 400


async def test_a_lost_session_that_is_gone_is_made_anew(open_door):
    app = (await open_door()).app
    await leave(app, "s", BODY, gone=True)
    await app.manager.delete("s")
    assert (await leave(app, "s", BODY, gone=False))[0] == 200
    assert (await leave(app, "s", BODY, gone=False))[0] == 400


async def test_only_so_many_lost_creations_are_remembered():
    class Engine:
        async def create(self, order):
            return None

    async def receive():
        return {"type": "http.disconnect"}

    creations = CreateRetries(Engine())
    for number in range(MAX_LOST + 5):
        await creations.create(f"s{number}", None, b"", receive)
    assert len(creations._lost) == MAX_LOST
    assert "s0" not in creations._lost


def test_fingerprints_keep_parts_apart():
    prints = {
        fingerprint_of(*parts) for parts in [("ab", "c"), ("a", "bc"), (None, "abc"), ("", "abc"), (b"abc",)]
    }
    assert len(prints) == 5


async def test_a_long_result_is_sent_in_parts_between_which_others_run():
    call = Call("c", "say", {})
    text = TextBlock(text="\x01" * (6 << 20))
    call.resolve(Completed(make_step(1, blocks=(text,), metadata={"a": 1}, reward=1.0)))
    parts: list[bytes] = []

    async def send(message):
        parts.append(message.get("body", b""))

    with measured_slices() as slices:
        await CallStreams(10.0).follow(call, ResultReader(TRAINER, Visibility.VISIBLE), send)
    assert slices.worst < yardstick(), slices.where
    assert b"".join(parts).endswith(encode_result(call.result, Caller(Role.TRAINER), Visibility.VISIBLE))


NUMBERS = ["{d}", "-{d}", "1.{d}", "{d}.{d}", "0.{d}", "{d}e-200", "{d}.{d}e-200", "1e{d}"]


@pytest.mark.parametrize("form", NUMBERS)
async def test_numbers_of_any_form_hold_nobody_up(open_door, form):
    door = await open_door()
    await start(door)
    for digits in (1, 2, 8, 17, 40, MAX_DIGITS):
        number = (
            form.replace("{d}", "7" * digits)
            if "1e" not in form
            else form.replace("{d}", "2" * min(digits, 2))
        )
        own = sum(map(str.isdigit, number)) + 12 * ("e" in number)
        count = min(MAX_VALUES - 10, MAX_ALL_DIGITS // own, (4 << 20) // (len(number) + 1)) - 20
        body = '{"name": "take", "input": {"values": [' + ",".join([number] * count) + "]}}"
        spent = [math.inf]
        while spent[-1] >= 2 and len(spent) < 4:  # other work may take the caches
            with measured_slices() as slices:
                answer = await door.post("/shop/call", content=body, headers=sid())
            assert answer.status_code == 200
            spent.append(slices.worst / yardstick())
        assert spent[-1] < 2, (number, count, spent)
