"""Cleans up after dead servers; touches nothing without their prefix, and nothing of a live server."""

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ors_server.processes.host_processes import has_uid, kill_marked, processes_of_uids, send_signal
from ors_server.sandboxes.cells.cgroups import members, try_remove
from ors_server.sandboxes.cells.server_state import FOLDER_PREFIX, LOCK_FILE, base_folder, remove_tree
from ors_server.sandboxes.cells.uids import UID_PLANS, UidPlan, try_lock
from ors_server.sandboxes.host.bubblewrap import kill_leftovers
from ors_server.sandboxes.host.landlock import MARK

_TRIES = 500
_PAUSE = 0.01
"""Seconds between two tries."""


@dataclass
class CleanupResult:
    """The result of a clean-up."""

    servers: list[str] = field(default_factory=list[str])
    """Ids of the dead servers."""
    processes: int = 0
    """Number of killed processes."""


def clean_up(base: Path | None = None) -> CleanupResult:
    """Remove the folders, cgroups and processes of dead servers.

    A server is alive if it holds its lock; its pid does not matter.

    Args:
        base: The folder of servers' folders; by default this user's.
    """
    base = base or base_folder()
    result = CleanupResult(processes=_kill_by_uid())
    for folder in sorted(base.glob(f"{FOLDER_PREFIX}*")):
        if folder.is_symlink() or not (folder / LOCK_FILE).is_file():
            continue  # not a server's, or of one that is starting
        with contextlib.suppress(OSError):
            # The lock is kept during the removal, so two servers that start together do not clean up the same
            # one.
            lock = try_lock(folder / LOCK_FILE)
            if lock is not None:
                try:
                    _remove_server(folder, lock)
                    result.servers.append(folder.name.removeprefix(FOLDER_PREFIX))
                finally:
                    os.close(lock)
    return result


def _remove_server(folder: Path, lock: int) -> None:
    record = _record(lock)
    server = folder.name.removeprefix(FOLDER_PREFIX)
    parents = record.get("cgroup_parents", [])
    groups = [group for parent in parents for group in Path(parent).glob(f"{FOLDER_PREFIX}{server}-*")]
    _end_groups(groups)
    # Earlier versions recorded it as `quick`.
    in_memory = Path(record.get("memory_folder", record.get("quick", folder)))
    if os.geteuid() != 0:  # otherwise they were found by their uids already
        kill_marked(f"{MARK}={server}", begins=True)
        kill_leftovers(in_memory)
    if in_memory.name == folder.name:  # a server's own folders have its name, wherever they are
        remove_tree(in_memory)
    remove_tree(folder)


def _record(lock: int) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        record: dict[str, Any] = json.loads(os.pread(lock, 65_536, 0))
        return record
    return {}


def _end_groups(groups: list[Path]) -> None:
    """Kill everything in the cgroups until they are gone: a dying process stays in its group."""
    for group in groups:
        # A frozen process does not act on a signal, SIGKILL included, until it is thawed (version 1).
        _write_file(group / "freezer.state", "THAWED")
    for _ in range(_TRIES):
        for group in groups:
            _kill_group(group)
        groups = [group for group in groups if not try_remove(group)]
        if not groups:
            return
        time.sleep(_PAUSE)


def _kill_group(group: Path) -> None:
    if _write_file(group / "cgroup.kill", "1"):
        return
    for pid in members(group):
        send_signal(pid, signal.SIGKILL, lambda pid: pid in members(group))


def _write_file(file: Path, text: str) -> bool:
    """Write into a file of a cgroup; returns whether the file exists."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)  # creates nothing
    except OSError:
        return False
    with contextlib.suppress(OSError):
        os.write(descriptor, text.encode())
    os.close(descriptor)
    return True


def _kill_by_uid() -> int:
    """Kill the processes of uids that no live server has."""
    killed = 0
    if os.geteuid() != 0:
        return killed
    for plan in UID_PLANS:
        for file in sorted(base_folder().glob(f"{plan.files}*")):
            lock = try_lock(file)
            if lock is None:
                continue
            try:
                killed += _kill_uids(plan, int(file.name.removeprefix(plan.files)))
            finally:
                os.close(lock)
    return killed


def _kill_uids(plan: UidPlan, block: int) -> int:
    first = plan.first + block * plan.per_block

    def has_block_uid(pid: int) -> bool:
        return has_uid(pid, first, plan.per_block)

    killed = 0
    for _ in range(_TRIES):
        leftovers = processes_of_uids(first, plan.per_block)
        if not leftovers:
            break
        killed += sum(send_signal(pid, signal.SIGKILL, has_block_uid) for pid in leftovers)
        time.sleep(_PAUSE)
    return killed
