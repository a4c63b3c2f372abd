"""Sandboxes by Landlock: for places where namespaces are refused, such as a container with the stock profile.

The kernel's rules let a session read the system and write its own folder, and nothing else; a seccomp filter
leaves it local sockets only; with root it gets a uid of its own. What this cannot hold is said in the report.
The same cell without rules and filter is the backend `none`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import anyio
from typing_extensions import override

from ors_server.sandboxes import launcher
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cell import Cell
from ors_server.sandboxes.cgroups import Cgroup
from ors_server.sandboxes.errors import SandboxError, SandboxStartError, SandboxUnavailableError
from ors_server.sandboxes.hosted import HostedBackend
from ors_server.sandboxes.processes import descendants, ended, is_zombie, processes_of_uids, send_signal
from ors_server.sandboxes.scripts import Enforced, Layout, init_script, rc_script
from ors_server.sandboxes.seccomp import Policy, program
from ors_server.sandboxes.state import ServerState, SessionFolder
from ors_server.sandboxes.tier import Resource, Strength, TierReport

LOCAL_SOCKETS_ONLY = (1,)
"""AF_UNIX: Landlock judges TCP only, so every other family has to go."""
_READABLE = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc"),
    *("/etc/ld.so.cache", "/etc/alternatives", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf"),
    *("/etc/hosts", "/etc/localtime", "/etc/magic", "/etc/mime.types", "/etc/services", "/etc/protocols"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/vim"),
)
_USABLE = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_MARK = "ORS_SANDBOX"
_KILL_LIMIT = 5.0
_REAP_LIMIT = 1.0
_SWEEPS = 50
_SWEEP_PAUSE = 0.02


@dataclass(frozen=True)
class _Ends:
    """Where a new process's three streams lead."""

    stdin: int
    stdout: int
    stderr: int


