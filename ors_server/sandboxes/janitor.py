"""Cleans up what dead servers left; touches nothing without their mark, and nothing whose owner lives."""

import contextlib
import json
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ors_server.sandboxes.cgroups import remove_group
from ors_server.sandboxes.landlock import kill_marked
from ors_server.sandboxes.processes import has_uid, processes_of_uids, send_signal
from ors_server.sandboxes.state import MARK, OWNER, base_folder, remove_tree
from ors_server.sandboxes.uids import FIRST_UID, UIDS_PER_BLOCK, try_lock


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
        if not folder.is_dir() or folder.is_symlink():
            continue
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
    for parent in record.get("cgroup_parents", []):
        for group in Path(parent).glob(f"{MARK}{server}-*"):
            _kill_group(group)
            remove_group(group)
    if os.geteuid() != 0:
        kill_marked(server)
    quick = Path(record.get("quick", folder))
    if quick.name == folder.name:  # a server's own folders bear its name, wherever they stand
        remove_tree(quick)
    remove_tree(folder)


def _record(lock: int) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads(os.pread(lock, 65_536, 0))
        return found
    return {}


def _kill_group(group: Path) -> None:
    with contextlib.suppress(OSError):
        (group / "freezer.state").write_text("THAWED")
    with contextlib.suppress(OSError):
        (group / "cgroup.kill").write_text("1")
        return
    for pid in _members(group):
        send_signal(pid, signal.SIGKILL, lambda pid: pid in _members(group))


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

    strays = processes_of_uids(first, UIDS_PER_BLOCK)
    return sum(send_signal(pid, signal.SIGKILL, is_stray) for pid in strays)
