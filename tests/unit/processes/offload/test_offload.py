"""Functions in worker processes: their limits, their failures, and that no process is left behind."""

import os
import pickle
import select
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest

from ors_server.processes.offload import (
    CrashedError,
    FunctionPath,
    OffloadLimits,
    OverCpuError,
    OverLimitError,
    OverMemoryError,
    WorkerDiedError,
    WorkerPool,
    WorkerStalledError,
)
from ors_server.processes.offload.worker_program import ANSWER

HERE = Path(__file__).parent
MODULE = "offloaded"


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
    monkeypatch.syspath_prepend(str(HERE))
    made = WorkerPool(2)
    yield made
    made._close_all()


def place(name: str) -> FunctionPath:
    return FunctionPath(f"{MODULE}:{name}")


def test_a_function_runs_in_another_process_that_is_used_again(pool):
    assert pool.call(place("add"), 1, 2) == 3
    first = pool.call(place("pid"))
    assert first != os.getpid()
    assert pool.call(place("pid")) == first


def test_a_function_may_be_given_itself(pool):
    assert pool.call(os.path.basename, "/work/letter") == "letter"


def test_a_place_may_be_called_here_too(pool):
    assert place("pid")() == os.getpid()


def test_plain_data_goes_there_and_back_whole(pool):
    value = {"bytes": bytes(range(256)) * 4096, "nested": [{"a": (1, 2.5, None, True)}], "text": "é\ud800"}
    assert pool.call(place("echo"), value) == value


def test_nothing_starts_before_the_first_call(pool):
    assert not pool._idle
    assert not pool._busy


def test_the_memory_of_the_program_that_asks_is_not_the_worker_s(pool):
    held = bytearray(b"x") * (600 << 20)
    first = pool.call(place("pid"))
    assert pool.call(place("pid")) == first
    assert len(held) == 600 << 20


@pytest.mark.parametrize("name", ["spin", "backtrack"])
def test_a_call_that_takes_too_much_processor_time_is_ended(pool, name):
    with pytest.raises(OverCpuError, match=r"0\.2 seconds"):
        pool.call(place(name), limits=OffloadLimits(cpu_seconds=0.2))
    assert pool.call(place("add"), 1, 2) == 3


def test_processor_time_is_counted_for_each_call_by_itself(pool):
    limits = OffloadLimits(cpu_seconds=0.5)
    while pool.call(place("cpu_seconds"), limits=limits) < 0.8:
        pool.call(statistics.fmean, list(range(50_000)), limits=limits)
    assert pool.call(place("add"), 1, 2, limits=limits) == 3


def test_a_call_that_takes_too_much_memory_is_ended(pool):
    with pytest.raises(OverMemoryError):
        pool.call(place("allocate"), 2 << 30)
    assert pool.call(place("allocate"), 1 << 20) == 1 << 20


def test_a_result_that_is_too_long_is_refused(pool):
    with pytest.raises(OverLimitError, match="1000 bytes"):
        pool.call(place("echo"), b"a" * 1001, limits=OffloadLimits(result_bytes=1000))


def test_a_call_that_does_nothing_for_too_long_is_the_machines_failure(pool):
    with pytest.raises(WorkerStalledError):
        pool.call(place("wait"), limits=OffloadLimits(wall_seconds=0.5))
    assert pool.call(place("add"), 1, 2) == 3


def test_what_the_function_raises_is_raised(pool):
    with pytest.raises(ValueError, match="no such thing"):
        pool.call(place("refuse"), "no such thing")


def test_an_error_that_cannot_be_read_back_is_described(pool):
    with pytest.raises(RuntimeError, match="UnreadableError: out of order"):
        pool.call(place("refuse_unreadably"))


def test_a_crash_is_told_apart_from_an_end_from_outside(pool):
    with pytest.raises(CrashedError, match="SIGSEGV"):
        pool.call(place("crash"))
    with pytest.raises(WorkerDiedError, match="signal 9"):
        pool.call(place("end_from_outside"))
    with pytest.raises(WorkerDiedError, match="status 3"):
        pool.call(place("leave"))


def test_what_a_function_prints_spoils_no_answer(pool, capfd):
    assert pool.call(place("talk")) == "answer"
    assert "more noise" in capfd.readouterr().err


def test_an_unknown_function_is_an_error_of_the_caller(pool):
    with pytest.raises(AttributeError):
        pool.call(place("nothing"))
    with pytest.raises(ModuleNotFoundError):
        pool.call(FunctionPath("no_such_module:nothing"))


