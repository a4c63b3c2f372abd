"""Checks of a session's life: create, secrets, setup, prompt, ping, delete (E20 to E42, A14)."""

import base64
import json
import uuid
from http import HTTPStatus
from typing import Any

import anyio

from ors_server.testing.expectations import NotApplicableError, expect
from ors_server.testing.ors_subject import OrsSession, OrsSubject, as_list, expect_detail, expect_status
from ors_server.testing.ors_wire import WireAnswer, get, post

SETUP_SECONDS = 5.0
"""How long the setups take during which something else must be answered."""
GONE = (404, 410)


async def creates_a_session_id(server: OrsSubject) -> None:
    """E20."""
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


async def answers_json_to_those_who_accept_json_alone(server: OrsSubject) -> None:
    """E21."""
    answer = await server.wire.send(post("/create_session", {}, Accept="application/json"))
    expect_status(answer, 200, asked="/create_session for JSON alone")
    sid = answer.json().get("sid")
    expect(isinstance(sid, str) and sid, f"expected a session id, got {answer}")
    for accept in ("*/*", "text/event-stream", "application/json, text/event-stream"):
        async with server.wire.stream(post("/create_session", {}, Accept=accept)) as stream:
            expect(stream.is_stream, f"expected a stream for {accept!r}, got {stream.headers}")


async def takes_an_id_that_the_client_made(server: OrsSubject) -> None:
    """E22."""
    for made in (str(uuid.uuid4()), f"my session {uuid.uuid4().hex}", f"r\u00e9-{uuid.uuid4().hex}"[3:]):
        sid, answer = await server.create(server.task(), sid=made)
        expect_status(answer, 200, asked=f"/create for {made!r}")
        expect(answer.json() == {"sid": sid}, f"expected the id back, got {answer}")
        await server.wire.send(post("/delete", X_Session_ID=sid))


async def takes_the_default_environment_for_granted(server: OrsSubject) -> None:
    """E23."""
    task = {"split": server.split, "index": 0}
    async with server.session(task) as one, server.session({**task, "env_name": server.environment}) as two:
        tools = [(await session.get("/task_tools")).json() for session in (one, two)]
        prompts = [(await session.get("/prompt")).json() for session in (one, two)]
    expect(tools[0] == tools[1], "the tools differ from the default environment's")
    if server.is_acceptance:
        expect(prompts[0] == prompts[1], "the prompt differs from the default environment's")


async def wants_a_session_id(server: OrsSubject) -> None:
    """E24."""
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
        expect_detail(await server.wire.send(request), 400, asked=f"{request.path} without X-Session-ID")


async def wants_one_source_of_the_task(server: OrsSubject) -> None:
    """E25."""
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
        expect_detail(answer, answer.status, asked=f"/create with {body}")


async def does_not_create_in_an_unknown_environment(server: OrsSubject) -> None:
    """E26."""
    _, answer = await server.create({**server.task(), "env_name": "no-such-env"})
    expect_detail(answer, 404, asked="/create with an unknown env_name")


async def creates_a_session_once(server: OrsSubject) -> None:
    """E27."""
    async with server.session() as session:
        expect_status(await session.post("/ping"), 200, asked="/ping")
        _, again = await server.create(server.task(), sid=session.sid)
        expect_detail(again, 400, asked="a second /create")
        expect_status(await session.get("/prompt"), 200, asked="/prompt after a second /create")


async def lets_one_of_many_creations_win(server: OrsSubject) -> None:
    """E27b."""
    sid, answers = str(uuid.uuid4()), list[WireAnswer]()
    marks = [server.task(attempt=i) for i in range(8)]

    async def create(body: dict[str, Any]) -> None:
        answers.append((await server.create(body, sid=sid))[1])

    async with anyio.create_task_group() as creations:
        for body in marks:
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
        found: dict[str, str] = json.loads((await session.call("whoami")).text)
        return found


async def takes_secrets_from_the_header(server: OrsSubject) -> None:
    """E28."""
    server.needs("whoami")
    plain, scoped = {"K": {"value": "v"}}, {"K": {"value": "v", "allowed_domains": ["example.org"]}}
    for secrets in (plain, scoped):
        seen = await _whoami(server, _secrets_header(secrets))
        expect(seen == {"K": "v"}, f"sent {secrets}, the environment saw {seen}")


