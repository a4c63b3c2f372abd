"""How worker processes end, alone and in a pool: nothing is left of them, whatever they did."""

import json
import os
import re
import select
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from ors_server.resources import (
    ALFWorldSpec,
    Context,
    ResourceClosedError,
    ResourceError,
    ResourcePool,
    ResourceStatus,
    ResourceTimeoutError,
    ResourceUseError,
    WorkerEnvResource,
    WorkerEnvResourceSpec,
)
from tests.fixtures.worker_processes import exists, gone, wait_until_gone

PLACE = "tests.fixtures.worker_environments"
WORKSHOP = f"{PLACE}:Workshop"
FILE = Path(__file__).parents[2] / "fixtures/worker_environments.py"
SOON = 0.3
"""Seconds after which a test's own limit strikes."""


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


def workshop(**options):
    return WorkerEnvResourceSpec(WORKSHOP, **options)


# How it ends.


async def test_a_life_has_its_stations_and_ends_once(running, tmp_path):
    spec = WorkerEnvResourceSpec(f"{PLACE}.Resting", {"file": str(tmp_path / "end")})
    resource = WorkerEnvResource(spec, "r")
    assert await resource.get_status() is ResourceStatus.PENDING
    assert not await resource.is_healthy()
    assert await resource.memory_used() is None
    await resource.start()
    assert await resource.get_status() is ResourceStatus.RUNNING
    with pytest.raises(ResourceUseError, match="starts once"):
        await resource.start()
    await resource.step(1)
    assert not await resource.is_healthy()
    pid = (await resource.look())["pid"]
    await resource.end()
    await resource.close()
    assert (tmp_path / "end").read_text() == "closed"
    assert not exists(pid)
    assert await resource.get_status() is ResourceStatus.STOPPED
    for call in (resource.step, resource.reset):
        with pytest.raises(ResourceClosedError, match="is stopped"):
            await call()


async def test_a_call_that_hangs_is_killed_with_what_it_started(running):
    resource = await running(workshop(call_timeout=5.0))
    pid = (await resource.look())["pid"]
    with pytest.raises(
        ResourceTimeoutError, match=r"did not answer hang within 5 seconds and was killed"
    ) as raised:
        await resource.hang()
    assert await gone(resource, pid)
    (child,) = re.findall(r"hangs with (\d+)", str(raised.value))
    wait_until_gone(int(child))
    assert await resource.get_status() is ResourceStatus.FAILED
    assert not await resource.is_healthy()
    with pytest.raises(ResourceClosedError, match="is failed; acquire another one"):
        await resource.step()


async def test_a_call_that_is_cancelled_is_killed_and_nobody_has_to_end_it(running):
    resource = await running(workshop())
    pid = (await resource.look())["pid"]
    with anyio.move_on_after(SOON):
        await resource.hang()
    assert await resource.get_status() is ResourceStatus.FAILED
    assert await gone(resource, pid)


async def test_a_call_that_is_cancelled_while_it_waits_its_turn_harms_nothing(running):
    resource = await running(workshop())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(resource.step, 1)
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0) as scope:
            await resource.step(1)
    assert scope.cancelled_caught
    assert await resource.step(1) == {"total": 2, "numbers": [1]}


async def test_a_crash_is_named_with_the_last_words(running):
    resource = await running(workshop())
    pid = (await resource.look())["pid"]
    with pytest.raises(
        ResourceError,
        match=r"was ended by SIGSEGV; it wrote last: ready\nabout to crash; it was running crash",
    ):
        await resource.crash()
    assert await resource.get_status() is ResourceStatus.FAILED
    assert await gone(resource, pid)
    other = await running(workshop())
    with pytest.raises(ResourceError, match=r"ended with status 7; .*; it was running leave"):
        await other.leave(7)


async def test_an_answer_that_is_none_ends_the_worker(running):
    resource = await running(workshop())
    with pytest.raises(ResourceError, match="is not JSON"):
        await resource.spoil()
    assert await resource.get_status() is ResourceStatus.FAILED


FORGER = WorkerEnvResourceSpec("tests.fixtures.worker_environments:Forger")


STRANGE_ANSWERS = (
    '{"result": 100}',
    '{"id": "0", "result": 100}',
    '{"id": null, "result": 100}',
    '{"result": 100, "error": ["a", "b", "c"]}',
    '{"error": "no list"}',
    '{"error": [1, 2, 3]}',
    "[]",
    "700",
    "{}",
    "null",
)


@pytest.mark.parametrize("text", STRANGE_ANSWERS)
async def test_an_answer_that_is_none_of_the_requests_ends_the_worker(running, text):
    resource = await running(FORGER)
    pid = (await resource.look())["pid"]
    with pytest.raises(ResourceError, match="wrote something else than an answer to answer_and_hang"):
        await resource.answer_and_hang(text)
    assert await resource.get_status() is ResourceStatus.FAILED
    assert await gone(resource, pid)
    with pytest.raises(ResourceClosedError, match="is failed"):
        await resource.step(1)