class LandlockCell(Cell):
    """One session's folder and processes, confined by rule or (`confined=False`) not at all."""

    def __init__(self, state: ServerState, limits: Limits, *, confined: bool = True) -> None:
        self.limits = limits
        self.init = 0
        self._state = state
        self._confined = confined
        self._folder: SessionFolder = state.open_session()
        self.owner = self._folder.owner
        self.control = self._folder.path / "control"
        self._data = self._folder.path / "files"
        self.layout = Layout(
            work=str(self._data / "work"),
            home=str(self._data / "home"),
            temporary=str(self._data / "tmp"),
            control=str(self.control),
            state=str(self._data / "state"),
        )
        self._mark = f"{state.server_id}-{self._folder.name}"
        self._cgroup = Cgroup.make(state.hierarchies, f"ors-{self._mark}", limits)
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._launches = 0
        self._prepare()
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        self._files = os.open(self._data, flags)
        self._work = os.open("work", flags | os.O_NOFOLLOW, dir_fd=self._files)

    def _prepare(self) -> None:
        (self.control / "io").mkdir(parents=True)
        self._data.mkdir()
        for name in ("work", "home", "tmp", "state"):
            (self._data / name).mkdir(mode=0o700)
        if self.owner is not None:
            for path in self._data.iterdir():  # the folder above stays root's, so they cannot be swapped
                os.chown(path, self.owner, self.owner)
        has = self._state.hierarchies.has
        enforced = Enforced(
            memory=self._cgroup is not None and has("memory"), pids=self._cgroup is not None and has("pids")
        )
        (self.control / "init").write_text(init_script(self.layout, self.limits, enforced))
        (self.control / "rc").write_text(rc_script(self.layout))
        (self.control / "cwd").write_text(self.layout.work + "/")

    @override
    def launch(self, slave: int) -> None:
        """Start the init on a terminal.

        Args:
            slave: The shell's end of the terminal.
        """
        try:
            argv = ["/bin/sh", f"{self.layout.control}/init"]
            self._process = self._spawn(argv, _Ends(slave, slave, slave), beside=False)
        finally:
            os.close(slave)
        self._pidfd = os.pidfd_open(self._process.pid)
        self.init = self._process.pid

    @override
    async def settle(self) -> None:
        """Nothing: the init is the process that was started."""

    @override
    def work_folder(self) -> int:
        """Return the descriptor of the work dir."""
        return self._work

    @override
    def files_folder(self) -> int:
        """Return the descriptor of the folder above the work dir."""
        return self._files

    @override
    def is_inside(self, pid: int) -> bool:
        """Tell whether a process runs under the session's uid, or descends from its init.

        Args:
            pid: As the server sees it.
        """
        if self.owner is not None:
            try:
                return Path(f"/proc/{pid}").stat().st_uid == self.owner
            except OSError:
                return False
        return pid in self.processes()

    @override
    def processes(self) -> list[int]:
        """Return the pids of the session: by uid, by cgroup, else by descent and by mark."""
        if self.owner is not None:
            return processes_of_uids(self.owner)
        if self._cgroup is not None:
            return self._cgroup.processes()
        found = descendants(self.init) if self.init else []
        return [*found, *(pid for pid in marked_processes(self._mark) if pid not in found)]

    @override
    def alive(self) -> int:
        """Return how many processes live, threads included where a cgroup counts them."""
        return (self._cgroup.alive() if self._cgroup is not None else 0) or len(self.processes())

    @override
    def denials(self) -> int:
        """Return how often the pids controller refused a process."""
        return self._cgroup.denials() if self._cgroup is not None else 0

    @override
    def start_beside(self, argv: list[str], *, stdin: int, stdout: int) -> subprocess.Popen[bytes]:
        """Run a program under the same rules over the session's files.

        Args:
            argv: What to run, by its path inside.
            stdin: Descriptor, or `subprocess.DEVNULL`.
            stdout: Descriptor, or `subprocess.DEVNULL`.
        """
        return self._spawn(argv, _Ends(stdin, stdout, subprocess.PIPE), beside=True)

    @override
    async def kill(self) -> None:
        """Kill the session's processes until none is left; a fork between two looks is met by the next.

        The init goes last and reaps the others first: a dead process counts against the limits of its uid and
        its cgroup until somebody has reaped it, and the host's first process may take its time.
        """
        if self._process is None:
            return
        stop = self.control / "stop"
        stop.touch()
        await self._kill_all(but=self.init)
        send_signal(self.init, signal.SIGCONT, self.is_inside)
        await ended(self._pidfd, _REAP_LIMIT)
        await self._kill_all(but=None)
        await ended(self._pidfd, _KILL_LIMIT)
        self._process.wait()
        os.close(self._pidfd)
        self._process, self.init, self._pidfd = None, 0, -1
        stop.unlink()
        await self._renew_cgroup()

    async def _kill_all(self, but: int | None) -> None:
        for _ in range(_SWEEPS):
            if self._cgroup is not None:
                self._cgroup.thaw()
            left = [pid for pid in self.processes() if pid != but and not is_zombie(pid)]
            if not left:
                return
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in left:
                    send_signal(pid, number, self.is_inside)
            if but is not None:
                send_signal(but, signal.SIGSTOP, self.is_inside)
            await anyio.sleep(_SWEEP_PAUSE)
        raise SandboxError("processes of a sandbox cannot be killed")

    async def _renew_cgroup(self) -> None:
        """Start the next launch in a fresh group: what nobody has reaped stays charged to the old one."""
        if self._cgroup is not None:
            await self._cgroup.remove()
            self._launches += 1
            name = f"ors-{self._mark}-{self._launches}"
            self._cgroup = Cgroup.make(self._state.hierarchies, name, self.limits)

    @override
    async def freeze(self) -> None:
        """Stop every process, by the cgroup's freezer or by signals."""
        if self._cgroup is None or not self._cgroup.freeze():
            self.signal_all(signal.SIGSTOP)

    @override
    async def thaw(self) -> None:
        """Let every process go on."""
        if self._cgroup is None or not self._cgroup.thaw():
            self.signal_all(signal.SIGCONT)

    @override
    async def aclose(self) -> None:
        """End every process, remove the folder."""
        await self.kill()
        for descriptor in (self._work, self._files):
            if descriptor >= 0:
                os.close(descriptor)
        self._work = self._files = -1
        if self._cgroup is not None:
            await self._cgroup.remove()
            self._cgroup = None
        if self._folder.path.exists():
            self._state.close_session(self._folder)

    def _spawn(self, argv: list[str], ends: _Ends, *, beside: bool) -> subprocess.Popen[bytes]:
        reading, writing = os.pipe()
        try:
            os.write(writing, json.dumps(self._orders(argv, beside=beside)).encode())
        finally:
            os.close(writing)
        # A session's first process leads a terminal session of its own; a copier needs none.
        lead = [] if beside else ["setsid", "-c"]
        try:
            return subprocess.Popen(  # noqa: S603 # a list of our own making
                [*lead, sys.executable, "-I", "-S", launcher.__file__, str(reading)],
                stdin=ends.stdin,
                stdout=ends.stdout,
                stderr=ends.stderr,
                pass_fds=[reading],
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                cwd="/",
            )
        except OSError as error:
            raise SandboxStartError(f"cannot start the launcher: {error}") from error
        finally:
            os.close(reading)

    def _orders(self, argv: list[str], *, beside: bool) -> dict[str, object]:
        entrances: list[str] = []
        if self._cgroup is not None:
            entrances = self._cgroup.thawed_entrances if beside else self._cgroup.entrances
        return {
            "argv": argv,
            "folder": str(self._data) if beside else self.layout.work,
            "uid": self.owner,
            "sees_all": beside and self.owner is not None,
            "entrances": entrances,
            "limits": {} if beside else {"RLIMIT_CORE": 0, "RLIMIT_SIGPENDING": 4 * self.limits.pids},
            "environment": {**self.layout.environment, _MARK: self._mark},
            "paths": self._paths() if self._confined else None,
            "filter": b64encode(self._filter()).decode() if self._confined else None,
        }

    def _filter(self) -> bytes:
        return program(Policy(families=LOCAL_SOCKETS_ONLY, shared_ipc=False))

    def _paths(self) -> dict[str, Sequence[str]]:
        return {
            "read": [*_READABLE, str(self.control)],
            "use": [*_USABLE, str(self.control / "io")],
            "write": [str(self._data)],
        }


