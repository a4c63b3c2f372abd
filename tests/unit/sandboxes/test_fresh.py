"""None"""

import signal
from contextlib import asynccontextmanager

import anyio
import pytest

from ors_server.sandboxes.base import MIB, Limits
from ors_server.sandboxes.cells import fresh_files
from ors_server.sandboxes.cells.fresh_files import SharedFolder, write_files
from ors_server.sandboxes.fresh import FreshProgram, run_to_end
from ors_server.sandboxes.host.bubblewrap import BubblewrapBackend
from ors_server.sandboxes.host.landlock import LandlockBackend
from ors_server.sandboxes.sandbox_errors import FreshEndedError, SandboxClosedError, SandboxStartError
from ors_server.sandboxes.scripted import ScriptedBackend
from ors_server.sandboxes.scripted_programs import READ, Remark, prints
from tests.fixtures.opened_backend import open_backend


def echo(call):
    while line := (yield READ):
        yield b"got " + line
    yield Remark(b"done")
    return len(call.work)


def flood(_call):
    for _ in range(8):
        yield b"x" * 1000
    return 0


@asynccontextmanager
async def opened(**programs):
    sandbox = await ScriptedBackend(programs=programs).start("one")
    with anyio.fail_after(10):
        yield sandbox


@pytest.mark.parametrize(
    "order",
    [
        {"argv": ()},
        {"argv": ("a\0",)},
        {"argv": ("a",), "environment": {"": "x"}},
        {"argv": ("a",), "environment": {"A=": "x"}},
        {"argv": ("a",), "environment": {"A": "x\0"}},
        {"argv": ("a",), "files": {"../x": b""}},
        {"argv": ("a",), "files": {"/x": b""}},
        {"argv": ("a",), "files": {"a/": b""}},
        {"argv": ("a",), "files": {".": b""}},
    ],
)
def test_an_order_that_no_program_can_be_given_is_refused(order):
    with pytest.raises(ValueError, match=r"."):
        FreshProgram(**order)


def test_the_environment_is_clean_and_the_caller_has_the_last_word():
    order = FreshProgram(("a",), environment={"LANG": "C", "X": "1"})
    path = "/usr/local/bin:/usr/bin:/bin"
    variables = {"PATH": path, "LANG": "C", "HOME": "/t", "TMPDIR": "/t", "X": "1"}
    assert order.variables("/t") == variables


async def test_a_scripted_program_runs_to_its_end():
    async with opened(echo=echo, say=prints(b"out", stderr=b"err", exit_code=4)) as sandbox:
        await sandbox.write_file("seen", b"")
        fed = await sandbox.run_fresh(["echo", "-n"], stdin=b"in", time_limit=5)
        assert (fed.stdout.text, fed.stderr.text, fed.exit_code) == ("got in", "done", 1)
        said = await sandbox.run_fresh(["say"], files={"a": b"1"}, environment={"B": "2"}, time_limit=5)
        assert (said.stdout.text, said.stderr.text, said.exit_code) == ("out", "err", 4)
        order = sandbox.processes[1].call.order
        assert (order.files, order.environment) == ({"a": b"1"}, {"B": "2"})
        gone = await sandbox.run_fresh(["other"], time_limit=5)
        assert (gone.exit_code, gone.stderr.text) == (127, "other: not in the script\n")


async def test_a_scripted_program_is_talked_with():
    async with opened(echo=echo) as sandbox:
        process = await sandbox.start_fresh(["echo"])
        async with anyio.create_task_group() as group:

            async def later():
                await process.send(b"a")

            group.start_soon(later)
            assert await process.receive() == b"got a"
        await process.send(b"bcd")
        assert await process.receive(4) == b"got "
        assert await process.receive() == b"bcd"
        await process.close_stdin()
        assert await process.wait() == 0
        assert await process.receive() == b""
        with pytest.raises(FreshEndedError):
            await process.send(b"x")


async def test_limits_end_a_scripted_program():
    async with opened(echo=echo, flood=flood) as sandbox:
        flooded = await sandbox.run_fresh(["flood"], time_limit=5, output_bytes=5000)
        assert (flooded.output_limit, flooded.exit_code, len(flooded.stdout.head)) == (True, None, 5000)
        process = await sandbox.start_fresh(["echo"])
        late = await run_to_end(process, b"", time_limit=5, output_bytes=10)
        assert not late.timed_out
        stuck = await sandbox.start_fresh(["echo"])
        with anyio.move_on_after(0.05):
            await stuck.wait()
        await stuck.aclose()
        assert await stuck.wait() == 137
        with pytest.raises(ValueError, match="above 0"):
            await sandbox.run_fresh(["echo"], time_limit=0)


