"""What an agent left behind, while nothing of the agent's runs.

It grants a look at the work dir and programs beside it; it refuses a command in the agent's shell, which
would be asked of the agent.
"""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import anyio

from ors_server.admission import Gate, Permit
from ors_server.call_clock import paused_call_clock
from ors_server.grading.errors import GradingError
from ors_server.grading.timed_process import TimedProcess
from ors_server.sandboxes.base import MIB, Entry, Sandbox
from ors_server.sandboxes.errors import (
    SandboxClosedError,
    SandboxFileError,
    SandboxFileMissingError,
    SandboxFileTooLargeError,
    SandboxPathError,
    SandboxStartError,
    SandboxStarvedError,
)
from ors_server.sandboxes.fresh import FreshProcess, FreshRun

T = TypeVar("T")


class Evidence:
    """The work dir as the agent left it; good for the length of the `gather_evidence` that made it.

    Attributes:
        sandbox: The session's, frozen.
    """

    def __init__(self, sandbox: Sandbox, *, has_begun: bool = False) -> None:
        self.sandbox = sandbox
        self._is_over = False
        self._turn = GradingTurn(sandbox.gate, has_begun=has_begun)

    def expire(self) -> None:
        """Let nothing more be looked at."""
        self._is_over = True
        self._turn.end()

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None]:
        """Wait until the server has room for one more grading, and keep the room; may be nested.

        All that is at work on one evidence at a time has one place together. The clock of the running call
        stands still from here to the end: a grading has limits of its own.

        Raises:
            GradingError: The evidence is over.
        """
        self._require_standing()
        with paused_call_clock():
            await self._turn.enter()
            try:
                yield
            finally:
                self._turn.leave()

    async def read_file(self, path: str, *, most: int | None = None) -> bytes:
        """Read a file of the work dir, as `Sandbox.read_file` does.

        Args:
            path: Relative to the work dir, or absolute below it.
            most: Bytes above which the file is refused.

        Raises:
            GradingError: The evidence is over.
            SandboxFileError: It is missing, no plain file, or too large.
        """
        self._require_standing()
        return await self.sandbox.read_file(path, most=most)

    async def exists(self, path: str) -> bool:
        """Return whether a file or a folder stands at a path of the work dir.

        What is neither counts as nothing: a pipe, a broken link, a link out of the work dir.

        Args:
            path: Relative to the work dir, or absolute below it.

        Raises:
            GradingError: The evidence is over.
        """
        self._require_standing()
        try:
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
            path: Relative to the work dir, or absolute below it.
            depth: How many levels below the folder, from 1.

        Raises:
            GradingError: The evidence is over.
            SandboxFileError: It is missing, or no folder.
        """
        self._require_standing()
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

        Where it is the agent's program, or reads a file of the agent's that may hold a program, what it says
        is the agent's word: compare here, and hand no expected value in.

        Args:
            argv: The program and its arguments.
            files: Relative name to content; read-only in the folder `sandbox.fresh_dir`.
            stdin: All of its standard input.
            environment: Variables beside the clean ones.
            time_limit: Seconds that the program may spend (docs/limits.md), above 0.

        Raises:
            GradingError: The evidence is over.
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
        """Start a program as `run` does, to be talked to; the caller closes it.

        Outside of `at_work`, its place among the server's gradings is kept until the evidence is over.

        Args:
            argv: The program and its arguments.
            files: Relative name to content; read-only in the folder `sandbox.fresh_dir`.
            environment: Variables beside the clean ones.
            time_limit: Seconds that it may spend while it is talked to (docs/limits.md), above 0; then it
                reads and says nothing more, as if it had ended. None where the caller keeps its time.

        Raises:
            GradingError: The evidence is over.
            SandboxError: It could not be started.
        """
        self._require_standing()
        if not self._turn.is_at_work:
            with paused_call_clock():
                await self._turn.enter()
        process = await self.sandbox.start_fresh(argv, files=files, environment=environment)
        return process if time_limit is None else TimedProcess(process, time_limit)

    async def look_patiently(self, look: Callable[[], Awaitable[T]]) -> T:
        """Look at something with programs, and once more if the machine was too busy for them.

        Args:
            look: Looks; starts its programs anew each time.

        Raises:
            SandboxStarvedError: The machine was too busy again.
        """
        try:
            return await look()
        except SandboxStarvedError:
            return await look()

    def _require_standing(self) -> None:
        if self._is_over:
            raise GradingError(
                "evidence holds only within its `gather_evidence`; the agent may be at work again"
            )


class GradingTurn:
    """One grading's place among those of the server, held while anything of it is at work."""

    def __init__(self, gate: Gate | None, *, has_begun: bool) -> None:
        self._gate = gate
        self._users = 0
        self._has_begun = has_begun
        self._place: Permit | None = None
        self._lock = anyio.Lock(fast_acquire=True)

    @property
    def is_at_work(self) -> bool:
        """Whether the place is held."""
        return self._users > 0

    async def enter(self) -> None:
        """Wait for the place, unless it is held.

        A grading that has begun goes before those of its key that have not, so that few are half done.
        """
        async with self._lock:
            if self._gate is not None and self._place is None:
                self._place = await self._gate.take(ahead=self._has_begun)
            self._users += 1
            self._has_begun = True

    def leave(self) -> None:
        """Give the place back if nothing else of the grading is at work."""
        self._users -= 1
        if self._users <= 0:
            self.end()

    def end(self) -> None:
        """Give the place back."""
        self._users = 0
        if self._place is not None:
            self._place.release()
            self._place = None


@contextlib.asynccontextmanager
async def gather_evidence(sandbox: Sandbox, *, final: bool = False) -> AsyncGenerator[Evidence]:
    """Stop everything of the agent's, and let it be looked at.

    Not to be nested, nor entered twice at a time for one sandbox: the first to leave would thaw it.

    Args:
        sandbox: The session's.
        final: Kill every process of the agent, so that none is ever thawed; a new shell stands in its place,
            if the agent has left enough memory for one.

    Raises:
        SandboxError: The agent's processes could not be stopped.
    """
    # A look in the middle of an episode is short, and an agent waits for it: it passes whole gradings.
    evidence = Evidence(sandbox, has_begun=not final)
    async with contextlib.AsyncExitStack() as work:
        if final:
            await work.enter_async_context(evidence.at_work())
            with contextlib.suppress(SandboxStartError):  # all are dead: only the new shell did not come up
                await sandbox.restart()
        try:
            await sandbox.freeze()
            await work.aclose()
            yield evidence
        finally:
            evidence.expire()
            with anyio.CancelScope(shield=True):
                with contextlib.suppress(SandboxClosedError):  # then there is nothing left to thaw
                    await sandbox.thaw()
