"""Checks of a session's life: create, secrets, setup, prompt, ping, delete (E20 to E42, A14)."""

import base64
import json
import uuid
from http import HTTPStatus
from typing import Any

import anyio

from ors_server.conformance.expectations import NotApplicableError, expect
from ors_server.conformance.ors_subject import (
    OrsChecks,
    OrsSession,
    OrsSubject,
    as_list,
    expect_detail,
    expect_status,
)
from ors_server.conformance.ors_wire import WireAnswer, get, post

SETUP_SECONDS = 5.0
"""How long the setups take during which something else must be answered."""
GONE = (404, 410)
LEDGER_TOOLS = ("echo", "count", "slow_count", "ledger")

CHECKS = OrsChecks()
"""Requirement id -> the check of it."""


@CHECKS.of("E20")
async def creates_a_session_id(server: OrsSubject) -> None:
    seen: set[str] = set()
    for body in (None, {}, {"env": {"A": "b"}}):
        request = post("/create_session", body, Accept="text/event-stream")
        async with server.wire.stream(request) as stream:
            expect(stream.is_stream, f"expected a stream, got {stream.status} {stream.headers}")
            events = await stream.rest()
        expect([e.name for e in events] == ["task_id", "end"], f"expected task_id and end, got {events}")
        sid, end = events[0].data.strip(), events[1].data
        expect(sid and sid not in seen, f"expected a new id, got {sid!r}")
        seen.add(sid)
        if end:
            expect(json.loads(end).get("sid") == sid, f"expected nothing or the id in end, got {end!r}")


@CHECKS.of("E21")
async def answers_json_if_only_json_is_accepted(server: OrsSubject) -> None:
    answer = await server.wire.send(post("/create_session", {}, Accept="application/json"))
    expect_status(answer, 200, request="/create_session for JSON alone")
    sid = answer.json().get("sid")
    expect(isinstance(sid, str) and sid, f"expected a session id, got {answer}")
    for accept in ("*/*", "text/event-stream", "application/json, text/event-stream"):
        async with server.wire.stream(post("/create_session", {}, Accept=accept)) as stream:
            expect(stream.is_stream, f"expected a stream for {accept!r}, got {stream.headers}")


@CHECKS.of("E22")
async def accepts_an_id_of_the_client(server: OrsSubject) -> None:
    for client_id in (str(uuid.uuid4()), f"my session {uuid.uuid4().hex}", f"r\u00e9-{uuid.uuid4().hex}"[3:]):
        sid, answer = await server.create(server.task(), sid=client_id)
        expect_status(answer, 200, request=f"/create for {client_id!r}")
        expect(answer.json() == {"sid": sid}, f"expected the id back, got {answer}")
        await server.wire.send(post("/delete", X_Session_ID=sid))


@CHECKS.of("E23")
async def uses_the_default_environment_by_default(server: OrsSubject) -> None:
    task = {"split": server.split, "index": 0}
    async with (
        server.session(task) as implicit,
        server.session({**task, "env_name": server.environment}) as named,
    ):
        tools = [(await session.get("/task_tools")).json() for session in (implicit, named)]
        prompts = [(await session.get("/prompt")).json() for session in (implicit, named)]
    expect(tools[0] == tools[1], "the tools differ from the default environment's")
    if server.is_acceptance:
        expect(prompts[0] == prompts[1], "the prompt differs from the default environment's")


@CHECKS.of("E24")
async def requires_a_session_id(server: OrsSubject) -> None:
    name = server.environment
    call: dict[str, Any] = {"name": "x", "input": {}}
    for request in (
        post("/create", server.task()),
        post("/ping"),
        post("/delete"),
        post("/delete_session"),
        get(f"/{name}/prompt"),
        get(f"/{name}/task_tools"),
        post(f"/{name}/call", call),
    ):
        expect_detail(await server.wire.send(request), 400, request=f"{request.path} without X-Session-ID")


