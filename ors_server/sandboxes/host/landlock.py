"""Sandboxes by Landlock, for hosts that refuse namespaces, such as a container with the default profile.

The kernel's rules let a session read the system and write its own folder, and nothing else; a seccomp filter
leaves it local sockets only; with root it gets its own uid. What this cannot isolate is in the report.
The same cell without rules and filter is the backend `none`.
"""

import marshal
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import anyio
from typing_extensions import override

from ors_server.processes.host_processes import (
    ancestors,
    descendants,
    ended,
    has_mark,
    is_zombie,
    marked_processes,
    processes_of_uids,
    send_signal,
    threads_of_uid,
)
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cells.cell import Cell, FreshFolders
from ors_server.sandboxes.cells.fresh_files import SharedFolder
from ors_server.sandboxes.cells.fresh_process import SYSTEM_PATH, ProcessStreams, start_with
from ors_server.sandboxes.cells.hidden_paths import readable_around
from ors_server.sandboxes.cells.seccomp import Policy, program
from ors_server.sandboxes.cells.server_state import ServerState, remove_tree
from ors_server.sandboxes.fresh import FreshProgram
from ors_server.sandboxes.host import launcher
from ors_server.sandboxes.hosted import HostedBackend
from ors_server.sandboxes.isolation_report import IsolatedResource, IsolationReport, Strength
from ors_server.sandboxes.sandbox_errors import SandboxError, SandboxUnavailableError
from ors_server.sandboxes.shell_scripts import SandboxLayout, ulimits

