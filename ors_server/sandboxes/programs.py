"""A fresh program on this host: its pipes, the word on its status, and its end.

Whatever isolates it writes JSON lines to a status pipe, as bubblewrap does (bwrap(1), `--json-status-fd`):
`{"child-pid": n}` once there is a process, `{"exit-code": n}` when it ran and has ended, `{"failure": true}`
when it never ran and standard error says why. Silence is never taken for a status.
"""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
from typing_extensions import override

from ors_server.sandboxes.errors import (
    FreshEndedError,
    SandboxClosedError,
    SandboxError,
    SandboxStartError,
)
from ors_server.sandboxes.fresh import RECEIVE_BYTES, FreshProcess
from ors_server.sandboxes.output import Capture, Output
from ors_server.sandboxes.processes import ended, kill_with_children, lower_priority
from ors_server.sandboxes.pump import Pump
from ors_server.sandboxes.usage import Usage, usage_of

_BITE = 65_536
_STATUS_BYTES = 65_536
_ENDING_LIMIT = 5.0
"""Seconds for a guardian to end everything under it, before it is killed."""
_KILL_LIMIT = 60.0
"""Seconds that the killed may take to be gone: a busy machine, or a group that has had its share of the
processor, lets them come to their end late."""
_LAST_WORDS_LIMIT = 1.0
"""Seconds that standard error may stay open after the end: whoever holds it has been killed by then."""
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_EXEC_REFUSED = b"bwrap: execvp "
"""What bubblewrap says when there is nothing to run; a program that says it has run, and has a status."""
_KILLED = 128 + signal.SIGKILL


@dataclass(frozen=True)
class Ends:
    """Where a new process's streams lead; descriptors, or what `subprocess` knows for them."""

    stdin: int
    stdout: int
    stderr: int
    status: int = -1
    """Where its guardian tells what becomes of it; -1 when nobody asks."""


Spawn = Callable[[Ends], "subprocess.Popen[bytes]"]


def _nothing(_process: "HostedProcess") -> None:
    pass


def _no_more() -> None:
    pass


@dataclass(frozen=True)
class Care:
    """How a program is ended, and what has to be done afterwards."""

    ending: signal.Signals = signal.SIGKILL
    """What makes its guardian end everything it started; SIGKILL follows when it takes its time."""
    keep_bytes: tuple[int, int] = (16_384, 16_384)
    """How much of the head and of the tail of standard error is kept."""
    kill_rest: Callable[[], None] = _no_more
    """Kills everything that it started, where more is known of that than its children."""
    on_end: "Callable[[HostedProcess], None]" = _nothing
    """Called once, when it is closed."""


