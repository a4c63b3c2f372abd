"""The clock of a call: what counts, what does not, and when it rings."""

import time

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from ors_server.timing.call_clock import CallClock, call_clock, counting, paused_call_clock, start_clock
from ors_server.timing.loop_watch import HEARTBEAT_SECONDS, LoopWatch

LIMIT = 10.0


class Time:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Time:
    return Time()


def test_only_the_time_between_pauses_counts(seconds):
    clock = CallClock(5.0, now=seconds)
    seconds.now += 1
    clock.pause()
    seconds.now += 10
    clock.pause()
    clock.resume()
    seconds.now += 10
    assert clock.is_paused
    clock.resume()
    seconds.now += 2
    assert (clock.spent_s, clock.waived_s, clock.left_s) == (3.0, 20.0, 2.0)
    assert not clock.is_up


def test_what_begins_in_another_thread_counts_from_its_first_moment(seconds):
    clock = CallClock(5.0, now=seconds)
    seconds.now += 1
    first, second = clock.wait_for_start(), clock.wait_for_start()
    seconds.now += 10
    first.note()
    seconds.now += 10
    assert clock.is_paused
    clock.pause()
    second.note()
    seconds.now += 10
    clock.resume()
    seconds.now += 2
    assert (clock.spent_s, clock.waived_s) == (3.0, 30.0)
    third = clock.wait_for_start()
    seconds.now += 10
    third.note()
    seconds.now += 1
    assert (clock.spent_s, clock.waived_s, clock.is_paused) == (4.0, 40.0, False)


async def test_a_start_that_comes_late_puts_off_the_alarm_and_does_not_end_it():
    with anyio.fail_after(LIMIT), counting(start_clock(0.02)) as clock:
        start = clock.wait_for_start()
        await anyio.sleep(0.1)
        assert not clock.is_up
        assert clock.is_paused
        start.note()
        await anyio.sleep_forever()
    assert clock.is_up


def test_the_lateness_of_the_event_loop_does_not_count(seconds):
    watch = LoopWatch(seconds)
    watch.beat()
    clock = CallClock(2.0, watch=watch)
    seconds.now += HEARTBEAT_SECONDS + 3  # held by somebody else
    assert clock.spent_s == pytest.approx(HEARTBEAT_SECONDS)
    watch.beat()
    assert clock.spent_s == pytest.approx(HEARTBEAT_SECONDS)
    seconds.now += 0.05
    assert clock.spent_s == pytest.approx(HEARTBEAT_SECONDS + 0.05)
    assert clock.waived_s == pytest.approx(3.0)


def test_lateness_within_a_pause_is_not_taken_off_twice(seconds):
    watch = LoopWatch(seconds)
    watch.beat()
    clock = CallClock(2.0, watch=watch)
    clock.pause()
    seconds.now += HEARTBEAT_SECONDS + 3
    watch.beat()
    clock.resume()
    seconds.now += 0.05
    assert clock.spent_s == pytest.approx(0.05)


def test_what_the_calls_own_code_held_counts(seconds):
    watch = LoopWatch(seconds)
    watch.beat()
    clock = CallClock(2.0, watch=watch)
    seconds.now += HEARTBEAT_SECONDS + 3
    clock.hold(3.0)
    assert clock.spent_s == pytest.approx(HEARTBEAT_SECONDS + 3)
    assert clock.is_up


def test_a_clock_without_a_limit_is_never_up(seconds):
    clock = CallClock(now=seconds)
    seconds.now += 1e9
    assert not clock.is_up
    assert clock.left_s == float("inf")


async def test_code_is_stopped_when_its_time_is_up_and_left_alone_when_it_ends_before():
    with anyio.fail_after(LIMIT):
        with counting(start_clock(0.01)) as clock:
            await anyio.sleep_forever()
    assert clock.is_up
    with counting(start_clock(LIMIT)) as clock:
        await anyio.lowlevel.checkpoint()
    assert not clock.is_up


async def test_a_paused_clock_does_not_ring():
    begun = anyio.Event()

    async def wait(clock: CallClock) -> None:
        with paused_call_clock():
            begun.set()
            assert anyio.current_effective_deadline() - anyio.current_time() > 1
            await anyio.sleep(0.05)
        assert not clock.is_up

    with anyio.fail_after(LIMIT), counting(start_clock(0.01)) as clock:
        await wait(clock)
        await anyio.sleep_forever()
    assert begun.is_set()
    assert clock.is_up


async def test_a_thread_that_pauses_the_clock_in_an_event_loop_of_its_own_is_timed_all_the_same():
    async def wait() -> None:
        with paused_call_clock():
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(LIMIT), counting(start_clock(0.05)) as clock:
        await anyio.to_thread.run_sync(anyio.run, wait)
        assert not clock.is_paused
        await anyio.sleep_forever()
    assert clock.is_up


async def test_others_can_plan_by_the_deadline_and_outside_a_call_there_is_no_clock():
    with counting(start_clock(100.0)) as clock:
        left = anyio.current_effective_deadline() - anyio.current_time()
        assert 99 < left < 101
        assert call_clock.get() is clock
    assert call_clock.get() is None
    with paused_call_clock():
        assert call_clock.get() is None


async def test_a_cancellation_from_outside_is_no_time_limit():
    with anyio.move_on_after(0.01) as scope, counting(start_clock(LIMIT)) as clock:
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert not clock.is_up


async def test_a_loop_that_was_held_when_the_time_was_up_lets_what_ended_say_so():
    with anyio.fail_after(LIMIT), LoopWatch().watching(), counting(start_clock(0.05)) as clock:
        ended = anyio.Event()

        async def other() -> None:
            time.sleep(0.5)  # noqa: ASYNC251  (an author's mistake)
            ended.set()

        async with anyio.create_task_group() as group:
            group.start_soon(other)
            await ended.wait()
    assert not clock.is_up
