"""Sandboxes by bubblewrap: namespaces for everything, a seccomp filter, and quotas, with or without root.

The session's files are on one tmpfs with a size and an inode quota. It is mounted in the session's own mount
namespace (with root `unshare -m`, without it a user namespace that maps the server's own uid), so
the host's mount table does not grow with the sessions, and the files end with the last process.
The server holds that namespace open: processes can be killed and started again over the same files.
"""

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import anyio.to_thread
from typing_extensions import override

from ors_server.processes.host_processes import kill_with_children, namespace_of, send_signal
from ors_server.sandboxes.base import Limits, SandboxRoot
from ors_server.sandboxes.cells import root_skeleton, root_view
from ors_server.sandboxes.cells.cell import Cell, FreshFolders
from ors_server.sandboxes.cells.descriptors import close_all
from ors_server.sandboxes.cells.fresh_process import SYSTEM_PATH, ProcessStreams, start_with
from ors_server.sandboxes.cells.root_skeleton import SYSTEM_FOLDERS
from ors_server.sandboxes.cells.root_view import BEGIN
from ors_server.sandboxes.cells.seccomp import Policy, program
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.egress import (
    PROXY_PORT,
    PROXY_VARIABLES,
    EgressProxy,
    NetworkMode,
    make_listener,
)
from ors_server.sandboxes.fresh import FreshProcess, FreshProgram
from ors_server.sandboxes.sandbox_errors import SandboxStartError
from ors_server.sandboxes.shell_scripts import LAYOUT, EnforcedLimits, SandboxLayout, ulimits

_INNER_ID = "1000"
_NO_SOCKETS = Policy(families=(socket.AF_UNIX,))
_SEAL = ["--remount-ro", "/"]
_CHILD_PID = re.compile(rb'"child-pid": ([0-9]+)')

# $1: mount point, $2: options, $3: owner or "", then the command.
_MOUNT_AND_ENTER = f"""{BEGIN}\
mount -t tmpfs -o "$2" ors "$1" || exit 72
install -d -m 0700 ${{3:+-o "$3" -g "$3"}} "$1/work" "$1/home" "$1/state" "$1/tmp" || exit 73
[ -n "$3" ] || echo 16 2>/dev/null >/proc/sys/user/max_inotify_instances || :
shift 3
exec "$@"
"""
# Limits are text of our own before it.
_ENTER = f"""
{BEGIN}exec "$@"
"""


@dataclass
class _FreshGate:
    """Holds a fresh program back until its proxy is there: the descriptors of two pipes, and the proxy."""

    reports: int
    """Where bubblewrap's report about the program's first process arrives."""
    reporting: int
    waits: int
    """What bubblewrap waits for before it runs the program."""
    go: int
    proxy: EgressProxy | None = None

    def close_far_ends(self) -> None:
        """Close the ends that bubblewrap has."""
        close_all(self.reporting, self.waits)
        self.reporting = self.waits = -1


async def _read_report(reports: int) -> bytes:
    """Read all of bubblewrap's report: it is written in pieces, and bubblewrap dies of an unread piece.

    It is empty, or has no end, if bubblewrap ended early.
    """
    report = b""
    while not report.rstrip().endswith(b"}"):
        await anyio.wait_readable(reports)
        piece = os.read(reports, 4096)
        if not piece:
            break
        report += piece
    return report


@dataclass(frozen=True)
class _GatedProgram(FreshProgram):
    """A fresh program with its own gate: several may be started in one session at once."""

    gate: _FreshGate | None = None


