"""Grades the file that an agent left behind, by the problem's hidden cases or tests."""

from itertools import groupby
from operator import attrgetter
from pathlib import PurePosixPath

from ors_server import (
    CaseReport,
    CaseResult,
    Evidence,
    FunctionCase,
    PythonProgram,
    StdioCase,
    TimeLimits,
    grade_functions,
    grade_pytest,
    grade_stdio,
)
from ors_server_tasks.code.hidden import Call
from ors_server_tasks.code.problem import Grading, Problem

LIMITS = TimeLimits(case=10.0, whole=90.0)
"""Seconds for the agent's code; solutions need some milliseconds per case."""


async def judge(problem: Problem, evidence: Evidence) -> CaseReport:
    """Return the results of the hidden cases; raises if grading fails without the agent's fault."""
    if problem.grading is Grading.TESTS:
        return await _judge_by_tests(problem, evidence)
    if problem.grading is Grading.INPUTS:
        return await _judge_program(problem, evidence)
    results: list[CaseResult] = []
    for function, calls in groupby(
        sorted(problem.hidden_calls, key=attrgetter("function")), attrgetter("function")
    ):
        cases = [_as_case(call, number) for number, call in enumerate(calls, start=1)]
        report = await grade_functions(evidence, problem.file, function, cases, time_limit=LIMITS)
        results += report.results
    return CaseReport(tuple(results))


async def _judge_by_tests(problem: Problem, evidence: Evidence) -> CaseReport:
    module = PurePosixPath(problem.file).stem
    return await grade_pytest(
        evidence,
        {"test_hidden.py": problem.hidden_tests},
        modules=[module],
        classes=[f"{module}.{name}" for name in problem.classes],
        time_limit=LIMITS,
    )


async def _judge_program(problem: Problem, evidence: Evidence) -> CaseReport:
    cases = [
        StdioCase(stdin=call.arguments[0], stdout=call.expected, name=f"input {number}")
        for number, call in enumerate(problem.hidden_calls, start=1)
    ]
    return await grade_stdio(evidence, PythonProgram(problem.file), cases, time_limit=LIMITS)


def _as_case(call: Call, number: int) -> FunctionCase:
    return FunctionCase(
        arguments=call.arguments,
        keywords=call.keywords,
        expected=call.expected,
        raises=call.raises,
        name=f"{call.function} {number}",
    )
