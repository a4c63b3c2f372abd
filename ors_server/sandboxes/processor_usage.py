"""Measures the processor use of a program and everything below it, and its waits for a processor.

Read from /proc, so it works for every isolation whose processes this host shows.
"""

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ors_server.processes.host_processes import descendants, read_stat

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_NANOSECONDS = 1e9
# Positions in /proc/<pid>/stat after the name in brackets (proc(5): fields 14 to 17, 19 and 41).
_TIMES = slice(11, 15)
_NICE = 16
_POLICY = 38
_DEPTHS = 2
_READY = b"R"


@dataclass(frozen=True)
class ProcessorUsage:
    """A program's use of processors so far."""

    processor_s: float
    """Processor time of all its processes, including those that ended and were waited for."""
    ended_s: float = 0.0
    """The part of it that ended processes used; how long those waited is not known."""
    delays: Mapping[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])
    """(depth below the program's guardian, thread) to seconds for which it was ready to run and did not.

    A thread that gave up priority has no entry: it waits because it chose to.
    """
    is_ready: bool = False
    """Whether one of these threads is ready to run now; the kernel counts its wait when that is over."""

    def since(self, before: "ProcessorUsage") -> "Spent":
        """Return what was used since an earlier look."""
        deepest: dict[int, float] = {}
        for (depth, thread), delay in self.delays.items():
            earlier = before.delays.get((depth, thread), 0.0)
            grown = delay - earlier if delay >= earlier else delay  # the number was given to another thread
            deepest[depth] = max(deepest.get(depth, 0.0), grown)
        return Spent(
            processor_s=self.processor_s - before.processor_s,
            delayed_s=sum(deepest.values()),
            has_ended_children=self.ended_s > before.ended_s,
        )


@dataclass(frozen=True)
class Spent:
    """A program's use of processors between two measurements."""

    processor_s: float
    delayed_s: float
    """Seconds for which it was ready to run and had no processor.

    The longest wait of one thread, not their sum: threads that wait for each other's processor are not a sign
    of a busy machine. The guardian, its child and what is below wait one after another, so these are added.
    """
    has_ended_children: bool
    """Whether processes ended whose waits are not counted."""


def usage_of(guardian: int, child: int = -1) -> ProcessorUsage | None:
    """Measure a program.

    Args:
        guardian: The process that was started; its priority is the one that was given.
        child: A process of the program that descends from another process; -1 for none.

    Returns:
        What it used; None if the kernel does not count, or nothing is left to measure.
    """
    own = read_stat(f"{guardian}/task/{guardian}")
    rank = None if own is None else (own[_NICE], own[_POLICY])
    depths = _depths(guardian, child)
    processor = ended = 0.0
    delays: dict[tuple[int, int], float] = {}
    is_ready = False
    for pid, depth in depths.items():
        times = _times(pid)
        if times is None:
            continue
        processor += sum(times)
        ended += sum(times[2:])
        for thread, delay, state in _delays(pid, rank):
            delays[depth, thread] = delay
            is_ready = is_ready or state == _READY
    return ProcessorUsage(processor, ended, delays, is_ready) if delays else None


def _depths(guardian: int, child: int) -> dict[int, int]:
    depths = dict.fromkeys(descendants(guardian), _DEPTHS)
    if child >= 0:
        depths |= dict.fromkeys((pid for pid in descendants(child) if pid not in depths), _DEPTHS)
        depths[child] = 1
    # Set last: `descendants` lists the process itself, too.
    depths[guardian] = 0
    return depths


def _times(pid: int) -> list[float] | None:
    fields = read_stat(str(pid))
    return None if fields is None else [int(ticks) / _TICKS_PER_SECOND for ticks in fields[_TIMES]]


def _delays(pid: int, rank: tuple[bytes, bytes] | None) -> Iterable[tuple[int, float, bytes]]:
    threads: list[str] = []
    with contextlib.suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 # a hot path
    for name in threads:
        thread = int(name)
        fields = read_stat(f"{pid}/task/{thread}")
        if fields is None or rank is None:
            continue
        nice, policy = rank
        # A thread that gave up priority waits because it chose to.
        if fields[_POLICY] != policy or int(fields[_NICE]) > int(nice):
            continue
        delay = _delay(f"/proc/{pid}/task/{thread}/schedstat")
        if delay is not None:
            yield thread, delay, fields[0]


def _delay(path: str) -> float | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 # as above
            return int(file.read().split()[1]) / _NANOSECONDS
    except (OSError, ValueError, IndexError):
        return None
