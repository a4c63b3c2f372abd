"""A cell: one session's isolated processes and files, without the shell protocol.

Invariants:

- At most one launch is alive. `launch` follows only on `kill`, and files outlive both.
- `init` is above 0 only while the first process inside is known; before that, `_first_process` is killed.
- `aclose` comes in any state, also in the middle of `start_fresh`: what is made after `_is_closed` was set is
  removed by its maker.
- Descriptors of the work dir and the files stay open until the end: the server reaches the files by
  descriptor, so an agent cannot redirect it by renaming a folder.

Here is what all backends share: folder, uid, control files, cgroups, launch and end. A backend's own file
starts the first process, the copying programs and the fresh programs, and kills what it started. Shell, files
and snapshots are shared code on top of it.
"""

import contextlib
import os
import signal
import stat
import subprocess
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import anyio.to_thread

from ors_server.processes.host_processes import (
    continue_all,
    descendants,
    ended,
    inner_pid,
    lower_priority,
    namespace_of,
    process_row,
    send_signal,
    stop_all,
)
from ors_server.sandboxes.base import Limits, SandboxRoot
from ors_server.sandboxes.cells.cgroups import Cgroup
from ors_server.sandboxes.cells.descriptors import close_all, opened
from ors_server.sandboxes.cells.fresh_files import write_files
from ors_server.sandboxes.cells.fresh_process import GuardianOptions, HostedProcess, ProcessStreams
from ors_server.sandboxes.cells.server_state import FOLDER_PREFIX, ServerState, SessionFolder, remove_tree
from ors_server.sandboxes.egress import (
    LOOPBACK,
    MAX_LOGGED,
    EgressEvent,
    EgressProxy,
    NetworkMode,
    SandboxNetwork,
)
from ors_server.sandboxes.fresh import ROOT_NAMES, FreshProcess, FreshProgram
from ors_server.sandboxes.sandbox_errors import SandboxClosedError, SandboxError, SandboxStartError
from ors_server.sandboxes.shell_scripts import LAYOUT, EnforcedLimits, SandboxLayout, init_script, rc_script

KILL_LIMIT = 60.0
"""Seconds until a killed process must be gone."""
_PATH_ONLY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class FreshFolders:
    """The folders and the cgroup of a fresh program on the host."""

    files: Path | None = None
    """The folder of its files."""
    temporary: Path | None = None
    """Its writable folder, if it does not have its own file system."""
    group: Cgroup | None = None
    """Its own cgroup, so that no other program's processes or memory count against it."""
    proxy: EgressProxy | None = None
    """The proxy of its own network, if that is an allow-list."""

    @property
    def entrances(self) -> list[str]:
        """Files into which its first process writes 0 to enter its cgroup."""
        return self.group.entrances if self.group is not None else []