LOCAL_SOCKETS_ONLY = (1,)
"""AF_UNIX: Landlock filters only TCP, so every other family is refused."""
_FILTERED = Policy(families=LOCAL_SOCKETS_ONLY, shared_ipc=False)
_FOLDERS = ("work", "home", "tmp", "state")
MARK = "ORS_SANDBOX"
System: TypeAlias = tuple[Sequence[str], Sequence[str]]
"""System paths that may be read whole, and folders that may only be listed."""
_READABLE = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc"),
    *("/etc/ld.so.cache", "/etc/alternatives", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf"),
    *("/etc/hosts", "/etc/localtime", "/etc/magic", "/etc/mime.types", "/etc/services", "/etc/protocols"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/vim"),
)
_USABLE = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SYSTEM: System = (_READABLE, ())
"""All of it."""
_REAP_LIMIT = 1.0
_SWEEPS = 1000
_SWEEP_PAUSE = 0.02


class LandlockCell(Cell):
    """One session's folder and processes, confined by rules or (`confined=False`) not at all."""

    fresh_ending = signal.SIGTERM

    def __init__(
        self, state: ServerState, limits: Limits, *, confined: bool = True, system: System | None = None
    ) -> None:
        self._confined = confined
        self._system = system or SYSTEM
        self._launches = 0
        super().__init__(state, limits)
        self._fresh_files = SharedFolder(self._folder.path / "grader")
        self.fresh_dir = str(self._fresh_files.path)

    @override
    def make_layout(self) -> SandboxLayout:
        return SandboxLayout(
            work=str(self._data / "work"),
            home=str(self._data / "home"),
            temporary=str(self._data / "tmp"),
            control=str(self.control),
            state=str(self._data / "state"),
        )

    @override
    def counted_limits(self) -> Limits:
        """Return the limits as the kernel counts them: processes by uid, including existing ones."""
        if self.enforced().pids:
            return self.limits
        return replace(self.limits, pids=self.limits.pids + threads_of_uid(self.uid or os.getuid()))

    @override
    def prepare(self) -> None:
        """Create the session's folders too; the parent stays the server's, so they cannot be replaced."""
        super().prepare()
        for name in _FOLDERS:
            self._make_own(self._data / name)
        self.attach_files(str(self._data))

    @override
    def spawn_first(self, slave: int) -> "subprocess.Popen[bytes]":
        orders = self._orders(["/bin/sh", f"{self.layout.control}/init"], self.layout.work)
        orders["limits"] = {"RLIMIT_CORE": 0, "RLIMIT_SIGPENDING": 4 * self.limits.pids}
        orders["entrances"] = self._cgroup.entrances if self._cgroup is not None else []
        # The shell needs a controlling terminal, which only the leader of a new terminal session can take.
        process = self._spawn(orders, ProcessStreams(slave, slave, slave), lead=["setsid", "-c"])
        self.init = process.pid
        return process

    @override
    async def finish_launch(self) -> None:
        """Do nothing: the init is the process that was started."""

    @override
    def is_inside(self, pid: int) -> bool:
        """Return whether a process runs under the session's uid, or descends from its init."""
        if self.uid is not None:
            try:
                return Path(f"/proc/{pid}").stat().st_uid == self.uid
            except OSError:
                return False
        if self._cgroup is not None:
            return pid in self._cgroup.processes()
        # A process may start another one without the mark, or be adopted by the host's first process: either
        # sign is enough.
        return has_mark(pid, f"{MARK}={self._mark}") or self.init in ancestors(pid)

    @override
    def processes(self) -> list[int]:
        """Return the pids of the session: by uid, by cgroup, else by descent and by mark."""
        if self.uid is not None:
            # Fresh programs have the same uid, and outlive the session's processes.
            fresh = {pid for process in self._fresh for pid in descendants(process.pid)}
            return [pid for pid in processes_of_uids(self.uid) if pid not in fresh]
        if self._cgroup is not None:
            return self._cgroup.processes()
        below_init = descendants(self.init) if self.init else []
        return [
            *below_init,
            *(pid for pid in marked_processes(f"{MARK}={self._mark}") if pid not in below_init),
        ]

    @override
    def start_beside(self, argv: list[str], *, stdin: int, stdout: int) -> "subprocess.Popen[bytes]":
        orders = self._orders(argv, str(self._data))
        orders["sees_all"] = self.uid is not None
        if orders["paths"] is not None:
            orders["paths"]["write"] = [str(self._data)]
        orders["entrances"] = self._cgroup.thawed_entrances if self._cgroup is not None else []
        return self._spawn(orders, ProcessStreams(stdin, stdout, subprocess.PIPE), lead=[])

    @override
    async def end_processes(self) -> None:
        """Kill the session's processes until none is left; a new fork is killed in the next pass.

        The init is killed last and reaps the others first: a dead process counts against the limits of its
        uid and its cgroup until it is reaped, and the host's first process may do that late.
        """
        # The init's script looks for this file before it starts another shell.
        stop = self.control / "stop"
        stop.touch()
        await self._kill_all(but=self.init)
        send_signal(self.init, signal.SIGCONT, self.is_inside)
        await ended(self._first_pidfd, _REAP_LIMIT)
        await self._kill_all(but=None)
        stop.unlink()
        # The next launch gets a new cgroup: processes that are not reaped count in the old one.
        if self._cgroup is not None:
            await self._cgroup.remove()
            self._launches += 1
            self._cgroup = self.make_group(f"-{self._launches}")

    async def _kill_all(self, but: int | None) -> None:
        for _ in range(_SWEEPS):
            if self._cgroup is not None:
                self._cgroup.thaw()
            left = [pid for pid in self.processes() if pid != but and not is_zombie(pid)]
            if not left:
                return
            # All are stopped before the first is killed, so that none forks while the others die.
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in left:
                    send_signal(pid, number, self.is_inside)
            if but is not None:
                send_signal(but, signal.SIGSTOP, self.is_inside)
            await anyio.sleep(_SWEEP_PAUSE)
        raise SandboxError("processes of a sandbox cannot be killed")

    # Fresh programs

    @override
    async def make_folders(self, request: FreshProgram, number: int) -> FreshFolders:
        temporary = self._folder.path / f"fresh-{number}"
        self._make_own(temporary)
        if not request.files:
            return FreshFolders(temporary=temporary)
        try:
            await self._fresh_files.take(request.files)
        except BaseException:
            remove_tree(temporary)
            raise
        return FreshFolders(self._fresh_files.path, temporary)

    @override
    def remove_folders(self, folders: FreshFolders) -> None:
        if folders.files is not None:
            self._fresh_files.leave()
        if folders.temporary is not None:
            remove_tree(folders.temporary)

    @override
    def spawn_fresh(
        self, request: FreshProgram, folders: FreshFolders, ends: ProcessStreams
    ) -> "subprocess.Popen[bytes]":
        script = ulimits(self.counted_limits(), self.enforced()) + '\nexec "$@"'
        orders = self._orders(["/bin/sh", "-c", script, "sh", *request.argv], self.layout.work)
        orders["limits"] = {"RLIMIT_CORE": 0, "RLIMIT_SIGPENDING": 4 * self.limits.pids}
        orders["entrances"] = folders.entrances
        orders["environment"] = {**request.variables(str(folders.temporary)), MARK: f"{self._mark}-fresh"}
        orders["status"] = ends.status
        if self._confined:
            # Not the session's own rules: a fresh program must not write into the work dir, nor see the home.
            shown = [path for path in (self.layout.work, folders.files) if path is not None]
            orders["paths"] = rules(self._system, read=shown, write=[folders.temporary])
        return self._spawn(orders, ends, lead=[])

    # How everything is started

    def _spawn(
        self, orders: dict[str, Any], ends: ProcessStreams, lead: list[str]
    ) -> "subprocess.Popen[bytes]":
        return start_with(
            marshal.dumps(orders),
            lambda fd: [*lead, sys.executable, "-I", "-S", launcher.__file__, str(fd)],
            ends,
            environment=SYSTEM_PATH,
            leads_session=not lead,
        )

    def _orders(self, argv: list[str], folder: str) -> dict[str, Any]:
        confined = self._confined
        # Not the folder above them, or they could be renamed where the session's uid is the server's.
        own_folders = [self._data / name for name in _FOLDERS]
        own = rules(self._system, read=[self.control], use=[self.control / "io"], write=own_folders)
        return {
            "argv": argv,
            "folder": folder,
            "uid": self.uid,
            "sees_all": False,
            "entrances": [],
            "limits": {},
            "environment": {**self.layout.environment, MARK: self._mark},
            "paths": own if confined else None,
            "filter": program(_FILTERED) if confined else None,
            "status": None,
        }

    def _make_own(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        if self.uid is not None:
            os.chown(folder, self.uid, self.uid)


class LandlockBackend(HostedBackend):
    """Sandboxes by the kernel's rules."""

    name = "landlock"
    _system: System | None = None

    @override
    def make_cell(self, limits: Limits) -> Cell:
        if self._system is None:
            self._system = readable_around(SYSTEM[0], self.state.hidden)
        return LandlockCell(self.state, limits, system=self._system)

    @override
    def check_host(self) -> None:
        """Ask the kernel for Landlock, and check for the programs."""
        if launcher.abi() < 1:
            raise SandboxUnavailableError(
                "the kernel has no Landlock, or it is switched off (lsm=... at boot)"
            )
        if shutil.which("setsid") is None:
            raise SandboxUnavailableError("not installed: setsid (Debian: util-linux)")
        program()

    @override
    def describe(self) -> IsolationReport:
        has, version = self.state.hierarchies.has, launcher.abi()
        cgroup = f"cgroup v{self.state.hierarchies.version}"
        mechanisms = {
            IsolatedResource.FILES: "Landlock",
            IsolatedResource.NETWORK: "seccomp: local sockets only",
        }
        gaps = [
            "The argument lists of all processes on the host can be read.",
            "Sockets with a path that others may connect to can be reached.",
            "Disk and inodes are not limited, only the size of one file.",
            "There is no private /tmp and no /dev/shm; TMPDIR names the session's own folder.",
            "A server inside cannot be reached from inside over TCP.",
        ]
        if self.state.uids:
            mechanisms[IsolatedResource.SESSIONS] = "own uid, Landlock"
            mechanisms[IsolatedResource.PROCESSES] = "own uid"
        else:
            mechanisms[IsolatedResource.SESSIONS] = "Landlock"
            gaps.append("Processes share the server's uid: its priority can be lowered, its quotas used up.")
            gaps.append("Modes, owners and times of the server's own files can be changed, contents cannot.")
            if version >= 6:  # noqa: PLR2004 # the Landlock ABI that scopes signals
                mechanisms[IsolatedResource.PROCESSES] = "Landlock scopes"
        mechanisms |= {
            resource: cgroup
            for resource in (IsolatedResource.MEMORY, IsolatedResource.CPU, IsolatedResource.PIDS)
            if has(resource)
        }
        if IsolatedResource.PIDS not in mechanisms:
            if self.state.uids:
                mechanisms[IsolatedResource.PIDS] = "process limit of the uid"
            else:
                gaps.append("The number of processes is limited together with the server's own.")
        gaps += [
            f"{name} is not limited for the session as a whole."
            for name in ("memory", "cpu")
            if not has(name)
        ]
        strength = Strength.OWN_UID if self.state.uids else Strength.PARTIAL
        return IsolationReport(self.name, strength, MappingProxyType(mechanisms), tuple(gaps))


def rules(
    system: System,
    *,
    read: Sequence[str | Path],
    write: Sequence[str | Path | None],
    use: Sequence[str | Path] = (),
) -> dict[str, list[str]]:
    """Return the launcher's rules: the system, harmless devices, the paths; `use` allows no new files."""
    readable, listed = system
    return {
        "list": list(listed),
        "read": [*readable, *map(str, read)],
        "use": [*_USABLE, *map(str, use)],
        "write": [str(path) for path in write if path is not None],
    }
