"""A fair limiter: capacity, turns by key, shares, a reserve, cancellation, figures, a call's clock."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.lowlevel import checkpoint

from ors_server.testing import FakeClock
from ors_server.timing.admission import Admission, Permit
from ors_server.timing.call_clock import call_clock

ROUNDS = 10


async def settle() -> None:
    for _ in range(ROUNDS):
        await checkpoint()


@asynccontextmanager
async def holding(admission: Admission, key: str, **options: bool) -> AsyncIterator[Permit]:
    permit = await admission.take(key, **options)
    try:
        yield permit
    finally:
        permit.release()


class Waiters:
    """Tasks that wait for places and note who came when."""

    def __init__(self, admission: Admission, group: anyio.abc.TaskGroup) -> None:
        self.admission = admission
        self.order: list[str] = []
        self.held: list[Permit] = []
        self._group = group

    async def _wait(self, key: str, name: str, options: dict[str, bool]) -> None:
        place = await self.admission.take(key, **options)
        self.order.append(name)
        self.held.append(place)

    async def come(self, key: str, name: str = "", **options: bool) -> None:
        self._group.start_soon(self._wait, key, name or key, options)
        await settle()

    async def leave(self) -> None:
        self.held.pop(0).release()
        await settle()


@asynccontextmanager
async def open_waiters(admission: Admission) -> AsyncIterator[Waiters]:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            yield Waiters(admission, group)
            group.cancel_scope.cancel()


async def test_no_more_hold_a_place_than_there_are() -> None:
    async with open_waiters(Admission(2)) as waiters:
        for _ in range(5):
            await waiters.come("a")
        assert len(waiters.order) == 2
        await waiters.leave()
        assert len(waiters.order) == 3


async def test_keys_take_turns_however_many_one_of_them_has_waiting() -> None:
    async with open_waiters(Admission(1)) as waiters:
        await waiters.come("many", "first")
        for number in range(4):
            await waiters.come("many", f"m{number}")
        await waiters.come("few", "f0")
        await waiters.come("few", "f1")
        for _ in range(6):
            await waiters.leave()
        assert waiters.order == ["first", "m0", "f0", "m1", "f1", "m2", "m3"]


async def test_one_that_goes_ahead_passes_only_those_of_its_key() -> None:
    async with open_waiters(Admission(1)) as waiters:
        await waiters.come("a", "first")
        await waiters.come("b", "b0")
        await waiters.come("a", "a0")
        await waiters.come("a", "a1", ahead=True)
        for _ in range(3):
            await waiters.leave()
        assert waiters.order == ["first", "b0", "a1", "a0"]


async def test_a_key_has_no_more_than_its_share_and_others_find_room() -> None:
    async with open_waiters(Admission(3, share=2)) as waiters:
        for number in range(4):
            await waiters.come("greedy", f"g{number}")
        assert waiters.order == ["g0", "g1"]
        await waiters.come("other", "o")
        assert waiters.order == ["g0", "g1", "o"]
        await waiters.leave()
        assert waiters.order == ["g0", "g1", "o", "g2"]


async def test_the_reserve_is_for_the_urgent_who_also_go_first() -> None:
    async with open_waiters(Admission(3, reserve=1)) as waiters:
        for number in range(3):
            await waiters.come("tools", f"t{number}")
        await waiters.come("setup", "s0", urgent=True)
        await waiters.come("setup", "s1", urgent=True)
        assert waiters.order == ["t0", "t1", "s0"]
        await waiters.leave()
        assert waiters.order == ["t0", "t1", "s0", "s1"]
        await waiters.leave()
        assert waiters.order[-1] == "t2"


async def test_a_place_given_back_twice_counts_once_and_a_cancelled_wait_leaves_no_trace() -> None:
    admission = Admission(1)
    first = await admission.take("a")
    first.release()
    first.release()
    await admission.take("a")
    assert admission.figures().running == 1
    admission = Admission(1)
    held = await admission.take("a")
    with anyio.move_on_after(0):
        await admission.take("b")
    assert set(admission.figures().keys) == {"a"}
    held.release()
    assert admission.figures().running == 0


async def test_one_cancelled_in_the_moment_of_its_turn_hands_the_place_on() -> None:
    admission = Admission(1)
    held = await admission.take("a")
    got: list[str] = []

    async def wait(name: str, scope: anyio.CancelScope) -> None:
        with scope:
            async with holding(admission, "a"):
                got.append(name)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            scopes = [anyio.CancelScope(), anyio.CancelScope()]
            for name, scope in zip(("first", "second"), scopes, strict=True):
                group.start_soon(wait, name, scope)
                await settle()
            scopes[0].cancel()
            held.release()
    assert got == ["second"]
    assert admission.figures().running == 0


async def test_places_come_and_go_at_random_and_none_is_lost() -> None:
    rng = random.Random(20)  # noqa: S311  (the same play every time is the point)
    admission = Admission(3, share=2, reserve=1)
    most = 0

    async def visit() -> None:
        nonlocal most
        scope = anyio.CancelScope()
        if rng.random() < 0.3:
            scope.deadline = anyio.current_time()
        options = {"urgent": rng.random() < 0.3, "ahead": rng.random() < 0.3}
        with scope:
            async with holding(admission, rng.choice("abcd"), **options):
                figures = admission.figures()
                most = max(most, figures.running)
                assert all(key.running <= 2 for key in figures.keys.values())
                for _ in range(rng.randrange(4)):
                    await checkpoint()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for _ in range(500):
                group.start_soon(visit)
                if rng.random() < 0.5:
                    await checkpoint()
    figures = admission.figures()
    assert (most, figures.running, figures.waiting, dict(figures.keys)) == (3, 0, 0, {})


async def test_the_figures_say_who_runs_who_waits_and_for_how_long() -> None:
    clock = FakeClock()
    async with open_waiters(Admission(1, clock=clock)) as waiters:
        await waiters.come("a")
        await waiters.come("b")
        await clock.advance(3)
        await waiters.come("b")
        await clock.advance(2)
        figures = waiters.admission.figures()
        assert (figures.running, figures.waiting, figures.longest_wait_s) == (1, 2, 5.0)
        assert (figures.keys["b"].running, figures.keys["b"].waiting) == (0, 2)
        await waiters.leave()
        figures = waiters.admission.figures()
        assert (figures.admitted, figures.waited_s, figures.worst_wait_s) == (2, 5.0, 5.0)
        assert figures.longest_wait_s == 2.0
        assert waiters.held[0].waited_s == 5.0


async def test_the_clock_of_a_call_stands_still_while_the_call_waits() -> None:
    admission = Admission(1)
    held = await admission.take("a")
    news: list[str] = []

    class Watch:
        def pause(self) -> None:
            news.append("pause")

        def resume(self) -> None:
            news.append("resume")

    async def call() -> None:
        call_clock.set(Watch())
        async with holding(admission, "a"):
            news.append("runs")

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await settle()
            assert news == ["pause"]
            held.release()
    assert news == ["pause", "resume", "runs"]


@pytest.mark.parametrize(("capacity", "share", "reserve"), [(0, None, 0), (2, 0, 0), (2, None, 2)])
async def test_a_limiter_that_could_never_give_a_place_is_refused(
    capacity: int, share: int | None, reserve: int
) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Admission(capacity, share=share, reserve=reserve)
