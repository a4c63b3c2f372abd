"""What an isolation must be able to do so that the shell, the files and the snapshots can stand upon it.

A cell is the isolated place of one session, with its processes and files but without any protocol. Each real
backend brings one; everything else is shared.
"""

import signal
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.fresh import FreshOrder, FreshProcess
from ors_server.sandboxes.processes import descendants, inner_pid, process_row, send_signal
from ors_server.sandboxes.scripts import Layout


class Cell(ABC):
    """One session's isolated place."""

    start_limit: ClassVar[float] = 60.0
    """Seconds that a shell may take from its launch to its first prompt."""
    layout: Layout
    limits: Limits
    control: Path
    """The control folder as the server sees it."""
    owner: int | None
    """Uid and gid of the session on the host; None when it is the server's own."""
    init: int
    """Pid of the first process inside, as the server sees it; 0 before the launch."""
    fresh_dir: str
    """Where fresh programs see their files."""

    @abstractmethod
    def launch(self, slave: int) -> None:
        """Start the init on a terminal; nothing of an earlier launch is alive.

        Must be called on the event loop's thread: what is started dies with the thread that started it.

        Args:
            slave: The shell's end of the terminal.

        Raises:
            SandboxStartError: Nothing could be started.
        """

    @abstractmethod
    async def settle(self) -> None:
        """Take note of what exists only now that the shell has answered for the first time after a launch.

        Raises:
            SandboxStartError: The cell is not what it should be.
        """

    @abstractmethod
    def work_folder(self) -> int:
        """Return the descriptor of the work dir; the cell keeps it open until it is closed."""

    @abstractmethod
    def files_folder(self) -> int:
        """Return the descriptor of the folder that holds `work`, `home`, `tmp` and `state`."""

    @abstractmethod
    def is_inside(self, pid: int) -> bool:
        """Tell whether a process belongs to the session.

        Args:
            pid: As the server sees it.
        """

    @abstractmethod
    def alive(self) -> int:
        """Return how many processes live, about."""

    @abstractmethod
    def denials(self) -> int:
        """Return how often a process or thread was refused so far; stays 0 where nobody counts."""

    @abstractmethod
    def start_beside(self, argv: list[str], *, stdin: int, stdout: int) -> subprocess.Popen[bytes]:
        """Run a program in an isolation of its own over the session's files, beside its processes.

        It starts in the folder that holds `work`, `home`, `tmp` and `state`. Standard error is a pipe.

        Args:
            argv: What to run, by its path inside.
            stdin: Descriptor, or `subprocess.DEVNULL`.
            stdout: Descriptor, or `subprocess.DEVNULL`.
        """

    @abstractmethod
    async def start_fresh(self, order: FreshOrder) -> FreshProcess:
        """Start a fresh program; it is closed with the cell at the latest.

        Args:
            order: What to run.

        Raises:
            SandboxStartError: Nothing could be started.
        """

    @abstractmethod
    async def kill(self) -> None:
        """End every process that was launched; files and fresh programs stay, and `launch` may follow.

        Raises:
            SandboxError: A process outlived it.
        """

    @abstractmethod
    async def freeze(self) -> None:
        """Stop every process where it stands."""

    @abstractmethod
    async def thaw(self) -> None:
        """Let every process go on."""

    @abstractmethod
    async def aclose(self) -> None:
        """End every process, remove every file; a second call does nothing."""

    def processes(self) -> list[int]:
        """Return the pids of the session, parents first."""
        return [pid for pid in descendants(self.init) if self.is_inside(pid)] if self.init else []

    def shell(self, seen_as: int) -> int | None:
        """Find the shell on the host.

        Args:
            seen_as: Its pid as it sees itself.
        """
        for pid in self.processes():
            if inner_pid(pid) == seen_as:
                return pid
        return None

    def signal_group(self, group: int, number: signal.Signals) -> int:
        """Signal the session's processes of one process group, each held fast first.

        Args:
            group: As the server sees it.
            number: The signal.

        Returns:
            How many were reached.
        """
        reached = 0
        for pid in self.processes():
            row = process_row(pid)
            if row is not None and row.group == group:
                reached += send_signal(pid, number, self.is_inside)
        return reached

    def signal_all(self, number: signal.Signals) -> None:
        """Signal every process of the session.

        Args:
            number: The signal.
        """
        for pid in self.processes():
            send_signal(pid, number, self.is_inside)
