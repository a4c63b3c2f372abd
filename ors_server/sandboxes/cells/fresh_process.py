"""A fresh program on this host: its pipes, its status, and its end.

The program that isolates it writes JSON lines to a status pipe, as bubblewrap does (bwrap(1),
`--json-status-fd`): `{"child-pid": n}` once there is a process, `{"exit-code": n}` when it ran and ended,
`{"failure": true}` when it never ran and standard error says why. A missing line is never read as a status.

Invariants:

- A status is the program's own only if the guardian reported it: the guardian's exit code alone could as well
  be that of an isolation that failed to start.
- There are three ends: the program ended (`_is_over`), the caller closed it (`_is_closed`), its sandbox was
  closed under it (`_is_orphaned`).
- Descriptors are -1 as soon as they are closed, so no later callback reads a number that was reused.
- `on_end` is called exactly once, when every descriptor is closed.
"""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from typing_extensions import override

from ors_server.processes.host_processes import ended, kill_with_children, lower_priority
from ors_server.sandboxes.captured_output import Output, OutputCapture
from ors_server.sandboxes.cells.descriptors import close_all
from ors_server.sandboxes.fresh import RECEIVE_BYTES, FreshProcess
from ors_server.sandboxes.poller import Poller
from ors_server.sandboxes.processor_usage import ProcessorUsage, usage_of
from ors_server.sandboxes.sandbox_errors import (
    FreshEndedError,
    SandboxClosedError,
    SandboxError,
    SandboxStartError,
)

_READ_BYTES = 65_536
_STATUS_BYTES = 65_536
_ENDING_LIMIT = 5.0
"""Seconds for a guardian to end everything below it, before it is killed."""
_KILL_LIMIT = 60.0
"""Seconds until killed processes must be gone; on a busy machine, or in a throttled cgroup, they end late."""
_LAST_WORDS_LIMIT = 1.0
"""Seconds that standard error may stay open after the end: its holders have been killed by then."""
SYSTEM_PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
"""The environment of a program that isolates others."""
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_EXEC_REFUSED = b"bwrap: execvp "
"""Beginning of bubblewrap's message if there is nothing to run; a program that prints it has a status."""
_KILLED = 128 + signal.SIGKILL


@dataclass(frozen=True)
class ProcessStreams:
    """The streams of a new process: descriptors, or values that `subprocess` accepts."""

    stdin: int
    stdout: int
    stderr: int
    status: int = -1
    """Descriptor on which its guardian reports its status; -1 if that is not needed."""