@CHECKS.of("E25")
async def requires_one_source_of_the_task(server: OrsSubject) -> None:
    spec: dict[str, Any] = {"id": "both"}
    bodies: tuple[dict[str, Any], ...] = (
        {},
        {"task_spec": None},
        {"split": server.split},
        {"index": 0},
        {"task_spec": spec, "split": server.split, "index": 0},
    )
    for body in bodies:
        _, answer = await server.create(body)
        expect(answer.is_refusal, f"/create with {body}: expected 4xx, got {answer}")
        expect_detail(answer, answer.status, request=f"/create with {body}")


@CHECKS.of("E26")
async def does_not_create_in_an_unknown_environment(server: OrsSubject) -> None:
    _, answer = await server.create({**server.task(), "env_name": "no-such-env"})
    expect_detail(answer, 404, request="/create with an unknown env_name")


@CHECKS.of("E27")
async def creates_a_session_once(server: OrsSubject) -> None:
    async with server.session() as session:
        expect_status(await session.post("/ping"), 200, request="/ping")
        _, again = await server.create(server.task(), sid=session.sid)
        expect_detail(again, 400, request="a second /create")
        expect_status(await session.get("/prompt"), 200, request="/prompt after a second /create")


@CHECKS.of("E27b")
async def lets_one_of_many_creations_win(server: OrsSubject) -> None:
    sid, answers = str(uuid.uuid4()), list[WireAnswer]()
    marks = [server.task(attempt=i) for i in range(8)]

    async def create(body: dict[str, Any]) -> None:
        answers.append((await server.create(body, sid=sid))[1])

    async with anyio.create_task_group() as creations:
        for body in marks:
            # Other environments get the same task eight times: nothing tells then which creation won.
            creations.start_soon(create, body if server.is_acceptance else {**body, "index": 0})
    await server.wire.send(post("/delete", X_Session_ID=sid))
    won = sum(answer.status == HTTPStatus.OK for answer in answers)
    if not server.is_acceptance:
        raise NotApplicableError("only the acceptance environment has tasks that differ")
    expect(won == 1, f"{won} of 8 concurrent /create were answered with 200")
    setups = sum([(await server.ledger(body["task_spec"]["id"])).count("setup") for body in marks])
    expect(setups == 1, f"{setups} environments were set up for one session")


def _secrets_header(secrets: dict[str, Any]) -> str:
    return base64.b64encode(json.dumps(secrets).encode()).decode()


async def _whoami(server: OrsSubject, header: str | None = None, **body: Any) -> dict[str, str]:
    headers = {"X_Secrets": header} if header is not None else {}
    async with server.session({**server.task(), **body}, **headers) as session:
        seen: dict[str, str] = json.loads((await session.call("whoami")).text)
        return seen


@CHECKS.of("E28", "whoami")
async def takes_secrets_from_the_header(server: OrsSubject) -> None:
    plain, scoped = {"K": {"value": "v"}}, {"K": {"value": "v", "allowed_domains": ["example.org"]}}
    for secrets in (plain, scoped):
        seen = await _whoami(server, _secrets_header(secrets))
        expect(seen == {"K": "v"}, f"sent {secrets}, the environment saw {seen}")


@CHECKS.of("E28b")
async def refuses_malformed_secrets(server: OrsSubject) -> None:
    for header in ("%%%", base64.b64encode(b"not json").decode(), _secrets_header({"K": "v"}), "W10="):
        sid, answer = await server.create(server.task(), X_Secrets=header)
        await server.wire.send(post("/delete", X_Session_ID=sid))
        expect_detail(answer, 400, request=f"/create with X-Secrets {header!r}")


@CHECKS.of("E29", "whoami")
async def takes_secrets_from_the_body(server: OrsSubject) -> None:
    seen = await _whoami(server, secrets={"K": "body", "L": "body"})
    expect(seen == {"K": "body", "L": "body"}, f"the environment saw {seen}")
    seen = await _whoami(
        server, _secrets_header({"K": {"value": "header"}}), secrets={"K": "body", "L": "body"}
    )
    expect(seen == {"K": "header", "L": "body"}, f"expected the header to win, the environment saw {seen}")


