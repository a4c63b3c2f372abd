"""The tests' own rules: each test checks something, and none of them waits by the clock without a reason."""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CHECKS = {"raises", "warns", "fail", "RaisesGroup", "until"}
"""Names of functions that fail a test, pytest's and those of bounded waits for what must come."""
RAISES_OTHERWISE = "the function that is tested raises, or returns nothing"
UNCHECKED = {
    "properties/test_sums.py": "the machine that hypothesis plays asserts after every rule",
    "unit/model/test_settings_sources.py": RAISES_OTHERWISE,
}
"""Files with a test that has no assertion, to the reason."""
RECORDED = "a recorded case says how long its player waits"
TOOL = "a tool of an environment takes as long as it is asked to"
HOLDS = "author code that blocks its thread is what is tested"
REAL = "the real clock is what is tested"
CHANCE = "a kill comes at a random moment"
SILENT = "nothing reports what is waited for"
SLEEPS = {
    "stress/test_worker_kills.py": "lets sessions play between two kills",
    "conformance/test_pending_steps.py": "a slow store, while calls wait for it",
    "conformance/test_shared_server.py": HOLDS,
    "conformance/ors/test_ors_lost_calls.py": TOOL,
    "fixtures/bash_over_ors.py": RECORDED,
    "fixtures/evaluation_agents.py": SILENT,
    "fixtures/paying_environment.py": TOOL,
    "fixtures/ray_cluster.py": "a client's pause before it repeats a request",
    "fixtures/record_crashes.py": CHANCE,
    "fixtures/record_load.py": "a client's pause before it repeats a call, and figures that nothing reports",
    "fixtures/record_outages.py": "for a while nothing may happen",
    "fixtures/refenv.py": TOOL,
    "fixtures/slow_environment.py": TOOL,
    "fixtures/sandbox_vectors.py": RECORDED,
    "contract/test_hosts.py": "a client's pause before it repeats a request, and the end of a process",
    "contract/test_webshop_loop.py": "how late a sleep ends is what is measured",
    "stress/grading_load.py": "a measurement looks once in a while",
    "stress/test_ray_cluster.py": SILENT,
    "stress/test_sandbox_docker.py": SILENT,
    "stress/test_soak.py": "a steady rate of calls",
    "stress/test_idle_hosts.py": "a steady rate of calls, and a while without any",
    "stress/test_workers_faults.py": "a schedule of faults, and a client's pause before it repeats a call",
    "stress/test_webshop_catalogue.py": "how late a sleep ends is what is measured",
    "unit/processes/offload/slow_to_import.py": "a module that takes long to import",
    "fixtures/interleavings.py": "whether an end goes on that nobody waits for",
    "unit/sessions/test_end_owner.py": "for a while nothing may end",
    "unit/sessions/test_session_time.py": TOOL,
    "unit/sessions/test_endings.py": "a task that ignores its cancellation must leave the loop to others",
    "unit/tasks/shell/test_object_store.py": REAL,
    "unit/audit/test_stall_limit.py": REAL,
    "unit/timing/test_call_clock.py": REAL,
    "unit/timing/test_loop_watch.py": REAL,
    "unit/testing/environments.py": HOLDS,
    "unit/testing/test_environment_returns.py": TOOL,
    "unit/sandboxes/test_egress.py": "closed descriptors are no event, and a client reads late",
}
"""Files that wait by the clock, to the reason."""


class Function:
    """One function: which names it calls or hands on, and whether it checks something by itself."""

    def __init__(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.name = node.name
        inside = list(ast.walk(node))
        self.names = {each.id for each in inside if isinstance(each, ast.Name)}
        self.names |= {each.attr for each in inside if isinstance(each, ast.Attribute)}
        self.checks = any(isinstance(each, ast.Assert) for each in inside) or bool(self.names & CHECKS)


class Module:
    """One file: what it imports from other test files, its functions, and whether it waits by the clock."""

    def __init__(self, path: Path) -> None:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        self.functions = [
            Function(node) for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        self.imported = [
            TESTS.parent / f"{node.module.replace('.', '/')}.py"
            for node in nodes
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.")
        ]
        self.sleeps = any(is_sleep(node) for node in nodes)


def is_sleep(node: ast.AST) -> bool:
    """Whether code waits by the clock; a sleep of no time only lets others run."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func) in {"anyio.sleep", "asyncio.sleep", "time.sleep"}
        and ast.unparse(node.args[0]) != "0"
    )


@cache
def load(path: Path) -> Module:
    return Module(path)


@cache
def checking_names(path: Path) -> frozenset[str]:
    """The names of functions that check something: of a file, its conftest.py files, and what they import."""
    files = [path, *(folder / "conftest.py" for folder in path.parents if folder.is_relative_to(TESTS))]
    for file in files:
        files += [other for other in load(file).imported if other not in files] if file.exists() else []
    functions = [function for file in files if file.exists() for function in load(file).functions]
    names = {function.name for function in functions if function.checks}
    while more := {each.name for each in functions if each.name not in names and each.names & names}:
        names |= more
    return frozenset(names)


def unchecked_in(path: Path) -> list[str]:
    """The tests of a file that check nothing, neither themselves nor by a function that they name."""
    return [
        test.name
        for test in load(path).functions
        if test.name.startswith("test_") and not (test.checks or test.names & checking_names(path))
    ]


def test_every_test_checks_something():
    found = {str(path.relative_to(TESTS)): unchecked_in(path) for path in TESTS.rglob("test_*.py")}
    unchecked = {file: names for file, names in found.items() if names}
    missing = {file: names for file, names in unchecked.items() if file not in UNCHECKED}
    assert missing == {}, "let these tests assert what they are about"
    assert unchecked.keys() == UNCHECKED.keys(), "take the others off the list"


def test_no_test_waits_by_the_clock_without_a_reason():
    sleeping = {str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py") if load(path).sleeps}
    assert sleeping - SLEEPS.keys() == set(), "wait for an event, or use FakeClock"
    assert sleeping == SLEEPS.keys(), "take the others off the list"


@pytest.mark.parametrize("name", ["TOGETHER", "APART", "SLOW"])
def test_every_file_that_is_listed_for_how_it_is_run_is_there(name):
    assignments = (node for node in ast.parse((TESTS / "conftest.py").read_text()).body)
    (listed,) = [
        ast.literal_eval(node.value)
        for node in assignments
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    ]
    files = [str(path.relative_to(TESTS.parent)) for path in TESTS.rglob("test_*.py")]
    places = [place.partition("::") for place in listed]
    assert [begin for begin, _, _ in places if not any(file.startswith(begin) for file in files)] == []
    tests = [(TESTS.parent / begin, name) for begin, _, name in places if name]
    assert [name for file, name in tests if f"def {name}(" not in file.read_text()] == []


def test_a_test_without_an_assertion_is_found(tmp_path):
    file = tmp_path / "test_it.py"
    file.write_text(
        "def test_a():\n    work()\ndef test_b():\n    check()\ndef check():\n    assert work()\n"
    )
    assert unchecked_in(file) == ["test_a"]
