"""Checks of the bytes of an event stream: order, framing, pieces, silence (E50 to E59)."""

import json
from typing import Any

import anyio

from ors_server.conformance.expectations import expect
from ors_server.conformance.ors_subject import CallEvents, OrsChecks, OrsSubject, expect_status

LINE_LIMIT = 64 * 1024
"""Bytes of a line that every client reads; some give up beyond."""
SILENCE_LIMIT = 25.0
"""Seconds without a byte after which clients begin to think of retrying."""

CHECKS = OrsChecks()
"""Requirement id -> the check of it."""


@CHECKS.of("E50")
async def begins_with_the_task_id(server: OrsSubject) -> None:
    async with server.session() as session:
        ids = [(await session.call("no_such_tool")).task_id for _ in range(3)]
    expect(len(set(ids)) == len(ids), f"expected a new id for each call, got {ids}")


@CHECKS.of("E51", "slow_count")
async def sends_the_task_id_at_once(server: OrsSubject) -> None:
    async with server.session() as session, session.open("slow_count", {"seconds": 2.0}) as stream:
        first, told = await stream.next(), anyio.current_time()
        await stream.rest()
        waited = anyio.current_time() - told
    expect(first is not None and first.name == "task_id", f"expected task_id first, got {first}")
    expect(waited > 1.0, f"task_id arrived {waited:.2f} s before the end of a call of 2 s")


@CHECKS.of("E51b", "count", "ledger")
async def sends_the_task_id_during_setup(server: OrsSubject) -> None:
    async with server.session(server.task(setup_s=2.0)) as session, session.open("count", {}) as stream:
        await stream.next()
        told = anyio.current_time()
        called = CallEvents(stream, await stream.rest())
        waited = anyio.current_time() - told
    expect(called.text == "1", f"expected the call to run, got {called.events}")
    expect(waited > 1.0, f"task_id arrived {waited:.2f} s before the end of a setup of 2 s")


async def _calls(server: OrsSubject) -> list[CallEvents]:
    """Make calls that are answered in every way that this server's environment offers."""
    calls: list[tuple[str, dict[str, Any]]] = [("no_such_tool", {})]
    if server.is_acceptance:
        calls += [
            ("noargs", {}),
            ("empty", {}),
            ("image", {}),
            ("boom", {}),
            ("badret", {}),
            ("add", {"a": "x"}),
            ("big", {"n": 20_000}),
            ("finish", {"reward": None}),
            ("count", {}),
        ]
    async with server.session() as session:
        return [
            await session.call(tool, **arguments)
            for tool, arguments in calls
            if tool in server.tools or tool == "no_such_tool"
        ]


@CHECKS.of("E52")
async def ends_once(server: OrsSubject) -> None:
    for called in await _calls(server):
        names = [event.name for event in called.events]
        expect(names[-1:] in (["end"], ["error"]), f"expected end or error last, got {names}")
        expect(names.count("end") + names.count("error") == 1, f"expected one end or error, got {names}")
        expect(set(names[1:-1]) <= {"chunk"}, f"unexpected events between, {names}")


@CHECKS.of("E53", "noargs", "empty", "image", "finish")
async def writes_all_four_keys(server: OrsSubject) -> None:
    async with server.session() as session:
        for tool in ("noargs", "empty", "image", "finish"):
            output = (await session.call(tool)).output
            expect(
                set(output) == {"blocks", "metadata", "reward", "finished"}, f"{tool} gave {sorted(output)}"
            )
            expect(type(output["finished"]) is bool, f"{tool}: finished is {output['finished']!r}")
            expect(
                isinstance(output["reward"], float | int | None), f"{tool}: reward is {output['reward']!r}"
            )


@CHECKS.of("E54", "big", "spaces")
async def writes_short_lines(server: OrsSubject) -> None:
    async with server.session() as session:
        for tool, size in (("big", 300_000), ("spaces", 300_000)):
            called = await session.call(tool, n=size, lead=1)
            longest = max(map(len, called.stream.lines))
            expect(longest < LINE_LIMIT, f"a line of {longest} bytes")
            expect(len(called.text) >= size, f"expected {size} characters, got {len(called.text)}")


@CHECKS.of("E55")
async def writes_whole_lines(server: OrsSubject) -> None:
    for called in await _calls(server):
        lines = called.stream.lines
        expect(lines[-1] == b"", f"expected a blank line at the end, got {lines[-1]!r}")
        bare = [line for line in lines if line and b":" not in line]
        expect(not bare, f"a line without a colon: {bare[:1]}")


@CHECKS.of("E56", "spaces")
async def begins_no_piece_with_white_space(server: OrsSubject) -> None:
    async with server.session() as session:
        # Clients strip a leading space of each data line, and some all white space: a piece that begins with
        # one loses it.
        for lead, fill in ((0, " "), (1, " "), (7, "\u3000"), (3, "\u00a0"), (0, "\u2003")):
            if fill != " " and "fill" not in json.dumps(server.tools["spaces"]["input_schema"]):
                continue
            called = await session.call("spaces", n=20_000, lead=lead, fill=fill)
            lost = [piece[:20] for piece in called.pieces if piece != piece.lstrip()]
            expect(not lost, f"a piece begins with {lost[0][:1]!r}" if lost else "")
            expect(called.text == "x" * lead + fill * 20_000 + "end", f"the text of {fill!r} was changed")


@CHECKS.of("E57", "slow_count")
async def sends_comments_while_a_call_runs(server: OrsSubject) -> None:
    async with server.session() as session:
        # Longer than proxies and clients wait: 25 seconds are the limit.
        called = await session.call("slow_count", seconds=27.0)
    silence = called.stream.longest_silence
    expect(called.text == "1", f"expected the result, got {called.events}")
    expect(called.stream.comments, "no comment was sent during a call of 27 s")
    expect(silence < SILENCE_LIMIT, f"{silence:.1f} s without a byte")


@CHECKS.of("E58")
async def ends_every_stream_properly(server: OrsSubject) -> None:
    streams = [called.stream for called in await _calls(server)]
    if server.is_acceptance:
        async with server.session() as session, session.open("slow_count", {"seconds": 1.0}) as stream:
            await stream.next()
            expect_status(await session.post("/delete"), 200, request="/delete during a call")
            deleted = CallEvents(stream, await stream.rest())
        expect(
            deleted.events[-1].name in {"end", "error"}, f"a deleted session's call ended in {deleted.events}"
        )
        streams.append(deleted.stream)
    expect(
        all(stream.is_complete for stream in streams), "a stream's connection ended before its framing did"
    )


@CHECKS.of("E59")
async def streams_without_delay(server: OrsSubject) -> None:
    async with server.session() as session, session.open("no_such_tool", {}) as stream:
        headers = stream.headers
        await stream.rest()
    kind = headers.get("content-type", "")
    expect(kind.startswith("text/event-stream"), f"expected text/event-stream, got {kind!r}")
    expect("content-encoding" not in headers, f"the stream is compressed: {headers.get('content-encoding')}")
    expect(
        headers.get("x-accel-buffering") == "no",
        "expected X-Accel-Buffering: no, or a proxy may hold events back",
    )