class LandlockBackend(HostedBackend):
    """Sandboxes by the kernel's rules."""

    name = "landlock"

    @override
    def make_cell(self, limits: Limits) -> Cell:
        """Make a session's folder.

        Args:
            limits: What the session may use.
        """
        return LandlockCell(self.state, limits)

    @override
    def check_host(self) -> None:
        """Ask the kernel for Landlock, and look for the programs."""
        if launcher.abi() < 1:
            raise SandboxUnavailableError(
                "the kernel has no Landlock, or it is switched off (lsm=... at boot)"
            )
        if shutil.which("setsid") is None:
            raise SandboxUnavailableError("not installed: setsid (Debian: util-linux)")
        program()

    @override
    def describe(self) -> TierReport:
        """Tell what a session of this backend is held by on this machine."""
        has, version = self.state.hierarchies.has, launcher.abi()
        cgroup = f"cgroup v{self.state.hierarchies.version}"
        held = {Resource.FILES: "Landlock", Resource.NETWORK: "seccomp: local sockets only"}
        gaps = [
            "The argument lists of all processes on the host can be read.",
            "Sockets with a path that others may connect to can be reached.",
            "Disk and inodes are not limited, only the size of one file.",
            "There is no private /tmp and no /dev/shm; TMPDIR names the session's own folder.",
            "A server inside cannot be reached from inside over TCP.",
        ]
        if self.state.uids:
            held[Resource.SESSIONS] = "own uid, Landlock"
            held[Resource.PROCESSES] = "own uid"
        else:
            held[Resource.SESSIONS] = "Landlock"
            gaps.append("Processes share the server's uid: its priority can be lowered, its quotas used up.")
            if version >= 6:  # noqa: PLR2004 # the Landlock ABI that scopes signals
                held[Resource.PROCESSES] = "Landlock scopes"
        held |= {
            resource: cgroup for resource in (Resource.MEMORY, Resource.CPU, Resource.PIDS) if has(resource)
        }
        if Resource.PIDS not in held:
            if self.state.uids:
                held[Resource.PIDS] = "process limit of the uid"
            else:
                gaps.append("The number of processes is limited together with the server's own.")
        gaps += [
            f"{name} is not limited for the session as a whole."
            for name in ("memory", "cpu")
            if not has(name)
        ]
        strength = Strength.OWN_UID if self.state.uids else Strength.PARTIAL
        return TierReport(self.name, strength, MappingProxyType(held), tuple(gaps))


def marked_processes(mark: str) -> list[int]:
    """Return this user's processes that were started with a mark in their environment.

    Args:
        mark: A session's, or the server's id with which its sessions' marks begin.
    """
    wanted = f"{_MARK}={mark}".encode()
    found: list[int] = []
    for pid in processes_of_uids(os.getuid()):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if any(entry.startswith(wanted) for entry in environment.split(b"\0")):
            found.append(pid)
    return found


def kill_marked(mark: str) -> None:
    """Kill the processes that carry a mark.

    Args:
        mark: Or its beginning.
    """
    for pid in marked_processes(mark):
        send_signal(pid, signal.SIGKILL, lambda pid: pid in marked_processes(mark))
