"""Programs by their output: one fresh sandbox per case; the outputs are compared here."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import anyio

from ors_server.grading.agent_worker import isolated_python
from ors_server.grading.cases import MIN_SECONDS, CaseReport, CaseResult, StdioCase, TimeLimits, name_cases
from ors_server.grading.evidence import Evidence
from ors_server.grading.grading_errors import GraderFailedError
from ors_server.grading.text_comparison import TextComparison
from ors_server.processes import offload
from ors_server.processes.offload import OverLimitError
from ors_server.sandboxes.base import KIB
from ors_server.sandboxes.fresh import FreshRun

WHOLE = 30.0
"""By default, all cases together get this many times one case's time."""
CONCURRENT_CASES = 4
"""Cases that run at the same time."""
_SPARE_BYTES = 64 * KIB
_NOT_FOUND = {126, 127}
_MAX_SHOWN_CHARACTERS = 500
"""Characters of a program's output that an error repeats."""


@dataclass(frozen=True)
class PythonProgram:
    """A Python file of the agent's, to be run as a program.

    It runs isolated (`python3 -I`): nothing in the environment, in the work dir or in a user's folder is
    loaded unasked. It may import the standard library, what is installed in the sandbox, and modules of the
    work dir whose names none of these has.
    """

    file: str
    """Relative to the work dir."""


async def grade_stdio(
    evidence: Evidence,
    argv: Sequence[str] | PythonProgram,
    cases: Sequence[StdioCase],
    *,
    time_limit: float | TimeLimits = 10.0,
    compare: TextComparison | None = None,
) -> CaseReport:
    """Run a program of the agent's once per case and compare what it prints with the expected output.

    Each run has its own fresh sandbox, which gets the case's input and arguments and nothing else. A run
    passes if it ends by itself, with the case's status and the expected output. It is cut off at
    twice the length of the expected output and 64 KiB.

    Args:
        argv: The command, from within the work dir; or a Python program.
        cases: At least one.
        time_limit: Seconds that the program may spend on a case, as docs/policy.md counts them; by default
            all together get 30 times that.
        compare: How texts are compared; by default white space at the ends of lines and empty last lines do
            not count.

    Returns:
        A result per case, in their order.

    Raises:
        GradingError: The cases cannot be graded: there are none, or two have one name.
        GraderFailedError: There is no Python in the sandbox for a Python program.
        SandboxError: The sandbox failed, or the machine was too busy for the program, twice.
    """
    limits = time_limit if isinstance(time_limit, TimeLimits) else TimeLimits(time_limit, WHOLE * time_limit)
    names = name_cases(cases)
    grader = _ProgramGrader(evidence, argv, limits, compare or TextComparison())
    results: list[CaseResult | None] = [None] * len(cases)
    gate = anyio.CapacityLimiter(CONCURRENT_CASES)
    failures: list[Exception] = []

    async def judge(index: int) -> None:
        async with gate:
            try:
                results[index] = await grader.judge(names[index], cases[index])
            except Exception as error:  # noqa: BLE001 # raised outside, so that no group wraps it
                failures.append(error)
                group.cancel_scope.cancel()

    async with evidence.at_work(), anyio.create_task_group() as group:
        for index in range(len(cases)):
            group.start_soon(judge, index)
    if failures:
        raise failures[0]
    return CaseReport(tuple(result for result in results if result is not None))


class _ProgramGrader:
    def __init__(
        self,
        evidence: Evidence,
        argv: Sequence[str] | PythonProgram,
        limits: TimeLimits,
        compare: TextComparison,
    ) -> None:
        self._evidence = evidence
        self._compare = compare
        self._limit = limits.case
        self._left = limits.whole
        self._files: dict[str, bytes] = {}
        self._is_python = isinstance(argv, PythonProgram)
        if isinstance(argv, PythonProgram):
            runner = files("ors_server.grading").joinpath("program_runner.py").read_bytes()
            self._files["program_runner.py"] = runner
            self._argv = [*isolated_python(evidence.sandbox.fresh_dir, "program_runner.py"), argv.file]
        else:
            self._argv = list(argv)

    async def judge(self, name: str, case: StdioCase) -> CaseResult:
        """Judge one case."""
        if self._left < MIN_SECONDS:
            return CaseResult(name, passed=False, reason="the time for all cases was over")
        run = await self._evidence.sandbox.run_fresh(
            [*self._argv, *case.arguments],
            files=self._files,
            stdin=case.stdin.encode(errors="surrogatepass"),
            time_limit=min(self._limit, self._left),
            # A right answer may have more white space than expected, but not any amount of it.
            output_bytes=2 * len(case.stdout.encode(errors="surrogatepass")) + _SPARE_BYTES,
        )
        self._left -= run.spent_s
        # The agent's program may end with these statuses, too: only a second run tells a missing interpreter.
        if self._is_python and run.exit_code in _NOT_FOUND:
            probe = await self._evidence.run(["python3", "-I", "-c", ""])
            if probe.exit_code in _NOT_FOUND:
                raise GraderFailedError(
                    f"there is no python3 in the sandbox: {probe.stderr.text[:_MAX_SHOWN_CHARACTERS]}"
                )
        reason = await self._problem(case, run)
        if reason is not None and case.shown:
            printed = run.stdout.text[:_MAX_SHOWN_CHARACTERS]
            reason += f"; given {case.stdin!r}, expected {case.stdout!r}, got {printed!r}"
        return CaseResult(name, passed=reason is None, reason=reason)

    async def _problem(self, case: StdioCase, run: FreshRun) -> str | None:
        if run.timed_out:
            return "ran out of time"
        if run.output_limit:
            return "printed too much"
        if case.exit_code is not None and run.exit_code != case.exit_code:
            return f"ended with status {run.exit_code}"
        printed = run.stdout.kept
        size = len(printed) + len(case.stdout)
        try:
            agrees = await offload.run_sized(size, TextComparison.agrees, self._compare, case.stdout, printed)
        except OverLimitError as error:
            return f"printed what cannot be compared: {error}"
        return None if agrees else "printed something else"
