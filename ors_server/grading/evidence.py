"""The work dir as an agent left it, while none of its processes runs.

Graders read it and run fresh programs over a read-only view of it. There is no access to the agent's shell,
since the agent controls what that prints.

Invariants:

- The agent's processes are stopped (or, at the end of an episode, dead) from before the first read until the
  evidence expires, so two reads see the same files.
- A use after that raises `GradingError`: the agent may be at work again, and could change what is judged.
- All concurrent uses of one evidence hold one permit of the server's gate together. Were each to take its
  own, gradings that are half done could block each other.
"""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import anyio
from typing_extensions import override

from ors_server.grading.grading_errors import GradingError
from ors_server.model.clock import Clock
from ors_server.sandboxes.base import MIB, Entry, Sandbox
from ors_server.sandboxes.captured_output import Output
from ors_server.sandboxes.fresh import RECEIVE_BYTES, FreshProcess, FreshRun
from ors_server.sandboxes.processor_usage import ProcessorUsage
from ors_server.sandboxes.program_clock import OutOfTimeError, ProgramClock
from ors_server.sandboxes.sandbox_errors import (
    FreshEndedError,
    SandboxClosedError,
    SandboxFileError,
    SandboxFileMissingError,
    SandboxFileTooLargeError,
    SandboxPathError,
    SandboxStarvedError,
)
from ors_server.timing.admission import Gate, Permit
from ors_server.timing.call_clock import paused_call_clock

T = TypeVar("T")


class Evidence:
    """The work dir as the agent left it; valid within the `gather_evidence` that made it.

    After that, every method raises `GradingError`. Its `sandbox` is the session's, frozen.
    """

    def __init__(self, sandbox: Sandbox, *, has_begun: bool = False) -> None:
        self.sandbox = sandbox
        self._is_over = False
        self._turn = GradingTurn(sandbox.gate, has_begun=has_begun)

    def expire(self) -> None:
        """Refuse every later use."""
        self._is_over = True
        self._turn.end()

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None]:
        """Wait until the server can run one more grading, and count as one until the end; may be nested.

        Concurrent uses of one evidence count as one grading. The clock of the running call is paused: a
        grading has its own limits.
        """
        self._require_valid()
        with paused_call_clock():
            await self._turn.enter()
            try:
                yield
            finally:
                self._turn.leave()

    async def read_file(self, path: str, *, most: int | None = None) -> bytes:
        """Read a file of the work dir, as `Sandbox.read_file` does.

        Raises:
            SandboxFileError: It is missing, not a plain file, or larger than `most` bytes.
        """
        self._require_valid()
        return await self.sandbox.read_file(path, most=most)

    async def exists(self, path: str) -> bool:
        """Return whether a file or a folder is at a path of the work dir.

        Anything else counts as nothing: a pipe, a broken link, a link out of the work dir.
        """
        self._require_valid()
        try:
            # With a limit of 0 bytes an existing file is refused for its size, and its content is not read.
            await self.sandbox.read_file(path, most=0)
        except SandboxFileMissingError:
            return False
        except SandboxFileTooLargeError:
            return True
        except SandboxPathError:
            return await self._is_folder(path)
        return True

    async def _is_folder(self, path: str) -> bool:
        try:
            await self.sandbox.list_files(path)
        except SandboxFileError:
            return False
        return True

    async def list_files(self, path: str = ".", *, depth: int = 1) -> list[Entry]:
        """List a folder of the work dir, as `Sandbox.list_files` does.

        Args:
            depth: Levels of folders to list, from 1.

        Raises:
            SandboxFileError: It is missing, or not a folder.
        """
        self._require_valid()
        return await self.sandbox.list_files(path, depth=depth)

    async def run(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes] | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        time_limit: float = 30.0,
    ) -> FreshRun:
        """Run a program to its end in a fresh sandbox over a read-only view of the work dir.

        If it runs or reads an agent's program, the agent controls its output: pass no expected value in.

        Args:
            files: Relative name to content; read-only in the folder `sandbox.fresh_dir`.
            time_limit: Seconds that the program may spend (docs/policy.md), above 0.

        Raises:
            SandboxStarvedError: The machine was too busy for it, twice.
            SandboxError: It could not be started.
        """
        async with self.at_work():
            return await self.sandbox.run_fresh(
                argv,
                files=files,
                stdin=stdin,
                environment=environment,
                time_limit=time_limit,
                output_bytes=MIB,
            )

    async def start(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes] | None = None,
        environment: Mapping[str, str] | None = None,
        time_limit: float | None = None,
    ) -> FreshProcess:
        """Start a program as `run` does, and return it running; the caller closes it.

        Outside of `at_work`, it counts as a running grading until the evidence expires.

        Args:
            time_limit: As for `run`, while its streams are used; then it reads and prints nothing more, as if
                it had ended. `None` if the caller measures its time.
        """
        self._require_valid()
        if not self._turn.is_at_work:
            with paused_call_clock():
                await self._turn.enter()
        process = await self.sandbox.start_fresh(argv, files=files, environment=environment)
        return process if time_limit is None else TimedProcess(process, time_limit)

    async def look_patiently(self, look: Callable[[], Awaitable[T]]) -> T:
        """Call `look`, and again if it raises `SandboxStarvedError`."""
        try:
            return await look()
        except SandboxStarvedError:
            return await look()

    def _require_valid(self) -> None:
        if self._is_over:
            raise GradingError(
                "evidence is valid only within its `gather_evidence`; the agent may be at work again"
            )