class HostedProcess(FreshProcess):
    """A program under a guardian: the process on this host whose end ends everything."""

    def __init__(self, spawn: Spawn, care: Care) -> None:
        """Start it.

        Must be called on the event loop's thread: what is started dies with the thread that started it.

        Args:
            spawn: Starts the guardian on the given ends.
            care: How it is ended.

        Raises:
            SandboxStartError: Nothing could be started.
        """
        self._care = care
        self._child = self._child_pid = -1
        self._capture = Capture(*care.keep_bytes)
        self._said = b""
        self._is_over = self._is_closed = self._is_orphaned = False
        self._news = anyio.Event()
        self._guardian, self._held, own = _start(spawn)
        self._stdin, self._stdout, self._stderr, self._status = own.stdin, own.stdout, own.stderr, own.status
        self._pump = Pump()
        self._pump.watch(self._stderr, self._on_stderr)
        self._pump.watch(self._status, self._on_status)
        self._pump.watch(self._held, self._on_end)

    @property
    def pid(self) -> int:
        """The guardian's."""
        return self._guardian.pid

    @property
    @override
    def stderr(self) -> Output:
        return self._capture.output()

    @override
    def usage(self) -> Usage | None:
        return None if self._is_over else usage_of(self._guardian.pid, self._child_pid)

    @override
    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
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
    async def receive(self, most: int = RECEIVE_BYTES) -> bytes:
        while self._stdout >= 0:
            try:
                return os.read(self._stdout, most)
            except BlockingIOError:
                with contextlib.suppress(anyio.ClosedResourceError):
                    await anyio.wait_readable(self._stdout)
        return b""

    @override
    async def wait(self) -> int:
        while not self._is_over:
            await self._news.wait()
        with anyio.move_on_after(_LAST_WORDS_LIMIT):
            while self._stderr >= 0:
                await self._news.wait()
        return self._judge()

    @override
    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        with anyio.CancelScope(shield=True):
            try:
                await self._end()
            finally:
                self._let_go()

    async def end_with_sandbox(self) -> None:
        """Close it because its sandbox is closed: who waits for it is told so."""
        self._is_orphaned = not self._is_closed
        await self.aclose()

    def _judge(self) -> int:
        """Return the status, or raise what came in its place."""
        if self._is_orphaned:
            raise SandboxClosedError("the sandbox was closed while a program ran in it")
        told = self._told()
        if "exit-code" in told and "failure" not in told:
            return int(told["exit-code"])
        if self._is_closed:
            return _KILLED
        said = self._capture.output().kept
        if said.startswith(_EXEC_REFUSED):
            return _NOT_FOUND if b"No such file" in said else _NOT_EXECUTABLE
        words = said.decode(errors="replace").strip()[-500:]
        if self._guardian.returncode < 0:
            raise SandboxError(f"a fresh program was ended from outside; it said: {words!r}")
        raise SandboxStartError(f"a fresh program never ran; what should isolate it said: {words!r}")

    def _told(self) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for line in self._said.splitlines():
            with contextlib.suppress(ValueError):
                told.update(json.loads(line))
        return told

    async def _end(self) -> None:
        """Kill it, and wait until everything it started is dead."""
        if self._guardian.poll() is None and self._care.ending is not signal.SIGKILL:
            self._guardian.send_signal(self._care.ending)
            await ended(self._held, _ENDING_LIMIT)
        if self._guardian.poll() is None:
            self._care.kill_rest()
            await kill_with_children(self._guardian.pid)
        if not await ended(self._held, _KILL_LIMIT):
            raise SandboxError(f"process {self._guardian.pid} of a fresh program cannot be killed")
        self._guardian.wait()
        if self._child >= 0:
            await ended(self._child, _KILL_LIMIT)

    def _let_go(self) -> None:
        self._pump.close()
        for descriptor in (self._stdin, self._stdout):
            if descriptor >= 0:
                anyio.notify_closing(descriptor)
        _close_all(self._stdin, self._stdout, self._stderr, self._status, self._held, self._child)
        self._stdin = self._stdout = self._stderr = self._status = self._held = self._child = -1
        self._is_over = True
        self._tell()
        self._care.on_end(self)

    # News

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    def _on_stderr(self, _events: int) -> None:
        try:
            piece = os.read(self._stderr, _BITE)
        except BlockingIOError:
            return
        self._capture.feed(piece)
        if not piece:
            self._pump.forget(self._stderr)
            os.close(self._stderr)
            self._stderr = -1
            self._tell()

    def _on_status(self, _events: int) -> None:
        if not self._read_status():
            self._pump.forget(self._status)
        if self._child < 0 and "child-pid" in (told := self._told()):
            with contextlib.suppress(OSError):  # a short life
                self._child = os.pidfd_open(int(told["child-pid"]))
                self._child_pid = int(told["child-pid"])

    def _read_status(self) -> bool:
        """Read what was told; tell whether there may be more."""
        try:
            piece = os.read(self._status, _STATUS_BYTES)
        except BlockingIOError:
            return True
        self._said += piece
        return bool(piece) and len(self._said) <= _STATUS_BYTES

    def _on_end(self, _events: int) -> None:
        self._pump.forget(self._held)
        self._guardian.wait()
        self._read_status()  # it was written before the end
        self._is_over = True
        self._tell()


def _start(spawn: Spawn) -> "tuple[subprocess.Popen[bytes], int, Ends]":
    """Start the guardian; return it, a hold on it and our ends of its pipes, or leave nothing behind."""
    opened: list[int] = []
    ours: list[int] = []
    try:
        for _ in range(4):
            opened.extend(os.pipe())
        theirs = Ends(opened[0], opened[3], opened[5], opened[7])
        ours = [opened[1], opened[2], opened[4], opened[6]]
        for descriptor in ours:
            os.set_blocking(descriptor, False)
        guardian = spawn(theirs)
        lower_priority(guardian.pid)
        try:
            held = os.pidfd_open(guardian.pid)
        except OSError:
            guardian.kill()
            guardian.wait()
            raise
        opened = [theirs.stdin, theirs.stdout, theirs.stderr, theirs.status]
        return guardian, held, Ends(*ours)
    except OSError as error:
        raise SandboxStartError(f"a fresh program cannot be started: {error}") from error
    finally:
        _close_all(*opened)


def _close_all(*descriptors: int) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)
