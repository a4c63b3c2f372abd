"""The interface of a cell: one session's isolated processes and files, without the shell protocol.

Each real backend implements one; shell, files and snapshots are shared code on top of it.
"""

import signal
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.fresh import FreshProcess, FreshProgram
from ors_server.sandboxes.processes import descendants, inner_pid, process_row, send_signal
from ors_server.sandboxes.shell_scripts import SandboxLayout


class Cell(ABC):
    """The isolated processes and files of one session."""

    start_limit: ClassVar[float] = 60.0
    """Seconds that a shell may take from its launch to its first prompt."""
    layout: SandboxLayout
    limits: Limits
    control: Path
    """The control folder as the server sees it."""
    owner: int | None
    """Uid and gid of the session on the host; None if it has the server's."""
    init: int
    """Pid of the first process inside, as the server sees it; 0 before the launch."""
    fresh_dir: str
    """The path of fresh programs' files, as these see it."""

    @abstractmethod
    def launch(self, slave: int) -> None:
        """Start the init on a terminal; no process of an earlier launch is alive.

        Call it on the event loop's thread: the child ends with the thread that started it.

        Raises:
            SandboxStartError: Nothing could be started.
        """

    @abstractmethod
    async def finish_launch(self) -> None:
        """Record what exists only after the shell has answered for the first time after a launch.

        Raises:
            SandboxStartError: The cell is not as it should be.
        """

    @abstractmethod
    def work_folder(self) -> int:
        """Return the descriptor of the work dir, which stays open until the cell is closed."""

    @abstractmethod
    def files_folder(self) -> int:
        """Return the descriptor of the folder that holds `work`, `home`, `tmp` and `state`."""

    @abstractmethod
    def is_inside(self, pid: int) -> bool:
        """Return whether a process, by its pid on the host, belongs to the session."""

    @abstractmethod
    def alive(self) -> int:
        """Return the approximate number of live processes."""

    @abstractmethod
    def denials(self) -> int:
        """Return how often the process limit refused a process or thread; 0 if that is not counted."""

    @abstractmethod
    def start_beside(self, argv: list[str], *, stdin: int, stdout: int) -> subprocess.Popen[bytes]:
        """Run a program in its own isolation over the session's files, beside its processes.

        It starts in the folder that holds `work`, `home`, `tmp` and `state`. Standard error is a pipe.
        """

    @abstractmethod
    async def start_fresh(self, request: FreshProgram) -> FreshProcess:
        """Start a fresh program; it is closed with the cell at the latest.

        Raises:
            SandboxStartError: Nothing could be started.
        """

    @abstractmethod
    async def kill(self) -> None:
        """Kill every process that was launched; files and fresh programs stay, and `launch` may follow.

        Raises:
            SandboxError: A process could not be killed.
        """

    @abstractmethod
    async def freeze(self) -> None:
        """Stop every process."""

    @abstractmethod
    async def thaw(self) -> None:
        """Let every stopped process continue."""

    @abstractmethod
    async def aclose(self) -> None:
        """Kill every process and remove every file; a second call does nothing."""

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

    def signal_all(self, number: signal.Signals) -> None:
        """Signal every process of the session."""
        for pid in self.processes():
            send_signal(pid, number, self.is_inside)
