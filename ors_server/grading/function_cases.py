"""Function cases: arguments go into a fresh sandbox, a value comes out and is compared here."""

import builtins
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import anyio

from ors_server.grading.agent_worker import AgentWorker, AgentWorkerLostError
from ors_server.grading.cases import (
    MIN_SECONDS,
    CaseReport,
    CaseResult,
    FunctionCase,
    TimeLimits,
    name_cases,
)
from ors_server.grading.encoding import PATH, DecodingError, Encoder, EncodingError, to_text
from ors_server.grading.evidence import Evidence
from ors_server.grading.function_answer import MAX_SHOWN_CHARACTERS, FunctionAnswer, read_answer
from ors_server.grading.grading_errors import GradingError
from ors_server.processes import offload
from ors_server.processes.offload import OverLimitError
from ors_server.sandboxes.sandbox_errors import SandboxStarvedError

WHOLE = 30.0
"""By default, all cases together get this many times one case's time."""


@dataclass(frozen=True)
class _Prepared:
    name: str
    case: FunctionCase
    call: bytes
    expected: Any
    """A tree."""


async def grade_functions(
    evidence: Evidence,
    file: str,
    function: str,
    cases: Sequence[FunctionCase],
    *,
    time_limit: float | TimeLimits = 10.0,
    tolerance: float = 1e-9,
) -> CaseReport:
    """Call a function of the agent's once per case and compare what it returns with the expected value.

    The function runs in a fresh sandbox, which gets the arguments and nothing else. One worker serves all
    cases; a case that ends it, hangs or writes into its pipe fails, and the next one gets a new worker.
    Its output is dropped.

    Types must agree, also within containers: `True`, `1` and `1.0` are three values, a list is not a tuple.
    An int of the same value passes where a float is expected. A value of a derived type counts as its plain
    type.

    Args:
        file: The Python file, relative to the work dir. It is loaded as a module of that name; it may
            import the standard library, what is installed in the sandbox, and modules of the work dir whose
            names none of these has.
        function: Its name there; dots lead into classes.
        cases: At least one; plain values only.
        time_limit: Seconds that the function may spend on a case (loading is one more), as docs/policy.md
            counts them; by default all together get 30 times that.
        tolerance: Largest difference of a float, relative to the expected one; absolute if 0 is expected.

    Returns:
        A result per case, in their order. A missing file or function and an error while loading fail all.

    Raises:
        GradingError: The cases cannot be graded: none, values that are not plain, an unknown error's name.
        GraderFailedError: There is no Python in the sandbox.
        SandboxError: The sandbox failed, or the machine was too busy for the function, twice.
    """
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise GradingError(f"a tolerance must be a finite number from 0, got {tolerance!r}")
    limits = time_limit if isinstance(time_limit, TimeLimits) else TimeLimits(time_limit, WHOLE * time_limit)
    grader = _FunctionGrader(evidence, file, limits, tolerance)
    target = {PATH: [PurePosixPath(file).stem, *function.split(".")]}
    names = name_cases(cases)
    prepared = [_prepare(name, case, target) for name, case in zip(names, cases, strict=True)]
    async with evidence.at_work():
        try:
            return CaseReport(tuple([await grader.judge(case) for case in prepared]))
        finally:
            with anyio.CancelScope(shield=True):
                await grader.aclose()


def _prepare(name: str, case: FunctionCase, target: Any) -> _Prepared:
    if case.raises is not None and case.expected is not None:
        raise GradingError(f"{name}: a case expects a value or an error, not both")
    if case.raises is not None and not case.raises.isidentifier():
        raise GradingError(f"{name}: {case.raises!r} is not the name of an error")
    try:
        call = {
            "command": "call",
            "target": target,
            "arguments": Encoder().trees(case.arguments),
            "keywords": {key: Encoder().tree(value) for key, value in case.keywords.items()},
        }
        # Encoded before a process starts, so that an author's mistake cannot look like the agent's.
        return _Prepared(name, case, to_text(call), Encoder().tree(case.expected))
    except EncodingError as error:
        raise GradingError(f"{name}: {error}") from error


class _Failed(Exception):  # noqa: N818 # a verdict, not an error
    """The case failed, and why."""


