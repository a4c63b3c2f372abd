"""Environment objects in processes of their own: each fault ends there, and nothing is left of them."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from ors_server.resources import (
    ResourceCallError,
    ResourceError,
    ResourcePool,
    ResourceStartError,
    ResourceTimeoutError,
    ResourceUseError,
    WorkerEnvResourceSpec,
)
from tests.fixtures.worker_processes import exists, wait_until_gone

PLACE = "tests.fixtures.worker_environments"
WORKSHOP = f"{PLACE}:Workshop"
FILE = Path(__file__).parents[2] / "fixtures/worker_environments.py"
SOON = 0.3
"""Seconds after which a test's own limit strikes."""


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


def workshop(**options):
    return WorkerEnvResourceSpec(WORKSHOP, **options)


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


@pytest.mark.parametrize("line", ["pass", "gc.set_threshold(5, 6, 7)"])
async def test_garbage_is_collected_rarely_while_it_is_imported_and_created(running, tmp_path, line):
    file = tmp_path / "collecting.py"
    file.write_text(
        f"import gc\nIMPORTED = gc.get_threshold()\n\n\nclass Collecting:\n"
        f"    def __init__(self):\n        self.during = [IMPORTED, gc.get_threshold()]\n        {line}\n\n"
        "    def thresholds(self):\n        return [*self.during, gc.get_threshold()]\n"
    )
    resource = await running(WorkerEnvResourceSpec(f"{file}:Collecting"))
    imported, created, after = await resource.thresholds()
    assert imported == created
    assert imported[0] > 10_000
    assert after[0] < 10_000 if line == "pass" else after[:2] == [5, 6]


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
        ("long", "2000040 bytes as JSON, more than 1048576"),
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


async def test_it_gets_the_variables_that_its_spec_and_the_operator_name(running, monkeypatch):
    for name, value in {"ORS_API_KEYS": "secret", "GAME_DATA": "/data", "GAME_KEY": "secret"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ORS_WORKER_VARIABLES", "GAME_DATA")
    resource = await running(workshop(variables={"GAME_LEVEL": "3"}))
    variables = (await resource.look())["variables"]
    assert (variables["GAME_DATA"], variables["GAME_LEVEL"]) == ("/data", "3")
    assert not {"ORS_API_KEYS", "GAME_KEY"} & set(variables)


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