async def refuses_malformed_secrets(server: OrsSubject) -> None:
    """E28b."""
    for header in ("%%%", base64.b64encode(b"not json").decode(), _secrets_header({"K": "v"}), "W10="):
        sid, answer = await server.create(server.task(), X_Secrets=header)
        await server.wire.send(post("/delete", X_Session_ID=sid))
        expect_detail(answer, 400, asked=f"/create with X-Secrets {header!r}")


async def takes_secrets_from_the_body(server: OrsSubject) -> None:
    """E29."""
    server.needs("whoami")
    seen = await _whoami(server, secrets={"K": "body", "L": "body"})
    expect(seen == {"K": "body", "L": "body"}, f"the environment saw {seen}")
    seen = await _whoami(
        server, _secrets_header({"K": {"value": "header"}}), secrets={"K": "body", "L": "body"}
    )
    expect(seen == {"K": "header", "L": "body"}, f"expected the header to win, the environment saw {seen}")


async def refuses_an_unknown_toolset(server: OrsSubject) -> None:
    """E30."""
    sid, answer = await server.create({**server.task(), "toolset_name": "no-such-toolset"})
    await server.wire.send(post("/delete", X_Session_ID=sid))
    expect(answer.is_refusal, f"expected 4xx, got {answer}")


async def answers_during_setup(server: OrsSubject) -> None:
    """E32."""
    _needs_ledger(server)
    prompts: list[WireAnswer] = []
    async with (
        server.session(server.task(setup_s=SETUP_SECONDS)) as session,
        anyio.create_task_group() as waiting,
    ):

        async def prompt() -> None:
            prompts.append(await session.get("/prompt"))

        waiting.start_soon(prompt)
        expect_status(await session.post("/ping"), 200, asked="/ping during setup")
        expect(not prompts, "/ping was answered only after /prompt")
        expect(
            await server.wait_for(session.task_id, "setup") == ["setup"], "expected one setup to have begun"
        )
        expect(not prompts, "/prompt did not wait for setup")
    for answer in prompts:
        expect_status(answer, 200, asked="/prompt, which waited for setup")


def _needs_ledger(server: OrsSubject) -> None:
    server.needs("echo", "count", "slow_count", "ledger")


async def prompts_with_blocks(server: OrsSubject) -> None:
    """E33."""
    async with server.session() as session:
        answer = await session.get("/prompt")
        again = await session.get("/prompt")
    expect_status(answer, 200, asked="/prompt")
    blocks = as_list(answer.json(), "/prompt")
    expect(blocks, "/prompt: expected at least one block")
    for block in blocks:
        keys = {"text": {"text", "detail", "type"}, "image": {"data", "mimeType", "detail", "type"}}
        expect(set(block) == keys.get(block.get("type")), f"unexpected block {block}")
    expect_status(again, 200, asked="a second /prompt")


async def adds_the_tools_of_the_task(server: OrsSubject) -> None:
    """E34."""
    async with server.session() as session:
        answer = await session.get("/task_tools")
    expect_status(answer, 200, asked="/task_tools")
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


async def _expect_gone(server: OrsSubject, sid: str, what: str) -> None:
    name = server.environment
    for request in (
        post("/ping", X_Session_ID=sid),
        get(f"/{name}/prompt", X_Session_ID=sid),
        get(f"/{name}/task_tools", X_Session_ID=sid),
        post(f"/{name}/call", {"name": "x", "input": {}}, X_Session_ID=sid),
    ):
        expect_detail(await server.wire.send(request), *GONE, asked=f"{request.path} for {what} session")


async def knows_no_deleted_session(server: OrsSubject) -> None:
    """E36."""
    await _expect_gone(server, str(uuid.uuid4()), "an unknown")
    async with server.session() as session:
        expect_status(await session.post("/ping"), 200, asked="/ping")
        expect_status(await session.post("/delete"), 200, asked="/delete")
        await _expect_gone(server, session.sid, "a deleted")
        _, again = await server.create(server.task(), sid=session.sid)
        expect(again.status in {200, 400, *GONE}, f"/create for a deleted session: got {again}")


async def says_why_setup_failed(server: OrsSubject) -> None:
    """E37."""
    _needs_ledger(server)
    async with server.session(server.task(setup_fail=True)) as session:
        for answer in (await session.get("/prompt"), await _call_answer(session)):
            detail = expect_detail(answer, 500, asked="a session whose setup failed")
            expect("setup failed on purpose" in str(detail), f"expected the reason, got {detail!r}")
    sid, created = await server.create(server.task(init_fail=True))
    if created.status == HTTPStatus.OK:
        created = await server.wire.send(get(f"/{server.environment}/prompt", X_Session_ID=sid))
    detail = expect_detail(created, 500, asked="a session whose constructor failed")
    expect("init failed on purpose" in str(detail), f"expected the reason, got {detail!r}")


