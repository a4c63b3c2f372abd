"""Hidden tests: pytest in a trusted process, the agent's code in a fresh sandbox, the server between them.

Invariants:

- The agent's code never runs in the process that judges, and the tests never reach the sandbox.
- The tests are counted before any code of the agent's is loaded. Every counted test has a result, so an
  agent that breaks the run cannot make tests disappear.
- Who is blamed follows from `_has_asked`: a test that used the agent's code since its last verdict fails for
  it; one that broke or ran out of time without it is the author's mistake (`GradingError`).
- Two clocks run: `_tests` measures pytest itself, `_agent_s` sums the workers' time. Neither pays for the
  other, nor for a machine that is busy.
"""

import contextlib
import importlib.util
import json
import posixpath
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import Process

from ors_server.grading.agent_worker import AgentWorker, AgentWorkerLostError
from ors_server.grading.cases import MIN_SECONDS, CaseReport, CaseResult, TimeLimits
from ors_server.grading.channel import (
    AGENT_LOST,
    HEADER_LENGTH,
    NO_TAG,
    START_WORKER,
    VERDICT,
    WORKER_ANSWER,
    WORKER_STARTED,
    ChannelError,
    frame,
    payload_length,
)
from ors_server.grading.encoding import DecodingError, from_text, to_text
from ors_server.grading.evidence import Evidence
from ors_server.grading.function_answer import read_answer
from ors_server.grading.grading_errors import GraderFailedError, GradingError
from ors_server.installation import install_hint
from ors_server.processes import offload
from ors_server.processes.host_processes import lower_priority
from ors_server.processes.offload import OverLimitError
from ors_server.sandboxes.processor_usage import usage_of
from ors_server.sandboxes.program_clock import OutOfTimeError, ProgramClock
from ors_server.sandboxes.sandbox_errors import SandboxStarvedError

COUNT_LIMIT = 60.0
"""Seconds that pytest may take to start and to collect the tests."""
# Without autoload, plugins that happen to be installed on the server cannot change how tests run.
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
"""Of the hidden tests; they also get their own folder as `HOME` and `TMPDIR`."""
_CASE_SHARE = 6.0
_GRACE = 1.0
_OUT_OF_TIME = "the time for all tests was over"
_TESTS_BROKE = "the tests broke on what the agent's code returned"
_PASSED = {0, 1}
_PIPE_ERRORS = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, ChannelError)
_NOTHING_COLLECTED = 5
_QUOTED_BYTES = 2_000
_BOOT = """\
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from ors_server.grading.pytest_process import main
main()
"""
_INI = "[pytest]\npythonpath = tests\n"


@dataclass(frozen=True)
class _Suite:
    tests: Mapping[str, str]
    modules: Sequence[str]
    classes: Sequence[str]
    limits: TimeLimits
    shown: bool


async def grade_pytest(
    evidence: Evidence,
    tests: Mapping[str, str],
    *,
    modules: Sequence[str],
    classes: Sequence[str] = (),
    time_limit: float | TimeLimits = 60.0,
    shown: bool = False,
) -> CaseReport:
    """Run hidden tests against the agent's modules, which run elsewhere.

    Pytest and the tests run in a process of the server's, with a clean environment and its own folder.
    There `import solution` gives a mirror: each call goes to a fresh sandbox that has the agent's code and no
    tests. Plain values are copied both ways; objects stay there. Fixtures `place` and `fetch` put a value
    there and copy it back, for functions that change their arguments. See docs/grading.md.

    Tests are counted before any code of the agent's runs, so no answer changes how many there are. Skipped
    tests and those marked as expected to fail have not passed.

    Args:
        tests: File name to text; at least one test among them. `conftest.py` and modules of the tests' own
            may be there.
        modules: The agent's modules that tests import, with dots for those in packages. They may not have the
            name of anything that the server can import.
        classes: The agent's classes, as `module.Class`, whose objects may judge the tests' own values by
            their operators and by methods with the names of plain values' methods.
        time_limit: Seconds that the agent's code may spend on all tests, as docs/policy.md counts them; by
            default one call into it gets a sixth of that. The tests themselves may spend as much.
        shown: Whether reasons may quote the tests.

    Returns:
        A result per test, in the order in which they were collected. A module that is missing or cannot be
        loaded fails all.

    Raises:
        GradingError: The tests cannot be graded: none, an error while they are collected or in pytest itself,
            or one of them ran out of time before it used the agent's code.
        GraderFailedError: Pytest is not installed, there is no Python in the sandbox, or a process failed.
        SandboxError: The sandbox failed, or the machine was too busy, twice.
    """
    limits = (
        time_limit if isinstance(time_limit, TimeLimits) else TimeLimits(time_limit / _CASE_SHARE, time_limit)
    )
    suite = _Suite(tests, modules, classes, limits, shown)
    _check(suite)
    async with evidence.at_work():
        try:
            return await _grade(evidence, suite)
        # Once more from the start: nothing of the first run is kept.
        except SandboxStarvedError:
            return await _grade(evidence, suite)


