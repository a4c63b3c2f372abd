"""What one fresh program does to itself keeps no other from starting, and its end is always told."""

import signal

import pytest

from ors_server.sandboxes.base import MIB, Limits
from ors_server.sandboxes.bubblewrap import BubblewrapBackend
from ors_server.sandboxes.landlock import LandlockBackend
from tests.fixtures.opened_backend import open_backend

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
