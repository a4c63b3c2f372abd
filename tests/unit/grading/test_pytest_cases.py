"""Hidden tests are counted without the agent, run out of its reach, and blamed on whom they concern."""

import importlib.util
import tempfile

import pytest

from ors_server.grading.cases import TimeLimits
from ors_server.grading.evidence import Evidence
from ors_server.grading.grading_errors import GraderFailedError, GradingError
from ors_server.grading.pytest_cases import grade_pytest
from ors_server.sandboxes.scripted import ScriptedBackend

SOLUTION = """
import os, pkg.deep, time
def add(a, b): return a + b
def hang(): time.sleep(60)
def die(): os._exit(0)
def sort(items): items.sort()
def greet(): print("hello")
"""
TESTS = """
import pytest, helper, solution
from pkg.deep import depth
from solution import add

@pytest.mark.parametrize(("a", "b", "c"), [(1, 2, 3), (2, 2, 5), ("a", "b", "ab")])
def test_add(a, b, c):
    assert add(a, b) == c

def test_helper(number):
    assert helper.HELP == number == depth()

def test_place(place, fetch):
    items = place([2, 1])
    solution.sort(items)
    assert fetch(items) == [1, 2]

def test_printed(capsys, tmp_path, monkeypatch):
    solution.greet()
    assert capsys.readouterr().out == "hello\\n"

@pytest.mark.skip(reason="later")
def test_skipped(): pass

@pytest.mark.xfail
def test_expected_to_fail(): assert False

@pytest.mark.xfail
def test_unexpectedly_fine(): pass

def test_hang(): solution.hang()

def test_caught():
    with pytest.raises(BaseException):
        solution.die()

def test_missing(): solution.nothing()

class TestAfterwards:
    def test_add(self): assert add(2, 2) == 4
    def test_teardown(self, breaks): pass
"""
CONFTEST = """
import pytest
@pytest.fixture
def number(): return 7
@pytest.fixture
def breaks():
    yield
    raise RuntimeError("in teardown")
"""


async def test_every_test_has_a_verdict_of_its_own(look_at):
    files = {"solution.py": SOLUTION, "pkg/__init__.py": "", "pkg/deep.py": "def depth(): return 7\n"}
    tests = {"test_all.py": TESTS, "conftest.py": CONFTEST, "helper.py": "HELP = 7\n"}
    async with look_at(files) as evidence:
        report = await grade_pytest(
            evidence, tests, modules=["solution", "pkg.deep"], time_limit=TimeLimits(2, 60)
        )
    told = {result.name.removeprefix("test_all.py::"): result.reason for result in report.results}
    assert told == {
        "test_add[1]": None,
        "test_add[2]": "AssertionError in call",
        "test_add[3]": None,
        "test_helper": None,
        "test_place": None,
        "test_printed": None,
        "test_skipped": "Skipped in setup",
        "test_expected_to_fail": "AssertionError in call",
        "test_unexpectedly_fine": "not as marked in call",
        "test_hang": "the agent's code ran out of time",
        "test_caught": "the agent's code ended with status 0",
        "test_missing": "AttributeError in call",
        "TestAfterwards::test_add": None,
        "TestAfterwards::test_teardown": "RuntimeError in teardown",
    }
    assert (report.passed, report.total) == (6, 14)


async def test_a_file_that_the_agent_s_code_spoils_counts_with_all_its_tests(look_at):
    tests = {
        "test_one.py": "from solution import add, missing\ndef test_a(): pass\ndef test_b(): pass\n",
        "test_two.py": "import solution\ndef test_c(): assert solution.add(1, 1) == 2\n",
    }
    async with look_at({"solution.py": "def add(a, b): return a + b\n"}) as evidence:
        report = await grade_pytest(evidence, tests, modules=["solution"], shown=True)
        assert [(result.name, result.passed) for result in report.results] == [
            ("test_one.py::test_a", False),
            ("test_one.py::test_b", False),
            ("test_two.py::test_c", True),
        ]
        assert "could not be collected" in str(report.results[0].reason)
        report = await grade_pytest(evidence, {"test_x.py": "def test_x(): pass\n"}, modules=["absent"])
        assert [result.reason for result in report.results] == [
            "loading the modules raised ModuleNotFoundError"
        ]
        shown = {"test_x.py": "import solution\ndef test_x(): assert solution.add(1, 1) == 3\n"}
        report = await grade_pytest(evidence, shown, modules=["solution"], shown=True)
        assert "assert 2 == 3" in str(report.results[0].reason)


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        ({"test_x.py": "x = 1\n"}, "no hidden test"),
        ({"helper.py": "def test_x(): pass\n"}, "no hidden test"),
        ({"test_x.py": "def test_x(: pass\n"}, "cannot be collected: .*SyntaxError"),
        ({"test_x.py": "import nothing_such\ndef test_x(): pass\n"}, "cannot be collected: .*nothing_such"),
        ({"test_x.py": "from solution import *\ndef test_x(): pass\n"}, "by name"),
        ({"test_x.py": "import solution\nN = solution.add(1)\ndef test_x(): pass\n"}, "use it in tests"),
        ({"test_x.py": "import solution\nclass X(solution.Y): x = 1\ndef test(): 1\n"}, "use it in tests"),
        ({"test_x.py": "def test(): 1\n", "conftest.py": "1 / 0\n"}, "could not collect|cannot be"),
        (
            {"test_x.py": "def test(): 1\n", "conftest.py": "def pytest_runtest_setup(item, bad): 1\n"},
            "could not collect|cannot be collected",
        ),
    ],
)  # fmt: skip
async def test_tests_that_cannot_be_counted_are_the_author_s_fault(tests, said):
    evidence = Evidence(await ScriptedBackend().start("unused"))
    with pytest.raises(GradingError, match=rf"(?s){said}"):
        await grade_pytest(evidence, tests, modules=["solution"])


