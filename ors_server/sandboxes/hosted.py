"""Sandboxes on this host: serialised operations, files, snapshots and lifetimes, over any cell.

Invariants:

- Every operation but `aclose` runs in `_exclusively`: one at a time, and never on a closed sandbox.
- `aclose` does not wait for its turn, because a command may hold it for minutes. An operation that it
  interrupts fails with some error of the operating system, which `_exclusively` turns into
  `SandboxClosedError`.
- State that a shell saved for a copy exists only while the files are copied (`_state_saved`): a shell that is
  replaced later must not load it.
"""

import contextlib
import os
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Self, TypeVar

import anyio
import anyio.to_thread
from typing_extensions import override

from ors_server.model.clock import Clock, SystemClock
from ors_server.sandboxes.base import (
    Backend,
    Entry,
    ExecResult,
    Limits,
    Sandbox,
    SandboxRequest,
    SandboxRoot,
    Snapshot,
)
from ors_server.sandboxes.cells.cell import Cell
from ors_server.sandboxes.cells.file_copies import HostedSnapshot, copy_between, pack, run_together, unpack
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.cells.syscalls import Resolve, openat2
from ors_server.sandboxes.cells.workdir import WorkDir
from ors_server.sandboxes.egress import (
    LOOPBACK,
    EgressEvent,
    EgressProxy,
    NetworkMode,
    SandboxNetwork,
)
from ors_server.sandboxes.fresh import FreshProcess, FreshProgram
from ors_server.sandboxes.isolation_report import IsolationReport
from ors_server.sandboxes.sandbox_errors import (
    SandboxClosedError,
    SandboxError,
    SandboxFrozenError,
    SandboxStartError,
    SandboxUnavailableError,
    SnapshotError,
)
from ors_server.sandboxes.self_check import check_isolation
from ors_server.sandboxes.shell.persistent_shell import Shell
from ors_server.sandboxes.shell_scripts import DUMP, restore_command

_T = TypeVar("_T")
_DUMP_LIMIT = 5.0
_CLOSED_AT_ONCE = 16