async def test_a_scripted_program_ends_with_its_sandbox():
    async with opened(echo=echo, say=prints(b"")) as sandbox:
        process = await sandbox.start_fresh(["echo"])
        done = await sandbox.start_fresh(["say"])
        assert await done.wait() == 0
        await sandbox.aclose()
        assert await done.wait() == 0
        with pytest.raises(SandboxClosedError):
            await run_to_end(process, b"", time_limit=5, output_bytes=10)
        with pytest.raises(SandboxClosedError):
            await sandbox.start_fresh(["echo"])


def test_files_are_written_for_everybody_to_read(tmp_path):
    write_files(tmp_path / "f", {"a/b/c": b"1", "d": b"2"})
    assert (tmp_path / "f/a/b/c").read_bytes() == b"1"
    assert (tmp_path / "f/d").stat().st_mode & 0o777 == 0o444
    assert (tmp_path / "f/a/b").stat().st_mode & 0o777 == 0o755


def test_files_that_get_in_each_other_s_way_are_refused_and_leave_nothing(tmp_path):
    with pytest.raises(SandboxStartError, match="cannot be written"):
        write_files(tmp_path / "f", {"a": b"", "a/b": b""})
    assert not (tmp_path / "f").exists()


def test_a_shared_folder_is_everybody_s_who_wants_the_same(tmp_path, monkeypatch):
    async def run():
        folder = SharedFolder(tmp_path / "shared")
        await folder.take({"x": b"1"})
        await folder.take({"x": b"1"})
        folder.leave()
        assert (folder.path / "x").read_bytes() == b"1"
        async with anyio.create_task_group() as group:
            group.start_soon(folder.take, {"x": b"2"})
            await anyio.wait_all_tasks_blocked()
            assert (folder.path / "x").read_bytes() == b"1"
            folder.leave()
        assert (folder.path / "x").read_bytes() == b"2"
        monkeypatch.setattr(fresh_files, "_TURN_LIMIT", 0.02)
        with pytest.raises(SandboxStartError, match="other files"):
            await folder.take({})
        folder.leave()
        assert not folder.path.exists()

    anyio.run(run)


LIMITS = Limits(pids=24, memory_bytes=96 * MIB)
FORKS = """
import os, time
try:
    while True:
        if os.fork() == 0:
            time.sleep(1000)
except OSError:
    print("full", flush=True)
time.sleep(1000)
"""
FOLDERS = "chmod 000 $HOME ${TMPDIR:-/tmp} . 2>/dev/null; true"


@pytest.fixture(params=[BubblewrapBackend, LandlockBackend])
async def sandbox(request):
    async with open_backend(request.param) as backend:
        yield await backend.start("apart", LIMITS)


async def test_a_program_that_has_all_its_processes_leaves_the_next_one_its_own(sandbox):
    full = await sandbox.start_fresh(["python3", "-c", FORKS])
    try:
        assert await full.receive() == b"full\n"
        run = await sandbox.run_fresh(["sh", "-c", "true | cat; echo started"], time_limit=30)
        assert (run.exit_code, run.stdout.text) == (0, "started\n")
    finally:
        await full.aclose()
    again = await sandbox.run_fresh(["python3", "-c", FORKS.replace("1000", "0")], time_limit=30)
    assert again.stdout.text.endswith("full\n")


@pytest.mark.parametrize("target", ["os.killpg(0, 9)", "os.kill(os.getpid(), 9)", "os.kill(-1, 9)"])
async def test_a_program_that_kills_all_it_may_kills_only_itself(sandbox, target):
    beside = await sandbox.start_fresh(["cat"])
    try:
        code = (
            f"import os\ntry: {target}\nexcept OSError: os.kill(os.getpid(), 9)\nimport time; time.sleep(5)\n"
        )
        run = await sandbox.run_fresh(["python3", "-c", code], time_limit=30)
        assert run.exit_code in {128 + signal.SIGKILL, 0, None}
        await beside.send(b"still here")
        assert await beside.receive() == b"still here"
    finally:
        await beside.aclose()
    assert (await sandbox.exec("echo the shell too")).stdout.text == "the shell too\n"


async def test_folders_that_were_closed_are_open_for_what_is_started_next(sandbox):
    await sandbox.write_file("kept", b"yes")
    await sandbox.exec(FOLDERS)
    run = await sandbox.run_fresh(["cat", "kept"], time_limit=30)
    assert (run.exit_code, run.stdout.text) == (0, "yes")
    await sandbox.exec(FOLDERS)
    await sandbox.restart()
    assert (await sandbox.exec("cat kept")).stdout.text == "yes"


async def test_a_tree_deeper_than_any_path_is_listed_as_far_as_paths_go(sandbox):
    make = "import os\nfor _ in range(3000):\n    os.mkdir('d'); os.chdir('d')\n"
    await sandbox.write_file("make.py", make.encode())
    await sandbox.exec("python3 make.py")
    entries = await sandbox.list_files(depth=100_000)
    assert len(entries) > 1_000
    assert max(entry.path.count("/") for entry in entries) > 1_000
