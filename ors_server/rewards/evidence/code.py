"""Rewards for code: an agent's programs and functions are run in fresh sandboxes and compared outside.

They use the graders of `ors_server.grading`; docs/grading.md has their guarantees. ARISE's
`code_execution_reward` counts failed steps instead.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from ors_server.grading.cases import CaseReport, FunctionCase, StdioCase
from ors_server.grading.evidence import Evidence
from ors_server.grading.function_cases import grade_functions
from ors_server.grading.grading_errors import GradingError
from ors_server.grading.pytest_cases import grade_pytest
from ors_server.grading.stdio_cases import PythonProgram, grade_stdio
from ors_server.model.json_values import is_array
from ors_server.rewards.define import reward
from ors_server.rewards.reading.option_words import Pays, check_words
from ors_server.rewards.result import RewardResult, RewardStatus

MAX_CASES = 1_000
MAX_REPORTED = 50
"""Failed cases that a report names."""

_Case = TypeVar("_Case", StdioCase, FunctionCase)


class BadCasesError(ValueError):
    """Cases of a task's row cannot be read; the message says why."""


@reward(range=(0.0, 1.0))
async def code_stdio_reward(
    evidence: Evidence,
    cases: Sequence[StdioCase | Mapping[str, Any]],
    program: str | Sequence[str] = "main.py",
    *,
    pays: Pays = "all",
    time_limit: float = 10.0,
) -> RewardResult:
    """Pays if a program prints what it should, case by case, each in its own fresh sandbox.

    Hazards: with `pays="fraction"` a program that prints a constant earns the cases whose output it is; few
    cases are guessed. Have many, and hidden ones.

    Source: competitive-programming judges; the cases of APPS and its kin.

    Args:
        cases: Objects with `stdin` and `stdout`; optional `arguments`, `exit_code`, `name`, `shown`.
        program: A Python file of the work dir, or a command as a list.
        time_limit: Seconds for a case; all together get 30 times that.

    Returns:
        In [0, 1], with `passed`, `total`, `fraction` and `failed`: up to 50 names with reasons, which quote
        an expected output only where a case is `shown`. Cases that cannot be graded are `bad_gold`. A failure
        of the sandbox or the interpreter raises.
    """
    check_words(pays=(pays, Pays))
    argv = PythonProgram(program) if isinstance(program, str) else list(program)
    return await _pay_cases(
        cases, StdioCase, pays, lambda read: grade_stdio(evidence, argv, read, time_limit=time_limit)
    )


@reward(range=(0.0, 1.0))
async def code_functions_reward(
    evidence: Evidence,
    cases: Sequence[FunctionCase | Mapping[str, Any]],
    function: str,
    file: str = "solution.py",
    *,
    pays: Pays = "all",
    time_limit: float = 10.0,
) -> RewardResult:
    """Pays if a function returns what it should, call by call; values are compared outside of its process.

    Hazards: as for `code_stdio_reward`. JSON has no tuples: a row's list is a list, and `(1, 2)` is not `[1,
    2]`.

    Source: the function-call cases of HumanEval, MBPP and PRIME's code data, without running tests in the
    same process as the candidate.

    A case has `arguments` (a list) and `expected`, or `raises` in its place; optional `keywords`, `name`,
    `shown`. Dots in the function's name lead into classes. It returns as `code_stdio_reward`.
    """
    check_words(pays=(pays, Pays))
    return await _pay_cases(
        cases,
        FunctionCase,
        pays,
        lambda read: grade_functions(evidence, file, function, read, time_limit=time_limit),
    )


@reward(range=(0.0, 1.0))
async def code_pytest_reward(
    evidence: Evidence,
    tests: Mapping[str, str] | str,
    modules: Sequence[str] = ("solution",),
    *,
    classes: Sequence[str] = (),
    pays: Pays = "all",
    time_limit: float = 60.0,
) -> RewardResult:
    """Pays if hidden pytest files pass; they run in a process that has no code of the agent's.

    Hazards: tests that assert little pay for little. Skipped tests, and those marked as expected to fail,
    have not passed.

    Source: hidden test suites as in SWE-bench, without what makes those writable by the candidate.

    Returns as `code_stdio_reward`; tests that cannot be collected, or break pytest, are `bad_gold`.

    Args:
        tests: File name to text, or the text of one file, which import the agent's `modules`.
        classes: The agent's classes, as `module.Class`, whose objects may be equal to plain values.
        time_limit: Seconds for all tests; one call into the agent's code gets a sixth of it.
    """
    check_words(pays=(pays, Pays))
    files = {"test_hidden.py": tests} if isinstance(tests, str) else tests
    return await _pay_report(
        lambda: grade_pytest(evidence, files, modules=modules, classes=classes, time_limit=time_limit), pays
    )


async def _pay_cases(
    cases: Sequence[_Case | Mapping[str, Any]],
    kind: type[_Case],
    pays: Pays,
    grade: Callable[[list[_Case]], Awaitable[CaseReport]],
) -> RewardResult:
    if not is_array(cases) or not 1 <= len(cases) <= MAX_CASES:
        return RewardResult.without(RewardStatus.BAD_GOLD, f"expected a list of 1 to {MAX_CASES} cases")
    try:
        read = [case if isinstance(case, kind) else _case(case, kind) for case in cases]
    except BadCasesError as error:
        return RewardResult.without(RewardStatus.BAD_GOLD, str(error))
    return await _pay_report(lambda: grade(read), pays)


async def _pay_report(grade: Callable[[], Awaitable[CaseReport]], pays: Pays) -> RewardResult:
    try:
        report = await grade()
    except GradingError as error:  # the author's: no answer could be graded
        return RewardResult.without(RewardStatus.BAD_GOLD, str(error))
    extras = {
        "passed": report.passed,
        "total": report.total,
        "fraction": report.fraction,
        "failed": report.reasons(MAX_REPORTED),
    }
    return RewardResult(report.fraction if pays == "fraction" else float(report.is_perfect), extras=extras)


def _case(value: object, kind: type[_Case]) -> _Case:
    if not isinstance(value, Mapping):
        raise BadCasesError(f"expected a case as an object, got {value!r:.80}")
    fields = dict(cast("Mapping[str, Any]", value))
    listed: Any = fields.get("arguments", ())
    if not is_array(listed):
        raise BadCasesError("a case's arguments are a list")
    fields["arguments"] = tuple(listed)
    try:
        case: Any = kind(**fields)
    except TypeError as error:
        raise BadCasesError(f"a case cannot be read: {error}") from None
    if isinstance(case, StdioCase) and not _is_plain(case):
        raise BadCasesError(
            "expected stdin, stdout and arguments as texts, and exit_code as a number or null"
        )
    return cast("_Case", case)


def _is_plain(case: Any) -> bool:
    texts = (case.stdin, case.stdout, *case.arguments)
    return all(isinstance(text, str) for text in texts) and (
        case.exit_code is None or isinstance(case.exit_code, int)
    )
