"""Fresh programs that run nothing: a generator acts as the program, for tests of code that uses sandboxes.

```python
def greeter(call):
    line = yield READ            # waits for input; b"" is its end
    yield b"hello " + line       # prints
    return 0                     # the status

backend = ScriptedBackend(programs={"greeter": greeter, "/bin/true": prints(b"")})
```
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import anyio
import anyio.lowlevel
from typing_extensions import override

from ors_server.sandboxes.captured_output import Output
from ors_server.sandboxes.fresh import RECEIVE_BYTES, FreshProcess, FreshProgram
from ors_server.sandboxes.sandbox_errors import FreshEndedError, SandboxClosedError

READ = None
"""Yielded by a program to get the next bytes of its input."""
_KILLED = 137
_NOT_FOUND = 127


@dataclass(frozen=True)
class Remark:
    """Yielded by a program to print to standard error."""

    text: bytes


@dataclass(frozen=True)
class FreshCall:
    """The arguments of a scripted program, and the files at its start."""

    order: FreshProgram
    """Its arguments, files and variables."""
    work: Mapping[str, bytes]
    """The work dir's files when it began."""


Program: TypeAlias = Callable[[FreshCall], Generator[bytes | Remark | None, bytes, int]]
"""Prints the bytes that it yields, reads by yielding `READ`, and returns its status in [0, 255]."""


def prints(stdout: bytes = b"", *, stderr: bytes = b"", exit_code: int = 0) -> Program:
    """Return a program that reads nothing, prints, and ends."""

    def program(_call: FreshCall) -> Generator[bytes | Remark | None, bytes, int]:
        yield Remark(stderr)
        yield stdout
        return exit_code

    return program


def missing(call: FreshCall) -> Generator[bytes | Remark | None, bytes, int]:
    """Act as a program that does not exist: print an error and fail with 127."""
    yield Remark(f"{call.order.argv[0]}: not in the script\n".encode())
    return _NOT_FOUND


class ScriptedProcess(FreshProcess):
    """One run of a program; it continues whenever a caller waits for it."""

    def __init__(self, program: Program, call: FreshCall) -> None:
        self.call = call
        self._play = program(call)
        self._stdin = bytearray()
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._is_stdin_open = True
        self._is_reading = False
        self._is_begun = False
        self._is_orphaned = False
        self._status: int | None = None
        self._changed = anyio.Event()

    @property
    @override
    def stderr(self) -> Output:
        return Output(bytes(self._stderr), b"", len(self._stderr))

    @override
    async def send(self, data: bytes) -> None:
        self._advance()
        if self._status is not None or not self._is_stdin_open:
            raise FreshEndedError("the program does not read its standard input any more")
        self._stdin += data
        self._wake_waiters()
        await anyio.lowlevel.checkpoint()

    @override
    async def close_stdin(self) -> None:
        self._is_stdin_open = False
        self._wake_waiters()
        await anyio.lowlevel.checkpoint()

    @override
    async def receive(self, max_bytes: int = RECEIVE_BYTES) -> bytes:
        await anyio.lowlevel.checkpoint()
        self._advance()
        while not self._stdout and self._status is None:
            await self._changed.wait()
            self._advance()
        piece = bytes(self._stdout[:max_bytes])
        del self._stdout[:max_bytes]
        return piece

    @override
    async def wait(self) -> int:
        await anyio.lowlevel.checkpoint()
        self._advance()
        while self._status is None:
            await self._changed.wait()
            self._advance()
        if self._is_orphaned:
            raise SandboxClosedError("the sandbox was closed while a program ran in it")
        return self._status

    @override
    async def aclose(self) -> None:
        if self._status is None:
            self._status = _KILLED
            self._play.close()
            self._wake_waiters()

    async def end_with_sandbox(self) -> None:
        """Close it because its sandbox is closed; callers that wait for it get an error."""
        self._is_orphaned = self._status is None
        await self.aclose()

    def _advance(self) -> None:
        """Run until the program ends, or waits for input that is not there."""
        while self._status is None:
            data = b""  # also at the end of the input
            if self._is_reading:
                if self._is_stdin_open and not self._stdin:
                    return
                data = bytes(self._stdin)
                self._stdin.clear()
            try:
                # A generator that has not begun takes no value (PEP 342).
                yielded = self._play.send(data) if self._is_begun else next(self._play)
            except StopIteration as end:
                self._status = int(end.value)
                return
            self._is_begun = True
            self._is_reading = yielded is READ
            if isinstance(yielded, Remark):
                self._stderr += yielded.text
            elif yielded is not None:
                self._stdout += yielded

    def _wake_waiters(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
