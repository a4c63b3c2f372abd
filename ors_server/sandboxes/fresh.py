"""Fresh programs: run beside the agent, in an isolation of their own, sharing only a view of the work dir.

What a fresh program prints and its status are the word of whatever ran in it. Where that is the agent's code,
the caller compares on its own side of the pipe and hands no expected value in.
"""

import contextlib
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import anyio

from ors_server.clock import SystemClock
from ors_server.sandboxes.errors import FreshEndedError, SandboxError, SandboxStarvedError
from ors_server.sandboxes.output import Capture, Output
from ors_server.sandboxes.program_clock import OutOfTimeError, ProgramClock
from ors_server.sandboxes.usage import Usage

RECEIVE_BYTES = 65_536
"""What one `receive` returns at most unless told: a pipe holds as much (pipe(7))."""
_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class FreshRun:
    """What became of a fresh program that ran to its end."""

    exit_code: int | None
    """Status in [0, 255]; 128 + n for a death by signal n; None when a limit of the caller's ended it."""
    stdout: Output
    """Everything, up to the caller's `output_bytes`."""
    stderr: Output
    """Head and tail as the sandbox's limits keep them of a command."""
    timed_out: bool
    output_limit: bool
    """Whether standard output passed the caller's `output_bytes`."""
    duration_s: float
    """Seconds from the start to the result."""
    spent_s: float = 0.0
    """Seconds that the program spent of its time limit: less than `duration_s` on a busy machine."""


class FreshProcess(ABC):
    """A program on its way; what it was started for is talked over with it by its three streams.

    One task may send while another receives. Whoever starts it closes it.
    """

    @property
    @abstractmethod
    def stderr(self) -> Output:
        """What it has printed to standard error so far: head and tail; complete after `wait`."""

    def usage(self) -> Usage | None:
        """Return what it and all that it started has used of the processor; None where that is not known."""
        return None

    @abstractmethod
    async def send(self, data: bytes) -> None:
        """Write to its standard input; waits while the pipe is full.

        Args:
            data: Any number of bytes.

        Raises:
            FreshEndedError: It has ended, or closed its standard input; or the caller did.
        """

    @abstractmethod
    async def close_stdin(self) -> None:
        """End its standard input; a second call does nothing."""

    @abstractmethod
    async def receive(self, most: int = RECEIVE_BYTES) -> bytes:
        """Return the next bytes of its standard output; `b""` once there will be no more.

        Args:
            most: How many at most, from 1.
        """

    @abstractmethod
    async def wait(self) -> int:
        """Wait for its end and return its status in [0, 255]; 128 + n for a death by signal n.

        A program that cannot be executed has status 126 or 127, as in a shell. Whatever it started is killed
        when it ends.

        Raises:
            SandboxStartError: Its isolation did not come up, so it never ran.
            SandboxClosedError: The sandbox was closed under it.
            SandboxError: Somebody outside ended it.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Kill it and everything it started; a second call does nothing."""


@dataclass(frozen=True)
class FreshOrder:
    """What is to be run, checked."""

    argv: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Relative name to content."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the caller adds to the clean environment, or puts in its place."""

    def __post_init__(self) -> None:
        """Refuse what no program can be given.

        Raises:
            ValueError: No argument at all, a NUL, a bad variable name, or a file name that is not relative.
        """
        if not self.argv:
            raise ValueError("a program has at least one argument: its name")
        for text in (*self.argv, *self.environment.values()):
            if "\0" in text:
                raise ValueError(f"arguments and variables hold no NUL: {text!r}")
        for name in self.environment:
            if not name or "=" in name or "\0" in name:
                raise ValueError(f"not the name of a variable: {name!r}")
        for name in self.files:
            if (
                "\0" in name
                or name != posixpath.normpath(name)
                or name.startswith(("/", ".."))
                or name == "."
            ):
                raise ValueError(f"a file is named by a normal path below the folder, not {name!r}")

    def variables(self, temporary: str) -> dict[str, str]:
        """Return the program's whole environment.

        Args:
            temporary: Its own writable folder.
        """
        clean = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": temporary, "TMPDIR": temporary}
        return {**clean, **self.environment}


async def run_patiently(
    start: Callable[[], Awaitable[FreshProcess]], stdin: bytes, *, time_limit: float, output_bytes: int
) -> FreshRun:
    """Start a program and run it to its end; once more if the machine was too busy for it.

    Args:
        start: Starts it. Two runs share nothing but a read-only view.
        stdin: As for `run_to_end`, as the others.
        time_limit: Seconds.
        output_bytes: Most that it may print to standard output.

    Raises:
        ValueError: The time limit is not above 0.
        SandboxStarvedError: The machine was too busy for it again.
    """
    if not time_limit > 0:
        raise ValueError(f"a time limit is above 0 seconds, not {time_limit!r}")
    try:
        return await run_to_end(await start(), stdin, time_limit=time_limit, output_bytes=output_bytes)
    except SandboxStarvedError:
        return await run_to_end(await start(), stdin, time_limit=time_limit, output_bytes=output_bytes)


async def run_to_end(
    process: FreshProcess, stdin: bytes, *, time_limit: float, output_bytes: int
) -> FreshRun:
    """Feed a program, read it to its end, and kill it when it passes a limit.

    Args:
        process: Just started; closed when this returns or raises.
        stdin: All of its standard input.
        time_limit: Seconds that it may spend, as a `ProgramClock` counts them.
        output_bytes: Most that it may print to standard output.

    Raises:
        SandboxStarvedError: The machine was too busy for it.
    """
    clock = SystemClock()
    began = clock.monotonic()
    capture = Capture(output_bytes, 0)
    exit_code: int | None = None
    timed_out = False
    program = ProgramClock(process.usage)
    try:
        exit_code = await program.wait_for(
            lambda: _converse(process, stdin, capture, output_bytes), time_limit
        )
    except OutOfTimeError:
        timed_out = True
    finally:
        with anyio.CancelScope(shield=True):
            await process.aclose()
    flooded = capture.total > output_bytes
    return FreshRun(
        exit_code=None if timed_out or flooded else exit_code,
        stdout=capture.output(),
        stderr=process.stderr,
        timed_out=timed_out,
        output_limit=flooded,
        duration_s=clock.monotonic() - began,
        spent_s=program.spent_s,
    )


async def _converse(process: FreshProcess, stdin: bytes, capture: Capture, most: int) -> int | None:
    """Return the status; None when it printed too much."""
    failure: SandboxError | None = None
    code: int | None = None

    async def feed() -> None:
        with contextlib.suppress(FreshEndedError):  # not reading all of its input is the program's own affair
            await process.send(stdin)
        await process.close_stdin()

    async with anyio.create_task_group() as group:
        group.start_soon(feed)
        while capture.total <= most and (piece := await process.receive()):
            capture.feed(piece)
        if capture.total <= most:
            try:
                code = await process.wait()
            except SandboxError as error:
                failure = error  # raised outside, so that no group wraps it
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return code
