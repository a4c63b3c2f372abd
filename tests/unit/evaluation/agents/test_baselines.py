"""Baselines play what is known, nothing, what was recorded, or by chance."""

from random import Random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ors_server import ToolOutput, tool
from ors_server.evaluation.agents.agent_choice import ReplayAgent
from ors_server.evaluation.agents.base import AgentSettingsError
from ors_server.evaluation.agents.baselines import NoopAgent, OracleAgent, RandomAgent, draw_arguments
from ors_server.evaluation.attempt_runner import AttemptRunner
from ors_server.evaluation.local_target import open_local_target
from ors_server.evaluation.runs import AttemptKey, AttemptStatus
from ors_server.model.clock import SystemClock
from ors_server.store.memory import MemoryStore
from tests.fixtures.evaluated_environments import Counting, Guessing, Talking
from tests.fixtures.evaluation_plays import ScriptedAgent, attempt_with, rules_of

TALK = AttemptKey("test", 0, 1)


async def test_the_oracle_earns_the_most_and_the_idle_agent_the_least():
    gold, _ = await attempt_with(Guessing, OracleAgent())
    idle, _ = await attempt_with(Guessing, NoopAgent())
    assert (gold.episode_return, gold.steps, gold.success) == (1.0, 2, True)
    assert (idle.episode_return, idle.steps, idle.success) == (0.0, 1, False)


async def test_the_oracle_errs_where_nobody_knows_the_gold():
    attempt, _ = await attempt_with(Talking, OracleAgent(), TALK)
    assert attempt.status is AttemptStatus.ERRORED
    assert "gold_actions(task_spec)" in (attempt.error or "")


async def test_the_idle_agent_says_nothing_to_a_terminal_tool():
    attempt, _ = await attempt_with(Talking, NoopAgent(), TALK)
    assert (attempt.episode_return, attempt.steps, attempt.finished) == (0.0, 1, True)


async def test_the_idle_agent_leaves_where_there_is_nothing_to_decline():
    class Plain(Guessing):
        name = "plain"
        blank_actions: Any = None

    attempt, _ = await attempt_with(Plain, NoopAgent())
    assert (attempt.status, attempt.stop_reason, attempt.steps) == (AttemptStatus.DONE, "agent", 0)
    assert attempt.episode_return == 0.0


async def test_known_actions_may_be_computed_by_an_async_method():
    class Slow(Guessing):
        name = "slow"

        @classmethod
        async def gold_actions(cls, task_spec):
            return [("guess", {"number": task_spec["number"]})]

    attempt, _ = await attempt_with(Slow, OracleAgent())
    assert (attempt.episode_return, attempt.steps) == (1.0, 1)


async def test_chance_plays_the_same_again_and_otherwise_with_another_seed():
    store = MemoryStore()

    async def calls(seed):
        async with open_local_target(Counting, store=store) as target:
            player = AttemptRunner(target, RandomAgent(steps=5), rules_of(seed=seed), SystemClock())
            attempt, _ = await player.play(TALK)
        return [(step.tool, step.arguments) for step in await store.steps(attempt.episode_id)]

    assert await calls(1) == await calls(1)
    assert await calls(1) != await calls(2)
    assert len(await calls(1)) == 5


async def test_chance_talks_too():
    attempt, _ = await attempt_with(Talking, RandomAgent(steps=3), TALK)
    assert (attempt.status, attempt.steps) == (AttemptStatus.DONE, 1)
    assert attempt.finished


def test_chance_makes_at_least_one_call():
    assert RandomAgent(steps=4).describe() == {"kind": "random", "name": "random", "steps": 4}
    with pytest.raises(AgentSettingsError, match="at least 1"):
        RandomAgent(steps=0)


async def test_where_there_is_no_tool_chance_has_nothing_to_do():
    class Toolless(Talking):
        name = "toolless"
        answer: Any = None

        @tool(shared=False)
        def elsewhere(self) -> ToolOutput:
            """Be there for other tasks."""
            return ToolOutput.ongoing()

    attempt, _ = await attempt_with(Toolless, RandomAgent(), TALK)
    assert (attempt.steps, attempt.stop_reason) == (0, "agent")


async def test_a_replay_makes_the_calls_that_were_recorded():
    store = MemoryStore()

    async def play(session):
        await session.call("bonus")
        await session.call("guess", {"number": session.index})

    async with open_local_target(Guessing, store=store) as target:
        for number in (1, 2):
            await AttemptRunner(target, ScriptedAgent(play), rules_of(), SystemClock()).play(
                AttemptKey("test", 2, number)
            )
        idle = ScriptedAgent()
        await AttemptRunner(target, idle, rules_of(), SystemClock()).play(AttemptKey("test", 2, 3))
    agent = ReplayAgent(store, "memory", run_id="run-1")
    attempt, log = await attempt_with(Guessing, agent)
    other, _ = await attempt_with(Guessing, agent, AttemptKey("test", 2, 9))
    missing, _ = await attempt_with(Guessing, agent, AttemptKey("test", 3, 1))
    assert (attempt.episode_return, attempt.steps, attempt.finished) == (1.25, 2, True)
    assert "replays the episode" in log[0]
    assert other.episode_return == 1.25
    assert "nothing to replay" in (missing.error or "")
    assert agent.describe()["run"] == "run-1"
    await agent.aclose()


SCHEMAS: dict[str, dict[str, Any]] = {
    "texts": {
        "properties": {"a": {"type": "string", "minLength": 3, "maxLength": 5}, "b": {"type": "string"}}
    },
    "numbers": {
        "properties": {
            "a": {"type": "integer", "minimum": 5, "maximum": 6},
            "b": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "c": {"type": "integer", "multipleOf": 7},
            "d": {"type": "integer", "minimum": 1000},
            "e": {"type": "integer", "maximum": -1000},
        },
        "required": ["a", "b", "c", "d", "e"],
    },
    "choices": {
        "properties": {
            "a": {"enum": ["x", "y"]},
            "b": {"const": 4},
            "c": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
            "d": {"type": ["string", "integer"]},
            "e": {"allOf": [{"type": "integer"}, {"minimum": 50}]},
        },
        "required": ["a", "b", "c", "d", "e"],
    },
    "lists": {
        "properties": {"a": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4}},
        "required": ["a"],
    },
    "trees": {
        "properties": {"a": {"$ref": "#/$defs/Tree"}},
        "required": ["a", "b"],
        "$defs": {
            "Tree": {
                "type": "object",
                "properties": {
                    "left": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]},
                    "v": {"type": "integer"},
                },
                "required": ["v"],
            }
        },
    },
}


def chance(seed):
    return Random(seed)  # noqa: S311  (a game)


@pytest.mark.parametrize("name", SCHEMAS)
def test_drawn_arguments_are_what_the_schema_allows(name):
    schema = {"type": "object", **SCHEMAS[name]}
    drawn = [draw_arguments(schema, chance(seed)) for seed in range(200)]
    for arguments in drawn:
        Draft202012Validator(schema).validate(arguments)
    assert drawn == [draw_arguments(schema, chance(seed)) for seed in range(200)]
    assert len({str(arguments) for arguments in drawn}) > 1


def test_a_tool_without_parameters_gets_no_arguments():
    assert draw_arguments(None, chance(1)) == {}
