"""Fresh programs: they run in their own isolation, apart from the agent, and see the work dir read-only.

A fresh program's output and status are those of the code that ran in it. If that is the agent's code, the
caller compares results on its own side and passes no expected value in.
"""

import contextlib
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import anyio

from ors_server.model.clock import SystemClock
from ors_server.sandboxes.captured_output import Output, OutputCapture
from ors_server.sandboxes.egress import LOOPBACK, PROXY_VARIABLES, NetworkMode, SandboxNetwork
from ors_server.sandboxes.processor_usage import ProcessorUsage
from ors_server.sandboxes.program_clock import OutOfTimeError, ProgramClock
from ors_server.sandboxes.sandbox_errors import FreshEndedError, SandboxError, SandboxStarvedError

RECEIVE_BYTES = 65_536
"""Maximum number of bytes that one `receive` returns by default: the capacity of a pipe (pipe(7))."""
ROOT_NAMES = frozenset({"", "0", "root"})
"""What may be stated for root, who runs programs by default."""
_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class FreshRun:
    """The result of a fresh program that ran to its end."""

    exit_code: int | None
    """Status in [0, 255]; 128 + n for a death by signal n; None if a limit of the caller ended it."""
    stdout: Output
    """Everything, up to the caller's `output_bytes`."""
    stderr: Output
    """Head and tail, as the sandbox's limits keep them of a command."""
    timed_out: bool
    """Whether the time limit ended the program."""
    output_limit: bool
    """Whether standard output was longer than the caller's `output_bytes`."""
    duration_s: float
    """Seconds from the start to the result."""
    spent_s: float = 0.0
    """Seconds of its time limit that the program spent: fewer than `duration_s` on a busy machine."""


class FreshProcess(ABC):
    """A running program, used through its three streams.

    One task may send while another receives. The caller that starts it closes it.
    """

    @property
    @abstractmethod
    def stderr(self) -> Output:
        """Its standard error so far: head and tail; complete after `wait`."""

    def usage(self) -> ProcessorUsage | None:
        """Return the processor use of it and everything it started; None if that is not known."""
        return None

    @abstractmethod
    async def send(self, data: bytes) -> None:
        """Write to its standard input; waits while the pipe is full.

        Raises:
            FreshEndedError: It has ended or closed its standard input, or the caller closed it.
        """

    @abstractmethod
    async def close_stdin(self) -> None:
        """End its standard input; a second call does nothing."""

    @abstractmethod
    async def receive(self, max_bytes: int = RECEIVE_BYTES) -> bytes:
        """Return the next bytes of its standard output, at most `most`; `b""` at its end."""

    @abstractmethod
    async def wait(self) -> int:
        """Wait for its end and return its status in [0, 255]; 128 + n for a death by signal n.

        A program that cannot be executed has status 126 or 127, as in a shell. Everything that it started is
        killed when it ends.

        Raises:
            SandboxStartError: Its isolation did not start, so it never ran.
            SandboxClosedError: The sandbox was closed meanwhile.
            SandboxError: A process outside ended it.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Kill it and everything it started; a second call does nothing."""


@dataclass(frozen=True)
class FreshProgram:
    """A program to run, with checked arguments."""

    argv: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Relative name to content."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that are added to the clean environment, or replace its own."""
    is_writable: bool = False
    """Whether it may change the session's files."""
    user: str = ""
    """Who runs it; empty for root."""
    network: SandboxNetwork = LOOPBACK

    def __post_init__(self) -> None:
        """Reject what no program can be given.

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
                raise ValueError(f"a file must be named by a normal path below the folder, got {name!r}")

    def variables(self, temporary: str) -> dict[str, str]:
        """Return the program's whole environment, given its own writable folder."""
        clean = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": temporary, "TMPDIR": temporary}
        proxy = PROXY_VARIABLES if self.network.mode is NetworkMode.ALLOW_LIST else {}
        return {**clean, **proxy, **self.environment}


async def run_patiently(
    start: Callable[[], Awaitable[FreshProcess]], stdin: bytes, *, time_limit: float, output_bytes: int
) -> FreshRun:
    """Start a program and run it to its end; once more if the machine was too busy for it.

    Args:
        start: Starts it; two runs share only the read-only view.

    Raises:
        ValueError: The time limit is not above 0.
        SandboxStarvedError: The machine was too busy again.
    """
    if not time_limit > 0:
        raise ValueError(f"a time limit must be above 0 seconds, got {time_limit!r}")
    try:
        return await run_to_end(await start(), stdin, time_limit=time_limit, output_bytes=output_bytes)
    except SandboxStarvedError:
        return await run_to_end(await start(), stdin, time_limit=time_limit, output_bytes=output_bytes)


async def run_to_end(
    process: FreshProcess, stdin: bytes, *, time_limit: float, output_bytes: int
) -> FreshRun:
    """Feed a program, read it to its end, and kill it when it exceeds a limit.

    Args:
        process: Just started; closed when this returns or raises.
        time_limit: Seconds that it may spend, as a `ProgramClock` measures them.
        output_bytes: Most that it may print to standard output.

    Raises:
        SandboxStarvedError: The machine was too busy for it.
    """
    clock = SystemClock()
    began = clock.monotonic()
    capture = OutputCapture(output_bytes, 0)
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


async def _converse(
    process: FreshProcess, stdin: bytes, capture: OutputCapture, max_bytes: int
) -> int | None:
    """Return the status; None if it printed too much."""
    failure: SandboxError | None = None
    code: int | None = None

    async def feed() -> None:
        with contextlib.suppress(FreshEndedError):  # a program need not read all of its input
            await process.send(stdin)
        await process.close_stdin()

    async with anyio.create_task_group() as group:
        group.start_soon(feed)
        while capture.total <= max_bytes and (piece := await process.receive()):
            capture.feed(piece)
        if capture.total <= max_bytes:
            try:
                code = await process.wait()
            except SandboxError as error:
                failure = error  # raised outside, so that no group wraps it
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return code
