"""A limit on stalls: progress and waits for a processor do not count, and what is raised is raised."""

import subprocess
import sys
import time

import anyio
import pytest

from ors_server.audit.audited_server import StalledError, call_within
from ors_server.rewards.batch import machine_delay
from ors_server.sandboxes.processor_usage import ProcessorUsage


@pytest.fixture
def process():
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield started.pid
    started.kill()
    started.wait()


async def test_the_result_of_a_call_is_returned(process):
    async def answer():
        return 7

    assert await call_within(5.0, process, answer) == 7


async def test_what_a_call_raises_is_raised_as_it_is(process):
    async def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match=r"^no$"):
        await call_within(5.0, process, fail)


async def test_a_call_that_stalls_is_cancelled(process):
    ended = []

    async def stall():
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    with pytest.raises(StalledError, match=r"did not answer within 0.5 seconds"):
        await call_within(0.5, process, stall)
    assert ended == [True]


async def test_a_call_that_makes_progress_goes_on(process):
    done = []

    async def work():
        for number in range(8):
            await anyio.sleep(0.4)
            done.append(number)
        return len(done)

    assert await call_within(1.5, process, work, lambda: len(done)) == 8


async def test_waits_for_a_processor_do_not_count(process, monkeypatch):
    """The kernel says that the process waited all the time, as beside many busy ones."""
    began = time.monotonic()

    def waiting(pid):
        assert pid == process
        return ProcessorUsage(0.0, delays={(0, pid): time.monotonic() - began})

    monkeypatch.setattr(machine_delay, "usage_of", waiting)

    async def work():
        await anyio.sleep(2.0)
        return "done"

    assert await call_within(0.8, process, work) == "done"


async def test_a_machine_that_gives_no_processor_at_all_has_an_end(process, monkeypatch):
    began = time.monotonic()
    monkeypatch.setattr("ors_server.audit.audited_server.BACKSTOP", 4)
    monkeypatch.setattr(
        machine_delay,
        "usage_of",
        lambda pid: ProcessorUsage(0.0, delays={(0, pid): time.monotonic() - began}),
    )
    with pytest.raises(StalledError):
        await call_within(0.3, process, anyio.sleep_forever)
