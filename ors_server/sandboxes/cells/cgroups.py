"""Limits on a whole session through cgroups: version 2 if its controllers can be used, else 1.

A controller that cannot be written is not used, and the isolation report says so.
"""

import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from ors_server.processes.host_processes import send_signal
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cells.descriptors import close_all

_PERIOD_US = 100_000
SHARES = 256
"""Version 1: a quarter of the server's own group (1024), when both want the processor."""
_WEIGHT = 25
"""The same in version 2, whose default is 100."""
_CONTROLLERS = ("memory", "pids", "cpu")
_MOUNTS = Path("/sys/fs/cgroup")
_REMOVE_TRIES = 50
_REMOVE_PAUSE = 0.01
_FREEZE_LOOKS = 200


@dataclass(frozen=True)
class Hierarchies:
    """The places where this server may create cgroups."""

    version: int
    """1, 2, or 0 for nowhere."""
    parents: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Controller to the folder in which cgroups are created; in version 2 all have the same."""

    def has(self, controller: str) -> bool:
        """Return whether a controller can be used: memory, pids, cpu or freezer."""
        return controller in self.parents


def find_hierarchies(mounts: Path = _MOUNTS, own: Path = Path("/proc/self/cgroup")) -> Hierarchies:
    """Find where cgroups can be created; creates and removes one to be sure."""
    try:
        ours = _groups(own)
    except OSError:
        return Hierarchies(0)
    # Version 2 or version 1, never both: on a hybrid host a controller belongs to exactly one of them.
    unified = _unified(mounts, ours.get("", "/"))
    if unified is not None:
        return Hierarchies(2, dict.fromkeys((*_CONTROLLERS, "freezer"), unified))
    parents: dict[str, Path] = {}
    for controller in (*_CONTROLLERS, "freezer"):
        if controller in ours:
            parent = mounts / controller / ours[controller].lstrip("/")
            if _is_writable(parent):
                parents[controller] = parent
    return Hierarchies(1 if parents else 0, parents)


def _unified(mounts: Path, own: str) -> Path | None:
    """Return the version-2 cgroup that can delegate its controllers to children, if there is one."""
    parent = mounts / own.lstrip("/")
    try:
        offered = (parent / "cgroup.controllers").read_text().split()
        if not set(_CONTROLLERS) <= set(offered) or not _is_writable(parent):
            return None
        passed_on = (parent / "cgroup.subtree_control").read_text().split()
        if not set(_CONTROLLERS) <= set(passed_on):
            # EBUSY while processes sit in the group itself (cgroups(7), "no internal processes").
            (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in _CONTROLLERS))
    except OSError:
        return None
    return parent


def _is_writable(parent: Path) -> bool:
    probe = parent / f"ors-probe-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True


class ProcessCounters:
    """The kernel's counters of the processes in one cgroup; nothing is written to it.

    Their files stay open, because every command reads them.
    """

    def __init__(self, folder: Path | None) -> None:
        """Keep the folder of the controller `pids`; `None` if nothing is counted."""
        self._folder = folder
        self._open: dict[str, int] = {}

    def alive(self) -> int:
        """Return how many processes and threads are inside; 0 if that is not counted."""
        words = self._read("pids.current")
        return int(words[0]) if words else 0

    def denials(self) -> int:
        """Return how often the process limit refused a process."""
        words = self._read("pids.events")
        return int(words[1]) if len(words) > 1 else 0

    def close(self) -> None:
        """Close the files that are held open."""
        close_all(*self._open.values())
        self._open.clear()

    def _read(self, name: str) -> list[bytes]:
        """Return the words of a file; none if it does not exist."""
        if self._folder is None:
            return []
        try:
            if name not in self._open:
                self._open[name] = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._open[name], 256, 0).split()
        except OSError:
            return []


def counters_of(pid: int, mounts: Path = _MOUNTS) -> ProcessCounters:
    """Return the counters of the cgroup that a process of this host's pid namespace is in."""
    own_groups = _groups(Path(f"/proc/{pid}/cgroup"))
    own = own_groups["pids"] if "pids" in own_groups else own_groups.get("", "/")
    return ProcessCounters(mounts / ("pids" if "pids" in own_groups else "") / own.lstrip("/"))


def _groups(file: Path) -> dict[str, str]:
    """Return controller to path, as /proc/<pid>/cgroup lists them; version 2 has the name ""."""
    rows = [line.split(":", 2) for line in file.read_text().splitlines()]
    return {name: path for _, names, path in rows for name in names.split(",")}