@CHECKS.of("E30")
async def refuses_an_unknown_toolset(server: OrsSubject) -> None:
    sid, answer = await server.create({**server.task(), "toolset_name": "no-such-toolset"})
    await server.wire.send(post("/delete", X_Session_ID=sid))
    expect(answer.is_refusal, f"expected 4xx, got {answer}")


@CHECKS.of("E32", *LEDGER_TOOLS)
async def answers_during_setup(server: OrsSubject) -> None:
    prompts: list[WireAnswer] = []
    async with (
        server.session(server.task(setup_s=SETUP_SECONDS)) as session,
        anyio.create_task_group() as waiting,
    ):

        async def prompt() -> None:
            prompts.append(await session.get("/prompt"))

        waiting.start_soon(prompt)
        # The setup of 5 seconds is still running when the ping is answered.
        expect_status(await session.post("/ping"), 200, request="/ping during setup")
        expect(not prompts, "/ping was answered only after /prompt")
        expect(
            await server.wait_for(session.task_id, "setup") == ["setup"], "expected one setup to have begun"
        )
        expect(not prompts, "/prompt did not wait for setup")
    for answer in prompts:
        expect_status(answer, 200, request="/prompt, which waited for setup")


@CHECKS.of("E33")
async def prompts_with_blocks(server: OrsSubject) -> None:
    async with server.session() as session:
        answer = await session.get("/prompt")
        again = await session.get("/prompt")
    expect_status(answer, 200, request="/prompt")
    blocks = as_list(answer.json(), "/prompt")
    expect(blocks, "/prompt: expected at least one block")
    for block in blocks:
        keys = {"text": {"text", "detail", "type"}, "image": {"data", "mimeType", "detail", "type"}}
        expect(set(block) == keys.get(block.get("type")), f"unexpected block {block}")
    expect_status(again, 200, request="a second /prompt")


@CHECKS.of("E34")
async def adds_the_tools_of_the_task(server: OrsSubject) -> None:
    async with server.session() as session:
        answer = await session.get("/task_tools")
    expect_status(answer, 200, request="/task_tools")
    names = [tool["name"] for tool in answer.json()["tools"]]
    expect(set(names) >= set(server.tools), f"expected all of {sorted(server.tools)}, got {names}")
    expect(
        all(set(t) == {"name", "description", "input_schema"} for t in answer.json()["tools"]),
        "unexpected keys",
    )
    if server.is_acceptance:
        expect(
            "hint" in names and "hint" not in server.tools, f"expected hint in /task_tools alone, got {names}"
        )


async def _expect_gone(server: OrsSubject, sid: str, session_kind: str) -> None:
    name = server.environment
    for request in (
        post("/ping", X_Session_ID=sid),
        get(f"/{name}/prompt", X_Session_ID=sid),
        get(f"/{name}/task_tools", X_Session_ID=sid),
        post(f"/{name}/call", {"name": "x", "input": {}}, X_Session_ID=sid),
    ):
        expect_detail(
            await server.wire.send(request), *GONE, request=f"{request.path} for {session_kind} session"
        )


@CHECKS.of("E36")
async def does_not_know_a_deleted_session(server: OrsSubject) -> None:
    await _expect_gone(server, str(uuid.uuid4()), "an unknown")
    async with server.session() as session:
        expect_status(await session.post("/ping"), 200, request="/ping")
        expect_status(await session.post("/delete"), 200, request="/delete")
        await _expect_gone(server, session.sid, "a deleted")
        _, again = await server.create(server.task(), sid=session.sid)
        expect(again.status in {200, 400, *GONE}, f"/create for a deleted session: got {again}")