def test_many_threads_share_the_workers(pool):
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda number: pool.call(place("add"), number, 1), range(64)))
    assert answers == list(range(1, 65))
    assert len(pool._idle) <= 2


async def test_the_event_loop_goes_on_while_a_worker_works(pool, tmp_path):
    started = tmp_path / "pid"
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pool.run, place("wait_after_writing"), str(started))
            while not started.exists():
                await anyio.lowlevel.checkpoint()
            assert await pool.run(place("add"), 1, 2) == 3
            tasks.cancel_scope.cancel()


async def test_a_call_that_is_cancelled_ends_its_worker(pool, tmp_path):
    started = tmp_path / "pid"
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pool.run, place("wait_after_writing"), str(started))
            while not (started.exists() and started.read_text()):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        while is_running(int(started.read_text())):
            await anyio.lowlevel.checkpoint()
    assert not is_running(int(started.read_text()))


async def test_a_call_that_waits_for_a_worker_is_cancelled_without_one(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    alone = WorkerPool(1)
    started = tmp_path / "pid"
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(alone.run, place("wait_after_writing"), str(started))
            while not started.exists():
                await anyio.lowlevel.checkpoint()
            with anyio.move_on_after(0):
                await alone.run(place("add"), 1, 2)
            tasks.cancel_scope.cancel()
        assert await alone.run(place("add"), 1, 2) == 3
    alone._close_all()


async def test_closing_ends_idle_workers_and_a_later_call_starts_one(pool):
    first = await pool.run(place("pid"))
    await pool.aclose()
    assert not is_running(first)
    assert await pool.run(place("pid")) != first


def daemon_in(folder):
    polls = threading.Event()
    path = folder / "daemon"
    for _ in range(6_000):
        if path.exists() and (text := path.read_text()):
            return int(text)
        polls.wait(0.01)
    raise AssertionError("no process was started")


@pytest.mark.parametrize(("ending", "error"), [("spin", OverCpuError), ("crash", CrashedError)])
def test_a_process_that_left_the_worker_s_group_ends_with_a_call_that_fails(
    pool, tmp_path, monkeypatch, ending, error
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(error):
        pool.call(place("start_daemon"), ending, limits=OffloadLimits(cpu_seconds=0.5))
    wait_until_gone(daemon_in(tmp_path))


async def test_a_process_that_left_the_worker_s_group_ends_with_a_call_that_is_cancelled(
    pool, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.run, place("start_daemon"), "wait")
        daemon = await anyio.to_thread.run_sync(daemon_in, tmp_path)
        tasks.cancel_scope.cancel()
    await anyio.to_thread.run_sync(wait_until_gone, daemon)
    assert not is_running(daemon)


async def test_a_process_that_left_the_worker_s_group_ends_with_an_idle_worker(pool, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    daemon = await pool.run(place("start_daemon"), "return")
    assert is_running(daemon)
    await pool.aclose()
    await anyio.to_thread.run_sync(wait_until_gone, daemon)  # killed, but not always gone yet


@pytest.mark.parametrize(("processes", "workers"), [(1, 4), (2, 2), (100, 2)])
def test_pool_that_is_divided_has_its_share_of_the_workers(monkeypatch, processes, workers):
    monkeypatch.syspath_prepend(str(HERE))
    pool = WorkerPool(4)
    pool.divide(processes)
    try:
        with ThreadPoolExecutor(12) as threads:
            calls = [threads.submit(pool.call, place("slow_pid")) for _ in range(12)]
            pids = {call.result() for call in calls}
    finally:
        pool._close_all()
    assert len(pids) == workers


def test_a_process_that_left_the_worker_s_group_ends_with_a_program_that_is_killed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with start("daemon", tmp_path / "pid") as program:
        daemon = daemon_in(tmp_path)
        program.send_signal(signal.SIGKILL)
        program.wait(60)
    wait_until_gone(daemon)


def test_a_function_writes_into_a_folder_of_the_worker_that_ends_with_it(pool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path(pool.call(place("write_file"), "report.csv"))
    assert (folder / "report.csv").exists()
    assert pool.call(place("write_file"), "report.csv") == str(folder)
    pool._close_all()
    assert not folder.exists()
    assert not list(tmp_path.iterdir())


def test_the_folder_of_a_worker_that_is_killed_is_removed(pool, tmp_path):
    note = tmp_path / "note"
    with pytest.raises(OverCpuError):
        pool.call(place("write_file_and_spin"), "x", str(note), limits=OffloadLimits(cpu_seconds=0.5))
    assert not Path(note.read_text()).exists()


def test_a_worker_runs_where_no_temporary_folder_can_be_made(pool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nothing"))
    assert pool.call(place("write_file"), "report.csv") == str(tmp_path)
    pool._close_all()
    assert [path.name for path in tmp_path.iterdir()] == ["report.csv"]


def test_no_folder_is_left_by_a_worker_that_cannot_start(pool, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "nothing"))
    with pytest.raises(WorkerDiedError, match="cannot start"):
        pool.call(place("pid"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("entry", ["", ".", "../offload"])
def test_a_module_is_found_that_is_found_from_the_folder_of_this_process(monkeypatch, entry):
    monkeypatch.chdir(HERE)
    monkeypatch.syspath_prepend(entry)
    alone = WorkerPool(1)
    try:
        assert alone.call(place("add"), 1, 2) == 3
    finally:
        alone._close_all()


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from ors_server.processes import offload
print(offload.call(offload.FunctionPath("offloaded:pid")), flush=True)
print(offload.call(offload.FunctionPath("offloaded:write_file"), "x"), flush=True)
if sys.argv[2] == "hang":
    offload.call(offload.FunctionPath("offloaded:wait_after_writing"), sys.argv[3])
if sys.argv[2] == "daemon":
    offload.call(offload.FunctionPath("offloaded:start_daemon"), "wait")
if sys.argv[2] == "stay":
    sys.stdin.read()
"""


def start(how: str, path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(HERE), how, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat")
        return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")
    except (ProcessLookupError, FileNotFoundError):
        return False


def wait_until_gone(pid: int) -> None:
    polls = threading.Event()
    for _ in range(600):
        if not is_running(pid):
            return
        polls.wait(0.05)
    raise AssertionError(f"process {pid} is still there")


def test_no_worker_survives_the_end_of_the_program(tmp_path):
    with start("end", tmp_path / "pid") as program:
        worker, folder = int(program.stdout.readline()), program.stdout.readline().strip()
        assert program.wait(60) == 0
    wait_until_gone(worker)
    assert not Path(folder).exists()


@pytest.mark.parametrize("how", ["hang", "stay"])
def test_no_worker_survives_the_killing_of_the_program(tmp_path, how):
    with start(how, tmp_path / "pid") as program:
        worker, folder = int(program.stdout.readline()), program.stdout.readline().strip()
        polls = threading.Event()
        while how == "hang" and not (tmp_path / "pid").exists():
            polls.wait(0.01)
        program.send_signal(signal.SIGKILL)
        program.wait(60)
    wait_until_gone(worker)
    assert not Path(folder).exists()


def test_a_forked_copy_starts_workers_of_its_own(pool):
    theirs = pool.call(place("pid"))
    (worker,) = pool._idle
    pool._process = 0  # as in a copy, whose process has another number
    assert pool.call(place("pid")) != theirs
    assert is_running(theirs)
    worker.close()


FORGED = pickle.dumps("forged")


@pytest.mark.parametrize("number", [0, 1, 2**64 - 1])
def test_an_answer_out_of_turn_is_never_the_next_calls(pool, number):
    header = ANSWER.pack(number, 0, 1, len(FORGED)) + FORGED
    assert pool.call(place("write_answer"), header, 0.2) == "own"
    (worker,) = pool._idle
    poll = select.poll()
    poll.register(worker._child.output, select.POLLIN)
    assert poll.poll(60_000)
    with pytest.raises(WorkerDiedError, match="something else than an answer"):
        pool.call(place("pid"))
    assert not worker._child.is_alive()
    assert pool.call(place("add"), 1, 2) == 3


@pytest.mark.parametrize("header", [ANSWER.pack(0, 0, 1, 2**60), b"\0" * ANSWER.size])
def test_an_answer_that_is_none_of_the_calls_ends_the_worker(pool, header):
    with pytest.raises(WorkerDiedError, match="something else than an answer"):
        pool.call(place("write_answer"), header, 0.0)
    assert pool.call(place("add"), 1, 2) == 3


def test_a_long_error_keeps_its_message(pool):
    with pytest.raises((RuntimeError, ValueError), match=r"x{1000}"):
        pool.call(place("long_error"))
