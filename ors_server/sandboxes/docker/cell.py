"""One session's containers, and how they begin and end; the cell of the backend `docker`.

Invariants:

- docker-py blocks, so starting happens in a launcher process (`docker_launcher`), and the few calls that are
  made here run in a thread.
- The launcher removes what it made unless it receives the byte `+` on the pipe `go`; it is sent only after
  the first process was checked and its files are held. A server that dies in between leaves nothing.
- The holder's container ends with the pipe `leash`, whose only writer is this server.
- No pid of the engine is signalled before `_is_ours` has seen the session's control file through it.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from typing_extensions import override

from ors_server.processes.host_processes import ended, namespace_of, send_signal
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cells.cell import KILL_LIMIT, Cell, FreshFolders
from ors_server.sandboxes.cells.cgroups import Cgroup, ProcessCounters, counters_of
from ors_server.sandboxes.cells.descriptors import close_all
from ors_server.sandboxes.cells.fresh_process import ProcessStreams, start_with
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.docker import containers
from ors_server.sandboxes.docker import launcher as docker_launcher
from ors_server.sandboxes.docker.engine import Engine, EngineFacts
from ors_server.sandboxes.fresh import FreshProcess, FreshProgram
from ors_server.sandboxes.sandbox_errors import SandboxStartError
from ors_server.sandboxes.shell_scripts import EnforcedLimits, ulimits

_STATUS_BYTES = 65_536
_REPORT_LIMIT = 60.0


class DockerCell(Cell):
    """One session's containers."""

    fresh_dir = containers.FRESH_DIR
    fresh_ending = signal.SIGTERM

    def __init__(self, state: ServerState, limits: Limits, engine: Engine, facts: EngineFacts) -> None:
        self._engine = engine
        self._facts = facts
        self._programs = 0
        self._launches = 0
        self._container = ""
        self._data_folder: str | None = None
        self._reports = -1
        self._go = -1
        self._leash = -1
        self._terminal = ""
        self._init_fd = -1
        self._group: ProcessCounters | None = None
        self._is_paused = False
        self._begun = -1
        super().__init__(state, limits)

    @override
    def make_group(self, suffix: str) -> Cgroup | None:
        """Make none: the engine does."""
        return None

    @override
    def enforced(self) -> EnforcedLimits:
        return EnforcedLimits(memory=self._facts.can_limit_memory, pids=self._facts.can_limit_pids)

    @override
    def prepare(self) -> None:
        """Write the files that the containers are shown in addition to the control folder."""
        super().prepare()
        folder = self._folder.path
        (self.control / "start").write_text(containers.START_SCRIPT)
        (folder / "identity").mkdir(mode=0o755)
        containers.write_identity(folder / "identity", self._user)
        os.mkfifo(folder / "leash", 0o600)
        if self.uid is not None:
            os.chown(folder / "leash", self.uid, self.uid)
        # For reading, too: opening only for writing would wait for the holder, which does not run yet.
        self._leash = os.open(folder / "leash", os.O_RDWR | os.O_CLOEXEC)

    @property
    def _user(self) -> int:
        return self.uid if self.uid is not None else os.getuid()

    @property
    def _place(self) -> containers.ContainerSetting:
        path = self._facts.path
        return containers.ContainerSetting(
            image=self._facts.image,
            name=f"ors-{self._mark}",
            labels={
                containers.SERVER_LABEL: self._state.server_id,
                containers.SESSION_LABEL: self._mark,
                containers.PLACE_LABEL: place_of(self._state.base),
            },
            user=self._user,
            limits=self.limits,
            folder=self._folder.path,
            control=self.control,
            static=self._state.static,
            environment={"PATH": path} if path else {},
        )

    # The session's processes

    @override
    def spawn_first(self, slave: int) -> "subprocess.Popen[bytes]":
        self._close_pipes()
        self._launches += 1
        self._container = f"ors-{self._mark}-{self._launches}"
        self._terminal = os.ttyname(slave)
        if self.uid is not None:  # only while the container opens it: see `_shut_terminal`
            os.fchown(slave, 0, self.uid)
            os.fchmod(slave, 0o660)
        self._reports, sending = os.pipe()
        waits, self._go = os.pipe()
        orders = {
            "name": self._container,
            "container": containers.session(self._place, self._terminal),
            "holder": containers.holder(self._place),
            "data": self._data_folder,
            "go": waits,
        }
        try:
            return self._spawn(orders, ProcessStreams(slave, slave, slave, sending), waits)
        finally:
            os.close(sending)
            os.close(waits)

    @override
    async def finish_launch(self) -> None:
        """Take hold of the container's first process and files, and close its terminal to later opens."""
        try:
            report = await self._wait_for_report()
            self._take_hold(int(report["init"]))
            self._group = counters_of(self.init)
            if self._data_folder is None:
                self._data_folder = str(report["data"])
                self.attach_files(f"/proc/{report['holder']}/root/data")
            self._shut_terminal()
            os.write(self._go, b"+")
        except (OSError, ValueError, KeyError) as error:
            raise SandboxStartError(f"the new container cannot be reached: {error}") from error
        finally:
            self._close_pipes()

    async def _wait_for_report(self) -> dict[str, Any]:
        """Return the launcher's reports; the shell may answer before the engine reports that it started."""
        received = b""
        with anyio.move_on_after(_REPORT_LIMIT):
            # The first launch reports twice: the holder of the files, then the container of the shell.
            report: dict[str, Any] = {}
            while "init" not in report:
                await anyio.wait_readable(self._reports)
                piece = os.read(self._reports, _STATUS_BYTES)
                if not piece:
                    break
                received += piece
                for line in received.splitlines():
                    report |= json.loads(line)
            return report
        raise SandboxStartError(f"no report within {_REPORT_LIMIT:g} s that the container runs")

    def _shut_terminal(self) -> None:
        """Keep processes inside from opening the terminal again, where they could write as the shell does."""
        if self.uid is not None:
            Path(self._terminal).chmod(0o600)

    def _take_hold(self, pid: int) -> None:
        """Accept a pid as the session's only after a check, because its process is killed in the end."""
        pidfd = os.pidfd_open(pid)
        namespace = namespace_of(pid, "pid")
        if not self._is_ours(pid, namespace):
            os.close(pidfd)
            raise SandboxStartError("the engine's process ids are not this host's: it runs somewhere else")
        self.init, self._init_fd, self._pid_namespace = pid, pidfd, namespace

    def _is_ours(self, pid: int, namespace: str | None) -> bool:
        seen = Path(f"/proc/{pid}/root{self.layout.control}/init")
        try:
            is_shown = seen.samefile(self.control / "init")
        except OSError:
            return False
        return is_shown and namespace not in {None, namespace_of(os.getpid(), "pid")}

    @override
    def counted(self) -> int:
        return self._group.alive() if self._group is not None else 0

    @override
    def denials(self) -> int:
        return self._group.denials() if self._group is not None else 0

    @override
    async def end_processes(self) -> None:
        """Kill process 1, with which the kernel ends the whole namespace.

        Process 1 leads the terminal's session, so its end hangs up on the shell, which must not live to write
        its state down: the others are killed first, while process 1 cannot start them again.
        """
        if self.init:
            send_signal(self.init, signal.SIGSTOP, self.is_inside)
            for pid in reversed(self.processes()):  # process 1 comes last
                send_signal(pid, signal.SIGKILL, self.is_inside)
            await self.thaw()
            is_gone = await ended(self._init_fd, KILL_LIMIT)
            os.close(self._init_fd)
            self._init_fd = -1
        elif self._first_process is not None:
            self._first_process.terminate()  # it removes what it has made so far
            is_gone = await ended(self._first_pidfd, KILL_LIMIT)
        else:
            is_gone = True
        if not is_gone:
            await anyio.to_thread.run_sync(self._engine.remove, self._container)
        if self._group is not None:
            self._group.close()
        self._pid_namespace, self._group, self._is_paused = None, None, False
        self._close_pipes()

    @override
    async def freeze(self) -> None:
        if not self._is_paused:
            await anyio.to_thread.run_sync(self._engine.pause, self._container)
            self._is_paused = True

    @override
    async def thaw(self) -> None:
        if self._is_paused:
            await anyio.to_thread.run_sync(self._engine.unpause, self._container)
            self._is_paused = False

    @override
    async def aclose(self) -> None:
        """End everything; the volume goes with the container that holds it."""
        try:
            await super().aclose()
        finally:
            self._close_pipes()
            if self._leash >= 0:
                os.close(self._leash)
                self._leash = -1
                # The holder ends with the pipe's last writer; this removes everything else with the session's
                # label.
                await anyio.to_thread.run_sync(self._remove_all)

    def _remove_all(self) -> None:
        for container in self._engine.labelled(containers.SESSION_LABEL, self._mark):
            self._engine.remove(container)

    def _close_pipes(self) -> None:
        close_all(self._reports, self._go)
        self._reports = self._go = -1

    # Copiers and fresh programs

    @override
    def start_beside(self, argv: list[str], *, stdin: int, stdout: int) -> "subprocess.Popen[bytes]":
        config = containers.copier(self._place, argv, reads=stdin == subprocess.DEVNULL)
        return self._spawn_program(config, ProcessStreams(stdin, stdout, subprocess.PIPE, -1), -1)

    @override
    async def start_fresh(self, request: FreshProgram) -> FreshProcess:
        """Start a fresh program, and wait until there is a process: starting is not on the program's time."""
        try:
            process = await super().start_fresh(request)
        finally:
            # The launcher closes its end once the container runs, and readability of ours is that end.
            begun, self._begun = self._begun, -1
        try:
            await anyio.wait_readable(begun)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await process.aclose()
            raise
        finally:
            os.close(begun)
        return process

    @override
    def spawn_fresh(
        self, request: FreshProgram, folders: FreshFolders, ends: ProcessStreams
    ) -> "subprocess.Popen[bytes]":
        lines = ulimits(self.limits, self.enforced())
        config = containers.fresh(self._place, request, folders.files, lines)
        self._begun, begins = os.pipe()
        try:
            return self._spawn_program(config, ends, begins)
        except SandboxStartError:
            os.close(self._begun)
            raise
        finally:
            os.close(begins)

    def _spawn_program(
        self, config: containers.Config, ends: ProcessStreams, begins: int
    ) -> "subprocess.Popen[bytes]":
        self._programs += 1
        name = f"ors-{self._mark}-p{self._programs}"
        orders = {"name": name, "container": config, "data": self._data_folder, "begins": begins}
        return self._spawn(orders, ends, begins)

    def _spawn(self, orders: dict[str, Any], ends: ProcessStreams, *passed: int) -> "subprocess.Popen[bytes]":
        orders |= {"host": self._engine.host, "api": self._facts.api}
        return start_with(
            json.dumps(orders).encode(),
            lambda fd: [sys.executable, "-P", docker_launcher.__file__, str(fd), str(ends.status)],
            ends,
            *passed,
            # The launcher has to find docker-py where this process finds it, and needs nothing else.
            environment={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            leads_session=False,
        )


def place_of(base: Path) -> str:
    """Return an identity of a base folder that no other one on this host has."""
    status = base.stat()
    return f"{status.st_dev}-{status.st_ino}"