def start_with(
    instructions: bytes,
    command: Callable[[int], list[str]],
    ends: ProcessStreams,
    *passed: int,
    environment: Mapping[str, str],
    leads_session: bool = True,
) -> "subprocess.Popen[bytes]":
    """Start a program that reads its instructions from the descriptor with which `command` is called.

    It inherits no other descriptor than that, its streams and those that are passed. As a session leader it
    gets no signal that is sent to the server's process group.

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


Spawn = Callable[[ProcessStreams], "subprocess.Popen[bytes]"]


@dataclass(frozen=True)
class GuardianOptions:
    """The ending of a program, and the work afterwards."""

    ending: signal.Signals = signal.SIGKILL
    """The signal on which its guardian ends everything it started; SIGKILL follows if that takes too long."""
    keep_bytes: tuple[int, int] = (16_384, 16_384)
    """Bytes of the head and of the tail of standard error that are kept."""
    kill_rest: Callable[[], None] = lambda: None
    """Kills everything that it started, if more is known of that than its children."""
    on_end: "Callable[[HostedProcess], None]" = lambda _: None
    """Called once, when it is closed."""


class HostedProcess(FreshProcess):
    """A program under a guardian: the process on this host that ends everything when it ends."""

    def __init__(self, spawn: Spawn, options: GuardianOptions) -> None:
        """Start it.

        Call it on the event loop's thread: the child ends with the thread that started it.

        Raises:
            SandboxStartError: Nothing could be started.
        """
        self._options = options
        self._child = self._child_pid = -1
        self._capture = OutputCapture(*options.keep_bytes)
        self._status_text = b""
        self._is_over = self._is_closed = self._is_orphaned = False
        self._changed = anyio.Event()
        self._guardian, self._guardian_fd, own = _start(spawn)
        self._stdin, self._stdout, self._stderr, self._status = own.stdin, own.stdout, own.stderr, own.status
        self._poller = Poller()
        self._poller.watch(self._stderr, self._on_stderr)
        self._poller.watch(self._status, self._on_status)
        self._poller.watch(self._guardian_fd, self._on_end)

    @property
    def pid(self) -> int:
        """The guardian's pid."""
        return self._guardian.pid

    @property
    @override
    def stderr(self) -> Output:
        return self._capture.output()

    @override
    def usage(self) -> ProcessorUsage | None:
        return None if self._is_over else usage_of(self._guardian.pid, self._child_pid)

    @override
    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            # In every round: another task may close the input while this one waits for the pipe.
            if self._stdin < 0:
                raise FreshEndedError("its standard input is closed")
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                with contextlib.suppress(anyio.ClosedResourceError):
                    await anyio.wait_writable(self._stdin)
            except BrokenPipeError:
                raise FreshEndedError("the program does not read its standard input any more") from None

    @override
    async def close_stdin(self) -> None:
        if self._stdin >= 0:
            anyio.notify_closing(self._stdin)
            os.close(self._stdin)
            self._stdin = -1

    @override
    async def receive(self, max_bytes: int = RECEIVE_BYTES) -> bytes:
        while self._stdout >= 0:
            try:
                return os.read(self._stdout, max_bytes)
            except BlockingIOError:
                with contextlib.suppress(anyio.ClosedResourceError):
                    await anyio.wait_readable(self._stdout)
        return b""

    @override
    async def wait(self) -> int:
        while not self._is_over:
            await self._changed.wait()
        # Its end and the end of its standard error are seen in either order.
        with anyio.move_on_after(_LAST_WORDS_LIMIT):
            while self._stderr >= 0:
                await self._changed.wait()
        return self._exit_status()

    @override
    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        with anyio.CancelScope(shield=True):
            try:
                await self._end()
            finally:
                self._close_everything()

    async def end_with_sandbox(self) -> None:
        """Close it because its sandbox is closed; callers that wait for it get an error."""
        self._is_orphaned = not self._is_closed
        await self.aclose()

    def _exit_status(self) -> int:
        """Return the status, or raise the error that prevented one."""
        if self._is_orphaned:
            raise SandboxClosedError("the sandbox was closed while a program ran in it")
        reported = self._reported()
        # A child that could not become the program still exits, and its guardian reports that exit code, too.
        if "exit-code" in reported and "failure" not in reported:
            return int(reported["exit-code"])
        if self._is_closed:
            # No status was reported, because the caller closed it first.
            return _KILLED
        printed = self._capture.output().kept
        if printed.startswith(_EXEC_REFUSED):
            return _NOT_FOUND if b"No such file" in printed else _NOT_EXECUTABLE
        words = printed.decode(errors="replace").strip()[-500:]
        if self._guardian.returncode < 0:
            raise SandboxError(f"a fresh program was killed from outside the sandbox; it printed: {words!r}")
        raise SandboxStartError(f"a fresh program could not be started; the isolation printed: {words!r}")

    def _reported(self) -> dict[str, Any]:
        reported: dict[str, Any] = {}
        for line in self._status_text.splitlines():
            with contextlib.suppress(ValueError):
                reported.update(json.loads(line))
        return reported

    async def _end(self) -> None:
        """Kill it, and wait until everything it started is dead."""
        # Some guardians have to end their program themselves, such as one that removes a container.
        if self._guardian.poll() is None and self._options.ending is not signal.SIGKILL:
            self._guardian.send_signal(self._options.ending)
            await ended(self._guardian_fd, _ENDING_LIMIT)
        if self._guardian.poll() is None:
            self._options.kill_rest()
            await kill_with_children(self._guardian.pid)
        if not await ended(self._guardian_fd, _KILL_LIMIT):
            raise SandboxError(f"process {self._guardian.pid} of a fresh program cannot be killed")
        self._guardian.wait()
        if self._child >= 0:
            await ended(self._child, _KILL_LIMIT)

    def _close_everything(self) -> None:
        self._poller.close()
        # A task that waits in `send` or `receive` must wake up before the number can be reused.
        for descriptor in (self._stdin, self._stdout):
            if descriptor >= 0:
                anyio.notify_closing(descriptor)
        close_all(self._stdin, self._stdout, self._stderr, self._status, self._guardian_fd, self._child)
        self._stdin = self._stdout = self._stderr = self._status = self._guardian_fd = self._child = -1
        self._is_over = True
        self._notify()
        self._options.on_end(self)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _on_stderr(self, _events: int) -> None:
        try:
            piece = os.read(self._stderr, _READ_BYTES)
        except BlockingIOError:
            return
        self._capture.feed(piece)
        if not piece:
            self._poller.unwatch(self._stderr)
            os.close(self._stderr)
            self._stderr = -1
            self._notify()

    def _on_status(self, _events: int) -> None:
        if not self._read_status():
            self._poller.unwatch(self._status)
        if self._child < 0 and "child-pid" in (reported := self._reported()):
            # Held as a pidfd: the program's process may be reaped before the end is waited for.
            with contextlib.suppress(OSError):  # it has ended already
                self._child = os.pidfd_open(int(reported["child-pid"]))
                self._child_pid = int(reported["child-pid"])

    def _read_status(self) -> bool:
        """Read from the status pipe; returns whether more may come."""
        try:
            piece = os.read(self._status, _STATUS_BYTES)
        except BlockingIOError:
            return True
        self._status_text += piece
        return bool(piece) and len(self._status_text) <= _STATUS_BYTES

    def _on_end(self, _events: int) -> None:
        self._poller.unwatch(self._guardian_fd)
        # A guardian that dies while it starts may leave a child that waits for it, and holds the pipes. The
        # guardian's pid cannot have been reused before it is waited for.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._guardian.pid, signal.SIGKILL)
        self._guardian.wait()
        self._read_status()  # the guardian wrote it before it ended
        self._is_over = True
        self._notify()


def _start(spawn: Spawn) -> "tuple[subprocess.Popen[bytes], int, ProcessStreams]":
    """Start the guardian; return it, its pidfd and our ends of its pipes, or leave nothing behind."""
    opened: list[int] = []
    ours: list[int] = []
    try:
        # Standard input, output, error and status, each as (read end, write end).
        for _ in range(4):
            opened.extend(os.pipe())
        child_ends = ProcessStreams(opened[0], opened[3], opened[5], opened[7])
        ours = [opened[1], opened[2], opened[4], opened[6]]
        for descriptor in ours:
            os.set_blocking(descriptor, False)
        guardian = spawn(child_ends)
        lower_priority(guardian.pid)
        try:
            pidfd = os.pidfd_open(guardian.pid)
        # Without a pidfd, its end could not be watched.
        except OSError:
            guardian.kill()
            guardian.wait()
            raise
        opened = [child_ends.stdin, child_ends.stdout, child_ends.stderr, child_ends.status]
        return guardian, pidfd, ProcessStreams(*ours)
    except OSError as error:
        raise SandboxStartError(f"a fresh program cannot be started: {error}") from error
    finally:
        close_all(*opened)
