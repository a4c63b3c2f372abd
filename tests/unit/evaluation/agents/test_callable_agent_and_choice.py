"""Agents are found by what the command line says."""

import re
from pathlib import Path

import pytest

from ors_server.evaluation.agents.agent_choice import ReplayAgent, choose_agent
from ors_server.evaluation.agents.base import AgentSettingsError
from ors_server.evaluation.agents.baselines import NoopAgent, OracleAgent, RandomAgent
from ors_server.evaluation.agents.callable_agent import CallableAgent, find_callable
from ors_server.evaluation.agents.chat_agent import ChatAgent
from ors_server.evaluation.agents.command_agent import CommandAgent
from ors_server.evaluation.budgets import UsageBudget
from ors_server.evaluation.runs import AttemptStatus
from ors_server.store.memory import MemoryStore
from tests.fixtures.evaluated_environments import Guessing
from tests.fixtures.evaluation_plays import attempt_with

FILE = str(Path(__file__).parents[3] / "fixtures" / "evaluation_agents.py")


async def chosen(spec, **options):
    async def open_reader(where):
        assert where == "the/store.db"
        return MemoryStore()

    return await choose_agent(spec, options, open_reader)


async def test_an_async_function_plays_and_takes_options():
    right, _ = await attempt_with(Guessing, await chosen(f"{FILE}:guess"))
    wrong, _ = await attempt_with(Guessing, await chosen(f"{FILE}:guess", offset=1))
    assert (right.episode_return, wrong.episode_return) == (1.0, 0.0)


async def test_a_plain_function_plays_in_a_thread():
    attempt, log = await attempt_with(Guessing, await chosen(f"{FILE}:guess_in_a_thread", words="hello"))
    assert (attempt.episode_return, attempt.tokens_in, attempt.cost) == (1.0, 4, 0.5)
    assert log == ["hello"]


async def test_an_object_with_an_async_call_plays():
    attempt, _ = await attempt_with(Guessing, await chosen(f"{FILE}:player"))
    assert (attempt.episode_return, attempt.steps) == (0.25, 1)


async def test_a_plain_function_is_stopped_by_its_budget():
    def greedy(session):
        while True:
            session.call("bonus")

    attempt, _ = await attempt_with(Guessing, CallableAgent(greedy, "greedy"), budget=UsageBudget(steps=2))
    assert (attempt.status, attempt.steps) == (AttemptStatus.OVER_BUDGET, 2)


async def test_what_is_returned_is_a_report_or_nothing():
    attempt, _ = await attempt_with(Guessing, await chosen(f"{FILE}:talk"))
    assert attempt.status is AttemptStatus.ERRORED
    assert "returned str" in (attempt.error or "")


async def test_a_function_that_fails_errs():
    attempt, log = await attempt_with(Guessing, await chosen(f"{FILE}:fail"))
    assert re.fullmatch(r"ValueError: I cannot play \(evaluation_agents\.py:\d+\)", attempt.error)
    assert "evaluation_agents.py" in "".join(log)


@pytest.mark.parametrize(
    "place",
    [
        f"{FILE}:nothing",
        f"{FILE}:NOT_CALLABLE",
        "no_such_module:x",
        "/no/such/file.py:x",
        "json:dumps.nothing",
    ],
    ids=["no name", "not callable", "no module", "no file", "no attribute"],
)
def test_where_no_callable_is_there_is_no_agent(place):
    with pytest.raises(AgentSettingsError):
        find_callable(place)


def test_a_file_that_fails_to_load_is_tried_anew(tmp_path):
    path = tmp_path / "agent.py"
    path.write_text("raise ValueError('not yet')\n")
    with pytest.raises(AgentSettingsError, match="not yet"):
        find_callable(f"{path}:play")
    path.write_text("def play(session): ...\n")
    assert find_callable(f"{path}:play") is find_callable(f"{path}:play")


async def test_a_function_of_a_module_is_found():
    assert (await chosen("tests.fixtures.evaluation_agents:guess")).describe()["kind"] == "callable"


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ("oracle", OracleAgent),
        ("noop", NoopAgent),
        ("random", RandomAgent),
        ("openai:some/model", ChatAgent),
        ("command: run {url}", CommandAgent),
        ("replay:the/store.db", ReplayAgent),
    ],
)
async def test_an_agent_is_chosen_by_its_name(spec, kind):
    agent = await chosen(spec)
    assert type(agent) is kind
    assert agent.describe()["kind"] == spec.partition(":")[0]
    await agent.aclose()


async def test_agents_take_their_options():
    assert (await chosen("random", steps=3)).describe()["steps"] == 3
    assert (await chosen("command: run", name="mine", grace=1)).describe()["name"] == "mine"
    assert (await chosen("replay:the/store.db", run="r")).describe()["run"] == "r"
    assert (await chosen("openai:m", temperature=0)).describe()["options"]["temperature"] == 0


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("oracles", {}, "unknown agent 'oracles'"),
        ("oracle", {"steps": 1}, "takes no options, got 'steps'"),
        ("noop", {"steps": 1}, "takes no options"),
        ("random", {"speed": 1}, "takes steps, got 'speed'"),
        ("random", {"steps": "many"}, "wrong type"),
        ("random", {"steps": True}, "wrong type"),
        ("openai:m", {"heat": 1}, "heat"),
    ],
)
async def test_what_an_agent_does_not_know_is_refused(spec, options, message):
    with pytest.raises(AgentSettingsError, match=message):
        await chosen(spec, **options)
