"""The machine's own clocks."""

from datetime import UTC

import anyio

from ors_server.model.clock import SystemClock


async def test_time_never_runs_backwards_and_sleeping_ends():
    clock = SystemClock()
    before = clock.monotonic()
    with anyio.fail_after(10):
        await clock.sleep(0)
        await clock.sleep(-1)
    assert clock.monotonic() >= before
    assert clock.now().tzinfo is UTC
