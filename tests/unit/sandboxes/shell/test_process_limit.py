"""When a session has too many processes for another command: counted by a cgroup, and without one."""

import pytest

from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.shell import process_limit
from ors_server.sandboxes.shell.process_limit import ProcessLimitMonitor
from tests.fixtures.hurried_clock import HurriedClock

PIDS = 128


class Session:
    """A cell whose number of processes, and of refused ones, depends on the time alone."""

    limits = Limits(pids=PIDS)

    def __init__(self, monkeypatch, alive, denials=None):
        self.clock = HurriedClock()
        self.looks = 0
        self.began = self.clock.monotonic()
        self._alive_after, self._denials_after = alive, denials
        monkeypatch.setattr(process_limit, "threads_of_host", lambda: 500 + self._now(alive))

    def _now(self, figure):
        return figure(self.clock.monotonic() - self.began)

    def monitor(self):
        """Return what watches it since it had two processes."""
        monitor = ProcessLimitMonitor(self, self.clock)
        monitor.reset()
        return monitor

    def alive(self):
        self.looks += 1
        return self._now(self._alive_after)

    def counted(self):
        return self._now(self._alive_after) if self._denials_after else 0

    def denials(self):
        return self._now(self._denials_after) if self._denials_after else 0


def bomb(seconds):
    """Double every 20 ms, up to the limit, and lose some processes at times."""
    return min(PIDS - int(1000 * seconds) % 5, int(2 * 2 ** (seconds / 0.02)))


def workers(number):
    """Begin so many processes within 50 ms, which stay."""
    return lambda seconds: min(2 + number, 2 + int(number * seconds / 0.05))


def refusals(alive):
    """Count ten a second once a session is full."""
    return lambda seconds: int(10 * seconds) if alive(seconds) > 0.95 * PIDS else 0


@pytest.mark.parametrize("wait", [0.1, 0.12, 0.2, 1.5])
@pytest.mark.parametrize("is_counted", [True, False])
async def test_a_fork_bomb_is_found_before_the_next_command(monkeypatch, is_counted, wait):
    session = Session(monkeypatch, bomb, refusals(bomb) if is_counted else None)
    monitor = session.monitor()
    assert not await monitor.is_being_filled()
    await session.clock.sleep(wait)
    assert await monitor.is_being_filled()


@pytest.mark.parametrize("number", [0, 10, 40, 100])
@pytest.mark.parametrize("is_counted", [True, False])
async def test_processes_that_only_stay_are_left_alone(monkeypatch, is_counted, number):
    session = Session(monkeypatch, workers(number), (lambda _: 0) if is_counted else None)
    monitor = session.monitor()
    await session.clock.sleep(0.04)
    assert not await monitor.is_being_filled()


async def test_as_many_as_are_allowed_are_left_alone_where_refusals_are_counted(monkeypatch):
    session = Session(monkeypatch, workers(PIDS - 2), lambda _: 3)
    monitor = session.monitor()
    await session.clock.sleep(1)
    assert not await monitor.is_being_filled()


@pytest.mark.parametrize("is_counted", [True, False])
async def test_few_processes_are_not_looked_at_and_many_once(monkeypatch, is_counted):
    count = 2
    session = Session(monkeypatch, lambda _: count, (lambda _: 0) if is_counted else None)
    monitor = session.monitor()
    for _ in range(100):
        assert not await monitor.is_being_filled()
    assert session.looks == 0
    count = 60
    assert not await monitor.is_being_filled()
    looks, now = session.looks, session.clock.monotonic()
    assert looks > 1
    for _ in range(100):
        assert not await monitor.is_being_filled()
    assert (session.looks, session.clock.monotonic()) == (looks, now)


async def test_other_sessions_processes_cost_one_look(monkeypatch):
    session = Session(monkeypatch, lambda _: 2)
    monitor = session.monitor()
    monkeypatch.setattr(process_limit, "threads_of_host", lambda: 900)
    now = session.clock.monotonic()
    for _ in range(10):
        assert not await monitor.is_being_filled()
    assert (session.looks, session.clock.monotonic()) == (1, now)
