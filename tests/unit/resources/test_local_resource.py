"""Environment objects in this process: any class will do, sync or async; one that hangs harms nobody else."""

import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest

from ors_server.resources import (
    Context,
    LocalEnvResource,
    LocalEnvResourceSpec,
    ResourceClosedError,
    ResourceError,
    ResourcePool,
    ResourceStartError,
    ResourceStatus,
    ResourceTimeoutError,
    ResourceUseError,
)

SOON = 0.2
PATIENCE = 10.0
"""Seconds that a thread of a test waits at most."""


class Plain:
    """Everything in it is sync; it takes no steps."""

    def __init__(self, first=0):
        self.steps = first
        self.first = first
        self.threads = {threading.get_ident()}
        self.closed = 0

    def reset(self, to=None):
        self.steps = self.first if to is None else to
        return self.steps

    def get_steps(self):
        return self.steps

    def close(self):
        self.closed += 1


class Counting(Plain):
    """Counts its steps."""

    def step(self, *words, times=1):
        self.threads.add(threading.get_ident())
        self.steps += times
        return [*words, self.steps]


class Waiting(Plain):
    """The same with coroutines, a start and a say in its health."""

    def __init__(self):
        super().__init__()
        self.is_started = False
        self.is_well = True

    async def start(self):
        self.is_started = True

    async def step(self, *words):
        await anyio.lowlevel.checkpoint()
        return [*words, threading.get_ident()]

    async def is_healthy(self):
        return self.is_well

    async def memory_used(self):
        return 7

    async def close(self):
        self.closed += 1


class Hanging(Plain):
    """Hangs in a step until it is closed or told to go on."""

    def __init__(self):
        super().__init__()
        self.go_on = threading.Event()
        self.is_in = threading.Event()

    def step(self):
        self.is_in.set()
        self.go_on.wait(PATIENCE)

    def close(self):
        super().close()
        self.go_on.set()


async def running(env_class, **kwargs):
    resource = LocalEnvResource(LocalEnvResourceSpec(env_class, kwargs), "r-1")
    await resource.start()
    return resource


async def test_a_sync_environment_is_awaited_and_runs_in_a_thread():
    resource = await running(Counting, first=2)
    assert (resource.resource_id, resource.category) == ("r-1", "local_env")
    assert await resource.step("look", times=3) == ["look", 5]
    assert await resource.get_steps() == 5
    assert resource.steps == 5
    assert threading.get_ident() not in resource.threads
    assert await resource.reset(to=1) == 1
    assert await resource.control("step", "x") == ["x", 2]
    assert await resource.memory_used() is None
    assert await resource.is_healthy()


async def test_an_async_environment_runs_on_the_loop_and_has_its_say():
    resource = await running(Waiting)
    assert resource.is_started
    assert await resource.step("look") == ["look", threading.get_ident()]
    assert await resource.memory_used() == 7
    assert await resource.is_healthy()
    resource._env.is_well = False
    assert not await resource.is_healthy()


async def test_a_life_has_its_stations_and_ends_once():
    resource = LocalEnvResource(LocalEnvResourceSpec(Waiting), "r-1")
    assert await resource.get_status() is ResourceStatus.PENDING
    assert not await resource.is_healthy()
    await resource.start()
    env = resource._env
    assert await resource.get_status() is ResourceStatus.RUNNING
    with pytest.raises(ResourceUseError, match="starts once"):
        await resource.start()
    await resource.end()
    await resource.close()
    assert env.closed == 1
    assert await resource.get_status() is ResourceStatus.STOPPED
    for call in (resource.step, resource.reset):
        with pytest.raises(ResourceClosedError, match="is stopped"):
            await call()
    assert not hasattr(resource, "get_steps")
    assert not await resource.is_healthy()


async def test_what_an_environment_raises_is_raised_and_does_not_make_it_ill():
    class Picky(Plain):
        def step(self):
            raise KeyError("no such action")

    resource = await running(Picky)
    with pytest.raises(KeyError):
        await resource.step()
    assert await resource.is_healthy()


async def test_private_names_and_names_that_are_not_there_are_not_reached():
    resource = await running(Counting)
    assert not hasattr(resource, "nosuch")
    assert not hasattr(resource, "_nosuch")
    with pytest.raises(ResourceUseError, match="private"):
        await resource.control("__init__")
    with pytest.raises(AttributeError):
        await resource.control("nosuch")


