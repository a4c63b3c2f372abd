"""The common part of cells on this host: folder, owner, control files, cgroups, launch and end.

A backend's own file starts the first process, the copying programs and the fresh programs, and kills what it
started.
"""

import contextlib
import os
import signal
import stat
import subprocess
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import anyio.to_thread
from typing_extensions import override

from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cell import Cell
from ors_server.sandboxes.cgroups import Cgroup
from ors_server.sandboxes.fresh import FreshProcess, FreshProgram
from ors_server.sandboxes.fresh_files import write_files
from ors_server.sandboxes.fresh_process import GuardianOptions, HostedProcess, ProcessStreams
from ors_server.sandboxes.processes import ended, lower_priority
from ors_server.sandboxes.sandbox_errors import SandboxClosedError, SandboxError, SandboxStartError
from ors_server.sandboxes.server_state import FOLDER_PREFIX, ServerState, SessionFolder, remove_tree
from ors_server.sandboxes.shell_scripts import EnforcedLimits, SandboxLayout, init_script, rc_script

KILL_LIMIT = 60.0
"""Seconds until a killed process must be gone."""
SYSTEM_PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
"""The environment of a program that isolates others."""
_FOLDERS = (".", "work", "home", "tmp", "state")
_PATH_ONLY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class FreshFolders:
    """The folders and the cgroup of a fresh program on the host."""

    files: Path | None = None
    """The folder of its files."""
    temporary: Path | None = None
    """Its writable folder, if it has no file system of its own."""
    group: Cgroup | None = None
    """Its own cgroup, so that no other program's processes or memory count against it."""

    @property
    def entrances(self) -> list[str]:
        """Files into which its first process writes 0 to enter its cgroup."""
        return self.group.entrances if self.group is not None else []


def start_with(
    instructions: bytes,
    command: Callable[[int], list[str]],
    ends: ProcessStreams,
    *passed: int,
    environment: Mapping[str, str],
    leads_session: bool = True,
) -> "subprocess.Popen[bytes]":
    """Start a program that reads its instructions from the descriptor with which `command` is called.

    It inherits no other descriptor than that, its streams and those that are passed. As the leader of a
    session of its own it gets no signal that is sent to the server's process group.

    Raises:
        SandboxStartError: It could not be started.
    """
    descriptor = os.memfd_create("ors-instructions", os.MFD_CLOEXEC)
    argv = command(descriptor)
    try:
        with open(descriptor, "wb", closefd=False) as file:  # a descriptor
            file.write(instructions)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return subprocess.Popen(  # noqa: S603 # a list of our own making
            argv,
            stdin=ends.stdin,
            stdout=ends.stdout,
            stderr=ends.stderr,
            pass_fds=[fd for fd in (descriptor, ends.status, *passed) if fd >= 0],
            env=environment,
            cwd="/",
            start_new_session=leads_session,
        )
    except OSError as error:
        raise SandboxStartError(f"cannot start the launcher of a sandbox, {argv[0]}: {error}") from error
    finally:
        os.close(descriptor)


