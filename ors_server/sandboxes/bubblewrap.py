"""Sandboxes by bubblewrap: namespaces for everything, a seccomp filter, and quotas, with or without root.

The session's files live on one tmpfs with a size and an inode quota. It is mounted in a mount namespace of
the session's own (with root `unshare -m`, without it a user namespace that maps the server's own uid), so
the host's mount table does not grow with the sessions, and the last process to go takes the files with it.
The server holds that namespace open: processes can be killed and started anew over the same files.
"""

import json
import os
import platform
import shutil
import signal
import subprocess
from pathlib import Path
from types import MappingProxyType

from typing_extensions import override

from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cell import Cell
from ors_server.sandboxes.cgroups import Cgroup
from ors_server.sandboxes.errors import SandboxError, SandboxStartError, SandboxUnavailableError
from ors_server.sandboxes.hosted import HostedBackend
from ors_server.sandboxes.processes import ended, namespace_of, send_signal
from ors_server.sandboxes.scripts import Enforced, Layout, init_script, rc_script
from ors_server.sandboxes.seccomp import Policy, program
from ors_server.sandboxes.state import ServerState, SessionFolder
from ors_server.sandboxes.tier import Resource, Strength, TierReport

LAYOUT = Layout(
    work="/work",
    home="/home/agent",
    temporary="/tmp",  # noqa: S108 # the sandbox's own
    control="/run/ors",
    state="/run/ors-state",
)
_INNER_ID = "1000"
_PROGRAMS = ("bwrap", "unshare", "nsenter", "setsid", "setpriv", "mount", "install", "sh")
_KILL_LIMIT = 5.0
_SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")

# $1: mount point, $2: options, $3: owner or "", then the command; entrances of cgroups are its environment.
_MOUNT_AND_ENTER = """\
for entrance in $ORS_ENTRANCES; do echo 0 >"$entrance" || exit 71; done
mount -t tmpfs -o "$2" ors "$1" || exit 72
install -d -m 0700 ${3:+-o "$3" -g "$3"} "$1/work" "$1/home" "$1/state" || exit 73
install -d -m 1777 ${3:+-o "$3" -g "$3"} "$1/tmp" || exit 73
shift 3
exec "$@"
"""
_ENTER = """\
for entrance in $ORS_ENTRANCES; do echo 0 >"$entrance" || exit 71; done
exec "$@"
"""


