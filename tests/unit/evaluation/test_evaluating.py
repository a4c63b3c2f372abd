"""Evaluations from Python: what the command line does, in one call."""

import pytest

from ors_server.evaluation.evaluating import evaluate
from ors_server.evaluation.folder import read_attempts
from ors_server.evaluation.local_target import open_local_target
from ors_server.evaluation.planning import RunOptions
from ors_server.evaluation.runner import RunControls, RunError
from tests.fixtures.evaluated_environments import Guessing
from tests.fixtures.evaluation_agents import guess, player
from tests.fixtures.evaluation_plays import ScriptedAgent

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def target():
    async with open_local_target(Guessing) as opened:
        yield opened


@pytest.mark.parametrize(
    ("agent", "mean"),
    [("oracle", 1.0), (guess, 1.0), (player, 0.25), (ScriptedAgent(), 0.0)],
    ids=["by name", "a function", "an object", "an agent"],
)
async def test_whoever_can_play_does(target, tmp_path, agent, mean):
    run = await evaluate(
        target, agent, tmp_path, RunOptions(tasks="0:2", attempts=2), RunControls(concurrency=2)
    )
    attempts = list(read_attempts(tmp_path))
    assert (run.planned, len(attempts), run.stop_reason) == (4, 4, None)
    assert {attempt.episode_return for attempt in attempts} == {mean}


async def test_an_agent_that_was_given_stays_open(target, tmp_path):
    agent = ScriptedAgent()
    await evaluate(target, agent, tmp_path)
    assert not agent.closed


async def test_the_same_call_goes_on_and_another_one_is_refused(target, tmp_path):
    first = await evaluate(target, guess, tmp_path, RunOptions(agent_options={"offset": 1}))
    assert await evaluate(target, guess, tmp_path, RunOptions(agent_options={"offset": 1})) == first
    with pytest.raises(RunError, match="agent options"):
        await evaluate(target, guess, tmp_path, RunOptions(agent_options={"offset": 2}))
    with pytest.raises(RunError, match="expected its agent"):
        await evaluate(target, "oracle", tmp_path)