class HostCell(Cell):
    """One session's folder, cgroups and processes; each backend adds the isolation."""

    fresh_ending: ClassVar[signal.Signals] = signal.SIGKILL
    """The signal on which a fresh program's guardian ends everything below it."""

    def __init__(self, state: ServerState, limits: Limits) -> None:
        """Create the session's files on the host; on failure nothing is left.

        Raises:
            OSError: They could not be created.
        """
        self.limits = limits
        self.init = 0
        self._state = state
        self._folder: SessionFolder = state.open_session()
        self.owner = self._folder.owner
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
        self._first: subprocess.Popen[bytes] | None = None
        self._first_fd = -1
        self._files = -1
        self._work = -1
        try:
            self._write_control_files()
            self.prepare()
        except BaseException:
            self._close_folders()
            if self._cgroup is not None:
                self._cgroup.discard()
            state.close_session(self._folder)
            raise

    # What a backend implements

    @abstractmethod
    def make_layout(self) -> SandboxLayout:
        """Return the paths as the agent's processes see them; the folder's paths are known."""

    @abstractmethod
    def prepare(self) -> None:
        """Create what must exist before the first launch; the control files do."""

    @abstractmethod
    def spawn_first(self, slave: int) -> "subprocess.Popen[bytes]":
        """Start the init on a terminal, of which `slave` is the shell's end."""

    @abstractmethod
    async def end_processes(self) -> None:
        """Kill everything that was launched; the caller then waits for the first process."""

    @abstractmethod
    def spawn_fresh(
        self, request: FreshProgram, place: FreshFolders, ends: ProcessStreams
    ) -> "subprocess.Popen[bytes]":
        """Start a fresh program's guardian."""

    async def make_folders(self, request: FreshProgram, number: int) -> FreshFolders:
        """Create what the fresh program of this number (from 1) needs on the host."""
        if not request.files:
            return FreshFolders()
        folder = self._folder.path / f"fresh-{number}"
        await anyio.to_thread.run_sync(write_files, folder, request.files)
        return FreshFolders(files=folder)

    def remove_folders(self, place: FreshFolders) -> None:
        """Remove it again; the program is dead."""
        if place.files is not None:
            remove_tree(place.files)

    def close_namespaces(self) -> None:
        """Close whatever else the cell holds open; every process is dead."""

    # The session's processes

    @override
    def launch(self, slave: int) -> None:
        try:
            self._require_open()
            self._open_folders()
            self._first = self.spawn_first(slave)
            lower_priority(self._first.pid)
        finally:
            os.close(slave)
        try:
            self._first_fd = os.pidfd_open(self._first.pid)
        except OSError as error:
            self._first.kill()
            self._first.wait()
            self._first, self.init = None, 0
            raise SandboxStartError(f"the new sandbox's first process cannot be opened: {error}") from error

    @override
    async def kill(self) -> None:
        first = self._first
        if first is None:
            return
        await self.end_processes()
        if not await ended(self._first_fd, KILL_LIMIT):
            first.kill()
            if not await ended(self._first_fd, KILL_LIMIT):
                raise SandboxError(f"process {first.pid} of a sandbox cannot be killed")
        first.wait()
        os.close(self._first_fd)
        self._first, self._first_fd, self.init = None, -1, 0

    @override
    def work_folder(self) -> int:
        return self._work

    @override
    def files_folder(self) -> int:
        return self._files

    @override
    def alive(self) -> int:
        counted = self._cgroup.alive() if self._cgroup is not None else 0
        return counted or len(self.processes())

    @override
    def denials(self) -> int:
        return self._cgroup.denials() if self._cgroup is not None else 0

    @override
    async def freeze(self) -> None:
        if self._cgroup is None or not self._cgroup.freeze():
            self.signal_all(signal.SIGSTOP)

    @override
    async def thaw(self) -> None:
        if self._cgroup is None or not self._cgroup.thaw():
            self.signal_all(signal.SIGCONT)

    @override
    async def aclose(self) -> None:
        self._is_closed = True
        for process in list(self._fresh):
            await process.end_with_sandbox()
        await self.kill()
        self._close_folders()
        self.close_namespaces()
        for group in (self._cgroup, *self._fresh_groups):
            if group is not None:
                group.kill()
                await group.remove()
        self._cgroup = None
        self._fresh_groups, self._free_groups = [], []
        if self._folder.path.exists():
            self._state.close_session(self._folder)

    # Fresh programs

    @override
    async def start_fresh(self, request: FreshProgram) -> FreshProcess:
        self._fresh_number += 1
        place = await self.make_folders(request, self._fresh_number)
        if self._is_closed:
            self.remove_folders(place)
        self._require_open()
        self._open_folders()

        def on_end(process: HostedProcess) -> None:
            self._fresh.discard(process)
            kill_rest()
            self._free_groups += [] if group is None else [group]
            self.remove_folders(place)

        def kill_rest() -> None:
            if group is not None and group.alive():
                group.kill()

        limits = self.limits
        kept = (limits.keep_head_bytes, limits.keep_tail_bytes)
        try:
            group = self._take_group()
            place = replace(place, group=group)
            options = GuardianOptions(self.fresh_ending, kept, kill_rest, on_end)
            process = HostedProcess(partial(self.spawn_fresh, request, place), options)
        except BaseException:
            self.remove_folders(place)
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
        made = self.make_group(f"-fresh-{len(self._fresh_groups) + 1}")
        if made is None:
            raise SandboxStartError("no control group can be made for a fresh program")
        self._fresh_groups.append(made)
        return made

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

    def hold(self, folder: str) -> None:
        """Open the folder of the session's files, and the work dir in it."""
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        self._files = os.open(folder, flags)
        self._work = os.open("work", flags | os.O_NOFOLLOW, dir_fd=self._files)

    def _open_folders(self) -> None:
        """Make the session's folders accessible to their owner again, whatever mode an agent has set.

        A process that starts in a folder must be allowed to enter it.
        """
        for name in _FOLDERS if self._files >= 0 else ():
            with contextlib.suppress(OSError):  # the program that starts there reports it
                folder = os.open(name, _PATH_ONLY, dir_fd=self._files)
                try:
                    mode = stat.S_IMODE(os.fstat(folder).st_mode)
                    if mode & stat.S_IRWXU != stat.S_IRWXU:
                        Path(f"/proc/self/fd/{folder}").chmod(mode | stat.S_IRWXU)
                finally:
                    os.close(folder)

    def _require_open(self) -> None:
        if self._is_closed:
            raise SandboxClosedError("the sandbox was closed meanwhile")

    def _write_control_files(self) -> None:
        (self.control / "io").mkdir(parents=True)
        self._data.mkdir()
        (self.control / "init").write_text(init_script(self.layout, self.counted_limits(), self.enforced()))
        (self.control / "rc").write_text(rc_script(self.layout))
        (self.control / "cwd").write_text(self.layout.work + "/")

    def _close_folders(self) -> None:
        for descriptor in (self._files, self._work):
            if descriptor >= 0:
                os.close(descriptor)
        self._files = self._work = -1