class Cell(ABC):
    """One session's folder, cgroups and processes; each backend adds the isolation."""

    start_limit: ClassVar[float] = 60.0
    """Seconds that a shell may take from its launch to its first prompt."""
    layout: SandboxLayout
    limits: Limits
    control: Path
    """The control folder as the server sees it."""
    uid: int | None
    """Uid and gid of the session on the host; None if it has the server's."""
    init: int
    """Pid of the first process inside, as the server sees it; 0 before the launch."""
    fresh_dir: str
    """The path of fresh programs' files, as these see it."""
    was_used = False
    """Whether a command has run in the shell, or files were copied into it: before, all is as it was made."""
    writes_fresh: ClassVar[bool] = False
    """Whether a fresh program may change the session's files, if it should."""
    fresh_ending: ClassVar[signal.Signals] = signal.SIGKILL
    """The signal on which a fresh program's guardian ends everything below it."""

    def __init__(self, state: ServerState, limits: Limits, root: SandboxRoot | None = None) -> None:
        """Create the session's files on the host; on failure nothing is left.

        Args:
            root: A whole root for the session, in the place of a work dir, a home and a `/tmp`.

        Raises:
            OSError: They could not be created.
        """
        self.limits = limits
        self.root = root
        self.network = LOOPBACK
        """Set before the first launch."""
        self.egress: EgressProxy | None = None
        """The proxy of an allow-list."""
        self.make_proxy: Callable[[tuple[str, ...]], EgressProxy] = EgressProxy
        self.connections: deque[EgressEvent] = deque(maxlen=MAX_LOGGED)
        """The latest connections of the session and its fresh programs by proxies, made and refused."""
        self.folders = ("work", "home", "tmp", "state") if root is None else ("root", "state")
        self.init = 0
        self._state = state
        needs_uid_range = root is not None and root.image is not None
        self._folder: SessionFolder = state.open_session(needs_uid_range=needs_uid_range)
        self.uid = self._folder.uid
        self.control = self._folder.control
        self._data = self._folder.path / "files"
        self.layout = self.make_layout()
        self._mark = f"{state.server_id}-{self._folder.name}"
        self._cgroup = self.make_group("")
        self._fresh_groups: list[Cgroup] = []
        self._free_groups: list[Cgroup] = []
        self._fresh: set[HostedProcess] = set()
        self._fresh_number = 0
        self._is_closed = False
        self._first_process: subprocess.Popen[bytes] | None = None
        self._first_pidfd = self._files = self._work = -1
        self._pid_namespace: str | None = None
        try:
            self.prepare()
        except BaseException:
            self.close_folders()
            if self._cgroup is not None:
                self._cgroup.discard()
            state.close_session(self._folder)
            raise

    # What a backend implements

    def make_layout(self) -> SandboxLayout:
        """Return the paths as the agent's processes see them; the folder's paths are known."""
        return LAYOUT

    def prepare(self) -> None:
        """Create what must exist before the first launch."""
        (self.control / "io").mkdir(parents=True)
        self._data.mkdir()
        (self.control / "init").write_text(init_script(self.layout, self.counted_limits(), self.enforced()))
        (self.control / "rc").write_text(rc_script(self.layout))
        # With a slash at the end, as the shell's protocol writes every directory.
        (self.control / "cwd").write_text(self.layout.work + "/")

    @abstractmethod
    def spawn_first(self, slave: int) -> "subprocess.Popen[bytes]":
        """Start the init on a terminal, of which `slave` is the shell's end."""

    @abstractmethod
    async def finish_launch(self) -> None:
        """Record what exists only after the shell has answered for the first time after a launch.

        Raises:
            SandboxStartError: The cell is not as it should be.
        """

    def is_inside(self, pid: int) -> bool:
        """Return whether a process, by its pid on the host, is in the session's pid namespace."""
        return self._pid_namespace is not None and namespace_of(pid, "pid") == self._pid_namespace

    @abstractmethod
    def start_beside(self, argv: list[str], *, stdin: int, stdout: int) -> "subprocess.Popen[bytes]":
        """Run a program in its own isolation over the session's files, apart from the session's processes.

        It starts in the folder that holds `work`, `home`, `tmp` and `state`. Standard error is a pipe.
        """

    @abstractmethod
    async def end_processes(self) -> None:
        """Kill everything that was launched; the caller then waits for the first process."""

    @abstractmethod
    def spawn_fresh(
        self, request: FreshProgram, folders: FreshFolders, ends: ProcessStreams
    ) -> "subprocess.Popen[bytes]":
        """Start a fresh program's guardian."""

    async def make_folders(self, request: FreshProgram, number: int) -> FreshFolders:
        """Create what the fresh program of this number (from 1) needs on the host."""
        if not request.files:
            return FreshFolders()
        folder = self._folder.path / f"fresh-{number}"
        await anyio.to_thread.run_sync(write_files, folder, request.files)
        return FreshFolders(files=folder)

    def new_proxy(self, network: SandboxNetwork) -> EgressProxy:
        """Return the proxy of an allow-list, which notes its connections among those of the session."""
        proxy = self.make_proxy(network.allowed)
        proxy.events = self.connections
        return proxy

    def check_user(self, user: str) -> None:
        """Raise `SandboxStartError` for a user that cannot run fresh programs here."""
        if user not in ROOT_NAMES:
            raise SandboxStartError(
                f"the user {user!r} cannot run programs in this sandbox, whose only user is root: a sandbox "
                "over an image has several, if the server has root"
            )

    def remove_folders(self, folders: FreshFolders) -> None:
        """Remove it again; the program is dead."""
        if folders.proxy is not None:
            folders.proxy.close()
        if folders.files is not None:
            remove_tree(folders.files)

    def renew(self) -> bool:
        """Discard all files, so that the next launch has new ones; returns whether the cell can do that.

        No process of the cell is alive.
        """
        return False

    def save_files(self, descriptor: int) -> bool:
        """Copy the files into an open file; returns whether the cell copies its files itself.

        Its processes are stopped.

        Raises:
            OSError: A file could not be copied.
        """
        del descriptor
        return False

    def load_files(self, descriptor: int) -> bool:
        """Copy files that `save_files` of such a cell wrote over the new ones; returns as `save_files`."""
        del descriptor
        return False

    def restored_files(self) -> list[str]:
        """Return the changed system files that fresh programs do not see, as absolute paths."""
        return []

    def close_folders(self) -> None:
        """Close what the cell holds open; every process is dead."""
        close_all(self._files, self._work)
        self._files = self._work = -1

    # The session's processes

    def launch(self, slave: int) -> None:
        """Start the init on a terminal; no process of an earlier launch is alive.

        Call it on the event loop's thread: the child ends with the thread that started it.

        Raises:
            SandboxStartError: Nothing could be started.
        """
        try:
            self._require_open()
            self._open_folders()
            self._first_process = self.spawn_first(slave)
            lower_priority(self._first_process.pid)
        finally:
            os.close(slave)
        try:
            # A pidfd, because a number may be reused once the process is reaped, and this one is waited for
            # and killed much later.
            self._first_pidfd = os.pidfd_open(self._first_process.pid)
        except OSError as error:
            self._first_process.kill()
            self._first_process.wait()
            self._first_process, self.init = None, 0
            raise SandboxStartError(f"the new sandbox's first process cannot be opened: {error}") from error

    async def kill(self) -> None:
        """Kill every process that was launched; files and fresh programs stay, and `launch` may follow.

        Raises:
            SandboxError: A process could not be killed.
        """
        first = self._first_process
        # Nothing runs, but a second `kill` is not an error: `aclose` and a failed start both call it.
        if first is None:
            return
        await self.end_processes()
        if not await ended(self._first_pidfd, KILL_LIMIT):
            first.kill()
            if not await ended(self._first_pidfd, KILL_LIMIT):
                raise SandboxError(f"process {first.pid} of a sandbox cannot be killed")
        first.wait()
        os.close(self._first_pidfd)
        self._first_process, self._first_pidfd, self.init = None, -1, 0

    def work_folder(self) -> int:
        """Return the descriptor of the work dir or the whole root, open until the cell is closed."""
        return self._work

    def files_folder(self) -> int:
        """Return the descriptor of the folder that holds those of `folders`."""
        return self._files

    def alive(self) -> int:
        """Return the approximate number of live processes."""
        return self.counted() or len(self.processes())

    def counted(self) -> int:
        """Return how many processes and threads a cgroup counts; 0 if that is not counted."""
        return self._cgroup.alive() if self._cgroup is not None else 0

    def denials(self) -> int:
        """Return how often the process limit refused a process or thread; 0 if that is not counted."""
        return self._cgroup.denials() if self._cgroup is not None else 0

    async def freeze(self) -> None:
        """Stop every process."""
        if self._cgroup is None or not self._cgroup.freeze():
            await stop_all(self.processes, self.is_inside)

    async def thaw(self) -> None:
        """Let every stopped process continue."""
        if self._cgroup is None or not self._cgroup.thaw():
            continue_all(self.processes(), self.is_inside)

    async def aclose(self) -> None:
        """Kill every process and remove every file; a second call does nothing."""
        self._is_closed = True
        if self.egress is not None:
            self.egress.close()
        # Fresh programs first: each one's `on_end` still uses the cell's folders and cgroups.
        for process in list(self._fresh):
            await process.end_with_sandbox()
        await self.kill()
        self.close_folders()
        for group in (self._cgroup, *self._fresh_groups):
            if group is not None:
                group.kill()
                await group.remove()
        self._cgroup = None
        self._fresh_groups, self._free_groups = [], []
        # A second call finds the folder gone; releasing its uid twice would give it to two sessions.
        if self._folder.path.exists():
            self._state.close_session(self._folder)

    def processes(self) -> list[int]:
        """Return the pids of the session, parents first."""
        return [pid for pid in descendants(self.init) if self.is_inside(pid)] if self.init else []

    def shell(self, seen_as: int) -> int | None:
        """Return the shell's pid on the host, given its pid in its own namespace."""
        for pid in self.processes():
            if inner_pid(pid) == seen_as:
                return pid
        return None

    def signal_group(self, group: int, number: signal.Signals) -> int:
        """Signal the session's processes of one process group through pidfds; return how many there were."""
        reached = 0
        for pid in self.processes():
            row = process_row(pid)
            if row is not None and row.group == group:
                reached += send_signal(pid, number, self.is_inside)
        return reached

    # Fresh programs

    async def start_fresh(self, request: FreshProgram) -> FreshProcess:
        """Start a fresh program; it is closed with the cell at the latest.

        Raises:
            SandboxStartError: Nothing could be started.
        """
        if request.is_writable and not self.writes_fresh:
            raise SandboxStartError("fresh programs of this backend may not change the session's files")
        self.check_user(request.user)
        self._fresh_number += 1
        folders = await self.make_folders(request, self._fresh_number)
        if request.network.mode is NetworkMode.ALLOW_LIST:
            folders = replace(folders, proxy=self.new_proxy(request.network))
        if self._is_closed:
            self.remove_folders(folders)
        self._require_open()
        self._open_folders()

        def on_end(process: HostedProcess) -> None:
            self._fresh.discard(process)
            kill_rest()
            self._free_groups += [] if group is None else [group]
            self.remove_folders(folders)

        def kill_rest() -> None:
            if group is not None and group.alive():
                group.kill()

        limits = self.limits
        keep_bytes = (limits.keep_head_bytes, limits.keep_tail_bytes)
        try:
            group = self._take_group()
            folders = replace(folders, group=group)
            options = GuardianOptions(self.fresh_ending, keep_bytes, kill_rest, on_end)
            # From here on `on_end` removes the folders; until then this function does.
            process = HostedProcess(partial(self.spawn_fresh, request, folders), options)
        except BaseException:
            self.remove_folders(folders)
            raise
        self._fresh.add(process)
        return process

    def _take_group(self) -> Cgroup | None:
        """Return an empty cgroup for one fresh program; None where no cgroups enforce the limits."""
        if self._cgroup is None:
            return None
        for group in self._free_groups:
            if not group.alive():
                self._free_groups.remove(group)
                return group
        new_group = self.make_group(f"-fresh-{len(self._fresh_groups) + 1}")
        if new_group is None:
            raise SandboxStartError("no control group can be made for a fresh program")
        self._fresh_groups.append(new_group)
        return new_group

    # What backends share

    def make_group(self, suffix: str) -> Cgroup | None:
        """Make another cgroup with the session's limits, if possible; `suffix` distinguishes it."""
        return Cgroup.make(self._state.hierarchies, f"{FOLDER_PREFIX}{self._mark}{suffix}", self.limits)

    def enforced(self) -> EnforcedLimits:
        """Return which limits a cgroup enforces."""
        has = self._state.hierarchies.has
        is_held = self._cgroup is not None
        return EnforcedLimits(memory=is_held and has("memory"), pids=is_held and has("pids"))

    def counted_limits(self) -> Limits:
        """Return the limits as the kernel counts them where the session's processes are started."""
        return self.limits

    def attach_files(self, folder: str) -> None:
        """Open the folder of the session's files, and the work dir in it."""
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        self._files = os.open(folder, flags)
        self._work = os.open(self.folders[0], flags | os.O_NOFOLLOW, dir_fd=self._files)

    def _open_folders(self) -> None:
        """Make the session's folders accessible to their owner again if an agent has changed their mode.

        A process that starts in a folder must be allowed to enter it.
        """
        for name in (".", *self.folders) if self._files >= 0 else ():
            # The program that starts there reports an error.
            with contextlib.suppress(OSError), opened(name, _PATH_ONLY, dir_fd=self._files) as folder:
                mode = stat.S_IMODE(os.fstat(folder).st_mode)
                if mode & stat.S_IRWXU != stat.S_IRWXU:
                    Path(f"/proc/self/fd/{folder}").chmod(mode | stat.S_IRWXU)

    def _require_open(self) -> None:
        if self._is_closed:
            raise SandboxClosedError("the sandbox was closed meanwhile")
