"""Checks of what calls mean: errors, resume, isolation, the end of an episode (E60 to E80, A17)."""

import json
import uuid
from http import HTTPStatus
from typing import Any

import anyio

from ors_server.conformance.expectations import NotApplicableError, expect
from ors_server.conformance.ors_subject import (
    CallEvents,
    OrsChecks,
    OrsSession,
    OrsSubject,
    expect_detail,
    expect_status,
)
from ors_server.conformance.ors_wire import get, post

UNKNOWN = "unknown task_id"
ENORMOUS = 20 * 1024**3
"""Bytes of a body that no server takes."""
FLOOD = 64 * 1024**2
"""Bytes of it that a server may receive before it refuses."""

CHECKS = OrsChecks()
"""Requirement id -> the check of it."""


@CHECKS.of("E60", "boom", "add")
async def survives_a_raising_tool(server: OrsSubject) -> None:
    async with server.session() as session:
        error = (await session.call("boom")).error
        expect(error is not None, "expected an error event")
        expect(
            "kaboom line1\nline2 'quoted' \u00e9" in str(error), f"expected the tool's message, got {error!r}"
        )
        expect((await session.call("add", a=1)).text == "3", "the session did not survive")


@CHECKS.of("E60b", "boom_empty", "badret")
async def never_fails_without_a_message(server: OrsSubject) -> None:
    async with server.session() as session:
        for tool in ("boom_empty", "badret"):
            expect((await session.call(tool)).error, f"expected {tool} to give an error event with text")


async def _refusals(server: OrsSubject) -> list[tuple[CallEvents, str, str]]:
    async with server.session() as session:
        seen = [(await session.call("no_such_tool"), "is not a valid tool", "not_found")]
        if "add" in server.tools:
            invalid = [await session.call("add", **arguments) for arguments in ({"a": "x"}, {})]
            seen += [(called, "Tool input validation error", "input_validation") for called in invalid]
        return seen


@CHECKS.of("E61")
async def refuses_with_the_text_that_clients_match(server: OrsSubject) -> None:
    for called, words, _ in await _refusals(server):
        text, _ = called.mistake
        expect(words in text, f"expected {words!r}, got {called.result}")


@CHECKS.of("E61b")
async def gives_the_reason_of_a_refusal(server: OrsSubject) -> None:
    for called, _, reason in await _refusals(server):
        _, given_reason = called.mistake
        expect(given_reason == reason, f"expected the reason {reason!r}, got {called.result}")


@CHECKS.of("E61c")
async def refuses_a_malformed_call(server: OrsSubject) -> None:
    async with server.session() as session:
        bodies: tuple[Any, ...] = (
            {"name": "x"},
            {"input": {}},
            {"name": "x", "input": None},
            {"name": "x", "input": []},
            {"name": 1, "input": {}},
            {"name": "x", "input": {}, "extra": 1},
            [],
        )
        for body in bodies:
            answer = await server.ask("/call", body, X_Session_ID=session.sid)
            expect(answer.is_refusal, f"/call with {body}: expected 4xx, got {answer}")
            expect_detail(answer, answer.status, request=f"/call with {body}")


@CHECKS.of("E62", "slow_count", "count")
async def resumes_a_dropped_call(server: OrsSubject) -> None:
    async with server.session() as session:
        # The call is dropped while it runs, so that its result is only in the server's memory.
        task_id = await session.drop("slow_count", seconds=1.0)
        resumed = await session.call("slow_count", resume=task_id, seconds=1.0)
        expect(resumed.task_id == task_id, f"expected the same id, got {resumed.task_id!r}")
        expect(resumed.text == "1", f"expected the result of the call, got {resumed.events}")
        replayed = await session.call("slow_count", resume=task_id, seconds=1.0)
        # `count` tells how often the tool ran: a resumed call must not run again.
        expect(replayed.result == resumed.result, "fetching the result again gave another one")
        expect((await session.call("count")).text == "2", "the tool ran more than once")


@CHECKS.of("E63", "count")
async def recognises_its_own_ids(server: OrsSubject) -> None:
    async with server.session() as session:
        called = await session.call("count", resume=uuid.uuid4().hex)
        expect(called.error == UNKNOWN, f"expected the error {UNKNOWN!r}, got {called.events}")
        expect((await session.call("count")).text == "1", "the tool ran")


@CHECKS.of("E64", "whoami", "count")
async def keeps_ids_to_their_session(server: OrsSubject) -> None:
    async with server.session() as owner, server.session() as stranger:
        task_id = (await owner.call("count")).task_id
        stolen = await stranger.call("count", resume=task_id)
        expect(stolen.error is not None, f"another session's result was handed out: {stolen.events}")
        expect((await stranger.call("count")).text == "1", "the tool ran in the other session")