class Cgroup(ProcessCounters):
    """The cgroups of one session, one folder per hierarchy."""

    def __init__(self, hierarchies: Hierarchies, folders: dict[str, Path]) -> None:
        super().__init__(folders.get("pids"))
        self.hierarchies = hierarchies
        self.folders = folders

    @classmethod
    def make(cls, hierarchies: Hierarchies, name: str, limits: Limits) -> "Cgroup | None":
        """Create a session's cgroups and set their limits."""
        if not hierarchies.version:
            return None
        group = cls(hierarchies, {key: parent / name for key, parent in hierarchies.parents.items()})
        try:
            for folder in set(group.folders.values()):
                folder.mkdir()
            group._set(limits)
        except OSError:
            group.discard()
            return None
        return group

    @property
    def entrances(self) -> list[str]:
        """Files into which a process writes 0 to enter."""
        return sorted({str(folder / "cgroup.procs") for folder in self.folders.values()})

    @property
    def thawed_entrances(self) -> list[str]:
        """The same, without those through which a process would be frozen at once."""
        if self.hierarchies.version == 2:  # noqa: PLR2004 # the version of cgroups
            return [] if self.is_frozen() else self.entrances
        return [str(folder / "cgroup.procs") for key, folder in self.folders.items() if key != "freezer"]

    def processes(self) -> list[int]:
        """Return the pids inside."""
        for folder in self.folders.values():
            if pids := members(folder):
                return pids
        return []

    def freeze(self) -> bool:
        """Stop every process inside; return whether the kernel can."""
        return self._switch("1", "FROZEN")

    def thaw(self) -> bool:
        """Let everything inside continue; returns whether that is possible."""
        return self._switch("0", "THAWED")

    def is_frozen(self) -> bool:
        """Return whether everything inside is stopped."""
        with contextlib.suppress(OSError, KeyError):
            if self.hierarchies.version == 2:  # noqa: PLR2004 # the version of cgroups
                return "frozen 1" in (self.folders["freezer"] / "cgroup.events").read_text()
            return (self.folders["freezer"] / "freezer.state").read_text().strip() == "FROZEN"
        return False

    def kill(self) -> None:
        """Kill everything inside, by the kernel's own switch if it has one (version 2)."""
        with contextlib.suppress(OSError, KeyError):
            (self.folders["pids"] / "cgroup.kill").write_text("1")
            return
        if self.freeze():  # so that nothing forks faster than it is killed
            any(self.is_frozen() for _ in range(_FREEZE_LOOKS))
        for pid in self.processes():
            send_signal(pid, signal.SIGKILL, lambda pid: pid in self.processes())
        self.thaw()

    def discard(self) -> None:
        """Remove the cgroups at once; no process has entered them yet."""
        for folder in set(self.folders.values()):
            try_remove(folder)

    async def remove(self) -> None:
        """Remove the cgroups; processes that were just killed get half a second to leave them."""
        self.close()
        left = set(self.folders.values())
        for _ in range(_REMOVE_TRIES):
            left = {folder for folder in left if not try_remove(folder)}
            if not left:
                return
            await anyio.sleep(_REMOVE_PAUSE)

    def _switch(self, unified: str, legacy: str) -> bool:
        folder = self.folders.get("freezer")
        if folder is None:
            return False
        version_one = self.hierarchies.version == 1
        try:
            if version_one:
                (folder / "freezer.state").write_text(legacy)
            else:
                (folder / "cgroup.freeze").write_text(unified)
        except OSError:
            return False
        return True

    def _set(self, limits: Limits) -> None:
        for controller, files in _settings(self.hierarchies.version, limits).items():
            folder = self.folders.get(controller)
            for name, value in files.items():
                if folder is not None:
                    with contextlib.suppress(FileNotFoundError):  # swap accounting is a kernel option
                        (folder / name).write_text(value)


def _settings(version: int, limits: Limits) -> dict[str, dict[str, str]]:
    """Return controller to file to value."""
    quota = int(limits.cpus * _PERIOD_US)
    if version == 1:
        return {
            "memory": {
                "memory.limit_in_bytes": str(limits.memory_bytes),
                "memory.memsw.limit_in_bytes": str(limits.memory_bytes),
            },
            "pids": {"pids.max": str(limits.pids)},
            "cpu": {
                "cpu.cfs_period_us": str(_PERIOD_US),
                "cpu.cfs_quota_us": str(quota),
                "cpu.shares": str(SHARES),
            },
        }
    return {
        "memory": {"memory.max": str(limits.memory_bytes), "memory.swap.max": "0"},
        "pids": {"pids.max": str(limits.pids)},
        "cpu": {"cpu.max": f"{quota} {_PERIOD_US}", "cpu.weight": str(_WEIGHT)},
    }


def members(folder: Path) -> list[int]:
    """Return the pids in one cgroup; none if it is gone."""
    with contextlib.suppress(OSError):
        return [int(pid) for pid in (folder / "cgroup.procs").read_text().split()]
    return []


def try_remove(folder: Path) -> bool:
    """Remove one cgroup unless a process, or a dying one, is in it; returns whether it is gone."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
