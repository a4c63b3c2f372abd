"""Worker threads: shares of environments, the reserve, threads that outlive their calls."""

import threading

import anyio
import pytest

from ors_server.model.errors import CapacityError
from ors_server.timing.call_clock import counting, start_clock
from ors_server.timing.loop_watch import running_code
from ors_server.timing.workers import LingeringThread, Workers, current_workers, set_workers

LIMIT = 10.0


@pytest.fixture
def gate():
    opened = threading.Event()
    yield opened
    opened.set()


async def occupy(group, workers, gate, environment, count, *, is_urgent=False):
    """Starts threads that run until the gate opens."""

    async def run():
        with running_code(environment, "tool", is_urgent=is_urgent):
            await workers.run(lambda: gate.wait(LIMIT), LingeringThread())

    for _ in range(count):
        group.start_soon(run)
    await anyio.wait_all_tasks_blocked()


def running(workers):
    return workers.admission.figures().running


async def test_one_environment_cannot_have_all_the_threads_where_several_are_served(gate):
    workers = Workers(16, environments=2)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            await occupy(group, workers, gate, "greedy", 20)
            assert running(workers) == 10  # three quarters of the 14 that are not reserved
            with running_code("other", "tool"):
                assert await workers.run(lambda: 7, LingeringThread()) == 7
            with running_code("greedy", "the prompt", is_urgent=True):
                assert await workers.run(lambda: 8, LingeringThread()) == 8
            gate.set()


async def test_an_environment_that_is_served_alone_has_all_but_the_reserve(gate):
    workers = Workers(16)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            await occupy(group, workers, gate, "only", 20)
            assert running(workers) == 14
            await occupy(group, workers, gate, "only", 5, is_urgent=True)
            assert running(workers) == 16
            gate.set()


async def test_one_thread_serves_everything_in_turn():
    workers = Workers(1)
    for is_urgent in (False, True, False):
        with running_code("only", "tool", is_urgent=is_urgent):
            assert await workers.run(threading.get_ident, LingeringThread()) != threading.get_ident()


async def test_whoever_waits_too_long_for_a_thread_is_told_to_come_back(gate):
    workers = Workers(1, queue_limit=0.01)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            await occupy(group, workers, gate, "one", 1)
            with running_code("two", "tool 'x'"), pytest.raises(CapacityError, match="tool 'x' of 'two'"):
                await workers.run(lambda: pytest.fail("must not run"), LingeringThread())
            gate.set()
    assert running(workers) == 0


async def test_a_thread_that_was_left_behind_keeps_its_place_until_it_ends(gate):
    workers = Workers(2)
    thread, begun = LingeringThread(), threading.Event()

    def wait():
        begun.set()
        gate.wait(LIMIT)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(workers.run, wait, thread)
            await anyio.to_thread.run_sync(begun.wait, LIMIT)
            group.cancel_scope.cancel()
        assert thread.is_running
        assert running(workers) == 1
        gate.set()
        await thread.ended.wait()
    assert not thread.is_running
    assert running(workers) == 0


async def test_a_place_comes_back_from_a_thread_that_returns_while_its_caller_leaves(gate):
    workers = Workers(1)
    thread, returns = LingeringThread(), threading.Event()

    def wait():
        gate.wait(LIMIT)
        returns.set()

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(workers.run, wait, thread)
            await anyio.wait_all_tasks_blocked()
            gate.set()
            returns.wait(LIMIT)  # the event loop learns of the return and of the cancellation together
            group.cancel_scope.cancel()
        await thread.ended.wait()
    assert running(workers) == 0


async def test_the_clock_of_a_call_starts_when_its_thread_does(gate):
    workers = Workers(1)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            await occupy(group, workers, gate, "one", 1)
            clock = start_clock(LIMIT)

            async def call():
                with counting(clock):
                    await workers.run(lambda: None, LingeringThread())

            group.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            assert clock.is_paused
            gate.set()
    assert not clock.is_paused


async def test_a_thread_that_cannot_be_started_is_the_machines_failure(monkeypatch):
    workers = Workers(1)

    async def cannot(*args, **kwargs):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("ors_server.timing.workers.run_sync", cannot)
    with pytest.raises(CapacityError, match="can't start new thread"):
        await workers.run(lambda: None, LingeringThread())
    assert running(workers) == 0


async def test_what_a_function_raises_comes_back():
    def fail():
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        await Workers(1).run(fail, LingeringThread())


async def test_each_event_loop_has_workers_of_its_own():
    assert current_workers() is current_workers()
    workers = Workers(3)
    set_workers(workers)
    assert current_workers() is workers
