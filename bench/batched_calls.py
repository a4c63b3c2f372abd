"""Calls of 256 sessions: one request for each, beside one request for all.

Two clients load the server from another core. wrk sends single calls as in `ors_calls`, and a client of few
lines sends batches: both cost next to nothing, and the server's processor time per call counts. A trainer has
neither: its calls per second are those of a Python client (httpx2), which keeps a call of each session
under way, or sends one batch after another.
"""

import asyncio
import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from uuid import uuid4

import httpx2

from bench import client, ors_calls, servers
from bench.report import Goal, Row

SESSIONS = 256
MAX_SHARE = 0.5
"""A call in a batch takes at most this share of the processor time of a single one."""
MIN_SPEEDUP = 2.0
"""A Python client makes at least so many times as many calls per second in batches."""
BATCHES = "/_ors/batches/calls"
ANSWER_SECONDS = 60.0


def measure(seconds: int = 2, rounds: int = 5) -> list[Row]:
    """Load one server all ways in turns; medians count."""
    servers.pin_load()
    names = [f"bench-{uuid4().hex}" for _ in range(SESSIONS)]
    singles, batches = ors_calls.Samples(), ors_calls.Samples()
    rates: tuple[list[float], list[float]] = [], []
    with ExitStack() as stack:
        sessions = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "sessions"
        sessions.write_text("\n".join(names))
        port = servers.free_port()
        server = stack.enter_context(servers.running(servers.ours(port), port))
        asyncio.run(client.create_sessions(port, names))
        ors_calls.load(server, sessions, 1)
        for _ in range(rounds):
            before = server.cpu_seconds()
            done = ors_calls.load(server, sessions, seconds)
            between = server.cpu_seconds()
            calls, elapsed = asyncio.run(_send_batches(port, names, seconds))
            singles.rates.append(done["requests"] / done["seconds"])
            singles.costs.append((between - before) / done["requests"])
            batches.rates.append(calls / elapsed)
            batches.costs.append((server.cpu_seconds() - between) / calls)
            for is_single, found in enumerate(rates):
                found.append(asyncio.run(_rate_in_python(port, names, seconds, is_single=bool(is_single))))
    name, peer = f"calls in batches, {SESSIONS} sessions", "single calls over ORS"
    in_batches, alone = map(median, rates)
    own = f"{name}, a Python client"
    return [
        Row(name, "µs CPU", batches.cost, singles.cost, peer, Goal("ratio", most=MAX_SHARE)),
        Row(name, "calls/s", batches.rate, singles.rate, peer),
        Row(own, "calls/s", in_batches, alone, peer, Goal("ratio", least=MIN_SPEEDUP)),
    ]


async def _send_batches(port: int, names: list[str], seconds: int) -> tuple[int, float]:
    """Send whole batches; return their calls and the seconds they took; `RuntimeError` if a call failed."""
    items = _items(names)
    calls, began = 0, time.perf_counter()
    async with client.connected(port) as connection:
        while time.perf_counter() - began < seconds:
            _, content = await connection.post(BATCHES, {}, {"items": items})
            calls += _count_completed(content)
    return calls, time.perf_counter() - began


async def _rate_in_python(port: int, names: list[str], seconds: int, *, is_single: bool) -> float:
    """Return the calls per second of one client, after one call of every session to warm up."""
    calls = 0
    items = _items(names)
    limits = httpx2.Limits(max_connections=SESSIONS, max_keepalive_connections=SESSIONS)
    url = f"http://127.0.0.1:{port}"

    async with httpx2.AsyncClient(base_url=url, limits=limits, timeout=ANSWER_SECONDS) as http:

        async def call(name: str) -> int:
            headers = {"Content-Type": "application/json", "X-Session-ID": name}
            response = await http.post(ors_calls.PATH, headers=headers, content=ors_calls.BODY)
            if response.status_code != httpx2.codes.OK or '"hello"' not in response.text:
                raise RuntimeError(f"a single call failed: {response.text[:300]!r}")
            return 1

        async def call_all(_: str) -> int:
            response = await http.post(BATCHES, json={"items": items})
            return _count_completed(response.content)

        send, callers = (call, names) if is_single else (call_all, names[:1])
        await asyncio.gather(*map(send, callers))

        async def keep_calling(name: str) -> None:
            nonlocal calls
            while time.perf_counter() - began < seconds:
                sent = await send(name)  # before the sum is read: other sessions add to it meanwhile
                calls += sent

        began = time.perf_counter()
        await asyncio.gather(*map(keep_calling, callers))
        return calls / (time.perf_counter() - began)


def _items(names: list[str]) -> list[dict[str, object]]:
    return [{"session_id": name, "name": "echo", "arguments": {"text": "hello"}} for name in names]


def _count_completed(content: bytes) -> int:
    """Return the calls of a batch; `RuntimeError` if one of them failed."""
    results = json.loads(content)["items"]
    if not all(result["ok"] and result["result"]["kind"] == "completed" for result in results):
        raise RuntimeError(f"a call of a batch failed: {content[:300]!r}")
    return len(results)