async def test_an_environment_without_a_reset_says_so_and_is_replaced_in_a_pool():
    class Once:
        pass

    resource = await running(Once)
    with pytest.raises(ResourceError, match="has no reset"):
        await resource.reset()
    async with ResourcePool() as pool:
        spec = LocalEnvResourceSpec(Once, max_global_num=1)
        first = await pool.acquire(("rollout", "1"), spec, holder=1)
        await pool.release(("rollout", "1"), spec, holder=1)
        assert await pool.acquire(("rollout", "2"), spec, holder=2) is not first


async def test_one_call_at_a_time():
    class Narrow(Plain):
        is_taken = False

        async def step(self):
            assert not self.is_taken
            self.is_taken = True
            await anyio.lowlevel.checkpoint()
            self.is_taken = False
            self.steps += 1

    resource = await running(Narrow)
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(resource.step)
    assert resource.steps == 20


async def test_a_call_that_is_given_up_makes_the_resource_a_failed_one_whose_close_frees_the_thread():
    async with ResourcePool() as pool:
        spec = LocalEnvResourceSpec(Hanging, max_global_num=1)
        resource: Any = await pool.acquire(("rollout", "1"), spec, holder=1)
        env = resource._env
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resource.step)
            assert await anyio.to_thread.run_sync(env.is_in.wait, PATIENCE)
            tasks.cancel_scope.cancel()
        assert await resource.get_status() is ResourceStatus.FAILED
        with pytest.raises(ResourceClosedError, match="is failed"):
            await resource.step()
        await pool.release(("rollout", "1"), spec, holder=1)
        assert env.closed == 1
        assert env.go_on.is_set()
        assert await pool.acquire(("rollout", "2"), spec, holder=2) is not resource


@pytest.mark.parametrize("closes", ["sync", "async", "not at all"])
async def test_an_environment_that_is_built_too_late_is_closed_by_its_thread(closes):
    go_on, closed = threading.Event(), threading.Event()

    class Slow:
        def __init__(self):
            go_on.wait(PATIENCE)
            if closes == "not at all":
                closed.set()

    async def close_later(self):
        closed.set()

    if closes != "not at all":
        setattr(Slow, "close", close_later if closes == "async" else lambda _: closed.set())  # noqa: B010  (a method or none)
    async with ResourcePool() as pool:
        spec = LocalEnvResourceSpec(Slow, start_timeout=SOON)
        with pytest.raises(ResourceTimeoutError, match="did not start within"):
            await pool.acquire(("rollout", "1"), spec, holder=1)
        assert pool.monitor()["total"] == 0
        go_on.set()
        assert await anyio.to_thread.run_sync(closed.wait, PATIENCE)


class NoScreenError(Exception):
    """What a constructor or a start raises."""


def refuse(*_):
    raise NoScreenError("no screen")


@pytest.mark.parametrize("where", ["__init__", "start"])
async def test_a_start_that_raises_is_named_and_what_was_built_is_closed(where):
    closed = []

    class Broken:
        def close(self):
            closed.append(1)

    setattr(Broken, where, refuse)
    async with ResourcePool() as pool:
        with pytest.raises(ResourceStartError, match=r"Broken\) did not start: NoScreenError: no screen"):
            await pool.acquire(("rollout", "1"), LocalEnvResourceSpec(Broken), holder=1)
    assert closed == ([1] if where == "start" else [])


async def test_a_class_that_is_not_there_is_the_author_s_error():
    async with Context("r") as context:
        with pytest.raises(ResourceUseError, match=r"no environment class is at 'no\.such:Env'"):
            await context.acquire_resource(spec=LocalEnvResourceSpec("no.such:Env"))


def test_a_pool_is_used_by_one_event_loop_after_another():
    pool = ResourcePool()
    spec = LocalEnvResourceSpec(Counting)

    async def play(claim):
        got: Any = await pool.acquire(("rollout", claim), spec, holder=1)
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(got.step)
        await pool.release(("rollout", claim), spec, holder=1)
        return got

    first = anyio.run(play, "1")
    assert anyio.run(play, "2") is first
    assert first.steps == 3
    anyio.run(pool.aclose)
    assert pool.monitor()["total"] == 0