@CHECKS.of("E65", "tagged")
async def takes_null_for_absent(server: OrsSubject) -> None:
    async with server.session() as session:
        called = await session.call("tagged", a=1, tags=None, note=None, z=2.5)
        expect(not called.was_refused, f"expected null to mean absent, got {called.events}")
        seen = json.loads(called.text)
    expect(seen == {"a": 1, "tags": [], "note": "", "z": 2.5}, f"the tool saw {seen}")


@CHECKS.of("E66", "count")
async def accepts_a_made_up_id_for_a_call(server: OrsSubject) -> None:
    async with server.session() as session:
        first = await session.call("count", resume="rollout-7/step-1")
        if first.error == UNKNOWN:
            raise NotApplicableError("the server knows its own task ids only")
        again = await session.call("count", resume="rollout-7/step-1")
        expect(first.text == again.text == "1", f"the repeated call gave {again.events}")
        expect((await session.call("count")).text == "2", "the tool ran more than once")


@CHECKS.of("E67", "add", "count")
async def answers_parallel_calls(server: OrsSubject) -> None:
    sums: dict[int, str] = {}
    counts: dict[str, list[int]] = {"first": [], "second": []}

    async def add(session: OrsSession, i: int) -> None:
        sums[i] = (await session.call("add", a=i, b=i)).text

    async def count(session: OrsSession, name: str) -> None:
        counts[name].append(int((await session.call("count")).text))

    async with server.session() as first, server.session() as second, anyio.create_task_group() as calls:
        for i in range(8):
            calls.start_soon(add, first, i)
        for session, name in ((first, "first"), (second, "second")):
            for _ in range(4):
                calls.start_soon(count, session, name)
    expect(sums == {i: str(2 * i) for i in range(8)}, f"the sums were {sums}")
    expect(all(sorted(seen) == [1, 2, 3, 4] for seen in counts.values()), f"the counts were {counts}")


@CHECKS.of("E68", "finish", "count")
async def refuses_calls_after_the_end(server: OrsSubject) -> None:
    async with server.session() as session:
        count = await session.call("count")
        end = await session.call("finish", reward=0.5)
        expect(end.output["finished"] is True, f"expected the end, got {end.output}")
        for tool in ("count", "finish"):
            after = await session.call(tool)
            expect(after.was_refused, f"{tool} ran after the end: {after.events}")
            expect(
                after.result.get("reason") == "episode_finished", f"expected the reason, got {after.result}"
            )
        for earlier, replayed in (
            (end, await session.call("finish", resume=end.task_id, reward=0.5)),
            (count, await session.call("count", resume=count.task_id)),
        ):
            expect(replayed.result == earlier.result, f"the result cannot be fetched: {replayed.events}")
        expect_status(await session.get("/prompt"), 200, request="/prompt after the end")


@CHECKS.of("E69", "slow_count", "finish", "ledger")
async def never_denies_that_a_call_ran(server: OrsSubject) -> None:
    async with server.session() as session:
        async with session.open("slow_count", {"seconds": 1.0}) as stream:
            await stream.next()
            await server.wait_for(session.task_id, "slow_count started")
            await session.call("finish", reward=0.5)
            called = CallEvents(stream, await stream.rest())
        ran = "slow_count ended" in await server.ledger(session.task_id)
    # The tool may have ended before the session did; then it must not be called "not run".
    denied = called.error is None and "not run" in str(called.result.get("error", ""))
    expect(not (ran and denied), f"the tool ran and the answer was {called.events}")


@CHECKS.of("E70", "slow_sync")
async def stalls_no_other_session(server: OrsSubject) -> None:
    order: list[str] = []
    async with server.session() as busy, server.session() as other, anyio.create_task_group() as calls:

        async def block() -> None:
            await busy.call("slow_sync", seconds=4.0)
            order.append("slow")

        calls.start_soon(block)
        # Pings while a tool blocks: a server that runs it on its event loop answers none of them in time.
        for _ in range(5):
            expect_status(await other.post("/ping"), 200, request="/ping during a blocking tool")
            await anyio.sleep(0.1)
        order.append("pings")
    expect(order == ["pings", "slow"], "a blocking tool stalled another session's /ping")


@CHECKS.of("E71")
async def follows_the_session_not_the_path(server: OrsSubject) -> None:
    if len(server.environments) == 1:
        raise NotApplicableError("the server has one environment only")
    other = server.environments[1]
    async with server.session() as session:
        here = await session.get("/prompt")
        there = await server.wire.send(get(f"/{other}/prompt", X_Session_ID=session.sid))
    expect_status(there, 200, request=f"/{other}/prompt for a session of {server.environment}")
    expect(there.json() == here.json(), f"/{other}/prompt answered another prompt")


