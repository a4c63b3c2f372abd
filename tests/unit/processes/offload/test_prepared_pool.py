"""Workers that import a module ahead: no call is charged with it, and no place stays empty."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ors_server.processes import offload
from ors_server.processes.offload import FunctionPath, OffloadLimits, OverCpuError, PreparedPool

HERE = Path(__file__).parent
PID = FunctionPath("slow_to_import:pid")
SPIN = FunctionPath("slow_to_import:spin")
SHORTER_THAN_THE_IMPORT = OffloadLimits(cpu_seconds=0.5, wall_seconds=6.0)

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[PreparedPool]:
    monkeypatch.syspath_prepend(str(HERE))
    made = PreparedPool("slow_to_import", 2)
    yield made
    made._close_all()


def wait_until_ready(pool: PreparedPool) -> None:
    with pool._changed:
        assert pool._changed.wait_for(lambda: pool.is_ready, 120)


def test_the_first_call_is_not_charged_with_the_import(pool):
    assert pool.call(PID, limits=SHORTER_THAN_THE_IMPORT) != os.getpid()


def test_a_worker_is_prepared_without_waiting_for_it(pool):
    pool.prepare()
    pool.prepare()
    assert not pool.is_ready
    wait_until_ready(pool)
    assert len(pool._idle) == 1


def test_a_worker_that_was_ended_is_replaced_before_the_next_call(pool):
    first = pool.call(PID)
    with pytest.raises(OverCpuError):
        pool.call(SPIN, limits=OffloadLimits(cpu_seconds=0.5))
    wait_until_ready(pool)
    assert pool.call(PID, limits=SHORTER_THAN_THE_IMPORT) != first


def test_calls_take_the_worker_that_is_free_first(pool):
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: pool.call(PID), range(32)))
    assert len(set(found)) <= 2


def test_a_module_that_cannot_be_imported_fails_every_call_that_waits():
    broken = PreparedPool("no_such_module", 2)
    with ThreadPoolExecutor(3) as threads:
        calls = [threads.submit(broken.call, PID) for _ in range(3)]
        assert all(isinstance(call.exception(120), ModuleNotFoundError) for call in calls)
    broken._close_all()


async def test_closing_ends_a_worker_that_is_starting(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    pool = PreparedPool("slow_to_import", 1)
    pool.prepare()
    while not pool._starting:
        assert any(thread.name == "offload-start" for thread in threading.enumerate())
    (worker,) = pool._starting
    await pool.aclose()
    assert worker._child.wait(30) == -signal.SIGKILL


async def test_the_workers_of_a_module_are_the_same_for_all_and_end_with_the_others(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    pool = offload.prepared("slow_to_import")
    assert pool is offload.prepared("slow_to_import")
    pool.prepare()
    wait_until_ready(pool)
    await offload.aclose()
    assert not pool.is_ready


def test_the_time_of_an_import_is_known_to_be_longer_than_a_call_may_take(pool):
    started = pool.call(FunctionPath("time:process_time"))
    assert started > SHORTER_THAN_THE_IMPORT.cpu_seconds
