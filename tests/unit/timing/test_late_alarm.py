"""The alarm of an event loop that is late: when it rings, and what the machine took from the loop."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ors_server.timing import late_alarm
from ors_server.timing.late_alarm import REPEAT, SleepingAlarm, TimerAlarm, make_alarm

LIMIT = 10.0


@pytest.fixture(params=[TimerAlarm, lambda: SleepingAlarm(time.monotonic)], ids=["timer", "sleeping"])
def alarm(request):
    return request.param()


@pytest.fixture
def rings():
    """Counts the rings of alarms in threads, which end with the test."""
    threads: list[tuple[threading.Thread, late_alarm.LateAlarm]] = []

    def listen(alarm: late_alarm.LateAlarm) -> threading.Semaphore:
        counter = threading.Semaphore(0)

        def count() -> None:
            while alarm.wait():
                counter.release()

        threads.append((threading.Thread(target=count, daemon=True), alarm))
        threads[-1][0].start()
        return counter

    yield listen
    for thread, alarm in threads:
        alarm.close()
        thread.join(LIMIT)
        assert not thread.is_alive()


def end(alarm):
    alarm.close()
    assert not alarm.wait()


def test_an_alarm_that_is_not_put_off_rings_again_and_again_until_it_is_closed(alarm, rings):
    alarm.put_off(REPEAT)
    counter = rings(alarm)
    for _ in range(3):
        assert counter.acquire(timeout=LIMIT)


def test_a_timer_that_is_put_off_wakes_nobody(rings):
    alarm = TimerAlarm()
    alarm.put_off(0.01)
    counter = rings(alarm)
    assert counter.acquire(timeout=LIMIT)
    alarm.put_off(3600)
    while counter.acquire(timeout=0):  # those that rang before
        pass
    counter.acquire(timeout=10 * REPEAT)  # one that rang before, and was not counted yet
    assert not counter.acquire(timeout=10 * REPEAT)


def test_its_descriptors_end_with_it():
    alarm = TimerAlarm()
    used = [alarm._account, alarm._timer]
    end(alarm)
    for descriptor in used:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_waits_for_a_processor_are_the_machines():
    core = min(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(busy.pid, {core})
        os.sched_setaffinity(0, {core})  # this thread alone
        alarm = TimerAlarm()
        first, ends = alarm.lost_until(0.0), time.monotonic() + LIMIT
        while alarm.lost_until(0.0) - first < 0.1:
            assert time.monotonic() < ends
    finally:
        os.sched_setaffinity(0, before)
        busy.kill()
        busy.wait()
    end(alarm)


def test_what_the_loop_itself_waits_for_is_not_the_machines():
    alarm, released = TimerAlarm(), threading.Event()
    first, began = alarm.lost_until(0.0), time.monotonic()
    threading.Timer(0.5, released.set).start()
    assert released.wait(LIMIT)
    lost = alarm.lost_until(0.0) - first
    assert lost < time.monotonic() - began - 0.45
    end(alarm)


def test_without_a_timer_a_thread_that_wakes_late_shows_the_machines_delays(monkeypatch):
    times = [10.0]
    alarm = SleepingAlarm(lambda: times[0])
    monkeypatch.setattr(alarm, "_cpu_seconds", lambda: 5.0)

    def wake_late(seconds: float) -> bool:
        times[0] += seconds
        assert alarm.lost_until(times[0] + 0.01) == 0.0
        times[0] += 2.0
        assert alarm.lost_until(times[0]) == pytest.approx(2.0)
        return False

    monkeypatch.setattr(alarm._stop, "wait", wake_late)
    assert alarm.wait()
    assert alarm.lost_s == pytest.approx(2.0)
    computed = iter([5.0, 1e9])  # the loop's thread computed all the while
    monkeypatch.setattr(alarm, "_cpu_seconds", lambda: next(computed))
    monkeypatch.setattr(alarm._stop, "wait", lambda _seconds: bool(times.__setitem__(0, times[0] + 5)))
    assert alarm.wait()
    assert alarm.lost_s == pytest.approx(2.0)


@pytest.mark.parametrize(
    "error", [OSError("no such account"), AttributeError("no such timer"), ValueError("no such form")]
)
def test_a_system_without_the_timer_gets_the_thread_that_sleeps(monkeypatch, error):
    def fails() -> None:
        raise error

    monkeypatch.setattr(late_alarm, "TimerAlarm", fails)
    assert isinstance(make_alarm(time.monotonic), SleepingAlarm)


@pytest.mark.parametrize("account", [b"0 0 0\n", b"", b"not numbers here\n"])
def test_a_kernel_that_keeps_no_account_gets_the_thread_that_sleeps(monkeypatch, account):
    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(os, "pread", lambda *_arguments: account)
    assert isinstance(make_alarm(time.monotonic), SleepingAlarm)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_kernel_that_refuses_the_timer_leaves_no_descriptor(monkeypatch):
    class Library:
        def __init__(self, *_arguments: object, **_options: object) -> None:
            pass

        def timerfd_create(self, *_arguments: object) -> int:
            return -1

    monkeypatch.setattr(ctypes, "CDLL", Library)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match="timerfd_create"):
        TimerAlarm()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
