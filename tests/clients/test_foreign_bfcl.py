"""BFCL's multi-turn tasks as a server plays them, with the real bfcl-eval, in its real worker processes."""

import os
import signal
from dataclasses import replace
from typing import Any

import pytest

from ors_server.adapters import bfcl
from ors_server.adapters.bfcl import PACKAGE, BfclConversation, from_bfcl
from ors_server.environments.sources import load_source
from ors_server.installation import package_hint
from ors_server.model.errors import EnvironmentDefinitionError, OrsServerError, UnknownEnvironmentError
from ors_server.testing import check_environment
from ors_server.testing.local_client import CallRefusedError, open_environment
from tests.clients.conftest import client_python
from tests.fixtures.worker_processes import gone

UNSOLVED = ["multi_turn_base_173"]
"""Its reference solution closes the ticket 'ticket_001', and BFCL documents the id as an integer."""

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", autouse=True)
def _interpreter():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PACKAGE.variable, str(client_python("bfcl")))
        yield


@pytest.fixture(scope="module")
def base(_interpreter):
    return load_source("bfcl").load("multi_turn_base")


async def returns(environment, *plays):
    """Plays lists of calls, each of a task, and gives the returns."""
    earned = []
    async with open_environment(environment) as client:
        for index, calls in plays:
            session = await client.create(split="test", index=index)
            for name, arguments in calls:
                await session.submit(name, arguments)
            earned.append((await session.summary()).episode_return)
            await session.aclose()
    return earned


def gold(environment, index):
    return environment.gold_actions(environment.list_tasks("test")[index])


def test_passes_the_checks(base):
    failed = [verdict for verdict in check_environment(base).verdicts if verdict.outcome == "fail"]
    assert failed == []


@pytest.mark.stress
async def test_the_reference_solutions_earn_the_maximum_but_for_one(base):
    tasks = base.list_tasks("test")
    assert len(tasks) == 200
    unsolved, earned = [], 0.0
    async with open_environment(base) as client:
        for index, task in enumerate(tasks):
            session = await client.create(split="test", index=index)
            try:
                for name, arguments in gold(base, index):
                    result = await session.submit(name, arguments)
                earned += result.reward or 0.0
            except CallRefusedError as error:
                unsolved.append((task["id"], "'ticket_001' is not of type 'integer'" in str(error)))
            await session.aclose()
    assert (unsolved, earned) == ([(name, True) for name in UNSOLVED], 199.0)


@pytest.mark.stress
async def test_replies_alone_earn_nothing_in_any_task(base):
    tasks = base.list_tasks("test")
    plays = [(index, base.blank_actions(task)) for index, task in enumerate(tasks)]
    assert set(await returns(base, *plays)) == {0.0}


def changed(calls, place, call):
    return [call if number == place else one for number, one in enumerate(calls)]


async def test_near_misses_earn_nothing(base):
    calls = gold(base, 0)
    assert calls[1] == ("mkdir", {"dir_name": "temp"})
    misses = [
        calls[1:],  # without cd
        changed(calls, 1, ("mkdir", {"dir_name": "tmp"})),
        [call for call in calls if call[0] != "sort"],
        [call for call in calls if call[0] != "diff"],
        changed(
            calls,
            len(calls) - 2,
            ("diff", {"file_name1": "previous_report.pdf", "file_name2": "final_report.pdf"}),
        ),
        [*calls[:-1], ("rm", {"file_name": "final_report.pdf"}), calls[-1]],
        [*[call for call in calls if call[0] != "reply"][:1], *[("reply", {"message": "Done."})] * 4],
    ]
    for miss in misses:
        needed = 4 - sum(name == "reply" for name, _ in miss)
        plays = (0, [*miss, *[("reply", {"message": "."})] * needed])
        assert await returns(base, plays) == [0.0], miss


async def test_other_ways_to_the_same_state_and_results_earn_the_maximum(base):
    calls = gold(base, 0)
    others = [
        [("pwd", {}), *calls],
        [call for one in calls for call in ((one, ("ls", {})) if one[0] != "reply" else (one,))],
        [*calls[:-1], ("echo", {"content": "only said"}), calls[-1]],
        [calls[0], ("mkdir", {"dir_name": "temp"}), ("mkdir", {"dir_name": "temp"}), *calls[2:]],
    ]
    assert await returns(base, *[(0, other) for other in others]) == [1.0] * len(others)


