"""The host's processes: their descendants, marks, and signals that cannot hit another process.

A pid alone is never signalled: another process may have it by then. The process is opened as a pidfd first,
checked again, and only then signalled through the pidfd.
"""

import contextlib
import os
import select
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio

NICENESS = 5
"""Niceness of sandboxes above the server's: a third of its weight when both want a processor (sched(7))."""
_PROC = Path("/proc")
_STILL_STATES = "TtZX"
_STOP_SWEEPS = 20
_STOP_PAUSES = 200
_STOP_PAUSE = 0.001


@dataclass(frozen=True)
class ProcessRow:
    """The kernel's report about one process."""

    pid: int
    parent: int
    group: int
    started: int
    """Clock ticks since boot: with the pid, the process's identity."""
    state: str


def read_stat(process: str) -> list[bytes] | None:
    """Return the fields after the name in the `stat` of `pid` or `pid/task/tid`; None without one."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123 # hundreds of them at a time
            stat = file.read()
    except OSError:
        return None
    # From the last bracket: a program's name may hold spaces and brackets itself.
    return stat[stat.rindex(b")") + 2 :].split()


def process_row(pid: int) -> ProcessRow | None:
    """Look a process up; None if it does not exist."""
    fields = read_stat(str(pid))
    if fields is None:
        return None
    return ProcessRow(pid, int(fields[1]), int(fields[2]), int(fields[19]), fields[0].decode())


def descendants(root: int) -> list[int]:
    """Return a process and everything below it, parents first."""
    pids: list[int] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        if (_PROC / str(pid)).exists():
            pids.append(pid)
            waiting.extend(_children(pid))
    return pids


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(OSError):
        # The kernel lists children by the thread that started them.
        for task in (_PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                text = (task / "children").read_text()
                children.extend(int(child) for child in text.split())
    return children


def ancestors(pid: int) -> list[int]:
    """Return a process and everything above it, nearest first."""
    pids: list[int] = []
    while (row := process_row(pid)) is not None:
        pids.append(pid)
        pid = row.parent
    return pids


def has_uid(pid: int, first: int, count: int = 1) -> bool:
    """Return whether a process runs under one of a range of uids."""
    try:
        return first <= os.stat(f"/proc/{pid}").st_uid < first + count  # noqa: PTH116  (a hot path)
    except OSError:
        return False


def processes_of_uids(first: int, count: int = 1) -> list[int]:
    """Return the pids that run under a range of uids."""
    all_pids = (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 # a hot path
    return [pid for pid in all_pids if has_uid(pid, first, count) and not is_zombie(pid)]


def threads_of_uid(uid: int) -> int:
    """Return how many threads run under a uid, as the limit on processes counts them (getrlimit(2))."""
    total = 0
    for pid in processes_of_uids(uid):
        with contextlib.suppress(OSError):
            total += len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 # a hot path
    return total


def threads_of_host() -> int:
    """Return how many threads there are on the whole host, as the kernel says cheaply; 0 if it does not."""
    try:
        descriptor = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)
        try:
            # "0.20 0.18 0.12 1/80 11206": of 80 threads one runs (proc_loadavg(5)).
            return int(os.read(descriptor, 256).split()[3].split(b"/")[1])
        finally:
            os.close(descriptor)
    except (OSError, IndexError, ValueError):
        return 0


def is_zombie(pid: int) -> bool:
    """Return whether a process is dead, reaped or not."""
    row = process_row(pid)
    return row is None or row.state == "Z"


def namespace_of(pid: int, kind: str) -> str | None:
    """Return the identity of a process's namespace, e.g. ``pid:[4026532182]``."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")  # noqa: PTH115 # a magic link, not a path
    except OSError:
        return None


