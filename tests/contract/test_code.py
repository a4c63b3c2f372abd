"""The bundled programming tasks as a server plays them: solutions earn all, idleness and cheats earn nothing.

Everything goes through the engine, with the real toolsets in a real sandbox.
"""

from collections.abc import Sequence

import pytest

from ors_server_tasks.code import CodeTasks
from ors_server_tasks.code.catalogue import SPLITS, load_problem
from tests.fixtures.bundled_plays import Play, play_all, shared_servers
from tests.fixtures.code_cheats import CHEATS

PLAY_LIMIT = 400.0
"""Seconds for everything that one test plays; a quiet machine needs a tenth."""
QUICK, SLOW = ("ordinal", "fix_versions"), ("word_counts", "class_scoreboard")
"""A problem of each kind. The slow ones are cheated in a stress run only: tests/unit/grading plays forgeries
against each way to judge."""

__all__ = ["shared_servers"]
pytestmark = [pytest.mark.timeout(PLAY_LIMIT + 30), pytest.mark.usefixtures("shared_servers")]


def place_of(name: str) -> tuple[str, int]:
    split = next(split for split, names in SPLITS.items() if name in names)
    return split, SPLITS[split].index(name)


NAMES = [name for names in SPLITS.values() for name in names]


def known_plays(actions: str, names: Sequence[str]) -> dict[str, Play]:
    places = {name: place_of(name) for name in names}
    give = getattr(CodeTasks, actions)
    return {name: (*place, give(CodeTasks.get_task(*place))) for name, place in places.items()}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(NAMES[1::3], id="every third"),
        pytest.param(NAMES, id="all", marks=pytest.mark.stress),
    ],
)
def test_a_task_pays_its_most_for_the_solution(names):
    assert len(NAMES) == sum(map(len, SPLITS.values()))
    outcomes = play_all("code", known_plays("gold_actions", names), PLAY_LIMIT)
    assert len(outcomes) == len(names)
    short = {
        name: outcome for name, outcome in outcomes.items() if outcome.reward != 1.0 or not outcome.finished
    }
    assert short == {}
    assert all(outcome.metadata["code"]["failed"] == [] for outcome in outcomes.values())


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(NAMES[::3], id="every third"),
        pytest.param(NAMES, id="all", marks=pytest.mark.stress),
    ],
)
def test_a_task_pays_its_least_for_what_stands_there_at_the_start(names):
    outcomes = play_all("code", known_plays("blank_actions", names), PLAY_LIMIT)
    paid = {
        name: outcome for name, outcome in outcomes.items() if outcome.reward != 0.0 or not outcome.finished
    }
    assert paid == {}
    for outcome in outcomes.values():
        code = outcome.metadata["code"]
        assert len(code["failed"]) == code["total"] - code["passed"] > 0


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.stress) for name in SLOW)])
def test_no_cheat_earns_anything(name):
    problem = load_problem(name)
    plays: dict[str, Play] = {
        key: (*place_of(name), [*cheat(problem), ("submit", {})]) for key, cheat in CHEATS.items()
    }
    plays["the solution"] = (*place_of(name), CodeTasks.gold_actions(problem.describe()))
    outcomes = play_all("code", plays, PLAY_LIMIT)
    assert outcomes.pop("the solution").reward == 1.0  # so that a 0.0 means something
    assert {key: outcome for key, outcome in outcomes.items() if outcome.reward != 0.0} == {}
    assert all(outcome.finished for outcome in outcomes.values())


def test_the_report_tells_how_much_passed_and_no_expected_value():
    half = "def ordinal(number):\n    return f'{number}th'\n"
    actions = [("create", {"path": "solution.py", "content": half}), ("submit", {})]
    outcome = play_all("code", {"half": (*place_of("ordinal"), actions)}, PLAY_LIMIT)["half"]
    assert (outcome.reward, outcome.finished) == (0.0, True)
    code, failed_cases = outcome.metadata["code"], outcome.metadata["failed_cases"]
    assert 0 < code["passed"] < code["total"] == 31
    assert set(code) == {"passed", "total", "failed"}
    assert "ordinal 2" in code["failed"]
    assert "returned another value" in failed_cases["ordinal 2"]
    assert "1st" not in f"{outcome.texts} {code} {failed_cases}"


def test_the_agent_finds_the_starting_file_and_can_work_on_it_with_every_tool():
    problem = load_problem("fix_versions")
    mend = f"""
import os
os.replace("mended.py", "{problem.file}")
import versions
versions.compare("1.9", "1.10")
"""
    actions = [
        ("view", {"path": problem.file}),
        ("bash", {"command": f"grep -c def {problem.file}"}),
        ("create", {"path": "mended.py", "content": problem.solution}),
        ("python", {"code": mend}),
        ("submit", {"answer": "done"}),
    ]
    outcome = play_all("code", {"work": (*place_of(problem.name), actions)}, PLAY_LIMIT)["work"]
    assert "def newest" in outcome.texts[0]
    assert outcome.texts[1].strip() == "3"
    assert "-1" in outcome.texts[3]
    assert outcome.reward == 1.0
