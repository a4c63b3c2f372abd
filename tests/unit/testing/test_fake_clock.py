"""Time that passes when a test says so."""

from datetime import UTC, datetime, timedelta

import anyio
import pytest

from ors_server.testing import FakeClock


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_time_stands_still_until_it_is_told_to_pass():
    clock = FakeClock(datetime(2030, 1, 2, tzinfo=UTC))
    assert (clock.monotonic(), clock.now()) == (0.0, datetime(2030, 1, 2, tzinfo=UTC))
    await clock.advance(90)
    assert (clock.monotonic(), clock.now()) == (
        90.0,
        datetime(2030, 1, 2, tzinfo=UTC) + timedelta(seconds=90),
    )


async def test_sleepers_wake_in_the_order_of_their_deadlines_and_see_their_own_time():
    clock, seen = FakeClock(), []

    async def sleep(seconds):
        await clock.sleep(seconds)
        seen.append((seconds, clock.monotonic()))

    async with anyio.create_task_group() as group:
        for seconds in (30, 10, 20):
            group.start_soon(sleep, seconds)
        await clock.until_sleeping(3)
        await clock.advance(9.9)
        assert seen == []
        await clock.advance(100)
    assert seen == [(10, 10.0), (20, 20.0), (30, 30.0)]
    assert clock.monotonic() == pytest.approx(109.9)


async def test_who_sleeps_again_in_a_loop_wakes_at_every_deadline():
    clock, ticks = FakeClock(), []

    async def tick():
        while True:
            await clock.sleep(5)
            ticks.append(clock.monotonic())

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await clock.until_sleeping()
        await clock.advance(17)
        group.cancel_scope.cancel()
    assert ticks == [5.0, 10.0, 15.0]


async def test_a_sleeper_that_is_cancelled_is_forgotten():
    clock = FakeClock()
    async with anyio.create_task_group() as group:
        group.start_soon(clock.sleep, 5)
        await clock.until_sleeping()
        group.cancel_scope.cancel()
    assert clock.sleepers == 0


@pytest.mark.parametrize("seconds", [0, -1])
async def test_sleeping_for_no_time_waits_for_nobody(seconds):
    clock = FakeClock()
    await clock.sleep(seconds)
    assert clock.monotonic() == 0.0


async def test_a_jump_wakes_nobody_before_time_is_let_pass():
    clock, woken = FakeClock(), anyio.Event()

    async def sleep():
        await clock.sleep(5)
        woken.set()

    async with anyio.create_task_group() as group:
        group.start_soon(sleep)
        await clock.until_sleeping()
        clock.jump(7)
        await anyio.wait_all_tasks_blocked()
        assert (clock.monotonic(), clock.sleepers, woken.is_set()) == (7.0, 1, False)
        await clock.advance(0)
        assert (clock.monotonic(), woken.is_set()) == (7.0, True)