class BubblewrapCell(Cell):
    """One session's namespaces."""

    def __init__(self, state: ServerState, limits: Limits) -> None:
        self.layout = LAYOUT
        self.limits = limits
        self.init = 0
        self._state = state
        self._folder: SessionFolder = state.open_session()
        self.owner = self._folder.owner
        self.control = self._folder.path / "control"
        self._mount_point = self._folder.path / "files"
        self._cgroup = Cgroup.make(state.hierarchies, f"ors-{state.server_id}-{self._folder.name}", limits)
        self._monitor: subprocess.Popen[bytes] | None = None
        self._monitor_fd = -1
        self._namespaces: list[int] = []
        self._files = -1
        self._work = -1
        self._pid_namespace: str | None = None
        self._info = -1
        self._prepare()

    def _prepare(self) -> None:
        (self.control / "io").mkdir(parents=True)
        self._mount_point.mkdir()
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
        info, told = os.pipe()
        self._info = info
        argv = [*self._drop(), "setsid", "-c", *self._bwrap(told), "--", "/bin/sh", f"{LAYOUT.control}/init"]
        try:
            self._monitor = self._spawn(argv, stdin=slave, stdout=slave, stderr=slave, told=told)
        finally:
            os.close(slave)
            os.close(told)
        self._monitor_fd = os.pidfd_open(self._monitor.pid)

    @override
    async def settle(self) -> None:
        """Hold the session's namespaces and files open."""
        monitor = self._monitor
        if monitor is None:
            raise SandboxStartError("nothing was launched")
        try:
            self.init = int(json.loads(self._take_info())["child-pid"])
            self._pid_namespace = namespace_of(self.init, "pid")
            if not self._namespaces:
                self._namespaces = [
                    os.open(f"/proc/{monitor.pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
                    for kind in (("mnt",) if self.owner is not None else ("user", "mnt"))
                ]
                flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
                self._files = os.open(f"/proc/{monitor.pid}/root{self._mount_point}", flags)
                self._work = os.open("work", flags | os.O_NOFOLLOW, dir_fd=self._files)
        except (OSError, ValueError, KeyError) as error:
            raise SandboxStartError(f"the new sandbox cannot be reached: {error}") from error

    def _take_info(self) -> bytes:
        """Return what bubblewrap said; all of it is there once the shell has answered."""
        try:
            return os.read(self._info, 65_536)
        finally:
            os.close(self._info)
            self._info = -1

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
        """Tell whether a process lives in the session's pid namespace.

        Args:
            pid: As the server sees it.
        """
        return self._pid_namespace is not None and namespace_of(pid, "pid") == self._pid_namespace

    @override
    def alive(self) -> int:
        """Return how many processes live, threads included where a cgroup counts them."""
        counted = self._cgroup.alive() if self._cgroup is not None else 0
        return counted or len(self.processes())

    @override
    def denials(self) -> int:
        """Return how often the pids controller refused a process."""
        return self._cgroup.denials() if self._cgroup is not None else 0

    @override
    def start_beside(self, argv: list[str], *, stdin: int, stdout: int) -> subprocess.Popen[bytes]:
        """Run a program in namespaces of its own over the session's files.

        Args:
            argv: What to run, by its path inside.
            stdin: Descriptor, or `subprocess.DEVNULL`.
            stdout: Descriptor, or `subprocess.DEVNULL`.
        """
        command = [*self._drop(), *self._bwrap(None), "--", *argv]
        return self._spawn(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, told=None)

    @override
    async def kill(self) -> None:
        """Kill process 1, with which the kernel ends the whole namespace."""
        if self._monitor is None:
            return
        if self.init:
            send_signal(self.init, signal.SIGKILL, self.is_inside)
        else:
            self._monitor.kill()  # the launch never came far enough; its death takes the rest along
        if self._cgroup is not None:
            self._cgroup.thaw()
            self._cgroup.kill()
        if not await ended(self._monitor_fd, _KILL_LIMIT):
            self._monitor.kill()
            if not await ended(self._monitor_fd, _KILL_LIMIT):
                raise SandboxError(f"process {self._monitor.pid} of a sandbox cannot be killed")
        self._monitor.wait()
        os.close(self._monitor_fd)
        self._monitor, self.init, self._pid_namespace = None, 0, None
        if self._info >= 0:
            os.close(self._info)
            self._info = -1

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
        """End every process; the tmpfs goes with the last descriptor."""
        await self.kill()
        for descriptor in (*self._namespaces, self._files, self._work):
            if descriptor >= 0:
                os.close(descriptor)
        self._namespaces, self._files, self._work = [], -1, -1
        if self._cgroup is not None:
            await self._cgroup.remove()
            self._cgroup = None
        if self._folder.path.exists():
            self._state.close_session(self._folder)

    def _spawn(
        self, argv: list[str], *, stdin: int, stdout: int, stderr: int, told: int | None
    ) -> subprocess.Popen[bytes]:
        filter_fd = _as_pipe(program(Policy()))
        entrances = self._entrances(beside=told is None)
        argv = [part.replace("{seccomp}", str(filter_fd)) for part in argv]
        try:
            return subprocess.Popen(  # noqa: S603 # a list of our own making
                [*self._into_namespaces(), *argv],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=[fd for fd in (filter_fd, told, *self._namespaces) if fd is not None],
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "ORS_ENTRANCES": " ".join(entrances)},
                cwd="/",
            )
        except OSError as error:
            raise SandboxStartError(f"cannot start bubblewrap: {error}") from error
        finally:
            os.close(filter_fd)

    def _entrances(self, *, beside: bool) -> list[str]:
        if self._cgroup is None:
            return []
        return self._cgroup.thawed_entrances if beside else self._cgroup.entrances

    def _into_namespaces(self) -> list[str]:
        """Return the command that makes the session's outer namespaces, or enters them again."""
        if self._namespaces:
            enter = [f"--mount=/proc/self/fd/{self._namespaces[-1]}"]
            if self.owner is None:
                enter += [f"--user=/proc/self/fd/{self._namespaces[0]}", "--preserve-credentials"]
            return ["nsenter", *enter, "--", "sh", "-c", _ENTER, "sh"]
        limits = self.limits
        options = f"size={limits.disk_bytes},nr_inodes={limits.inodes},mode=0700,nosuid,nodev"
        if self.owner is not None:
            options += f",uid={self.owner},gid={self.owner}"
        make = ["unshare", "--mount", "--propagation", "private"]
        if self.owner is None:
            make += ["--user", "--map-root-user"]
        owner = "" if self.owner is None else str(self.owner)
        return [*make, "--", "sh", "-c", _MOUNT_AND_ENTER, "sh", str(self._mount_point), options, owner]

    def _drop(self) -> list[str]:
        """Return the command that gives root up."""
        if self.owner is None:
            return []
        return ["setpriv", f"--reuid={self.owner}", f"--regid={self.owner}", "--clear-groups", "--"]

    def _bwrap(self, told: int | None) -> list[str]:
        """Return bubblewrap and its options; without an info descriptor those of a program beside."""
        files, static = str(self._mount_point), self._state.static
        dead = str(static / "no-terminal")
        argv = [
            *("bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"),
            *("--unshare-cgroup-try", "--disable-userns", "--as-pid-1", "--die-with-parent"),
            *("--uid", _INNER_ID, "--gid", _INNER_ID, "--hostname", "sandbox", "--clearenv"),
            *_system(),
            *("--ro-bind", str(static / "etc"), "/etc"),
            *("--proc", "/proc", "--dev", "/dev"),
            *("--size", str(self.limits.shared_memory_bytes), "--tmpfs", "/dev/shm"),  # noqa: S108 # inside
            *("--ro-bind", dead, "/dev/tty", "--ro-bind", dead, "/dev/console", "--remount-ro", "/dev"),
        ]
        if told is None:
            argv += ["--bind", files, "/data", "--chdir", "/data"]
            argv += ["--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_FOWNER"]
        else:
            argv += ["--bind", f"{files}/work", LAYOUT.work, "--bind", f"{files}/home", LAYOUT.home]
            argv += ["--bind", str(self._mount_point / "tmp"), LAYOUT.temporary]
            argv += ["--bind", f"{files}/state", LAYOUT.state]
            argv += ["--symlink", LAYOUT.temporary, "/var/tmp"]  # noqa: S108 # inside
            argv += ["--ro-bind", str(self.control), LAYOUT.control, "--chdir", LAYOUT.work]
            argv += ["--info-fd", str(told)]
        argv += ["--remount-ro", "/", "--seccomp", "{seccomp}"]
        for name, value in self.layout.environment.items():
            argv += ["--setenv", name, value]
        return argv