async def _grade(evidence: Evidence, suite: _Suite) -> CaseReport:
    async with _trusted_process(suite) as (process, folder):
        run = _PytestRun(evidence, suite, process)
        try:
            return await run.judge()
        except _PIPE_ERRORS as broken:
            output = await anyio.to_thread.run_sync((folder / "printed").read_bytes)
            printed = output[-_QUOTED_BYTES:].decode(errors="replace")
            raise GraderFailedError(
                f"the process of the hidden tests broke off: {broken}. {printed}"
            ) from broken
        finally:
            with anyio.CancelScope(shield=True):
                await run.aclose()


def _check(suite: _Suite) -> None:
    if importlib.util.find_spec("pytest") is None:
        raise GraderFailedError(f"hidden tests need pytest: {install_hint('grading')}")
    if not suite.tests or not suite.modules:
        raise GradingError("hidden tests need at least one file, and one module of the agent's")
    for name in suite.tests:
        if name != posixpath.normpath(name) or name.startswith(("/", "..")) or "\0" in name:
            raise GradingError(f"a test file must be named by a normal relative path, got {name!r}")
    for module in suite.modules:
        _check_module(module, suite.tests)
    for name in suite.classes:
        if not any(name.startswith(f"{module}.") for module in suite.modules):
            raise GradingError(f"expected a class of the modules {', '.join(suite.modules)}, got {name!r}")


def _check_module(module: str, tests: Mapping[str, str]) -> None:
    if not all(part.isidentifier() for part in module.split(".")):
        raise GradingError(f"{module!r} is not the name of a module")
    top = module.partition(".")[0]
    # The tests would import that module in place of the mirror.
    taken = f"{top}.py" in tests or top in sys.modules or importlib.util.find_spec(top) is not None
    if taken or top in sys.stdlib_module_names:
        raise GradingError(f"the agent's module {top!r} is called like one that the tests' process has")


@contextlib.asynccontextmanager
async def _trusted_process(suite: _Suite) -> AsyncGenerator[tuple[Process, Path]]:
    folder_name = await anyio.to_thread.run_sync(tempfile.mkdtemp, None, "ors-tests-")
    folder = Path(folder_name)
    try:
        await anyio.to_thread.run_sync(_write_tests, folder, suite.tests)
        process = await _start(folder)
        try:
            settings = {
                "folder": folder_name,
                "modules": list(suite.modules),
                "classes": list(suite.classes),
                "shown": suite.shown,
                # A backstop of the kernel; the server's own clocks end the run earlier.
                "processor_s": int(COUNT_LIMIT + suite.limits.whole) + 10,
            }
            await _send(process, json.dumps(settings).encode())
            yield process, folder
        finally:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.aclose()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_remove, folder)


