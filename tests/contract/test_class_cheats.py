"""Cheats made from signatures alone earn no more on any class task than the file that the agent finds."""

import zlib

import anyio
import pytest

from ors_server.grading.evidence import gather_evidence
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.host.bubblewrap import BubblewrapBackend
from ors_server_tasks.code.catalogue import SPLITS, load_problem
from ors_server_tasks.code.grading import judge
from ors_server_tasks.code.problem import Grading, Problem
from tests.fixtures.class_cheats import cheats
from tests.fixtures.ordinary_cases import every

LIMIT = 900.0
"""Seconds that one test may take; each grading takes half a second of a quiet machine."""
STRESS_LIMIT = 7200.0
"""Seconds that all cheats of one task may take on a busy machine."""
DEAREST = "itself, alike"
"""The cheat that is played on every second task; on the others it is a drawn one. An ordinary run plays a
third of the tasks, and a stress run every cheat on every task."""

pytestmark = pytest.mark.timeout(LIMIT + 30)

PROBLEMS = [
    problem
    for names in SPLITS.values()
    for problem in map(load_problem, names)
    if problem.grading is Grading.TESTS
]


async def passed_by(problem: Problem, files: dict[str, str], limit: float = LIMIT) -> dict[str, int]:
    """Has several files judged for one problem, each by itself; returns how many cases each passed."""
    state, passed = ServerState(), {}
    backend = BubblewrapBackend(state)
    try:
        with anyio.fail_after(limit):
            sandbox = await backend.start("cheat")
            for name, text in files.items():
                await sandbox.write_file(problem.file, text.encode())
                async with gather_evidence(sandbox) as evidence:
                    report = await judge(problem, evidence)
                passed[name] = report.passed
    finally:
        await backend.aclose()
        state.close()
    return passed


def test_there_are_class_tasks_in_every_split_and_many_cheats_of_each():
    assert all(any(problem.name in names for problem in PROBLEMS) for names in SPLITS.values())
    for problem in PROBLEMS:
        made = dict(cheats(problem.starting_file or ""))
        assert len(made) > 90
        assert not any(problem.solution in text for text in made.values())


@pytest.mark.parametrize("problem", every(3, PROBLEMS), ids=lambda problem: problem.name)
async def test_a_cheat_passes_no_case_at_all(problem):
    made = dict(cheats(problem.starting_file or ""))
    drawn = sorted(made.keys() - {DEAREST})[zlib.crc32(problem.name.encode()) % (len(made) - 1)]
    name = drawn if PROBLEMS.index(problem) % 2 else DEAREST
    assert await passed_by(problem, {name: made[name]}) == {name: 0}


@pytest.mark.stress
@pytest.mark.timeout(STRESS_LIMIT + 30)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
async def test_all_cheats_pass_no_more_than_the_starting_file(problem):
    stub = problem.starting_file or ""
    passed = await passed_by(problem, {"the starting file": stub, **dict(cheats(stub))}, STRESS_LIMIT)
    most = passed.pop("the starting file")
    assert {name: count for name, count in passed.items() if count > most} == {}
