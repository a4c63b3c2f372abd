"""Cleans up what dead servers left; touches nothing without their mark, and nothing whose owner lives."""

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ors_server.sandboxes.bubblewrap import kill_stranded
from ors_server.sandboxes.cgroups import try_remove
from ors_server.sandboxes.landlock import kill_marked
from ors_server.sandboxes.processes import has_uid, processes_of_uids, send_signal
from ors_server.sandboxes.state import MARK, OWNER, base_folder, remove_tree
from ors_server.sandboxes.uids import FIRST_UID, UIDS_PER_BLOCK, try_lock

_TRIES = 500
_PAUSE = 0.01
"""Seconds between two tries."""


@dataclass
class Swept:
    """What was cleaned up."""

    servers: list[str] = field(default_factory=list[str])
    """Ids of the dead."""
    processes: int = 0
    """How many were killed."""


def sweep(base: Path | None = None) -> Swept:
    """Remove the folders, groups and processes of servers that are dead.

    Whether a server lives is told by the lock that it holds, not by a pid.

    Args:
        base: Where servers keep their folders; this user's place by default.
    """
    base = base or base_folder()
    swept = Swept(processes=_sweep_uids())
    for folder in sorted(base.glob(f"{MARK}*")):
        if folder.is_symlink() or not (folder / OWNER).is_file():
            continue  # no server's, or that of one that is just being made
        with contextlib.suppress(OSError):
            lock = try_lock(folder / OWNER)
            if lock is not None:
                try:
                    _bury(folder, lock)
                    swept.servers.append(folder.name.removeprefix(MARK))
                finally:
                    os.close(lock)
    return swept


def _bury(folder: Path, lock: int) -> None:
    record = _record(lock)
    server = folder.name.removeprefix(MARK)
    parents = record.get("cgroup_parents", [])
    groups = [group for parent in parents for group in Path(parent).glob(f"{MARK}{server}-*")]
    _end_groups(groups)
    if os.geteuid() != 0:  # else their uids have told them apart already
        kill_marked(server)
        kill_stranded(folder)
    quick = Path(record.get("quick", folder))
    if quick.name == folder.name:  # a server's own folders bear its name, wherever they stand
        remove_tree(quick)
    remove_tree(folder)


def _record(lock: int) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads(os.pread(lock, 65_536, 0))
        return found
    return {}


def _end_groups(groups: list[Path]) -> None:
    """Kill what is in the groups until they are gone: the dying hold theirs in every hierarchy."""
    for group in groups:
        _tell(group / "freezer.state", "THAWED")
    for _ in range(_TRIES):
        for group in groups:
            _kill_group(group)
        groups = [group for group in groups if not try_remove(group)]
        if not groups:
            return
        time.sleep(_PAUSE)


def _kill_group(group: Path) -> None:
    if _tell(group / "cgroup.kill", "1"):
        return
    for pid in _members(group):
        send_signal(pid, signal.SIGKILL, lambda pid: pid in _members(group))


def _tell(file: Path, order: str) -> bool:
    """Write into a file of a group; tell whether there is such a file."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)  # nothing is made where there is none
    except OSError:
        return False
    with contextlib.suppress(OSError):
        os.write(descriptor, order.encode())
    os.close(descriptor)
    return True


def _members(group: Path) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    return []


def _sweep_uids() -> int:
    """Kill what still runs under uids that no living server has."""
    killed = 0
    if os.geteuid() != 0:
        return killed
    for file in sorted(base_folder().glob("uids-*")):
        lock = try_lock(file)
        if lock is None:
            continue
        try:
            first = FIRST_UID + int(file.name.removeprefix("uids-")) * UIDS_PER_BLOCK
            killed += _kill_uids(first)
        finally:
            os.close(lock)
    return killed


def _kill_uids(first: int) -> int:
    def is_stray(pid: int) -> bool:
        return has_uid(pid, first, UIDS_PER_BLOCK)

    killed = 0
    for _ in range(_TRIES):
        strays = processes_of_uids(first, UIDS_PER_BLOCK)
        if not strays:
            break
        killed += sum(send_signal(pid, signal.SIGKILL, is_stray) for pid in strays)
        time.sleep(_PAUSE)
    return killed