def inner_pid(pid: int) -> int | None:
    """Return the pid that a process has in its own namespace."""
    try:
        status = (_PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return None


def send_signal(pid: int, number: signal.Signals, is_ours: Callable[[int], bool]) -> bool:
    """Signal a process if `is_ours` still accepts it once it is open as a pidfd; return whether it did."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # Only now: until the pidfd is open, another process may get the number.
        if not is_ours(pid):
            return False
        signal.pidfd_send_signal(pidfd, number)
        return True
    except OSError:
        return False
    finally:
        os.close(pidfd)


def marked_processes(entry: str, *, begins: bool = False) -> list[int]:
    """Return this user's processes with an entry `NAME=value` in their environment, or its beginning."""
    return [pid for pid in processes_of_uids(os.getuid()) if has_mark(pid, entry, begins=begins)]


def has_mark(pid: int, entry: str, *, begins: bool = False) -> bool:
    """Return whether a process was started with an entry `NAME=value` in its environment."""
    wanted = entry.encode()
    try:
        entries = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return wanted in entries or (begins and any(other.startswith(wanted) for other in entries))


def kill_marked(entry: str, *, begins: bool = False) -> int:
    """Kill the processes that `marked_processes` returns; return how many there were."""
    pids = marked_processes(entry, begins=begins)
    for pid in pids:
        send_signal(pid, signal.SIGKILL, lambda pid: has_mark(pid, entry, begins=begins))
    return len(pids)


async def stop_all(find: Callable[[], list[int]], is_ours: Callable[[int], bool]) -> None:
    """Stop every process that `find` returns, and those that they start meanwhile; each before its children.

    A shell that still ran would see its child stop, and take the terminal from it. A process that cannot be
    interrupted just now stops when it can: the waits are bounded in all.
    """
    pauses = _STOP_PAUSES
    for _ in range(_STOP_SWEEPS):
        running = [pid for pid in find() if not _is_still(pid)]
        if not running:
            return
        for pid in _oldest_first(running):
            if send_signal(pid, signal.SIGSTOP, is_ours):
                pauses = await _wait_until_still(pid, pauses)


def continue_all(pids: list[int], is_ours: Callable[[int], bool]) -> None:
    """Let stopped processes continue, each after its children, so that no shell finds a stopped child."""
    for pid in reversed(_oldest_first(pids)):
        send_signal(pid, signal.SIGCONT, is_ours)


def _oldest_first(pids: list[int]) -> list[int]:
    """Return processes in the order of their starts: parents before their children."""
    rows = {pid: process_row(pid) for pid in pids}
    return sorted(pids, key=lambda pid: row.started if (row := rows[pid]) is not None else 0)


def _is_still(pid: int) -> bool:
    row = process_row(pid)
    return row is None or row.state in _STILL_STATES


async def _wait_until_still(pid: int, pauses: int) -> int:
    """Wait at most so many pauses for a process to stand still; return how many are left."""
    while pauses and not _is_still(pid):
        await anyio.sleep(_STOP_PAUSE)
        pauses -= 1
    return pauses


def lower_priority(pid: int) -> None:
    """Give a new process, and everything it will start, a lower priority than the server's."""
    with contextlib.suppress(OSError):  # it has ended already
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)


async def kill_with_children(pid: int) -> None:
    """Kill a child of this process together with its own children, while it cannot start more.

    A program that is killed while it creates a namespace would leave behind the child that it has just
    started, which nothing ties to it yet.

    Args:
        pid: Of a child that was not waited for, so no other process has its pid.
    """
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGSTOP)
    await _wait_until_still(pid, _STOP_PAUSES)
    for child in _children(pid):

        def is_child(other: int) -> bool:
            row = process_row(other)
            return row is not None and row.parent == pid

        send_signal(child, signal.SIGKILL, is_child)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


async def ended(pidfd: int, time_limit: float) -> bool:
    """Wait at most `time_limit` seconds for a process to end."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    # Usually it has ended already, and the event loop need not watch it.
    if poll.poll(0):
        return True
    with anyio.move_on_after(time_limit):
        await anyio.wait_readable(pidfd)
        return True
    return False