async def test_an_answer_out_of_turn_is_never_the_next_calls(running):
    resource = await running(FORGER)
    await resource.answer_late('{"result": {"total": 100, "numbers": []}}')
    await anyio.to_thread.run_sync(wait_until_readable, resource._child.output)
    with pytest.raises(ResourceError, match=r"wrote something else than an answer to step|is not JSON"):
        await resource.step(1)
    assert await resource.get_status() is ResourceStatus.FAILED


def wait_until_readable(descriptor):
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    assert poll.poll(60_000)


@pytest.mark.parametrize(
    ("ending", "is_bare"),
    [("kill", False), ("kill", True), ("close", False), ("close", True), ("crash", False)],
)
async def test_processes_that_left_the_group_end_with_the_worker(running, is_bare, ending):
    resource = await running(FORGER)
    pids = await resource.leave_group(is_bare=is_bare)
    assert all(exists(pid) for pid in pids)
    if ending == "kill":
        with anyio.move_on_after(SOON):
            await resource.hang()
    elif ending == "close":
        await resource.close()
    else:
        with pytest.raises(ResourceError, match="SIGSEGV"):
            await resource.crash()
    for pid in pids:
        await anyio.to_thread.run_sync(wait_until_gone, pid)


async def test_a_worker_that_is_killed_while_idle_is_reaped_and_not_healthy(running):
    resource = await running(workshop())
    pid = (await resource.look())["pid"]
    child = await resource.start_process()
    os.kill(pid, signal.SIGKILL)
    assert await gone(resource, pid)
    await anyio.to_thread.run_sync(wait_until_gone, child)
    assert not await resource.is_healthy()
    with pytest.raises(ResourceError, match="was ended by SIGKILL"):
        await resource.step()


async def test_an_end_frees_a_call_that_hangs(running):
    resource = await running(workshop())
    pid = (await resource.look())["pid"]

    async def hang():
        with pytest.raises(ResourceClosedError, match="was ended while hang ran"):
            await resource.hang()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hang)
        await anyio.wait_all_tasks_blocked()
        await resource.end()
    assert not exists(pid)


# In a pool.


async def test_a_name_is_bound_to_a_worker_and_a_released_one_is_reset_for_the_next():
    spec = ALFWorldSpec.worker(WORKSHOP, {"first": 1}, call_timeout=5.0)
    assert (spec.category, spec.max_global_num, spec.start_timeout, spec.call_timeout) == (
        "alfworld",
        8,
        120.0,
        5.0,
    )
    async with ResourcePool(bindings={ALFWorldSpec: spec}) as pool:
        async with Context("1", pool=pool) as context:
            first = await context.acquire_resource(spec=ALFWorldSpec, scope="global")
            await first.step(5)
        async with Context("2", pool=pool) as context:
            assert await context.acquire_resource(spec=ALFWorldSpec, scope="global") is first
            assert await first.step() == {"total": 1, "numbers": []}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_an_idle_worker_that_is_killed_or_stopped_is_replaced(number):
    spec = workshop(start_timeout=3.0, max_global_num=1)
    async with ResourcePool() as pool:
        first: Any = await pool.acquire(("rollout", "1"), spec, holder=1)
        pid = (await first.look())["pid"]
        await pool.release(("rollout", "1"), spec, holder=1)
        os.kill(pid, number)
        second: Any = await pool.acquire(("rollout", "2"), spec, holder=2)
        assert await second.step(1) == {"total": 1, "numbers": [1]}
        assert second is not first
        assert not exists(pid)
        assert pool.monitor()["total"] == 1


async def test_a_worker_that_uses_too_much_memory_is_not_used_again():
    spec = workshop(memory_limit=1)
    async with ResourcePool() as pool:
        await pool.acquire(("rollout", "1"), spec, holder=1)
        await pool.release(("rollout", "1"), spec, holder=1)
        assert pool.monitor()["total"] == 0


def test_workers_are_used_by_one_event_loop_after_another():
    pool = ResourcePool()

    async def play(claim):
        got: Any = await pool.acquire(("rollout", claim), workshop(), holder=1)
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(got.step, 1)
        total = (await got.step())["total"]
        await pool.release(("rollout", claim), workshop(), holder=1)
        return got, total

    first = anyio.run(play, "1")
    assert anyio.run(play, "2") == first == (first[0], 3)
    anyio.run(pool.aclose)
    assert pool.monitor()["total"] == 0


def test_specs_are_compared_by_all_they_say_and_checked():
    same = [workshop(variables={"a": "b"}, import_folders=("/x",)) for _ in range(2)]
    assert same[0] == same[1]
    assert len({*same, workshop(), workshop(interpreter="/x"), workshop(call_timeout=1.0)}) == 4
    assert json.loads(json.dumps(dict(same[0].variables))) == {"a": "b"}
    for options, message in [
        ({"call_timeout": 0}, "call_timeout must be a number of seconds above 0, got 0"),
        ({"answer_limit": 0}, "answer_limit must be at least 1"),
    ]:
        with pytest.raises(ResourceUseError, match=message):
            workshop(**options)
    with pytest.raises(ResourceUseError, match="env_cls_path of a worker must be a text"):
        WorkerEnvResourceSpec(dict)