async def test_so_are_tests_that_break_pytest_or_take_the_time_themselves(look_at):
    broken = {
        "test_x.py": "def test_x(): pass\n",
        "conftest.py": "def pytest_runtest_protocol(item): raise RuntimeError('broken hook')\n",
    }
    ending = {"test_x.py": "import os\ndef test_x(): os._exit(0)\n"}
    leaving = {"test_x.py": "import pytest\ndef test_x(): pytest.exit('enough')\n"}
    slow = {"test_x.py": "import time\ndef test_x(): time.sleep(60)\n"}
    async with look_at({"solution.py": ""}) as evidence:
        with pytest.raises(GradingError, match="broken hook"):
            await grade_pytest(evidence, broken, modules=["solution"])
        with pytest.raises(GradingError, match="out of order"):
            await grade_pytest(evidence, leaving, modules=["solution"])
        with pytest.raises(GraderFailedError, match="broke off"):
            await grade_pytest(evidence, ending, modules=["solution"])
        with pytest.raises(GradingError, match="out of time, and not in the agent's code"):
            await grade_pytest(evidence, slow, modules=["solution"], time_limit=0.5)


async def test_tests_that_break_on_what_the_agent_s_code_returned_are_failed(look_at):
    tests = {
        "test_x.py": "import os, solution\n"
        "def test_a(): assert solution.give() == 1\n"
        "def test_b():\n    if solution.give(): os._exit(1)\n"
        "def test_c(): assert solution.give() == 1\n"
    }
    async with look_at({"solution.py": "def give(): return 1\n"}) as evidence:
        report = await grade_pytest(evidence, tests, modules=["solution"])
    assert [result.passed for result in report.results] == [True, False, False]
    assert "broke on what the agent's code returned" in str(report.results[2].reason)


async def test_a_test_that_never_ends_over_the_agent_s_answers_is_failed(look_at):
    tests = {
        "test_x.py": "import solution\n"
        "def test_a():\n    while not solution.is_empty(): pass\n"
        "def test_b(): assert solution.is_empty()\n"
    }
    async with look_at({"solution.py": "def is_empty(): return False\n"}) as evidence:
        report = await grade_pytest(evidence, tests, modules=["solution"], time_limit=TimeLimits(1, 1))
    assert [result.reason for result in report.results] == ["the time for all tests was over"] * 2


async def test_time_that_the_agent_s_code_takes_is_the_agent_s(look_at):
    tests = {"test_x.py": "import solution\ndef test_a(): solution.hang()\ndef test_b(): solution.hang()\n"}
    async with look_at({"solution.py": "def hang():\n    while True: pass\n"}) as evidence:
        report = await grade_pytest(evidence, tests, modules=["solution"], time_limit=TimeLimits(5, 1))
    assert [result.passed for result in report.results] == [False, False]
    assert report.results[1].reason == "the time for all tests was over"


@pytest.mark.parametrize(
    ("tests", "modules", "classes", "said"),
    [
        ({}, ["solution"], [], "at least one file"),
        ({"test_x.py": ""}, [], [], "one module"),
        ({"../test_x.py": ""}, ["solution"], [], "relative path"),
        ({"/test_x.py": ""}, ["solution"], [], "relative path"),
        ({"test_x.py": ""}, ["not a name"], [], "not the name"),
        ({"test_x.py": ""}, ["json"], [], "called like"),
        ({"test_x.py": ""}, ["queue.x"], [], "called like"),
        ({"test_x.py": ""}, ["ors_server"], [], "called like"),
        ({"test_x.py": "", "solution.py": ""}, ["solution"], [], "called like"),
        ({"test_x.py": ""}, ["solution"], ["Stack"], "expected a class of"),
    ],
)
async def test_what_is_asked_wrongly_is_the_author_s_fault(tests, modules, classes, said):
    evidence = Evidence(await ScriptedBackend().start("unused"))
    with pytest.raises(GradingError, match=said):
        await grade_pytest(evidence, tests, modules=modules, classes=classes)


async def test_a_missing_pytest_is_the_machinery_s_fault_and_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    evidence = Evidence(await ScriptedBackend().start("unused"))
    with pytest.raises(GraderFailedError, match=r"\[grading\]"):
        await grade_pytest(evidence, {"test_x.py": ""}, modules=["solution"])


async def test_the_hidden_tests_leave_no_folder_and_see_no_environment(look_at, tmp_path, monkeypatch):
    monkeypatch.setenv("ORS_SECRET", "not to be seen")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tests = {
        "test_x.py": "import os, pathlib, solution\n"
        "def test_x(tmp_path):\n"
        "    assert 'ORS_SECRET' not in os.environ\n"
        f"    assert pathlib.Path({str(tmp_path)!r}) in tmp_path.parents\n"
    }
    async with look_at({"solution.py": ""}) as evidence:
        report = await grade_pytest(evidence, tests, modules=["solution"], shown=True)
    assert report.is_perfect, report
    assert list(tmp_path.iterdir()) == []