class HostedSandbox(Sandbox):
    """A sandbox made of a cell and a shell in it."""

    cell: Cell
    """The cell, for another sandbox that copies it."""

    def __init__(self, session_id: str, cell: Cell, backend: "HostedBackend") -> None:
        self.session_id = session_id
        self.report = backend.describe()
        self.limits = cell.limits
        self.work_dir = cell.layout.work
        self.fresh_dir = cell.fresh_dir
        self.cell = cell
        self._backend = backend
        self._shell = Shell(cell, backend.clock)
        # Without `fast_acquire`, a free lock costs a pass of the event loop for every command.
        self._turn = anyio.Lock(fast_acquire=True)
        self._is_closed = False
        self._is_frozen = False

    async def begin(self) -> None:
        """Launch the shell; on failure nothing is left; `SandboxStartError` if no shell answered."""
        try:
            await self._shell.start()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise

    @override
    async def exec(self, command: str, *, time_limit: float | None = None) -> ExecResult:
        limit = self.limits.time_limit if time_limit is None else time_limit
        if not limit > 0:
            raise ValueError(f"a time limit must be above 0 seconds, got {limit!r}")
        async with self._exclusively():
            if self._is_frozen:
                raise SandboxFrozenError(f"sandbox {self.session_id!r} is frozen; thaw it first")
            result = await self._shell.run(command, min(limit, self.limits.longest_time_limit))
            self._require_open()  # otherwise the end of the sandbox would look like the command's
            return result

    @override
    async def restart(self) -> None:
        async with self._exclusively():
            await self._end_freeze()
            self._clear_saved_state()
            await self._shell.restart()

    @override
    async def end_processes(self) -> None:
        async with self._exclusively():
            await self._end_freeze()
            self._clear_saved_state()
            await self._shell.end_processes()

    @override
    async def read_file(self, path: str, *, most: int | None = None) -> bytes:
        return await self._on_files(lambda files: files.read(path, most))

    @override
    async def write_file(self, path: str, content: bytes) -> None:
        await self._on_files(lambda files: files.write(path, content))

    @override
    async def remove_file(self, path: str) -> None:
        await self._on_files(lambda files: files.remove(path))

    @override
    async def list_files(self, path: str = ".", *, depth: int = 1) -> list[Entry]:
        if depth < 1:
            raise ValueError(f"a depth must be at least 1, got {depth}")
        return await self._on_files(lambda files: files.entries(path, depth))

    @override
    async def snapshot(self) -> Snapshot:
        async with self._exclusively(), self._state_saved():
            return await pack(self.cell, self._backend.new_snapshot_path(), self._backend.name)

    @override
    async def restore(self, snapshot: Snapshot) -> None:
        if not isinstance(snapshot, HostedSnapshot) or snapshot.backend != self._backend.name:
            raise SnapshotError(
                f"a snapshot of {self._backend.name} is needed; this one is another backend's"
            )
        async with self._exclusively():
            await self._end_freeze()
            # Files are replaced only while no process uses them.
            await self.cell.kill()
            if self.cell.renew():
                await self._shell.restart()  # makes the new files, over which the snapshot's are copied
                await unpack(self.cell, snapshot)
                await self.restore_shell_state()
                return
            await unpack(self.cell, snapshot)
            await self._shell.restart()

    @override
    async def fork(self, session_id: str) -> Self:
        forks: list[Self] = []

        async def start() -> None:
            backend, network = self._backend, self.cell.network
            if network == LOOPBACK:
                other = await backend.start(session_id, self.limits, self.cell.root)
            else:
                other = await backend.start_in_network(session_id, self.limits, self.cell.root, network)
            if not isinstance(other, type(self)):
                raise TypeError(f"expected a {type(self).__name__}, got a {type(other).__name__}")
            forks.append(other)

        async with self._exclusively():
            try:
                # Starting the other sandbox and saving this shell's state wait for different processes.
                async with self._state_saved(start):
                    await copy_between(self.cell, forks[0].cell)
                await forks[0].restore_shell_state()
            except BaseException:
                with anyio.CancelScope(shield=True):
                    for other in forks:
                        await other.aclose()
                raise
        return forks[0]

    @override
    async def freeze(self) -> None:
        async with self._exclusively():
            await self.cell.freeze()
            self._is_frozen = True

    @override
    async def thaw(self) -> None:
        async with self._exclusively():
            await self._end_freeze()

    @override
    async def start_fresh(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes] | None = None,
        environment: Mapping[str, str] | None = None,
        writable: bool = False,
        user: str = "",
        network: SandboxNetwork = LOOPBACK,
    ) -> FreshProcess:
        variables = dict(environment or {})
        request = FreshProgram(tuple(argv), dict(files or {}), variables, writable, user, network)
        self._backend.refuse_network(network)
        async with self._exclusively():
            return await self.cell.start_fresh(request)

    @override
    async def start_other(self, request: SandboxRequest) -> Sandbox:
        self._require_open()
        return await self._backend.start_requested(f"{self.session_id}-other", request)

    @property
    @override
    def connections(self) -> Sequence[EgressEvent]:
        return tuple(self.cell.connections)

    @override
    async def list_restored(self) -> list[str]:
        async with self._exclusively():
            return await anyio.to_thread.run_sync(self.cell.restored_files)

    @override
    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        with anyio.CancelScope(shield=True):
            try:
                await self.cell.aclose()
            finally:
                self._shell.close()
                self._backend.forget(self)

    async def restore_shell_state(self) -> None:
        """Load the shell state that was copied with the files."""
        await self._shell.run(restore_command(self.cell.layout), _DUMP_LIMIT)

    # What the operations share

    @contextlib.asynccontextmanager
    async def _exclusively(self) -> AsyncGenerator[None]:
        async with self._turn:
            self._require_open()
            try:
                yield
            except (OSError, SandboxError) as error:
                if self._is_closed:
                    raise SandboxClosedError(f"sandbox {self.session_id!r} was closed meanwhile") from error
                if isinstance(error, SandboxError):
                    raise
                raise SandboxError(f"sandbox {self.session_id!r} failed: {error}") from error

    def _require_open(self) -> None:
        if self._is_closed:
            raise SandboxClosedError(f"sandbox {self.session_id!r} is closed")

    async def _end_freeze(self) -> None:
        if self._is_frozen:
            await self.cell.thaw()
            self._is_frozen = False

    def _clear_saved_state(self) -> None:
        """Empty the file of the old shell's state; leave anything else that is at its path."""
        # The folder is writable for the agent: no link is followed, and a pipe in its place must not block.
        resolve = Resolve.BENEATH | Resolve.NO_MAGICLINKS | Resolve.NO_SYMLINKS
        flags = os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK
        with contextlib.suppress(OSError):
            os.close(openat2(self.cell.files_folder(), b"state/dump", flags, resolve=resolve))

    async def _on_files(self, work: Callable[[WorkDir], _T]) -> _T:
        async with self._exclusively():
            is_root = self.cell.root is not None
            files = WorkDir(
                self.cell.work_folder(), self.work_dir, self.limits, self.cell.uid, is_root=is_root
            )
            # In a thread, because files may be on a slow disk.
            return await anyio.to_thread.run_sync(partial(work, files))

    @contextlib.asynccontextmanager
    async def _state_saved(
        self, meanwhile: Callable[[], Awaitable[None]] | None = None
    ) -> AsyncGenerator[None]:
        """Have the shell's state among its files, and every process stopped."""
        # A frozen shell cannot save its state, and what is in the file is not its state.
        dump = self._clear_if_frozen if self._is_frozen else partial(self._shell.run, DUMP, _DUMP_LIMIT)
        try:
            await run_together(dump, *([meanwhile] if meanwhile is not None else []))
            async with self._processes_frozen():
                yield
        finally:
            self._clear_saved_state()  # a shell that is killed later must not get this state

    async def _clear_if_frozen(self) -> None:
        self._clear_saved_state()

    @contextlib.asynccontextmanager
    async def _processes_frozen(self) -> AsyncGenerator[None]:
        if self._is_frozen:
            yield
            return
        await self.cell.freeze()
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self.cell.thaw()


