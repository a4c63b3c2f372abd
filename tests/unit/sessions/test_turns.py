"""Whose turn it is: order of arrival, one serial call at a time, exclusive calls alone."""

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ors_server.sessions.session_call import Concurrency, Turns

SERIAL, CONCURRENT, EXCLUSIVE = Concurrency.SERIAL, Concurrency.CONCURRENT, Concurrency.EXCLUSIVE


class Court:
    """Players that hold their turn until they are told to leave."""

    def __init__(self, group):
        self.turns = Turns()
        self.group = group
        self.inside: list[int] = []
        self.scopes: dict[int, anyio.CancelScope] = {}
        self.gates: dict[int, anyio.Event] = {}
        self.concurrencies: list[Concurrency] = []

    async def enter(self, concurrency):
        number = len(self.concurrencies)
        self.concurrencies.append(concurrency)
        self.gates[number] = anyio.Event()
        self.scopes[number] = anyio.CancelScope()
        self.group.start_soon(self._play, number, concurrency)
        await anyio.wait_all_tasks_blocked()
        return number

    async def leave(self, number):
        self.gates[number].set()
        await anyio.wait_all_tasks_blocked()

    async def give_up(self, number):
        self.scopes[number].cancel()
        await anyio.wait_all_tasks_blocked()

    async def _play(self, number, concurrency):
        with self.scopes[number]:
            await self.turns.acquire(concurrency)
            self.inside.append(number)
            try:
                await self.gates[number].wait()
            finally:
                self.inside.remove(number)
                self.turns.release(concurrency)


@pytest.fixture
async def court():
    async with anyio.create_task_group() as group:
        yield Court(group)
        group.cancel_scope.cancel()


async def test_serial_calls_go_one_after_the_other_in_order(court):
    for _ in range(3):
        await court.enter(SERIAL)
    for number in range(3):
        assert court.inside == [number]
        await court.leave(number)
    assert court.turns.is_idle


async def test_concurrent_calls_go_beside_each_other_and_beside_a_serial_one(court):
    for concurrency in (SERIAL, CONCURRENT, CONCURRENT):
        await court.enter(concurrency)
    assert court.inside == [0, 1, 2]
    assert not court.turns.is_idle


async def test_an_exclusive_call_waits_for_all_and_holds_new_ones_back(court):
    await court.enter(SERIAL)
    await court.enter(CONCURRENT)
    await court.enter(EXCLUSIVE)
    await court.enter(CONCURRENT)
    await court.enter(SERIAL)
    assert court.inside == [0, 1]
    await court.leave(0)
    assert court.inside == [1]
    await court.leave(1)
    assert court.inside == [2]
    await court.leave(2)
    assert court.inside == [3, 4]


async def test_who_gives_up_waiting_lets_the_next_go(court):
    await court.enter(CONCURRENT)
    await court.enter(EXCLUSIVE)
    await court.enter(CONCURRENT)
    assert court.inside == [0]
    await court.give_up(1)
    assert court.inside == [0, 2]


async def test_who_is_stopped_while_playing_gives_the_turn_back(court):
    await court.enter(SERIAL)
    await court.enter(SERIAL)
    await court.give_up(0)
    assert court.inside == [1]


async def test_who_gives_up_in_the_moment_of_being_granted_gives_the_turn_back():
    turns = Turns()
    await turns.acquire(SERIAL)
    async with anyio.create_task_group() as group:

        async def play():
            await turns.acquire(SERIAL)
            turns.release(SERIAL)

        group.start_soon(play)
        await anyio.wait_all_tasks_blocked()
        turns.release(SERIAL)
        group.cancel_scope.cancel()
    assert turns.is_idle


moves = st.lists(
    st.tuples(
        st.sampled_from(["enter", "leave", "give up"]), st.sampled_from(Concurrency), st.integers(0, 100)
    ),
    max_size=25,
)


@settings(max_examples=60)
@given(moves)
async def test_whatever_happens_the_rules_hold_and_nobody_is_forgotten(made):
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            court = Court(group)
            gone: set[int] = set()
            for what, concurrency, pick in made:
                present = [number for number in court.gates if number not in gone]
                if what == "enter" or not present:
                    await court.enter(concurrency)
                    continue
                number = present[pick % len(present)]
                gone.add(number)
                await (court.give_up(number) if what == "give up" else court.leave(number))
                _check(court)
            for number in list(court.gates):
                await court.leave(number)
            assert court.turns.is_idle
            assert court.inside == []


def _check(court):
    inside = [court.concurrencies[number] for number in court.inside]
    assert inside.count(SERIAL) <= 1
    assert EXCLUSIVE not in inside or len(inside) == 1