@CHECKS.of("E37", *LEDGER_TOOLS)
async def reports_why_setup_failed(server: OrsSubject) -> None:
    async with server.session(server.task(setup_fail=True)) as session:
        for answer in (await session.get("/prompt"), await _call_answer(session)):
            detail = expect_detail(answer, 500, request="a session whose setup failed")
            expect("setup failed on purpose" in str(detail), f"expected the reason, got {detail!r}")
    sid, created = await server.create(server.task(init_fail=True))
    if created.status == HTTPStatus.OK:
        created = await server.wire.send(get(f"/{server.environment}/prompt", X_Session_ID=sid))
    detail = expect_detail(created, 500, request="a session whose constructor failed")
    expect("init failed on purpose" in str(detail), f"expected the reason, got {detail!r}")


async def _call_answer(session: OrsSession) -> WireAnswer:
    async with session.open("count", {}) as stream:
        if not stream.is_stream:
            return await stream.answer()
        events = await stream.rest()
    expect(events[-1].name == "error", f"expected an error, got {events}")
    detail = json.dumps({"detail": events[-1].data}).encode()
    return WireAnswer(500, {"content-type": "application/json"}, detail)


@CHECKS.of("E38")
async def deletes_twice(server: OrsSubject) -> None:
    async with server.session() as session:
        for _ in range(2):
            answer = await session.post("/delete")
            expect_status(answer, 200, request="/delete")
            expect(answer.json() == {"sid": session.sid}, f"expected the id, got {answer}")
    answer = await server.wire.send(post("/delete", X_Session_ID="never created"))
    expect_status(answer, 200, request="/delete for an unknown session")


@CHECKS.of("E39")
async def answers_delete_session(server: OrsSubject) -> None:
    async with server.session() as session:
        answer = await session.post("/delete_session")
        expect_status(answer, 200, request="/delete_session")
        expect(answer.json() == {"sid": session.sid}, f"expected the id, got {answer}")


@CHECKS.of("E39b")
async def ends_the_session_in_delete_session(server: OrsSubject) -> None:
    async with server.session() as session:
        await session.post("/delete_session")
        expect_detail(await session.post("/ping"), *GONE, request="/ping after /delete_session")


@CHECKS.of("E41", *LEDGER_TOOLS)
async def tears_down_once(server: OrsSubject) -> None:
    async with server.session() as session:
        await session.call("count")
        async with anyio.create_task_group() as deletions:
            for path in ("/delete", "/delete", "/delete_session"):
                deletions.start_soon(session.post, path)
        await session.post("/delete")
    events = await server.ledger(session.task_id)
    expect(events == ["setup", "teardown"], f"expected one setup and one teardown, got {events}")


@CHECKS.of("E42", *LEDGER_TOOLS)
async def does_not_tear_down_under_a_call(server: OrsSubject) -> None:
    async with server.session() as session:
        # Deleting while a call runs: teardown must wait for the tool, or it would pull the state away from
        # under it.
        async with session.open("slow_count", {"seconds": 1.5}) as stream:
            await stream.next()
            await server.wait_for(session.task_id, "slow_count started")
            expect_status(await session.post("/delete"), 200, request="/delete during a call")
            await stream.rest()
        events = await server.ledger(session.task_id)
    expect(events.count("teardown") == 1, f"expected one teardown, got {events}")
    expect(events[-1] == "teardown", f"the tool ran on after teardown: {events}")


@CHECKS.of("A14")
async def returns_a_conversation(server: OrsSubject) -> None:
    for name in server.environments:
        task = server.task() if name == server.environment else {"split": "train", "index": 0}
        if name != server.environment and not server.is_acceptance:
            continue
        async with server.session({**task, "env_name": name}) as session:
            answer = await session.get("/messages")
        if answer.status == HTTPStatus.NOT_FOUND:
            raise NotApplicableError("the server has no /messages")
        expect_status(answer, 200, request=f"/{name}/messages")
        for message in answer.json():
            expect(set(message) == {"role", "blocks", "detail"}, f"unexpected message {message}")
            expect(message["role"] in {"system", "user", "assistant"}, f"unexpected role in {message}")
