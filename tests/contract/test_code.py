"""The bundled programming tasks as a server plays them: solutions earn all, idleness and cheats earn nothing.

Everything goes through the engine, with the real toolsets in a real sandbox.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from ors_server.testing.local_client import LocalClient, open_environment
from ors_server_tasks.code import CodeTasks
from ors_server_tasks.code.catalogue import SPLITS, load_problem
from tests.fixtures.code_cheats import CHEATS

AT_ONCE = 4
PLAY_LIMIT = 400.0
"""Seconds for everything that one test plays; a quiet machine needs a tenth."""
QUICK, SLOW = ("ordinal", "fix_versions"), ("word_counts", "class_scoreboard")
"""A problem of each kind. The slow ones are cheated in a stress run only: tests/unit/grading plays forgeries
against each way to judge."""

pytestmark = pytest.mark.timeout(PLAY_LIMIT + 30)
Actions = Iterable[tuple[str, dict[str, Any]]]


@dataclass
class Outcome:
    reward: float | None = None
    finished: bool = False
    code: dict[str, Any] = field(default_factory=dict)
    failed_cases: dict[str, str] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)


async def play(client: LocalClient, name: str, actions: Actions) -> Outcome:
    """Plays one episode; every call must be answered."""
    split = next(split for split, names in SPLITS.items() if name in names)
    session = await client.create(split=split, index=SPLITS[split].index(name))
    outcome = Outcome()
    try:
        for tool, arguments in actions:
            output = await session.submit(tool, arguments)
            outcome.texts.append("\n".join(getattr(block, "text", "") for block in output.blocks))
            outcome.reward, outcome.finished = output.reward, output.finished
            outcome.code = (output.metadata or {}).get("code", {})
            outcome.failed_cases = (output.metadata or {}).get("failed_cases", {})
    finally:
        await session.aclose()
    return outcome


def play_all(plays: dict[str, tuple[str, Actions]]) -> dict[str, Outcome]:
    """Plays episodes by their names, some at a time, on one server."""
    outcomes: dict[str, Outcome] = {}

    async def one(client: LocalClient, key: str, turns: anyio.CapacityLimiter) -> None:
        async with turns:
            outcomes[key] = await play(client, *plays[key])

    async def run() -> None:
        with anyio.fail_after(PLAY_LIMIT):
            async with open_environment("code") as client, anyio.create_task_group() as group:
                turns = anyio.CapacityLimiter(AT_ONCE)
                for key in plays:
                    group.start_soon(one, client, key, turns)

    anyio.run(run)
    return outcomes


def known_plays(actions: str) -> dict[str, tuple[str, Actions]]:
    tasks = [
        (name, CodeTasks.get_task(split, index))
        for split in SPLITS
        for index, name in enumerate(SPLITS[split])
    ]
    return {name: (name, getattr(CodeTasks, actions)(task)) for name, task in tasks}


def test_every_task_pays_its_most_for_the_solution():
    outcomes = play_all(known_plays("gold_actions"))
    assert len(outcomes) == sum(map(len, SPLITS.values()))
    short = {
        name: outcome for name, outcome in outcomes.items() if outcome.reward != 1.0 or not outcome.finished
    }
    assert short == {}
    assert all(outcome.code["failed"] == [] for outcome in outcomes.values())


def test_every_task_pays_its_least_for_what_stands_there_at_the_start():
    outcomes = play_all(known_plays("blank_actions"))
    paid = {
        name: outcome for name, outcome in outcomes.items() if outcome.reward != 0.0 or not outcome.finished
    }
    assert paid == {}
    for outcome in outcomes.values():
        assert len(outcome.code["failed"]) == outcome.code["total"] - outcome.code["passed"] > 0


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.stress) for name in SLOW)])
def test_no_cheat_earns_anything(name):
    problem = load_problem(name)
    plays: dict[str, tuple[str, Actions]] = {
        key: (name, [*cheat(problem), ("submit", {})]) for key, cheat in CHEATS.items()
    }
    plays["the solution"] = (name, CodeTasks.gold_actions(problem.describe()))
    outcomes = play_all(plays)
    assert outcomes.pop("the solution").reward == 1.0  # so that a 0.0 means something
    assert {key: outcome for key, outcome in outcomes.items() if outcome.reward != 0.0} == {}
    assert all(outcome.finished for outcome in outcomes.values())


def test_the_report_tells_how_much_passed_and_no_expected_value():
    half = "def ordinal(number):\n    return f'{number}th'\n"
    plays = {"half": ("ordinal", [("create", {"path": "solution.py", "content": half}), ("submit", {})])}
    outcome = play_all(plays)["half"]
    assert (outcome.reward, outcome.finished) == (0.0, True)
    assert 0 < outcome.code["passed"] < outcome.code["total"] == 31
    assert set(outcome.code) == {"passed", "total", "failed"}
    assert "ordinal 2" in outcome.code["failed"]
    assert "returned another value" in outcome.failed_cases["ordinal 2"]
    assert "1st" not in f"{outcome.texts} {outcome.code} {outcome.failed_cases}"


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
    outcome = play_all({"work": (problem.name, actions)})["work"]
    assert "def newest" in outcome.texts[0]
    assert outcome.texts[1].strip() == "3"
    assert "-1" in outcome.texts[3]
    assert outcome.reward == 1.0
