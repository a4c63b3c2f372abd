"""A program that speaks MCP as an agent: it receives the URL of the episode.

The program is not sandboxed; it runs with the rights of this process, but without its keys.
"""

import os
import shlex
import shutil
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE, STDOUT

import anyio
from anyio.abc import ByteReceiveStream, Process

from ors_server.evaluation.agent_session import AgentSession
from ors_server.evaluation.agents.base import AgentError, AgentReport, AgentSettingsError, InSessionAgent
from ors_server.evaluation.targets import Target
from ors_server.model.clock import Clock, SystemClock
from ors_server.model.wire import JSONObject
from ors_server.processes.child_variables import child_variables

URL_VARIABLE = "ORS_AGENT_URL"
POLL_SECONDS = 0.25
"""Seconds between two checks whether the episode is over."""
GRACE_SECONDS = 10.0
"""Seconds for the program to exit by itself after the episode's end."""
STOP_SECONDS = 5.0
"""Seconds between SIGTERM and SIGKILL."""
LAST_WORDS_SECONDS = 1.0
"""Seconds for the output to end after the program; a process that it started may hold it open."""
MAX_OUTPUT = 256 * 1024
"""Bytes at the end of the program's output that are kept."""


class CommandAgent(InSessionAgent):
    """One program per attempt.

    `{url}`, `{prompt}`, `{split}`, `{index}`, `{attempt}` and `{seed}` are replaced in its words; there is no
    shell. The variable `ORS_AGENT_URL` has the URL too.
    """

    plays_outside = True

    def __init__(
        self,
        command: str,
        *,
        name: str | None = None,
        grace: float = GRACE_SECONDS,
        stop: float = STOP_SECONDS,
        clock: Clock | None = None,
        variables: str = "",
    ) -> None:
        """Split a command line into words, as a shell does, without expansions.

        `grace` and `stop` are in seconds, as `GRACE_SECONDS` and `STOP_SECONDS`. `variables` names, separated
        by commas, the environment variables of this process that the program gets besides paths and locale.

        Raises:
            AgentSettingsError: If there is no program in it.
        """
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise AgentSettingsError(f"the command line {command!r} cannot be read: {error}") from error
        if not self._words:
            raise AgentSettingsError("name a program: --agent 'command: PROGRAM {url}'")
        self._command = command
        self._name = name or os.path.basename(self._words[0])  # noqa: PTH119  (a word, no path of ours)
        self._grace = grace
        self._stop_seconds = stop
        self._clock = clock or SystemClock()
        self._variables = _read_names(variables)

    def describe(self) -> JSONObject:
        """Return the command line."""
        settings = {"kind": "command", "name": self._name, "command": self._command}
        return {**settings, "variables": list(self._variables)} if self._variables else settings

    async def check(self, target: Target) -> None:
        """Raise `AgentSettingsError` if the program, or a variable that is named for it, is not there."""
        del target
        for name in self._variables:
            if name not in os.environ:
                raise AgentSettingsError(f"the option variables names {name}, which is not set")
        program = self._words[0]
        if "{" not in program and shutil.which(program) is None:
            raise AgentSettingsError(f"{program} cannot be started: no such program is on PATH")

    async def play(self, session: AgentSession) -> AgentReport:
        """Start the program and wait until it exits, or until the episode is over.

        Raises:
            AgentError: If it cannot be started, or fails while the episode is not over.
            TargetError: If the target gives no URL.
        """
        url = await session.agent_url()
        words = self._fill(session, url, await self._prompt(session))
        try:
            process = await anyio.open_process(
                words,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
                env=child_variables(self._variables, {URL_VARIABLE: url}),
                start_new_session=True,
            )
        except OSError as error:
            raise AgentError(f"{words[0]} cannot be started: {error.strerror or error}") from error
        tail = _Tail()
        try:
            status = await self._wait(process, session, tail)
        finally:
            # Also if this is cancelled: the program has the rights of this process and must not outlive the
            # attempt.
            with anyio.CancelScope(shield=True):
                await self._stop(process)
            session.log.append(tail.text())
        if status == 0:
            return AgentReport("exited")
        # A program that fails after the episode's end, such as when its connection closes, has played the
        # episode.
        if status is None or await session.has_ended():
            return AgentReport("completed")
        raise AgentError(f"{self._name} ended with status {status} while the episode was not over")

    async def _prompt(self, session: AgentSession) -> str:
        return await session.prompt() if any("{prompt}" in word for word in self._words) else ""

    def _fill(self, session: AgentSession, url: str, prompt: str) -> list[str]:
        replacements: Mapping[str, str] = {
            "{url}": url,
            "{split}": session.split,
            "{index}": str(session.index),
            "{attempt}": str(session.attempt),
            "{seed}": str(session.seed),
            "{prompt}": prompt,
        }
        return [_replaced(word, replacements) for word in self._words]

    async def _wait(self, process: Process, session: AgentSession, tail: "_Tail") -> int | None:
        """Return the program's status; `None` if it still ran after the episode's end."""
        async with anyio.create_task_group() as group:
            if process.stdout is not None:
                group.start_soon(tail.read, process.stdout)
            group.start_soon(self._watch, session, group.cancel_scope)
            status = await process.wait()
            # The pipe ends when every process that holds it has ended; a left-over one must not hold up the
            # attempt.
            with anyio.move_on_after(LAST_WORDS_SECONDS):
                await tail.ended.wait()
            group.cancel_scope.cancel()
            return status
        return None

    async def _watch(self, session: AgentSession, scope: anyio.CancelScope) -> None:
        while not await session.has_ended():
            await self._clock.sleep(POLL_SECONDS)
        await self._clock.sleep(self._grace)
        scope.cancel()

    async def _stop(self, process: Process) -> None:
        # A signal to the whole group: programs start servers and browsers.
        """End every process of the program's group, which may outlive it."""
        _signal(process.pid, signal.SIGTERM)
        with anyio.move_on_after(self._stop_seconds):
            await process.wait()
        _signal(process.pid, signal.SIGKILL)
        await process.aclose()


class _Tail:
    """The last part of an output."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self.ended = anyio.Event()

    async def read(self, stream: ByteReceiveStream) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for piece in stream:
                self._pieces.append(piece)
                self._size += len(piece)
                # Pieces are dropped from the front as soon as the rest is long enough, so that memory is
                # bounded.
                while self._size - len(self._pieces[0]) >= MAX_OUTPUT:
                    self._size -= len(self._pieces.popleft())
        self.ended.set()

    def text(self) -> str:
        return b"".join(self._pieces)[-MAX_OUTPUT:].decode(errors="replace")


def _replaced(word: str, replacements: Mapping[str, str]) -> str:
    """Replace each name once; replaced text is not searched again."""
    positions = ((word.find(name), name) for name in replacements)
    # The leftmost name first: a prompt may contain `{url}`, which must not be replaced.
    first = min(((at, name) for at, name in positions if at >= 0), default=None)
    if first is None:
        return word
    at, name = first
    return word[:at] + replacements[name] + _replaced(word[at + len(name) :], replacements)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _read_names(variables: str) -> Sequence[str]:
    names = [name.strip() for name in variables.split(",") if name.strip()]
    for name in names:
        # Such variables hold the trainer's keys, with which the agent could read golds and rewards.
        if name.startswith("ORS_"):
            raise AgentSettingsError(
                f"the option variables names {name}, which is the trainer's; expected the agent's own "
                "variables, such as OPENAI_API_KEY"
            )
    return names
