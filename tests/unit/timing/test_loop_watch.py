"""The watch over an event loop: how late it was, and whose code held it."""

import asyncio
import logging
import time

import anyio
import pytest

from ors_server.timing import loop_watch
from ors_server.timing.loop_watch import (
    HEARTBEAT_SECONDS,
    MAX_NAMES,
    OVERFLOW_NAME,
    UNNAMED,
    LoopWatch,
    running_code,
)

LIMIT = 10.0


class Time:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now

    def take(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def seconds() -> Time:
    return Time()


@pytest.fixture
def watch(seconds) -> LoopWatch:
    return LoopWatch(seconds)


def held(watch):
    return {each.name: (each.times, round(each.seconds, 6)) for each in watch.figures().held_by}


def test_a_loop_is_late_only_where_it_is_watched_and_late_for_more_than_a_little(watch, seconds):
    seconds.take(100)
    assert watch.late_until(seconds.now) == 0.0
    watch.beat()
    for _ in range(100):
        seconds.take(HEARTBEAT_SECONDS + 0.01)
        watch.beat()
    assert watch.figures().late_s == 0.0


def test_a_late_heartbeat_is_counted_while_it_is_late_and_after(watch, seconds):
    watch.beat()
    seconds.take(HEARTBEAT_SECONDS + 2)
    assert watch.late_until(seconds.now) == pytest.approx(2.0)
    watch.beat()
    assert watch.late_until(seconds.now) == pytest.approx(2.0)
    seconds.take(HEARTBEAT_SECONDS)
    watch.beat()
    figures = watch.figures()
    assert (figures.late_s, figures.longest_late_s) == (pytest.approx(2.0), pytest.approx(2.0))


async def test_a_step_that_holds_the_loop_is_known_by_its_name(watch, seconds, caplog):
    async def blocks() -> str:
        seconds.take(3)
        await asyncio.sleep(0)  # noqa: TID251  (whatever an author awaits)
        seconds.take(0.05)
        return "done"

    caplog.set_level(logging.WARNING)
    watch.beat()
    assert await watch.stepping(blocks(), "tool 'x' of 'y'") == "done"
    seconds.take(HEARTBEAT_SECONDS)
    watch.beat()
    assert held(watch) == {"tool 'x' of 'y'": (1, 3.0)}
    (record,) = caplog.records
    assert record.msg["event"] == "event_loop_held"
    assert (record.msg["by"], record.msg["seconds"]) == ("tool 'x' of 'y'", 3.0)


async def test_the_innermost_name_is_blamed_alone(watch, seconds):
    async def reward() -> None:
        seconds.take(2)

    async def tool() -> None:
        seconds.take(0.5)
        await watch.stepping(reward(), "reward")

    watch.beat()
    await watch.stepping(tool(), "tool")
    assert held(watch) == {"reward": (1, 2.0), "tool": (1, 0.5)}


async def test_who_holds_the_loop_hears_how_late_it_was_for_it(watch, seconds):
    told: list[float] = []

    async def blocks() -> None:
        seconds.take(3)

    watch.beat()
    seconds.take(HEARTBEAT_SECONDS / 2)
    await watch.stepping(blocks(), "tool", told.append)
    assert told == [pytest.approx(3 - HEARTBEAT_SECONDS / 2)]


async def test_errors_and_cancellations_pass_through_in_both_directions(watch):
    async def fails() -> None:
        await asyncio.sleep(0)  # noqa: TID251  (asyncio's own is watched)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await watch.stepping(fails(), "tool")

    async def recovers() -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cleaned.append(True)
            raise
        return "never"

    cleaned: list[bool] = []
    with anyio.move_on_after(0.01) as scope:
        await watch.stepping(recovers(), "tool")
    assert scope.cancelled_caught
    assert cleaned == [True]


async def test_a_future_and_an_awaitable_of_an_authors_own_are_stepped_like_a_coroutine(watch):
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, 7)
    assert await watch.stepping(future, "tool") == 7

    class Plain:
        def __await__(self):
            return iter([None])

    assert await watch.stepping(Plain(), "tool") is None


def test_code_without_a_name_is_counted_as_such(watch, seconds):
    watch.beat()
    seconds.take(HEARTBEAT_SECONDS + 1)
    watch.beat()
    assert held(watch) == {UNNAMED: (1, 1.0)}


async def test_so_many_names_are_kept(watch, seconds):
    async def blocks() -> None:
        seconds.take(1)

    for number in range(MAX_NAMES + 5):
        await watch.stepping(blocks(), f"tool {number}")
    found = held(watch)
    assert len(found) == MAX_NAMES + 1
    assert found[OVERFLOW_NAME] == (5, 5.0)


async def test_one_name_is_warned_of_once_in_a_while(watch, seconds, caplog):
    async def blocks() -> None:
        seconds.take(1)

    for _ in range(5):
        await watch.stepping(blocks(), "tool")
    assert len(caplog.records) == 1
    seconds.take(loop_watch.WARN_AGAIN_SECONDS)
    await watch.stepping(blocks(), "tool")
    assert len(caplog.records) == 2


async def test_a_loop_that_is_really_held_is_found_with_the_place_in_the_code(caplog):
    async def author() -> None:
        time.sleep(1.5)  # noqa: ASYNC251  (an author's mistake)

    with anyio.fail_after(LIMIT), LoopWatch().watching() as watch, running_code("shop", "tool 'buy'"):
        await watch.stepping(author(), str(loop_watch.author_code.get()))
        await anyio.sleep(2 * HEARTBEAT_SECONDS)
        assert watch.figures().late_s > 1
    (holding,) = [each for each in watch.figures().held_by if each.name != UNNAMED]
    assert holding.name == "tool 'buy' of 'shop'"
    assert holding.longest_s > 1
    events = {record.msg["event"]: record.msg for record in caplog.records}
    assert "test_loop_watch.py" in events["event_loop_held"]["at"]
    assert "in author" in events["event_loop_stuck"]["at"]
    assert events["event_loop_stuck"]["by"] == "tool 'buy' of 'shop'"