async def _nan(server: OrsSubject) -> CallEvents:
    async with server.session() as session:
        return await session.call("nan")


@CHECKS.of("E72", "nan")
async def never_writes_nan(server: OrsSubject) -> None:
    called = await _nan(server)
    text = "".join(called.pieces)
    expect("NaN" not in text and "Infinity" not in text, f"expected JSON, got {text!r}")


@CHECKS.of("E72b", "nan")
async def refuses_a_reward_that_is_no_number(server: OrsSubject) -> None:
    called = await _nan(server)
    expect(called.error is not None, f"expected an error, got {called.events}")


@CHECKS.of("E73", "count", "ledger")
async def drops_a_call_that_was_not_begun(server: OrsSubject) -> None:
    async with server.session(server.task(setup_s=1.0)) as session:
        request = post(
            f"/{session.environment}/call", {"name": "count", "input": {}}, X_Session_ID=session.sid
        )
        spelled = server.wire.encode(request)
        # One connection is cut in the middle of the request, and one after it: neither may start the call
        # twice.
        async with server.wire.connection() as cut:
            await cut.send(spelled[:-4])
        told = False
        async with server.wire.connection() as left:
            await left.send(spelled)
            with anyio.move_on_after(0.5):
                while not told:
                    told = b"event: task_id" in await left.receive()
        expect_status(await session.get("/prompt"), 200, request="/prompt")
        expected = "2" if told else "1"
        expect((await session.call("count")).text == expected, "a call ran whose client had left")


@CHECKS.of("E74")
async def requires_a_key(server: OrsSubject) -> None:
    if server.anonymous is None:
        raise NotApplicableError("no key was given to check the server with")
    expect_detail(
        await server.anonymous.send(post("/create", server.task())), 401, request="/create without a key"
    )
    wrong = post("/create", server.task(), X_API_Key="wrong", X_Session_ID=str(uuid.uuid4()))
    expect_detail(await server.anonymous.send(wrong), 401, request="/create with a wrong key")


@CHECKS.of("E77")
async def reports_its_version(server: OrsSubject) -> None:
    answer = await server.wire.send(get("/version"))
    expect_status(answer, 200, request="/version")
    expect(isinstance(answer.json().get("version"), str), f"expected a version, got {answer}")


@CHECKS.of("E78")
async def refuses_a_body_that_is_too_large(server: OrsSubject) -> None:
    request = post("/create", {}, X_Session_ID="large", Content_Length=str(ENORMOUS))
    status = await server.wire.flood(request, FLOOD, time_limit=5.0)
    expect(
        status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"a body that claims 20 GiB: expected 413, got {status}",
    )


@CHECKS.of("E79", "sysexit", "cancelled", "add")
async def survives_a_tool_that_ends_the_process(server: OrsSubject) -> None:
    async with server.session() as session, server.session() as other:
        for tool in ("sysexit", "cancelled"):
            with anyio.fail_after(10.0):
                called = await session.call(tool)
            expect(called.error or called.was_refused, f"{tool}: expected an error, got {called.events}")
            expect((await other.call("add", a=1)).text == "3", f"{tool} hurt another session")
        expect_status(await server.wire.send(get("/health")), 200, request="/health")


@CHECKS.of("A17")
async def scores_a_group(server: OrsSubject) -> None:
    scoring, body = 0, {"candidates": [_candidate("a"), _candidate("abc", {"k": 1})]}
    for name in server.environments:
        tools = (await server.wire.send(get(f"/{name}/tools"))).json()
        task = server.task() if name == server.environment else {"split": "train", "index": 0}
        if name != server.environment and not server.is_acceptance:
            continue
        async with server.session({**task, "env_name": name}) as session:
            request = post(f"/{name}/score_group", body, X_Session_ID=session.sid, Accept="text/event-stream")
            async with server.wire.stream(request) as stream:
                if not tools.get("supports_score_group"):
                    expect_status(await stream.answer(), 404, request=f"/{name}/score_group")
                    continue
                called = CallEvents(stream, await stream.rest())
        scores = called.result["scores"]
        expect(len(scores) == len(body["candidates"]), f"expected a score for each candidate, got {scores}")
        expect(
            all(isinstance(score["reward"], int | float) for score in scores), f"unexpected score in {scores}"
        )
        scoring += 1
    if not scoring:
        raise NotApplicableError("no environment here scores groups")


def _candidate(text: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    block = {"type": "text", "text": text}
    return {"messages": [{"role": "assistant", "blocks": [block]}], "metadata": metadata}
