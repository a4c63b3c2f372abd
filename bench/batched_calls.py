"""Calls of 256 sessions: one request for each, beside one request for all.

wrk loads the server with single calls from another core, as in `ors_calls`. Batches follow one another,
so that their rate has the time of the client and of the network in it: the goal is set for the server's
processor time per call, and the rates stand beside it.
"""

import asyncio
import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

from bench import client, ors_calls, servers
from bench.report import Goal, Row

SESSIONS = 256
MAX_SHARE = 0.5
"""A call in a batch takes at most this share of the processor time of a single one."""
BATCHES = "/_ors/batches/calls"


def measure(seconds: int = 2, rounds: int = 5) -> list[Row]:
    """Load one server both ways in turns; medians count."""
    names = [f"bench-{uuid4().hex}" for _ in range(SESSIONS)]
    singles, batches = ors_calls.Samples(), ors_calls.Samples()
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
    name, peer = f"calls in batches, {SESSIONS} sessions", "single calls over ORS"
    return [
        Row(name, "µs CPU", batches.cost, singles.cost, peer, Goal("ratio", most=MAX_SHARE)),
        Row(name, "calls/s", batches.rate, singles.rate, peer),
    ]


async def _send_batches(port: int, names: list[str], seconds: int) -> tuple[int, float]:
    """Send whole batches; return their calls and the seconds they took; `RuntimeError` if a call failed."""
    items = [{"session_id": name, "name": "echo", "arguments": {"text": "hello"}} for name in names]
    calls, began = 0, time.perf_counter()
    async with client.connected(port) as connection:
        while time.perf_counter() - began < seconds:
            _, content = await connection.post(BATCHES, {}, {"items": items})
            results = json.loads(content)["items"]
            if not all(result["ok"] and result["result"]["kind"] == "completed" for result in results):
                raise RuntimeError(f"a call of a batch failed: {content[:300]!r}")
            calls += len(results)
    return calls, time.perf_counter() - began