def _write_tests(folder: Path, tests: Mapping[str, str]) -> None:
    (folder / "pytest.ini").write_text(_INI)
    (folder / "tests").mkdir()
    for name, text in tests.items():
        path = folder / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def _start(folder: Path) -> Process:
    # `-I` ignores PYTHONPATH, so the paths are passed on. A relative one would lead into the tests' own
    # folder.
    paths = [path for path in sys.path if posixpath.isabs(path)]
    # Nothing of the server's environment, which may hold keys, reaches the tests.
    environment = {**ENVIRONMENT, "HOME": str(folder), "TMPDIR": str(folder)}
    with (folder / "printed").open("wb") as printed:
        process = await anyio.open_process(
            [sys.executable, "-I", "-c", _BOOT, json.dumps(paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            env=environment,
            cwd=folder,
        )
    lower_priority(process.pid)
    return process


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        folder.rmdir()


async def _send(process: Process, payload: bytes) -> None:
    if process.stdin is None:
        raise ChannelError("the process has no input")
    await process.stdin.send(frame(NO_TAG, payload))


@dataclass
class _Verdict:
    """The reports of the trusted process so far."""

    names: list[str] = field(default_factory=list[str])
    problems: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    uncollected: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    internal: str | None = None
    counted: int | None = None
    ended: int | None = None


class _PytestRun:
    """One run of hidden tests: the trusted process on one side, the agent's worker on the other."""

    def __init__(self, evidence: Evidence, suite: _Suite, process: Process) -> None:
        self._evidence = evidence
        self._suite = suite
        self._process = process
        self._received = bytearray()
        self._worker: AgentWorker | None = None
        self._tests = ProgramClock(lambda: usage_of(process.pid))
        self._agent_s = 0.0
        self._has_asked = False
        modules = [[name, None] for name in suite.modules]
        self._load = to_text({"command": "load", "objects": True, "modules": modules})

    async def judge(self) -> CaseReport:
        """Count the tests, load the agent's modules, run."""
        names = await self._count()
        problem = await self._start_worker()
        if problem is not None:
            return CaseReport(tuple(CaseResult(name, passed=False, reason=problem) for name in names))
        await _send(self._process, b"run")
        verdict = _Verdict()
        cut = await self._relay(verdict)
        # After a cut the process is killed, so its status says nothing.
        if cut is None:
            await self._check_end(verdict)
        return CaseReport(tuple(_result(name, verdict, cut) for name in names))

    async def aclose(self) -> None:
        """End the worker."""
        if self._worker is not None:
            await self._worker.aclose()

    async def _count(self) -> list[str]:
        verdict = _Verdict()
        with contextlib.suppress(OutOfTimeError):
            while verdict.counted is None and verdict.internal is None:
                await _note(await self._receive(COUNT_LIMIT), verdict)
        # Starting pytest and collecting is not charged to the tests' own time.
        self._tests.forget()
        if verdict.uncollected:
            name, text = verdict.uncollected[0]
            raise GradingError(f"the hidden tests cannot be collected: {name}: {text}")
        if verdict.internal is not None or verdict.counted not in {0, _NOTHING_COLLECTED}:
            raise GradingError(f"pytest could not collect the hidden tests: {verdict.internal}")
        if not verdict.names:
            raise GradingError("there is no hidden test: a score needs at least one")
        return verdict.names

    async def _start_worker(self) -> str | None:
        """Start a worker and load the modules; return why they cannot be loaded."""
        self._worker = await AgentWorker.start(self._evidence)
        try:
            text = await self._ask(self._worker, self._load)
            answer = await offload.run_sized(len(text), read_answer, text, None, 0.0)
        except (AgentWorkerLostError, DecodingError, OverLimitError) as lost:
            return f"while its modules were loaded, the agent's code {lost}"
        if answer.has_value:
            return None
        if answer.names:
            return f"loading the modules raised {answer.names[0][:100]}"
        return "loading the modules failed"

    async def _relay(self, verdict: _Verdict) -> str | None:
        """Relay questions and answers until the end; return what of the agent's cut the tests short.

        Raises:
            GradingError: Time ran out, and the agent's code did not take it.
        """
        try:
            while verdict.ended is None:
                # All but a verdict is a question to the agent's code.
                message = await self._receive(self._suite.limits.whole)
                if message[:1] != VERDICT:
                    answer = await self._answer(message)
                    with contextlib.suppress(*_PIPE_ERRORS):  # met where the next message is awaited
                        await _send(self._process, answer)
                    continue
                await _note(message, verdict)
                has_asked, self._has_asked = self._has_asked, False
                if verdict.internal is not None and has_asked:  # pytest itself broke over the answers
                    return _TESTS_BROKE
        except OutOfTimeError:
            if not self._has_asked:
                raise GradingError("the hidden tests ran out of time, and not in the agent's code") from None
            return _OUT_OF_TIME
        except _PIPE_ERRORS:
            if not self._has_asked:
                raise
            return _TESTS_BROKE
        return None

    async def _answer(self, message: bytes) -> bytes:
        self._has_asked = True
        try:
            if message[:1] == START_WORKER:
                problem = await self._start_worker()
                return WORKER_STARTED if problem is None else AGENT_LOST + problem.encode()
            if self._worker is None:
                raise AssertionError("a worker is started before it is asked")
            return WORKER_ANSWER + await self._ask(self._worker, message[1:])
        except AgentWorkerLostError as lost:
            return AGENT_LOST + f"the agent's code {lost}".encode()

    async def _ask(self, worker: AgentWorker, question: bytes) -> bytes:
        spent, limits = worker.spent_s, self._suite.limits
        try:
            return await worker.ask(
                question, min(limits.case, max(MIN_SECONDS, limits.whole - self._agent_s))
            )
        finally:
            self._agent_s += worker.spent_s - spent

    async def _check_end(self, verdict: _Verdict) -> None:
        with anyio.move_on_after(_GRACE + self._suite.limits.whole):
            await self._process.wait()
        if verdict.internal is not None:
            raise GradingError(f"pytest failed over the hidden tests: {verdict.internal}")
        # The reported status and the real one must agree: a process that was ended early reports nothing.
        if verdict.ended not in _PASSED or self._process.returncode != verdict.ended:
            raise GradingError(
                f"the hidden tests ended out of order: pytest's status is {verdict.ended}, "
                f"the process's {self._process.returncode}"
            )

    async def _receive(self, time_limit: float) -> bytes:
        # Pytest and the agent's code have the same limit each; the first to reach it ends the run.
        if time_limit - max(self._tests.spent_s, self._agent_s) < MIN_SECONDS:
            raise OutOfTimeError

        async def read_message() -> bytes:
            return await self._read(payload_length(await self._read(HEADER_LENGTH)))

        return await self._tests.wait_for(read_message, max(MIN_SECONDS, time_limit - self._tests.spent_s))

    async def _read(self, length: int) -> bytes:
        if self._process.stdout is None:
            raise ChannelError("the process has no output")
        while len(self._received) < length:
            self._received += await self._process.stdout.receive()
        taken = bytes(self._received[:length])
        del self._received[:length]
        return taken


async def _note(message: bytes, verdict: _Verdict) -> None:
    fields: dict[str, Any] = await offload.run_sized(len(message), from_text, message[1:])
    verdict.names += fields.get("collected", [])
    if "result" in fields:
        verdict.problems[fields["result"]] = fields["problem"]
    if "uncollected" in fields:
        verdict.uncollected.append((fields["uncollected"], fields["text"]))
    verdict.internal = fields.get("internal", verdict.internal)
    verdict.counted = fields.get("counted", verdict.counted)
    verdict.ended = fields.get("end", verdict.ended)


def _result(name: str, verdict: _Verdict, cut: str | None) -> CaseResult:
    if name in verdict.problems:
        problem = verdict.problems[name]
        return CaseResult(name, passed=problem is None, reason=problem)
    # A counted test without a result was cut off, or its file cannot be collected with the agent's modules.
    return CaseResult(name, passed=False, reason=cut or "its file could not be collected with this code")