class HostedBackend(Backend):
    """A backend whose sandboxes are cells on this host."""

    has_networks: ClassVar[bool] = False
    """Whether its sandboxes have other networks than their own loopback."""
    allows_network = False
    """Whether the operator allows connections to the hosts of an allow-list."""
    make_proxy: Callable[[tuple[str, ...]], EgressProxy] = EgressProxy

    def __init__(self, state: ServerState, clock: Clock | None = None) -> None:
        self.state = state
        self.clock = clock or SystemClock()
        self._alive: set[HostedSandbox] = set()
        self._is_closed = False
        self._snapshots = 0

    @abstractmethod
    def make_cell(self, limits: Limits) -> Cell:
        """Make a cell that is not launched yet."""

    def make_rooted_cell(self, limits: Limits, root: SandboxRoot) -> Cell:
        """Make a cell with a whole root; raises `SandboxUnavailableError` where there are none."""
        self.refuse_root(root)
        return self.make_cell(limits)

    @abstractmethod
    def check_host(self) -> None:
        """Check for what the backend needs before anything is started.

        Raises:
            SandboxUnavailableError: Something is missing; the message says what, and how to get it.
        """

    @abstractmethod
    def describe(self) -> IsolationReport:
        """Return the report for a session of this backend on this machine."""

    @override
    async def probe(self) -> IsolationReport:
        self.check_host()
        report = self.describe()
        try:
            sandbox = await self.start("probe")
        except SandboxError as error:
            raise SandboxUnavailableError(f"{self.name} does not work here: {error}") from error
        try:
            broken = await check_isolation(sandbox)
        finally:
            await sandbox.aclose()
        if broken:
            raise SandboxUnavailableError(f"{self.name} does not isolate here: {'; '.join(broken)}")
        return report

    @override
    async def start_requested(self, session_id: str, request: SandboxRequest) -> Sandbox:
        if request.network == LOOPBACK:
            return await super().start_requested(session_id, request)
        self.refuse_network(request.network)
        return await self.start_in_network(session_id, request.limits, request.root, request.network)

    @override
    def refuse_network(self, network: SandboxNetwork) -> None:
        if not self.has_networks:
            super().refuse_network(network)
        elif network.mode is NetworkMode.ALLOW_LIST and not self.allows_network:
            raise SandboxUnavailableError(
                f"this session connects to {', '.join(network.allowed)}, which the operator has not allowed: "
                "--allow-network"
            )

    @override
    async def start(
        self, session_id: str, limits: Limits | None = None, root: SandboxRoot | None = None
    ) -> Sandbox:
        return await self.start_in_network(session_id, limits, root, LOOPBACK)

    async def start_in_network(
        self, session_id: str, limits: Limits | None, root: SandboxRoot | None, network: SandboxNetwork
    ) -> Sandbox:
        """Start a sandbox as `start` does, with a network that has been allowed."""
        if self._is_closed:
            raise SandboxUnavailableError(f"the {self.name} backend is closed")
        try:
            limits = limits or Limits()
            cell = self.make_cell(limits) if root is None else self.make_rooted_cell(limits, root)
            cell.network, cell.make_proxy = network, self.make_proxy
            if network.mode is NetworkMode.ALLOW_LIST:
                cell.egress = cell.new_proxy(network)
            try:
                sandbox = HostedSandbox(session_id, cell, self)
            except BaseException:
                await cell.aclose()
                raise
            # Before it begins: a backend that is closed meanwhile must find it.
            self._alive.add(sandbox)
            await sandbox.begin()
        except OSError as error:
            raise SandboxStartError(f"cannot create the files of {session_id!r}: {error}") from error
        return sandbox

    @override
    async def aclose(self) -> None:
        self._is_closed = True
        turns = anyio.CapacityLimiter(_CLOSED_AT_ONCE)

        async def close(sandbox: HostedSandbox) -> None:
            async with turns:
                await sandbox.aclose()

        async with anyio.create_task_group() as group:
            for sandbox in list(self._alive):
                group.start_soon(close, sandbox)

    def forget(self, sandbox: HostedSandbox) -> None:
        """Remove a closed sandbox from the list."""
        self._alive.discard(sandbox)

    def new_snapshot_path(self) -> Path:
        """Return a path for the next snapshot."""
        self._snapshots += 1
        return self.state.snapshots / f"{self.name}-{self._snapshots}.tar"
