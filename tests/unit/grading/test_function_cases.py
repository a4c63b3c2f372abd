"""Functions are judged by what they return; what cannot be judged is never a number."""

import pytest

from ors_server.grading.agent_worker import AgentWorker
from ors_server.grading.cases import CaseReport, FunctionCase, TimeLimits
from ors_server.grading.evidence import Evidence, gather_evidence
from ors_server.grading.function_cases import grade_functions
from ors_server.grading.grading_errors import GraderFailedError, GradingError
from ors_server.sandboxes.captured_output import Output
from ors_server.sandboxes.fresh import FreshProcess
from ors_server.sandboxes.scripted import ScriptedBackend
from tests.fixtures.loop_slices import measured_slices, yardstick

SOLUTION = """
import collections, helper, os, sys, time
calls = []

def double(x): return helper.twice(x)
def count(text): return collections.Counter(text)
def append(items=[]):
    items.append(1)
    return items
def mangle(items, key=None):
    items.clear()
    return key
def fragile(x):
    calls.append(x)
    if x == 2: os._exit(3)
    if x == 3: sys.stdout.write("x" * 1000); sys.stdout.flush(); os.write(1, b"junk")
    if x == 4: time.sleep(60)
    return len(calls)
class Solver:
    @staticmethod
    def solve(x): return {x: (x, [x])}
class MineError(ValueError): pass
def fail(kind):
    raise {"mine": MineError, "value": ValueError, "key": KeyError, "stop": StopIteration}[kind]("why")
"""
FILES = {"solution.py": SOLUTION, "helper.py": "def twice(x): return 2 * x\n"}


def outcomes(report: CaseReport):
    return [result.passed for result in report.results]


async def test_values_errors_and_crashes_are_told_apart(look_at):
    async with look_at(FILES) as evidence:
        doubles = [FunctionCase((n,), expected=2 * n) for n in range(50)]
        report = await grade_functions(evidence, "solution.py", "double", doubles)
        assert report.is_perfect

        fragile = [
            FunctionCase((n,), expected=e) for n, e in ((1, 1), (2, 2), (3, 1), (4, 2), (5, 1), (6, 9))
        ]
        limits = TimeLimits(2, 60)
        report = await grade_functions(evidence, "solution.py", "fragile", fragile, time_limit=limits)
        assert outcomes(report) == [True, False, True, False, True, False]
        assert [result.reason for result in report.results if not result.passed] == [
            "the agent's code ended with status 3",
            "the agent's code ran out of time",
            "returned another value",
        ]

        cases = [
            FunctionCase(("mine",), raises="MineError"),
            FunctionCase(("mine",), raises="ValueError"),
            FunctionCase(("mine",), raises="Exception"),
            FunctionCase(("stop",), raises="StopIteration"),
            FunctionCase(("mine",), raises="KeyError"),
            FunctionCase(("value",), raises="MineError"),
            FunctionCase(("key",), expected=None),
        ]
        report = await grade_functions(evidence, "solution.py", "fail", cases)
        assert outcomes(report) == [True, True, True, True, False, False, False]
        assert report.results[4].reason == "raised no such error: raised MineError: why"


async def test_arguments_are_copies_and_subclasses_of_plain_types_count_as_those(look_at):
    items = [1, 2]
    async with look_at(FILES) as evidence:
        mangled = [FunctionCase((items,), {"key": b"k"}, b"k"), FunctionCase((items,), {"key": 2.0}, 2)]
        report = await grade_functions(evidence, "solution.py", "mangle", mangled)
        assert outcomes(report) == [True, False]
        assert items == [1, 2]
        counted = [FunctionCase(("aab",), expected={"a": 2, "b": 1})]
        assert (await grade_functions(evidence, "solution.py", "count", counted)).is_perfect
        solved = [FunctionCase((1,), expected={1: (1, [1])})]
        assert (await grade_functions(evidence, "./solution.py", "Solver.solve", solved)).is_perfect
        twice = [FunctionCase(expected=[1]), FunctionCase(expected=[1, 1])]
        assert (await grade_functions(evidence, "solution.py", "append", twice)).fraction == 1.0


