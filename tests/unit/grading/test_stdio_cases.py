"""Programs are judged by what they print and how they end."""

import pytest

from ors_server.grading.cases import StdioCase, TimeLimits
from ors_server.grading.evidence import Evidence
from ors_server.grading.grading_errors import GraderFailedError, GradingError
from ors_server.grading.stdio_cases import PythonProgram, grade_stdio
from ors_server.grading.text_comparison import TextComparison
from ors_server.sandboxes.captured_output import Output
from ors_server.sandboxes.fresh import FreshRun
from ors_server.sandboxes.sandbox_errors import SandboxError
from ors_server.sandboxes.scripted import ScriptedBackend

PROGRAM = """
import random, sys, helper
assert random.choice.__module__ == "random", "a file of the work dir stands in for the standard library"
assert __name__ == "__main__" and __file__ == sys.argv[0] == "main.py"
assert not [name for name in globals() if name in ("os", "main", "CodeType")]
print(helper.shout(sys.stdin.read() + "".join(sys.argv[1:])))
sys.exit(len(sys.argv) - 1)
"""
FILES = {"main.py": PROGRAM, "helper.py": "def shout(x): return x.upper()\n", "random.py": "x = 1\n"}


async def test_input_arguments_output_and_status_belong_to_a_case(look_at):
    cases = [
        StdioCase("a\nb", "A\nB\n"),
        StdioCase("a", "AXY", ("x", "y"), exit_code=2),
        StdioCase("a", "AX", ("x",), exit_code=None),
        StdioCase("a", "AX", ("x",), name="wrong status"),
        StdioCase("a", "B", shown=True),
    ]
    async with look_at(FILES) as evidence:
        report = await grade_stdio(evidence, PythonProgram("main.py"), cases)
        assert [result.passed for result in report.results] == [True, True, True, False, False], report
        assert report.results[3].reason == "ended with status 1"
        assert report.results[4].reason == "printed something else; given 'a', expected 'B', got 'A\\n'"

        report = await grade_stdio(evidence, ["tr", "a", "b"], [StdioCase("aXa", "bXb")])
        assert report.is_perfect
        report = await grade_stdio(evidence, ["./missing"], [StdioCase("", "", exit_code=0)])
        assert report.results[0].reason == "ended with status 127"
        report = await grade_stdio(evidence, PythonProgram("missing.py"), [StdioCase("", "")])
        assert report.results[0].reason == "ended with status 1"
        limits = TimeLimits(0.5, 0.6)
        report = await grade_stdio(
            evidence, ["sleep", "60"], [StdioCase("", str(n)) for n in range(9)], time_limit=limits
        )
        reasons = {result.reason for result in report.results}
        assert reasons == {"ran out of time", "the time for all cases was over"}
        off = [StdioCase("", "3.14")]
        assert not (await grade_stdio(evidence, ["echo", "3.141"], off)).is_perfect
        near = TextComparison(tolerance=0.01)
        assert (await grade_stdio(evidence, ["echo", "3.141"], off, compare=near)).is_perfect


async def test_one_run_leaves_nothing_for_the_next(look_at):
    script = "cat /tmp/left 2>/dev/null; echo seen >/tmp/left; echo seen >left; echo end"
    async with look_at({}) as evidence:
        report = await grade_stdio(
            evidence, ["sh", "-c", script], [StdioCase(str(n), "end") for n in range(6)]
        )
    assert report.is_perfect, report


async def test_no_cases_are_the_author_s_fault():
    with pytest.raises(GradingError, match="at least one"):
        await grade_stdio(Evidence(await ScriptedBackend().start("unused")), ["true"], [])


def ended(exit_code, said=b""):
    out = (Output(), Output(said, b"", len(said)))
    return FreshRun(exit_code, *out, timed_out=False, output_limit=False, duration_s=0)


async def test_a_sandbox_without_python_is_the_machinery_s_fault(monkeypatch):
    sandbox = await ScriptedBackend().start("bare")

    async def run_fresh(_argv, **_options):
        return ended(127, b"no such program")

    monkeypatch.setattr(sandbox, "run_fresh", run_fresh)
    with pytest.raises(GraderFailedError, match="no python3"):
        await grade_stdio(Evidence(sandbox), PythonProgram("x.py"), [StdioCase("", "")] * 1)


async def test_a_sandbox_that_gives_way_is_no_verdict(monkeypatch):
    sandbox = await ScriptedBackend().start("broken")

    async def run_fresh(_argv, **_options):
        raise SandboxError("gone")

    monkeypatch.setattr(sandbox, "run_fresh", run_fresh)
    with pytest.raises(SandboxError, match="gone"):
        await grade_stdio(Evidence(sandbox), ["true"], [StdioCase(str(n), "") for n in range(9)])
