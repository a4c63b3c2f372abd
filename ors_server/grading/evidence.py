"""What an agent left behind, while nothing of the agent's runs.

It grants a look at the work dir and programs beside it; it refuses a command in the agent's shell, which
would be asked of the agent.
"""

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence

import anyio

from ors_server.grading.errors import GradingError
from ors_server.sandboxes.base import MIB, Entry, Sandbox
from ors_server.sandboxes.errors import (
    SandboxClosedError,
    SandboxFileError,
    SandboxFileMissingError,
    SandboxFileTooLargeError,
    SandboxPathError,
)
from ors_server.sandboxes.fresh import FreshProcess, FreshRun


class Evidence:
    """The work dir as the agent left it; good for the length of the `gather_evidence` that made it.

    Attributes:
        sandbox: The session's, frozen.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._is_over = False

    def expire(self) -> None:
        """Let nothing more be looked at."""
        self._is_over = True

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
            time_limit: Seconds, above 0.

        Raises:
            GradingError: The evidence is over.
            SandboxError: It could not be started.
        """
        self._require_standing()
        return await self.sandbox.run_fresh(
            argv, files=files, stdin=stdin, environment=environment, time_limit=time_limit, output_bytes=MIB
        )

    async def start(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> FreshProcess:
        """Start a program as `run` does, to be talked to; the caller closes it.

        Args:
            argv: The program and its arguments.
            files: Relative name to content; read-only in the folder `sandbox.fresh_dir`.
            environment: Variables beside the clean ones.

        Raises:
            GradingError: The evidence is over.
            SandboxError: It could not be started.
        """
        self._require_standing()
        return await self.sandbox.start_fresh(argv, files=files, environment=environment)

    def _require_standing(self) -> None:
        if self._is_over:
            raise GradingError(
                "evidence holds only within its `gather_evidence`; the agent may be at work again"
            )


@contextlib.asynccontextmanager
async def gather_evidence(sandbox: Sandbox, *, final: bool = False) -> AsyncGenerator[Evidence]:
    """Stop everything of the agent's, and let it be looked at.

    Not to be nested, nor entered twice at a time for one sandbox: the first to leave would thaw it.

    Args:
        sandbox: The session's.
        final: Kill every process of the agent, so that none is ever thawed; a new shell stands in its place.

    Raises:
        SandboxError: The agent's processes could not be stopped.
    """
    if final:
        await sandbox.restart()
    evidence = Evidence(sandbox)
    try:
        await sandbox.freeze()
        yield evidence
    finally:
        evidence.expire()
        with anyio.CancelScope(shield=True):
            with contextlib.suppress(SandboxClosedError):  # then there is nothing left to thaw
                await sandbox.thaw()