class _FunctionGrader:
    """The cases of one function: the worker, the remaining time, and the verdicts."""

    def __init__(self, evidence: Evidence, file: str, limits: TimeLimits, tolerance: float) -> None:
        self._evidence = evidence
        self._tolerance = tolerance
        self._limit = limits.case
        self._left = limits.whole
        modules = [[PurePosixPath(file).stem, file]]
        self._load = to_text({"command": "load", "objects": False, "modules": modules})
        self._worker: AgentWorker | None = None
        self._unloadable: str | None = None

    async def judge(self, case: _Prepared) -> CaseResult:
        """Judge one case."""
        try:
            try:
                await self._play(case)
            except SandboxStarvedError:  # once more: no case has changed anything for the next one
                await self._play(case)
        except _Failed as failed:
            return CaseResult(case.name, passed=False, reason=str(failed))
        return CaseResult(case.name, passed=True)

    async def _play(self, case: _Prepared) -> None:
        if self._left < MIN_SECONDS:
            raise _Failed("the time for all cases was over")
        if self._worker is None:
            await self._start()
        self._compare(case, await self._ask(case.call, case.expected))

    async def aclose(self) -> None:
        """End the worker."""
        if self._worker is not None:
            await self._worker.aclose()
            self._worker = None

    async def _start(self) -> None:
        if self._unloadable is not None:
            raise _Failed(self._unloadable)
        self._worker = await AgentWorker.start(self._evidence)
        try:
            answer = await self._ask(self._load)
        except _Failed as failed:
            self._unloadable = f"while the file was loaded, {failed}"
        else:
            if not answer.has_value:
                self._unloadable = f"loading the file {_what_happened(answer)}"
        if self._unloadable is not None:
            await self.aclose()
            raise _Failed(self._unloadable)

    async def _ask(self, question: bytes, expected: Any = None) -> FunctionAnswer:
        if self._worker is None:
            raise AssertionError("a worker is started before it is asked")
        worker, spent = self._worker, self._worker.spent_s
        try:
            # The rest of the time for all cases may be shorter than a case's own limit.
            text = await worker.ask(question, min(self._limit, max(MIN_SECONDS, self._left)))
            # A long answer is decoded and compared in a worker process: its cost is the agent's choice.
            return await offload.run_sized(len(text), read_answer, text, expected, self._tolerance)
        except OverLimitError as error:
            raise _Failed(f"the agent's code answered what cannot be compared: {error}") from None
        except (AgentWorkerLostError, DecodingError) as error:
            await self.aclose()
            nonsense = "answered nonsense: " if isinstance(error, DecodingError) else ""
            raise _Failed(f"the agent's code {nonsense}{error}") from None
        except SandboxStarvedError:
            await self.aclose()
            raise
        finally:
            # Also after an error: a case that hangs has spent its time.
            self._left -= worker.spent_s - spent

    def _compare(self, case: _Prepared, answer: FunctionAnswer) -> None:
        if case.case.raises is not None:
            if not _is_raised(case.case.raises, answer):
                raise _Failed(self._explain(case, f"raised no such error: {_what_happened(answer)}"))
            return
        if not answer.has_value:
            raise _Failed(self._explain(case, _what_happened(answer)))
        if not answer.is_expected:
            raise _Failed(self._explain(case, "returned another value"))

    def _explain(self, prepared: _Prepared, reason: str) -> str:
        case = prepared.case
        if not case.shown:
            return reason
        wanted = case.raises if case.raises is not None else repr(case.expected)
        return f"{reason}; called with {case.arguments!r} {dict(case.keywords)!r}, expected {wanted}"


def _is_raised(expected: str, answer: FunctionAnswer) -> bool:
    """Return whether the error's class, or one above it, has the expected name.

    Beyond the agent's own classes only the nearest of Python's counts, with those above it.
    """
    if not answer.names:
        return False
    if _error_class(expected) is None:
        return expected in answer.names[:-1]
    python_class = _error_class(answer.names[-1])
    return python_class is not None and expected in [kind.__name__ for kind in python_class.__mro__]


def _error_class(name: str) -> type[BaseException] | None:
    kind = getattr(builtins, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, BaseException) else None


def _what_happened(answer: FunctionAnswer) -> str:
    if answer.names:
        return f"raised {answer.names[0][:MAX_SHOWN_CHARACTERS]}: {answer.text}"
    if answer.unfit is not None:
        return f"returned what cannot be compared: {answer.unfit}"
    return "returned a value" if answer.has_value else "gave no answer"