class GradingTurn:
    """One grading's permit among those of the server, held while any part of it is at work."""

    def __init__(self, gate: Gate | None, *, has_begun: bool) -> None:
        self._gate = gate
        self._users = 0
        self._has_begun = has_begun
        self._permit: Permit | None = None
        # Two parts that begin at once must not take two permits.
        self._lock = anyio.Lock(fast_acquire=True)

    @property
    def is_at_work(self) -> bool:
        """Whether the permit is held."""
        return self._users > 0

    async def enter(self) -> None:
        """Wait for the permit unless it is held.

        A grading that has begun goes before those of its key that have not, so that few are half done.
        """
        async with self._lock:
            if self._gate is not None and self._permit is None:
                self._permit = await self._gate.take(ahead=self._has_begun)
            self._users += 1
            self._has_begun = True

    def leave(self) -> None:
        """Release the permit if no other part of the grading is at work."""
        self._users -= 1
        if self._users <= 0:
            self.end()

    def end(self) -> None:
        """Release the permit."""
        self._users = 0
        if self._permit is not None:
            self._permit.release()
            self._permit = None


@contextlib.asynccontextmanager
async def gather_evidence(sandbox: Sandbox, *, final: bool = False) -> AsyncGenerator[Evidence]:
    """Stop every process of the agent's, and yield its work for inspection.

    Do not nest it or enter it twice at a time for one sandbox: the first to leave would thaw it.

    Args:
        final: Kill every process of the agent, so that none is ever thawed.

    Raises:
        SandboxError: The agent's processes could not be stopped.
    """
    # Gathering in the middle of an episode is short, and an agent waits: it goes before whole gradings.
    evidence = Evidence(sandbox, has_begun=not final)
    async with contextlib.AsyncExitStack() as work:
        if final:
            await work.enter_async_context(evidence.at_work())
            # No shell is started: it would read the agent's files, and might never answer.
            await sandbox.end_processes()
        try:
            await sandbox.freeze()
            # Gathering is done. How long the evidence stays open is the grader's matter, whose parts count
            # themselves.
            await work.aclose()
            yield evidence
        finally:
            evidence.expire()
            # A session whose grading is cancelled must not stay frozen.
            with anyio.CancelScope(shield=True):
                with contextlib.suppress(SandboxClosedError):  # then nothing is left to thaw
                    await sandbox.thaw()


class TimedProcess(FreshProcess):
    """A program that seems to have ended once it has spent its time limit.

    The limit counts while the caller sends and receives, as a `ProgramClock` measures it. Input that the
    program no longer takes is dropped: its end shows in its output.
    """

    def __init__(self, process: FreshProcess, time_limit: float, clock: Clock | None = None) -> None:
        """Start no clock yet; `time_limit` is in seconds, above 0."""
        self._process = process
        self._time_limit = time_limit
        self._clock = ProgramClock(process.usage, clock)
        self.is_out_of_time = False
        """Whether the program was ended for its time limit."""

    @property
    @override
    def stderr(self) -> Output:
        return self._process.stderr

    @override
    def usage(self) -> ProcessorUsage | None:
        return self._process.usage()

    @override
    async def send(self, data: bytes) -> None:
        """Write to its standard input; nothing is written once it has ended or spent its time.

        As `receive`, raises `SandboxStarvedError` if the machine was too busy.
        """
        with contextlib.suppress(OutOfTimeError, FreshEndedError):
            await self._in_time(lambda: self._process.send(data))

    @override
    async def close_stdin(self) -> None:
        await self._process.close_stdin()

    @override
    async def receive(self, max_bytes: int = RECEIVE_BYTES) -> bytes:
        """Return the next bytes of its standard output; `b""` once it has ended or spent its time."""
        with contextlib.suppress(OutOfTimeError):
            return await self._in_time(lambda: self._process.receive(max_bytes))
        return b""

    async def _in_time(self, work: Callable[[], Awaitable[T]]) -> T:
        if self._clock.spent_s >= self._time_limit:
            # What was counted since the last look is wall time: the program may have spent less of it.
            self._clock.measure_if_due()
        left = self._time_limit - self._clock.spent_s
        if left > 0 and not self.is_out_of_time:
            with contextlib.suppress(OutOfTimeError):
                return await self._clock.wait_for(work, left)
        self.is_out_of_time = True
        raise OutOfTimeError

    @override
    async def wait(self) -> int:
        return await self._process.wait()

    @override
    async def aclose(self) -> None:
        await self._process.aclose()
