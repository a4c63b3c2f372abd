"""Environment objects in processes of their own: each fault ends there, and nothing is left of them."""

import json
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from ors_server.resources import (
    ALFWorldSpec,
    Context,
    ResourceCallError,
    ResourceClosedError,
    ResourceError,
    ResourcePool,
    ResourceStartError,
    ResourceStatus,
    ResourceTimeoutError,
    ResourceUseError,
    WorkerEnvResource,
    WorkerEnvResourceSpec,
)

PLACE = "tests.fixtures.worker_environments"
WORKSHOP = f"{PLACE}:Workshop"
FILE = Path(__file__).parents[2] / "fixtures/worker_environments.py"
SOON = 0.3
"""Seconds after which a test's own limit strikes."""
PATIENCE = 30.0
"""Seconds that a test waits at most."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


def workshop(**options):
    return WorkerEnvResourceSpec(WORKSHOP, **options)


@pytest.fixture
async def running():
    """Starts workers on demand, and ends them."""
    started: list[WorkerEnvResource] = []

    async def start(spec):
        resource = WorkerEnvResource(spec, f"r-{len(started)}")
        started.append(resource)
        await resource.start()
        return resource

    yield start
    for resource in started:
        await resource.end()


def exists(pid):
    return Path(f"/proc/{pid}").exists()


def wait_until_gone(pid):
    """Returns once a process has ended; its parent may not have reaped it."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    assert poll.poll(PATIENCE * 1000), f"{pid} is still there"
    os.close(descriptor)


async def gone(resource, pid):
    """Waits until a worker has ended and is reaped."""
    await anyio.to_thread.run_sync(wait_until_gone, pid)
    watcher = resource._child._watcher if resource._child is not None else None
    if watcher is not None:
        await anyio.to_thread.run_sync(watcher.join, PATIENCE)
    return not exists(pid)


# What a call does.


async def test_methods_of_any_kind_are_awaited_and_run_in_another_process(running):
    resource = await running(workshop(init_kwargs={"first": 2}))
    assert (resource.resource_id, resource.category) == ("r-0", "worker_env")
    assert await resource.step(1, 2, times=3) == {"total": 11, "numbers": [1, 2]}
    assert await resource.step_later(1) == 12
    assert await resource.control("step") == {"total": 12, "numbers": []}
    assert await resource.reset() == 2
    assert await resource.reset(to=5) == 5
    assert (await resource.look())["pid"] not in {os.getpid(), None}
    assert await resource.is_healthy()
    used = await resource.memory_used()
    await resource.start_process()
    assert 2**20 < used < await resource.memory_used()


@pytest.mark.parametrize("value", [None, [1, 2.5, "é\udcff \n"], {"a": {"b": [True]}}, "x" * 300_000])
async def test_plain_data_of_any_size_comes_back_as_it_was(running, value):
    resource = await running(workshop())
    assert await resource.echo(value) == value
    assert await resource.give("many") == "x" * 500_000


async def test_calls_wait_for_one_another(running):
    resource = await running(workshop())
    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(resource.step, 1)
    assert (await resource.step())["total"] == 50


async def test_what_is_printed_does_not_mix_with_answers(running):
    resource = await running(workshop())
    assert await resource.write("ü, hello") == len("ü, hello")
    assert await resource.step(1) == {"total": 1, "numbers": [1]}


async def test_a_flood_of_output_holds_nobody_up_and_its_end_is_kept(running):
    resource = await running(workshop())
    assert await resource.flood(200) == 200
    with pytest.raises(ResourceError, match="0000199") as raised:
        await resource.leave(0)
    assert len(str(raised.value)) < 5_000


# What a call may not do.


async def test_what_a_method_raises_is_told_and_harms_nothing(running):
    resource = await running(workshop())
    with pytest.raises(
        ResourceCallError, match=r"fail of worker_env \(.*Workshop\) raised KeyError: 'a key'"
    ) as raised:
        await resource.fail("a key")
    assert raised.value.kind == "KeyError"
    assert "worker_environments.py" in raised.value.remote_traceback
    assert await resource.is_healthy()


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("set", "type set is not JSON"),
        ("nan", "not JSON compliant"),
        ("long", "2000014 bytes as JSON, more than 1048576"),
    ],
)
async def test_a_result_that_cannot_be_sent_is_an_error_and_harms_nothing(running, what, message):
    resource = await running(workshop())
    with pytest.raises(ResourceCallError, match=message):
        await resource.give(what)
    assert await resource.is_healthy()


async def test_arguments_that_cannot_be_sent_are_refused(running):
    resource = await running(workshop())
    for value in ({1}, float("inf"), object()):
        with pytest.raises(ResourceUseError, match=r"the arguments of echo of .* must be JSON"):
            await resource.echo(value)
    assert await resource.is_healthy()
    with pytest.raises(ResourceUseError, match=r"its arguments of .* must be JSON"):
        await running(workshop(init_kwargs={"first": frozenset()}))