async def _call_answer(session: OrsSession) -> WireAnswer:
    async with session.open("count", {}) as stream:
        if not stream.is_stream:
            return await stream.answer()
        events = await stream.rest()
    expect(events[-1].name == "error", f"expected an error, got {events}")
    detail = json.dumps({"detail": events[-1].data}).encode()
    return WireAnswer(500, {"content-type": "application/json"}, detail)


async def deletes_twice(server: OrsSubject) -> None:
    """E38."""
    async with server.session() as session:
        for _ in range(2):
            answer = await session.post("/delete")
            expect_status(answer, 200, asked="/delete")
            expect(answer.json() == {"sid": session.sid}, f"expected the id, got {answer}")
    answer = await server.wire.send(post("/delete", X_Session_ID="never created"))
    expect_status(answer, 200, asked="/delete for an unknown session")


async def answers_delete_session(server: OrsSubject) -> None:
    """E39."""
    async with server.session() as session:
        answer = await session.post("/delete_session")
        expect_status(answer, 200, asked="/delete_session")
        expect(answer.json() == {"sid": session.sid}, f"expected the id, got {answer}")


async def ends_the_session_in_delete_session(server: OrsSubject) -> None:
    """E39b."""
    async with server.session() as session:
        await session.post("/delete_session")
        expect_detail(await session.post("/ping"), *GONE, asked="/ping after /delete_session")


async def tears_down_once(server: OrsSubject) -> None:
    """E41."""
    _needs_ledger(server)
    async with server.session() as session:
        await session.call("count")
        async with anyio.create_task_group() as deletions:
            for path in ("/delete", "/delete", "/delete_session"):
                deletions.start_soon(session.post, path)
        await session.post("/delete")
    events = await server.ledger(session.task_id)
    expect(events == ["setup", "teardown"], f"expected one setup and one teardown, got {events}")


async def does_not_tear_down_under_a_call(server: OrsSubject) -> None:
    """E42."""
    _needs_ledger(server)
    async with server.session() as session:
        async with session.open("slow_count", {"seconds": 1.5}) as stream:
            await stream.next()
            await server.wait_for(session.task_id, "slow_count started")
            expect_status(await session.post("/delete"), 200, asked="/delete during a call")
            await stream.rest()
        events = await server.ledger(session.task_id)
    expect(events.count("teardown") == 1, f"expected one teardown, got {events}")
    expect(events[-1] == "teardown", f"the tool ran on after teardown: {events}")


async def tells_a_conversation(server: OrsSubject) -> None:
    """A14."""
    for name in server.environments:
        task = server.task() if name == server.environment else {"split": "train", "index": 0}
        if name != server.environment and not server.is_acceptance:
            continue
        async with server.session({**task, "env_name": name}) as session:
            answer = await session.get("/messages")
        if answer.status == HTTPStatus.NOT_FOUND:
            raise NotApplicableError("the server has no /messages")
        expect_status(answer, 200, asked=f"/{name}/messages")
        for message in answer.json():
            expect(set(message) == {"role", "blocks", "detail"}, f"unexpected message {message}")
            expect(message["role"] in {"system", "user", "assistant"}, f"unexpected role in {message}")


CHECKS = {
    "E20": creates_a_session_id,
    "E21": answers_json_to_those_who_accept_json_alone,
    "E22": takes_an_id_that_the_client_made,
    "E23": takes_the_default_environment_for_granted,
    "E24": wants_a_session_id,
    "E25": wants_one_source_of_the_task,
    "E26": does_not_create_in_an_unknown_environment,
    "E27": creates_a_session_once,
    "E27b": lets_one_of_many_creations_win,
    "E28": takes_secrets_from_the_header,
    "E28b": refuses_malformed_secrets,
    "E29": takes_secrets_from_the_body,
    "E30": refuses_an_unknown_toolset,
    "E32": answers_during_setup,
    "E33": prompts_with_blocks,
    "E34": adds_the_tools_of_the_task,
    "E36": knows_no_deleted_session,
    "E37": says_why_setup_failed,
    "E38": deletes_twice,
    "E39": answers_delete_session,
    "E39b": ends_the_session_in_delete_session,
    "E41": tears_down_once,
    "E42": does_not_tear_down_under_a_call,
    "A14": tells_a_conversation,
}
"""Requirement id -> the check of it."""