class BubblewrapBackend(HostedBackend):
    """Sandboxes in namespaces."""

    name = "bubblewrap"

    @override
    def make_cell(self, limits: Limits) -> Cell:
        """Make a session's namespaces' host side.

        Args:
            limits: What the session may use.
        """
        return BubblewrapCell(self.state, limits)

    @override
    def check_host(self) -> None:
        """Look for the programs and the table that everything else needs."""
        missing = [name for name in _PROGRAMS if shutil.which(name) is None]
        if missing:
            raise SandboxUnavailableError(
                f"not installed: {', '.join(missing)}; on Debian: apt-get install -y bubblewrap util-linux"
            )
        program(machine=platform.machine())

    @override
    def describe(self) -> TierReport:
        """Tell what a session of this backend is held by on this machine."""
        has = self.state.hierarchies.has
        cgroup = f"cgroup v{self.state.hierarchies.version}"
        held = {
            Resource.FILES: "mount namespace",
            Resource.SESSIONS: "mount namespace" + (", own uid" if self.state.uids else ""),
            Resource.PROCESSES: "pid namespace",
            Resource.NETWORK: "network namespace, seccomp",
            Resource.PIDS: cgroup if has("pids") else "process limit of the user namespace",
            Resource.DISK: "tmpfs quota",
        }
        gaps: list[str] = []
        if has("memory"):
            held[Resource.MEMORY] = cgroup
        else:
            gaps.append("Memory is limited per process, not per session.")
        if has("cpu"):
            held[Resource.CPU] = cgroup
        else:
            gaps.append("Processor time is not limited.")
        if not self.state.uids:
            gaps.append("Sessions share the server's uid: its quota of inotify instances can be used up.")
        gaps.append("The kernel is shared: a hole in it is a way out.")
        return TierReport(self.name, Strength.NAMESPACES, MappingProxyType(held), tuple(gaps), loopback=True)


def _system() -> list[str]:
    """Return the options that show the host's programs, as the host lays them out."""
    argv = ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM_FOLDERS:
        folder = Path("/") / name
        if folder.is_symlink():
            argv += ["--symlink", str(folder.readlink()).lstrip("/"), f"/{name}"]
        elif folder.is_dir():
            argv += ["--ro-bind", str(folder), str(folder)]
    return argv


def _as_pipe(content: bytes) -> int:
    """Return a descriptor from which the content can be read once; a pipe holds 64 KiB."""
    reading, writing = os.pipe()
    try:
        os.write(writing, content)
    finally:
        os.close(writing)
    return reading