class BubblewrapCell(Cell):
    """One session's namespaces."""

    fresh_dir = "/grader"
    writes_fresh = True
    enter_script: ClassVar[str] = _ENTER
    """The script that enters cgroups and starts the command; limits come before it."""

    def __init__(self, state: ServerState, limits: Limits, root: SandboxRoot | None = None) -> None:
        self._namespaces: list[int] = []
        self._info = -1
        if root is not None and root.image is None:
            root_view.refuse_work_dir(root.work_dir)
            self.fresh_dir = root_skeleton.FRESH_FILES
        super().__init__(state, limits, root)

    @override
    def make_layout(self) -> SandboxLayout:
        """Return the usual paths, or those of a whole root."""
        return LAYOUT if self.root is None else root_view.layout_of(self.root)

    @override
    def spawn_first(self, slave: int) -> "subprocess.Popen[bytes]":
        self._close_info()
        self._restore_mount_points()
        self._info, reporting = os.pipe()
        shell = ["/bin/sh", f"{self.layout.control}/init"]
        command = [*self._enter(""), *self._isolation(), *self._session_view(), "--as-pid-1", *self._seal()]
        variables = {**PROXY_VARIABLES, **self.layout.environment} if self.egress else self.layout.environment
        command += ["--info-fd", str(reporting), *set_variables(variables)]
        entrances = self._cgroup.entrances if self._cgroup is not None else []
        try:
            ends = ProcessStreams(slave, slave, slave, reporting)
            return self._spawn(command, shell, ends, entrances, terminal=os.ttyname(slave))
        finally:
            os.close(reporting)

    @override
    async def finish_launch(self) -> None:
        first = self._first_process
        if first is None:
            raise SandboxStartError("nothing was launched")
        try:
            # All of it is there: the shell has answered.
            self.init = int(json.loads(os.read(self._info, 65_536))["child-pid"])
            self._pid_namespace = namespace_of(self.init, "pid")
            if not self._namespaces:
                self._namespaces = [
                    os.open(f"/proc/{first.pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
                    # Without root, the mount namespace can only be entered by way of its owning user
                    # namespace.
                    for kind in (("mnt",) if self.uid is not None else ("user", "mnt"))
                ]
                self.attach_files(f"/proc/{first.pid}/root{self._data}")
                if self.root is None:
                    os.chmod("tmp", 0o1777, dir_fd=self.files_folder())  # noqa: S103  (as every /tmp)
        except (OSError, ValueError, KeyError) as error:
            raise SandboxStartError(f"the new sandbox cannot be reached: {error}") from error
        finally:
            self._close_info()
        if self.egress is not None:
            # Each launch has a new network namespace.
            await self.egress.serve(await anyio.to_thread.run_sync(make_listener, self.init, PROXY_PORT))

    @override
    def start_beside(self, argv: list[str], *, stdin: int, stdout: int) -> "subprocess.Popen[bytes]":
        rights = ["--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_FOWNER"]
        view = ["--bind", str(self._data), "/data", "--chdir", "/data", *rights]
        command = [*self._enter(""), *self._isolation(is_beside=True), *view, "--as-pid-1", *_SEAL]
        command += set_variables(self.layout.environment)
        entrances = self._cgroup.thawed_entrances if self._cgroup is not None else []
        return self._spawn(command, argv, ProcessStreams(stdin, stdout, subprocess.PIPE), entrances)

    @override
    async def end_processes(self) -> None:
        """Kill process 1, with which the kernel ends the whole namespace."""
        if self.init:
            send_signal(self.init, signal.SIGKILL, self.is_inside)
        elif self._first_process is not None:
            await kill_with_children(self._first_process.pid)  # bubblewrap had not reported its child yet
        if self._cgroup is not None:
            # A frozen process does not act on SIGKILL until it is thawed (version 1 of cgroups).
            self._cgroup.thaw()
            self._cgroup.kill()
        self._pid_namespace = None
        self._close_info()

    @override
    def close_folders(self) -> None:
        """Close the mount namespace too, and with it the session's file system."""
        super().close_folders()
        close_all(*self._namespaces)
        self._namespaces = []

    # Fresh programs

    @override
    async def start_fresh(self, request: FreshProgram) -> FreshProcess:
        """Start a fresh program; one with an allow-list begins when its proxy is there."""
        if request.network.mode is not NetworkMode.ALLOW_LIST:
            return await super().start_fresh(request)
        gate = _FreshGate(*os.pipe(), *os.pipe())
        try:
            process = await super().start_fresh(_GatedProgram(**vars(request), gate=gate))
            try:
                gate.close_far_ends()
                report = _CHILD_PID.search(await _read_report(gate.reports))
                # Without a report it has not started, and its status says why.
                if report is not None and gate.proxy is not None:
                    pid = int(report[1])
                    await gate.proxy.serve(await anyio.to_thread.run_sync(make_listener, pid, PROXY_PORT))
                    os.write(gate.go, b"x")
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await process.aclose()
                raise
            return process
        finally:
            gate.close_far_ends()
            close_all(gate.reports, gate.go)

    @override
    def spawn_fresh(
        self, request: FreshProgram, folders: FreshFolders, ends: ProcessStreams
    ) -> "subprocess.Popen[bytes]":
        limits = self.limits
        bind = "--bind" if request.is_writable else "--ro-bind"
        temporary = LAYOUT.temporary if self.root is None else root_skeleton.FRESH_HOME
        if self.root is None:
            view = [bind, f"{self._data}/work", LAYOUT.work, "--chdir", LAYOUT.work]
            view += ["--symlink", LAYOUT.temporary, "/var/tmp"]  # noqa: S108 # inside
        else:
            self._restore_mount_points()
            empty = str(self._state.static / "empty")
            # Covered, so that no program here can put something else into the shell's places.
            view = ["--ro-bind", empty, self.layout.control, "--ro-bind", empty, self.layout.state]
            view += ["--chdir", "/"]
        view += ["--perms", "1777", "--size", str(limits.disk_bytes), "--tmpfs", temporary]
        if folders.files is not None:
            view += ["--ro-bind", str(folders.files), self.fresh_dir]
        enforced = self.enforced()
        # The number of processes is counted per user namespace, and can be limited only in there.
        inside = [] if enforced.pids else ["/bin/sh", "-c", f'ulimit -p {limits.pids}; exec "$@"', "sh"]
        outside = ulimits(limits, EnforcedLimits(memory=enforced.memory, pids=True))
        isolation = [*self._enter(outside), *self._isolation(bind), *view, "--new-session", *self._seal()]
        isolation += set_variables(request.variables(temporary))
        return self._spawn_program(request, folders, ends, isolation, inside)

    def _spawn_program(
        self,
        request: FreshProgram,
        folders: FreshFolders,
        ends: ProcessStreams,
        isolation: list[str],
        inside: list[str],
    ) -> "subprocess.Popen[bytes]":
        """Start a fresh program in its isolation; bubblewrap reports its status and its beginning."""
        isolation = [*isolation, "--json-status-fd", str(ends.status)]
        gate = request.gate if isinstance(request, _GatedProgram) else None
        if gate is not None:
            gate.proxy = folders.proxy
            isolation += ["--info-fd", str(gate.reporting), "--block-fd", str(gate.waits)]
        return self._spawn(isolation, [*inside, *request.argv], ends, folders.entrances, gate=gate)

    # How everything is started

    def _spawn(
        self,
        isolation: list[str],
        argv: list[str],
        ends: ProcessStreams,
        entrances: list[str],
        *,
        terminal: str = "",
        gate: _FreshGate | None = None,
    ) -> "subprocess.Popen[bytes]":
        own = {"ORS_ENTRANCES": " ".join(entrances), "ORS_TERMINAL": terminal}
        return start_with(
            program(_NO_SOCKETS if gate is None and self.network.mode is NetworkMode.NONE else Policy()),
            lambda fd: [*isolation, "--seccomp", str(fd), "--", *argv],
            ends,
            *(() if gate is None else (gate.reporting, gate.waits)),
            environment={**SYSTEM_PATH, **own},
        )

    def _enter(self, limits: str) -> list[str]:
        """Return the command that creates or enters the session's outer namespaces, and drops root."""
        if not self._namespaces:
            return self._make_namespaces()
        ours = f"/proc/{os.getpid()}/fd"  # by a path, so that nothing inside inherits them
        enter = ["sh", "-c", limits + _ENTER, "sh", "nsenter", f"--mount={ours}/{self._namespaces[-1]}"]
        if self.uid is None:
            return [*enter, f"--user={ours}/{self._namespaces[0]}", "--preserve-credentials", "--"]
        # --setgid also drops the supplementary groups (nsenter(1)).
        return [*enter, f"--setuid={self.uid}", f"--setgid={self.uid}", "--"]

    def _make_namespaces(self) -> list[str]:
        limits, uid = self.limits, self.uid
        options = f"size={limits.disk_bytes},nr_inodes={limits.inodes},mode=0700,nosuid,nodev"
        make = ["unshare", "--mount", "--propagation", "private"]
        script = ["--", "sh", "-c", _MOUNT_AND_ENTER, "sh", str(self._data)]
        if self.root is not None:
            skeleton = str(self._state.static / root_skeleton.FOLDER)
            variables = [f"ORS_SKELETON={skeleton}", f"ORS_WORK={self.root.work_dir}"]
            script = ["--", "env", *variables, "sh", "-c", root_view.MOUNT_AND_ENTER, "sh", str(self._data)]
        if uid is None:
            return [*make, "--user", "--map-root-user", *script, options, ""]
        options += f",uid={uid},gid={uid}"
        drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
        return [*make, *script, options, str(uid), *drop]

    def _seal(self) -> list[str]:
        """Return the options that make `/` read-only; a whole root is what it was bound as."""
        return _SEAL if self.root is None else []

    def _restore_mount_points(self) -> None:
        if self.root is not None and self.files_folder() >= 0:
            root_view.restore_mount_points(self.work_folder())

    def _isolation(self, bind: str = "--bind", *, is_beside: bool = False) -> list[str]:
        """Return bubblewrap's command, and the options that show the system.

        Args:
            bind: The option that binds a whole root, writable or not.
            is_beside: Whether the program belongs to no session, and sees no whole root.
        """
        static = self._state.static
        is_rooted = self.root is not None and not is_beside
        inner_id = "0" if is_rooted else _INNER_ID
        # /dev is remounted read-only last: bubblewrap binds the dead terminals over it first.
        dead = str(static / "no-terminal")
        return [
            *("bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"),
            *("--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--clearenv"),
            *("--uid", inner_id, "--gid", inner_id, "--hostname", "sandbox"),
            # Without root, bubblewrap is root of the outer namespace, and would pass its rights on to uid 0.
            *(("--cap-drop", "ALL") if is_rooted else ()),
            *([bind, f"{self._data}/root", "/"] if is_rooted else []),
            *(root_view.system() if is_rooted else _system()),
            *_masks(self._state),
            *("--ro-bind", str(static / "etc"), "/etc"),
            *("--proc", "/proc", "--dev", "/dev"),
            *("--size", str(self.limits.shared_memory_bytes), "--tmpfs", "/dev/shm"),  # noqa: S108 # inside
            *("--ro-bind", dead, "/dev/tty", "--ro-bind", dead, "/dev/console", "--remount-ro", "/dev"),
        ]

    def _session_view(self) -> list[str]:
        files = self._data
        if self.root is not None:
            layout = self.layout
            control = ("--ro-bind", str(self.control), layout.control)
            empty = str(self._state.static / "empty")
            # A mount point cannot be removed. Otherwise the agent could remove these folders and fill the
            # disk: they could not be made again, and no grader would start.
            folders = (root_skeleton.FRESH_HOME, root_skeleton.FRESH_FILES)
            covered = [part for folder in folders for part in ("--ro-bind", empty, folder)]
            return [*control, *covered, "--bind", f"{files}/state", layout.state, "--chdir", "/"]
        return [
            *("--bind", f"{files}/work", LAYOUT.work, "--bind", f"{files}/home", LAYOUT.home),
            *("--bind", str(files / "tmp"), LAYOUT.temporary, "--bind", f"{files}/state", LAYOUT.state),
            *("--symlink", LAYOUT.temporary, "/var/tmp"),  # noqa: S108 # inside
            *("--ro-bind", str(self.control), LAYOUT.control, "--chdir", LAYOUT.work),
        ]

    def _close_info(self) -> None:
        close_all(self._info)
        self._info = -1


def _system() -> list[str]:
    """Return the options that show the host's programs, as the host arranges them."""
    argv = ["--ro-bind", "/usr", "/usr"]
    for name in SYSTEM_FOLDERS:
        folder = Path("/") / name
        if folder.is_symlink():
            argv += ["--symlink", str(folder.readlink()).lstrip("/"), f"/{name}"]
        elif folder.is_dir():
            argv += ["--ro-bind", str(folder), str(folder)]
    return argv


def _masks(state: ServerState) -> list[str]:
    """Return the options that cover the hidden paths below the system's folders with nothing."""
    argv: list[str] = []
    for shown in {Path("/usr"), *(Path("/") / name for name in SYSTEM_FOLDERS)}:
        for hidden_path in state.hidden.below(shown) if shown.is_dir() and not shown.is_symlink() else ():
            argv += [
                "--ro-bind",
                str(state.static / ("empty" if hidden_path.is_dir() else "nothing")),
                str(hidden_path),
            ]
    return argv


def set_variables(environment: Mapping[str, str]) -> list[str]:
    """Return bubblewrap's options that set variables."""
    return [part for name, value in environment.items() for part in ("--setenv", name, value)]
