"""What cells on this host have in common: folder, owner, control files, groups, and how they begin and end.

A backend's own file says how its first process, its copiers and its fresh programs are started, and how all
that it started is killed.
"""

import contextlib
import os
import signal
import stat
import subprocess
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import anyio.to_thread
from typing_extensions import override

from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cell import Cell
from ors_server.sandboxes.cgroups import Cgroup
from ors_server.sandboxes.errors import SandboxClosedError, SandboxError, SandboxStartError
from ors_server.sandboxes.fresh import FreshOrder, FreshProcess
from ors_server.sandboxes.fresh_files import write_files
from ors_server.sandboxes.processes import ended, lower_priority
from ors_server.sandboxes.programs import Care, Ends, HostedProcess
from ors_server.sandboxes.scripts import Enforced, Layout, init_script, rc_script
from ors_server.sandboxes.state import MARK, ServerState, SessionFolder, remove_tree

KILL_LIMIT = 60.0
"""Seconds that a killed process may take to be gone."""
_FOLDERS = (".", "work", "home", "tmp", "state")
_PATH_ONLY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class FreshPlace:
    """What a fresh program has on the host."""

    files: Path | None = None
    """The folder of its files."""
    temporary: Path | None = None
    """Its writable folder, where it does not get a file system of its own."""
    group: Cgroup | None = None
    """Its own, so that no other program's processes or memory count against it."""

    @property
    def entrances(self) -> list[str]:
        """Files into which its first process writes 0 to enter its group."""
        return self.group.entrances if self.group is not None else []


class HostCell(Cell):
    """One session's folder, groups and processes; isolated as a backend says."""

    fresh_ending: ClassVar[signal.Signals] = signal.SIGKILL
    """What makes a fresh program's guardian end everything under it."""

    def __init__(self, state: ServerState, limits: Limits) -> None:
        """Make the session's place on the host; on failure nothing is left behind.

        Args:
            state: The server's folder.
            limits: What the session may use.

        Raises:
            OSError: The place could not be made.
        """
        self.limits = limits
        self.init = 0
        self._state = state
        self._folder: SessionFolder = state.open_session()
        self.owner = self._folder.owner
        self.control = self._folder.control
        self._data = self._folder.path / "files"
        self.layout = self.lay_out()
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

    # What a backend says

    @abstractmethod
    def lay_out(self) -> Layout:
        """Say where things stand as the agent's processes see them; the folder's paths are known."""

    @abstractmethod
    def prepare(self) -> None:
        """Make what has to be there before the first launch; the control files are."""

    @abstractmethod
    def spawn_first(self, slave: int) -> "subprocess.Popen[bytes]":
        """Start the init on a terminal.

        Args:
            slave: The shell's end of the terminal.
        """

    @abstractmethod
    async def end_processes(self) -> None:
        """Kill everything that was launched; the first process is waited for afterwards."""

    @abstractmethod
    def spawn_fresh(self, order: FreshOrder, place: FreshPlace, ends: Ends) -> "subprocess.Popen[bytes]":
        """Start a fresh program's guardian.

        Args:
            order: What to run.
            place: What was made for it on the host.
            ends: Its pipes.
        """

    async def open_place(self, order: FreshOrder, number: int) -> FreshPlace:
        """Make what a fresh program needs on the host.

        Args:
            order: What to run.
            number: The program's, from 1.
        """
        if not order.files:
            return FreshPlace()
        folder = self._folder.path / f"fresh-{number}"
        await anyio.to_thread.run_sync(write_files, folder, order.files)
        return FreshPlace(files=folder)

    def close_place(self, place: FreshPlace) -> None:
        """Remove it again; the program is dead.

        Args:
            place: From `open_place`.
        """
        if place.files is not None:
            remove_tree(place.files)

    def close_namespaces(self) -> None:
        """Let go of whatever else the cell holds open; everything is dead."""

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
            raise SandboxStartError(f"the new sandbox cannot be held: {error}") from error

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
    async def start_fresh(self, order: FreshOrder) -> FreshProcess:
        self._fresh_number += 1
        place = await self.open_place(order, self._fresh_number)
        if self._is_closed:
            self.close_place(place)
        self._require_open()
        self._open_folders()

        def forget(process: HostedProcess) -> None:
            self._fresh.discard(process)
            kill_rest()
            self._free_groups += [] if group is None else [group]
            self.close_place(place)

        def kill_rest() -> None:
            if group is not None and group.alive():
                group.kill()

        limits = self.limits
        kept = (limits.keep_head_bytes, limits.keep_tail_bytes)
        try:
            group = self._take_group()
            place = replace(place, group=group)
            care = Care(self.fresh_ending, kept, kill_rest, forget)
            process = HostedProcess(partial(self.spawn_fresh, order, place), care)
        except BaseException:
            self.close_place(place)
            raise
        self._fresh.add(process)
        return process

    def _take_group(self) -> Cgroup | None:
        """Return a group in which nobody is, for one fresh program.

        Raises:
            SandboxStartError: Groups hold the limits here, and no more can be made.
        """
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
        """Make one more group with the session's limits, where groups can be made.

        Args:
            suffix: Told apart by it from the session's other groups.
        """
        return Cgroup.make(self._state.hierarchies, f"{MARK}{self._mark}{suffix}", self.limits)

    def enforced(self) -> Enforced:
        """Return which limits a group holds, so that nothing else need."""
        has = self._state.hierarchies.has
        is_held = self._cgroup is not None
        return Enforced(memory=is_held and has("memory"), pids=is_held and has("pids"))

    def counted_limits(self) -> Limits:
        """Return the limits as the kernel counts them where the session's processes are started."""
        return self.limits

    def hold(self, folder: str) -> None:
        """Open the folder of the session's files, and the work dir in it.

        Args:
            folder: As the server can reach it now; the descriptors outlive that path.
        """
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        self._files = os.open(folder, flags)
        self._work = os.open("work", flags | os.O_NOFOLLOW, dir_fd=self._files)

    def _open_folders(self) -> None:
        """Give the session's folders back to their owner, whatever mode an agent has given them.

        Whoever starts in a folder must be allowed to enter it.
        """
        for name in _FOLDERS if self._files >= 0 else ():
            with contextlib.suppress(OSError):  # then what is to start there says why it cannot
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