async def test_the_user_speaks_turn_by_turn_and_no_solution_is_seen(base):
    async with open_environment(base) as client:
        session = await client.create(split="test", index=0)
        prompt = await session.prompt()
        assert prompt.startswith("Move 'final_report.pdf'")
        assert "mkdir" not in prompt
        result = await session.call("reply", message="Done.")
        assert result.blocks[0].text.startswith("Perform a detailed search using grep")
        assert (result.reward, result.finished) == (None, False)
        await session.aclose()


async def test_an_agents_call_is_never_evaluated(base):
    tasks = base.list_tasks("test")
    place = next(i for i, task in enumerate(base.tasks) if "MathAPI" in task["classes"])
    assert tasks[place]["turns"]
    async with open_environment(base) as client:
        session = await client.create(split="test", index=place)
        for name, arguments in (
            ("__import__", {"name": "os"}),
            ("_load_scenario", {}),
            ("os.system", {"command": "true"}),
            ("power", {"base": 2, "exponent": 3, "other": 1}),
        ):
            with pytest.raises(CallRefusedError):
                await session.submit(name, arguments)
        huge = await session.submit("power", {"base": 10, "exponent": 10**9})
        assert huge.blocks[0].text == "Error during execution: Result too large"
        assert (await session.submit("power", {"base": 2, "exponent": 3})).blocks[0].text == '{"result": 8}'
        slow = await session.submit("logarithm", {"value": 7, "base": 3, "precision": 10**7})
        assert "more than 5 seconds" in slow.blocks[0].text
        await session.aclose()


class WatchedBfcl(BfclConversation):
    worker = None

    async def setup(self):
        await super().setup()
        type(self).worker = self._worker


async def test_a_worker_that_is_killed_is_the_machines_fault_and_leaves_no_orphan(base):
    watched: Any = type(
        "Watched",
        (WatchedBfcl,),
        {name: getattr(base, name) for name in ("name", "category", "tasks", "tools")},
    )
    async with open_environment(watched) as client:
        session = await client.create(split="test", index=0)
        await session.call("pwd")
        worker = watched.worker
        process = worker._child.pid
        os.kill(process, signal.SIGKILL)
        with pytest.raises(
            OrsServerError, match=r"the process of bfcl-eval .*SIGKILL.*it was running (call|pwd)"
        ) as raised:
            await session.call("pwd")
        assert raised.value.code == "unavailable"  # the machine, safe to try again
        assert await gone(worker, process)
        assert (await session.summary()).episode_return == 0.0
        await session.aclose()
        session = await client.create(split="test", index=0)
        for name, arguments in gold(watched, 0):
            result = await session.submit(name, arguments)
        assert result.reward == 1.0
        process = watched.worker._child.pid
        await session.aclose()
    assert await gone(watched.worker, process)


def test_an_unknown_category_is_named_with_the_nearest():
    with pytest.raises(UnknownEnvironmentError, match="the nearest are multi_turn_base"):
        load_source("bfcl").load("multi_turn_bas")


def test_a_task_of_another_category_is_refused(base):
    with pytest.raises(ValueError, match=r"expected the id of a task of bfcl/multi_turn_base.*got 'x'"):
        base({"id": "x"})


@pytest.mark.parametrize("category", ["multi_turn_long_context", "multi_turn_miss_param"])
async def test_the_other_categories_pay_their_reference_solutions(category):
    environment = from_bfcl(category)
    plays = [(index, gold(environment, index)) for index in (0, 60, 120, 199)]
    assert await returns(environment, *plays) == [1.0] * 4


def test_a_python_without_bfcl_is_named_with_the_command_that_mends_it(monkeypatch):
    monkeypatch.setenv(PACKAGE.variable, str(client_python("skyrl_gym")))
    with pytest.raises(EnvironmentDefinitionError) as raised:
        load_source("bfcl").load("multi_turn_base")
    assert str(raised.value) == (
        "bfcl: expected bfcl-eval==2026.3.23, and it is not installed; run "
        f"{package_hint('--no-deps', 'bfcl-eval==2026.3.23')}"
    )


def test_another_version_is_named():
    found = replace(bfcl.SOURCE, find_version=lambda _: "2025.1.1")
    with pytest.raises(
        EnvironmentDefinitionError, match=r"expected bfcl-eval==2026.3.23, got version 2025.1.1; run .*pip"
    ):
        found.check_installed()


def test_a_python_that_cannot_be_started_is_named(monkeypatch):
    monkeypatch.setenv(PACKAGE.variable, "/nowhere/python")
    with pytest.raises(
        EnvironmentDefinitionError, match=r"ORS_BFCL_PYTHON=/nowhere/python expected a Python"
    ):
        load_source("bfcl").load("multi_turn_base")