async def test_private_and_unknown_names_are_not_reached(running):
    resource = await running(workshop())
    for name in ("nosuch", "_nosuch", "total"):
        assert not hasattr(resource, name)
    with pytest.raises(ResourceUseError, match="private"):
        await resource.control("__init__")
    with pytest.raises(AttributeError, match="has no method 'nosuch'"):
        await resource.control("nosuch")
    bare = await running(WorkerEnvResourceSpec(f"{PLACE}:Bare"))
    with pytest.raises(ResourceError, match="has no reset"):
        await bare.reset()
    assert await bare.is_healthy()


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
    resource = await running(workshop(call_timeout=2.0))
    pid = (await resource.look())["pid"]
    with pytest.raises(
        ResourceTimeoutError, match=r"did not answer hang within 2 seconds and was killed"
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


# How it starts.


async def test_a_start_that_raises_hangs_or_finds_nothing_is_an_error_and_leaves_nothing():
    async with ResourcePool() as pool:
        for spec, error, message in [
            (
                workshop(init_kwargs={"refuse": "no screen"}),
                ResourceStartError,
                "raised ValueError: no screen",
            ),
            (workshop(init_kwargs={"nosuch": 1}), ResourceStartError, "raised TypeError: .*nosuch"),
            (
                WorkerEnvResourceSpec("no.such:Env"),
                ResourceStartError,
                "ModuleNotFoundError: No module named 'no'",
            ),
            (WorkerEnvResourceSpec("/no/such.py:Env"), ResourceStartError, "FileNotFoundError"),
            (
                workshop(interpreter="/no/python"),
                ResourceUseError,
                "the interpreter '/no/python' of .* cannot be started",
            ),
            (
                workshop(interpreter="/bin/true"),
                ResourceStartError,
                "ended with status 0; it was running start",
            ),
            (
                WorkerEnvResourceSpec(f"{PLACE}:Endless", start_timeout=1.0),
                ResourceTimeoutError,
                "within 1 sec",
            ),
        ]:
            with pytest.raises(error, match=message):
                await pool.acquire(("rollout", "1"), spec, holder=1)
        assert pool.monitor()["total"] == 0


async def test_an_interpreter_of_another_virtual_environment_runs_it(running, tmp_path):
    await anyio.run_process([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"])
    python = str(tmp_path / "venv/bin/python")
    resource = await running(WorkerEnvResourceSpec(f"{FILE}:Workshop", interpreter=python))
    found = await resource.look()
    assert found["prefix"] == str(tmp_path / "venv")
    assert not {"ors_server", "anyio"} & set(found["modules"])
    assert await resource.step(1) == {"total": 1, "numbers": [1]}
    (tmp_path / "game.py").write_text(
        "import helper\nclass Game:\n    def play(self):\n        return helper.WORD\n"
    )
    (tmp_path / "helper.py").write_text("WORD = 'played'\n")
    game = await running(
        WorkerEnvResourceSpec("game:Game", interpreter=python, import_folders=(str(tmp_path),))
    )
    assert await game.play() == "played"


async def test_it_gets_the_environment_variables_but_for_the_server_s_own(running, monkeypatch):
    monkeypatch.setenv("ORS_API_KEYS", "secret")
    monkeypatch.setenv("GAME_DATA", "/data")
    resource = await running(workshop(variables={"GAME_LEVEL": "3"}))
    variables = (await resource.look())["variables"]
    assert (variables["GAME_DATA"], variables["GAME_LEVEL"]) == ("/data", "3")
    assert "ORS_API_KEYS" not in variables


@pytest.mark.parametrize("method", ["echo", "hang"])
def test_it_ends_with_the_process_that_called_it(method):
    program = f"""
import anyio
from ors_server.resources import WorkerEnvResource, WorkerEnvResourceSpec

async def main():
    resource = WorkerEnvResource(WorkerEnvResourceSpec({WORKSHOP!r}), "r")
    await resource.start()
    print((await resource.look())["pid"], flush=True)
    await resource.{method}({"1" if method == "echo" else ""})
    await anyio.sleep_forever()

anyio.run(main)
"""
    caller = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=FILE.parents[2])
    pid = int(caller.stdout.readline())
    caller.kill()
    caller.wait()
    caller.stdout.close()
    wait_until_gone(pid)
    assert not exists(pid) or "Z" in Path(f"/proc/{pid}/stat").read_text()


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
        ({"call_timeout": 0}, "call_timeout is a number of seconds above 0, not 0"),
        ({"answer_limit": 0}, "answer_limit is at least 1"),
    ]:
        with pytest.raises(ResourceUseError, match=message):
            workshop(**options)
    with pytest.raises(ResourceUseError, match="env_cls_path of a worker is a text"):
        WorkerEnvResourceSpec(dict)
