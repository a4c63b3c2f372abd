"""The server's end of a worker in a fresh sandbox: one question, one answer, or an error that it is lost.

Invariants:

- The worker runs the agent's code in its own process, so everything that it writes may be forged. Only the
  frame is checked here; callers decode the payload as hostile data.
- Each question has a random tag, which the answer must repeat. Bytes that the agent's code wrote into the
  pipe earlier cannot have it.
- A worker that broke the protocol is closed before the error is raised: it is never asked again.
"""

import contextlib
import secrets
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import anyio

from ors_server.grading.channel import HEADER_LENGTH, ChannelError, frame, payload_length
from ors_server.grading.encoding import to_text
from ors_server.grading.evidence import Evidence
from ors_server.grading.grading_errors import GraderFailedError
from ors_server.sandboxes.fresh import FreshProcess
from ors_server.sandboxes.program_clock import OutOfTimeError, ProgramClock
from ors_server.sandboxes.sandbox_errors import FreshEndedError, SandboxStarvedError

START_LIMIT = 30.0
"""Seconds within which an interpreter must answer after its start."""
_END_LIMIT = 1.0
_LAST_WORDS = 500
_SENT = ("channel", "encoding", "handles", "operations", "agent_program")
_MAIN = b"""\
import sys
sys.path.insert(0, sys.argv[1])
from ors_server.grading.agent_program import main
del sys.path[0]
sys.pycache_prefix = "/tmp/ors-pycache"
main()
"""
"""It ignores compiled files next to the agent's modules; those of the standard library save time."""


class AgentWorkerLostError(Exception):
    """The worker ended, hung or wrote nonsense; the agent's code is to blame, and the message says how."""


@cache
def sent_files() -> Mapping[str, bytes]:
    """Return the worker's program, by file name in the sandbox."""
    package = files("ors_server.grading")
    program = {f"ors_server/grading/{name}.py": package.joinpath(f"{name}.py").read_bytes() for name in _SENT}
    # Empty packages: the sandbox gets these few modules, and no other code of the server.
    blank = {"ors_server/__init__.py": b"", "ors_server/grading/__init__.py": b""}
    return MappingProxyType({"main.py": _MAIN, **blank, **program})


def isolated_python(fresh_dir: str, program: str) -> list[str]:
    """Return the command that runs a Python program of the server's in a fresh sandbox.

    It loads nothing from the environment, from the user's folders or from the folder it starts in. Before it
    loads a module of the agent's, the program sets `sys.pycache_prefix`, so that no compiled file counts.
    """
    return ["python3", "-I", "-B", f"{fresh_dir}/{program}"]


class AgentWorker:
    """A program in a fresh sandbox that has the agent's code and no answers."""

    def __init__(self, process: FreshProcess) -> None:
        self._process = process
        self._clock = ProgramClock(process.usage)
        self._received = bytearray()

    @classmethod
    async def start(cls, evidence: Evidence) -> "AgentWorker":
        """Start a worker that has loaded nothing yet.

        Raises:
            GraderFailedError: No interpreter answered, although no code of the agent's was loaded.
            SandboxError: No sandbox started.
        """
        folder = evidence.sandbox.fresh_dir
        argv = [*isolated_python(folder, "main.py"), folder]
        worker = cls(await evidence.start(argv, files=sent_files()))
        try:
            # No code of the agent's is loaded yet: an interpreter that does not answer now is the grader's
            # failure.
            await worker.ask(to_text({"command": "hello"}), START_LIMIT)
        except AgentWorkerLostError as lost:
            last_words = worker.last_words()
            raise GraderFailedError(
                f"python3 does not answer in a fresh sandbox: {lost}. {last_words}"
            ) from None
        except BaseException:
            with anyio.CancelScope(shield=True):
                await worker.aclose()
            raise
        return worker

    @property
    def spent_s(self) -> float:
        """Seconds that the program has spent on all questions so far, as a `ProgramClock` measures them."""
        return self._clock.spent_s

    def last_words(self) -> str:
        """Return the end of the worker's standard error."""
        return self._process.stderr.text.strip()[-_LAST_WORDS:]

    async def ask(self, question: bytes, time_limit: float) -> bytes:
        """Send a message and return the answer to it.

        Args:
            time_limit: Seconds that the program may spend on it, above 0.

        Raises:
            AgentWorkerLostError: There is no answer; the worker is closed.
            SandboxStarvedError: The machine was too busy for it.
        """
        tag = secrets.token_hex(16).encode()

        async def converse() -> bytes:
            await self._process.send(frame(tag, question))
            length = payload_length(await self._read(HEADER_LENGTH), tag)
            return await self._read(length)

        try:
            return await self._clock.wait_for(converse, time_limit)
        except OutOfTimeError as error:
            reason = str(error)
        # The caller may try again, but with another worker: this one is in the middle of an answer.
        except SandboxStarvedError:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise
        except (ChannelError, FreshEndedError) as error:
            reason = "ended" if isinstance(error, FreshEndedError) else str(error)
        with anyio.CancelScope(shield=True):
            if reason == "ended":
                reason += await self._status()
            await self.aclose()
        raise AgentWorkerLostError(reason)

    async def _read(self, length: int) -> bytes:
        while len(self._received) < length:
            piece = await self._process.receive()
            if not piece:
                raise FreshEndedError("the worker ended")
            self._received += piece
        taken = bytes(self._received[:length])
        del self._received[:length]
        return taken

    async def _status(self) -> str:
        # A program that closed its output may still run, and then has no status.
        with anyio.move_on_after(_END_LIMIT), contextlib.suppress(FreshEndedError):
            return f" with status {await self._process.wait()}"
        return ""

    async def aclose(self) -> None:
        """End it; a second call does nothing."""
        await self._process.aclose()