async def test_a_reason_quotes_expected_values_only_where_the_case_is_shown(look_at):
    cases = [
        FunctionCase((41,), expected="secret", name="hidden"),
        FunctionCase((42,), {"y": 1}, expected="told", name="seen", shown=True),
    ]
    async with look_at({"solution.py": "def f(x, y=0): return x\n"}) as evidence:
        report = await grade_functions(evidence, "solution.py", "f", cases)
    hidden, seen = report.results
    assert (hidden.name, hidden.reason) == ("hidden", "returned another value")
    assert seen.reason == "returned another value; called with (42,) {'y': 1}, expected 'told'"


async def test_a_long_answer_is_compared_without_holding_up_anybody(look_at):
    many = 300_000
    solution = "def many(n): return [[i] for i in range(n)]\n"
    cases = [
        FunctionCase((many,), expected=[[number] for number in range(many)]),
        FunctionCase((many + 1,), expected=[[number] for number in range(many)]),
        FunctionCase((many,), raises="ValueError"),
    ]
    async with look_at({"solution.py": solution}) as evidence:
        with measured_slices() as slices:
            report = await grade_functions(evidence, "solution.py", "many", cases, time_limit=60.0)
    assert outcomes(report) == [True, False, False]
    assert slices.worst < 4 * yardstick(), slices.where  # the expected value is turned into a tree here


async def test_what_cannot_be_loaded_fails_every_case(look_at):
    cases = [FunctionCase((1,), expected=1), FunctionCase((2,), raises="Exception")]
    async with look_at({"broken.py": "import nothing_such\n", "text.txt": "x"}) as evidence:
        for file, said in (
            ("broken.py", "ModuleNotFoundError"),
            ("missing.py", "FileNotFoundError"),
            ("text.txt", "ImportError"),
            ("../outside.py", "FileNotFoundError"),
        ):
            report = await grade_functions(evidence, file, "f", cases)
            assert outcomes(report) == [False, False]
            assert all(said in str(result.reason) for result in report.results), report


async def test_time_for_all_cases_is_limited_too(look_at):
    async with look_at({"solution.py": "def f(x):\n    while True: pass\n"}) as evidence:
        report = await grade_functions(
            evidence, "solution.py", "f", [FunctionCase((n,), expected=n) for n in range(5)],
            time_limit=TimeLimits(0.5, 0.8),
        )  # fmt: skip
    assert report.passed == 0
    assert report.results[-1].reason == "the time for all cases was over"


@pytest.mark.parametrize(
    ("cases", "options", "said"),
    [
        ([], {}, "at least one"),
        ([FunctionCase(name="x"), FunctionCase(name="x")], {}, "one name"),
        ([FunctionCase((object(),))], {}, "case 1: .*plain"),
        ([FunctionCase(expected=object())], {}, "plain"),
        ([FunctionCase(keywords={"x": len})], {}, "plain"),
        ([FunctionCase(expected=1, raises="ValueError")], {}, "not both"),
        ([FunctionCase(raises="not a name")], {}, "not the name"),
        ([FunctionCase()], {"tolerance": float("nan")}, "tolerance"),
        ([FunctionCase()], {"tolerance": -1.0}, "tolerance"),
        ([FunctionCase()], {"time_limit": 0}, "above 0"),
    ],
)
async def test_cases_that_cannot_be_graded_are_the_author_s_fault(cases, options, said):
    evidence = Evidence(await ScriptedBackend().start("unused"))
    with pytest.raises(GradingError, match=said):
        await grade_functions(evidence, "solution.py", "f", cases, **options)


class Silent(FreshProcess):
    """A program that is not there."""

    is_closed = False

    @property
    def stderr(self):
        return Output(b"python3: not found", b"", 18)

    async def send(self, data):
        pass

    async def close_stdin(self):
        pass

    async def receive(self, max_bytes=1):
        return b""

    async def wait(self):
        return 127

    async def aclose(self):
        self.is_closed = True


async def test_a_sandbox_without_python_is_the_machinery_s_fault(monkeypatch):
    process = Silent()
    async with gather_evidence(await ScriptedBackend().start("bare")) as evidence:

        async def start(_argv, **_options):
            return process

        monkeypatch.setattr(evidence, "start", start)
        with pytest.raises(GraderFailedError, match=r"status 127\. python3: not found"):
            await AgentWorker.start(evidence)
    assert process.is_closed
