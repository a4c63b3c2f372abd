"""The bundled ScienceWorld as a server plays it, in real JVMs: over both doors, killed and stopped."""

import os
import signal
from typing import Any

import pytest

from ors_server import ScienceWorldSpec, ToolOutput, scienceworld_reward, tool
from ors_server.client import Client, McpClient
from ors_server.testing.local_client import CallRefusedError, open_environment
from ors_server_tasks.scienceworld import ScienceWorld
from ors_server_tasks.scienceworld.catalogue import VARIATIONS, gold_paths, list_variations
from ors_server_tasks.scienceworld.game import ScienceWorldGame

LIMIT = 400.0
"""Seconds that one test may take; a quiet machine needs a tenth."""
TOOL = "scienceworld_explorer"

pytestmark = [pytest.mark.external, pytest.mark.timeout(LIMIT)]


class WatchedScienceWorld(ScienceWorld):
    """The same, with a tool of AgentFly's kind and the episode's JVM in sight."""

    pids: Any = None

    async def game(self):
        return await self.context.acquire_resource(spec=ScienceWorldSpec, scope="global", backend="local")

    async def setup(self):
        await super().setup()
        type(self).pids = [(await self.game()).pid]

    @tool
    async def ask(self) -> ToolOutput:
        """Asks as a tool and a reward that were written for AgentFly do."""
        env = await self.game()
        type(self).pids.append(env.pid)
        asked = await env.step("get_reward")
        result = await self.grade(scienceworld_reward)
        return ToolOutput.ongoing(f"{asked['observation']} {asked['reward']} {result.reward}")


def index_of(task):
    return list_variations("train").index((task, 0))


def gold(index):
    return ScienceWorld.gold_actions(ScienceWorld.get_task("train", index))


@pytest.mark.parametrize("door", [Client, McpClient])
def test_the_gold_path_earns_the_maximum_over_both_doors(serve_live, door):
    server, index = serve_live(ScienceWorld), index_of("find-non-living-thing")
    url = server.url if door is Client else f"{server.url}/mcp"
    with door(url) as client, client.episode("scienceworld", split="train", index=index) as episode:
        assert "find a(n) non-living thing" in episode.prompt()
        assert "focus on OBJ" in episode.prompt()
        results = [episode.call(name, arguments) for name, arguments in gold(index)]
        assert [result.finished for result in results] == [False] * (len(results) - 1) + [True]
        assert episode.check().episode_return == pytest.approx(1.0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_jvm_that_is_killed_or_stopped_under_play_is_replaced_and_the_episode_goes_on(number):
    class Hurried(WatchedScienceWorld):
        name = "hurried"
        action_timeout = 60.0 if number == signal.SIGKILL else 15.0

    async with open_environment(Hurried) as client:
        session = await client.create(split="train", index=index_of("lifespan-longest-lived"))
        first, second, *rest = gold(index_of("lifespan-longest-lived"))
        await session.submit(*first)
        await session.submit(*second)
        (pid,) = Hurried.pids
        os.kill(pid, number)
        outputs = [await session.submit(*action) for action in rest[:-1]]
        assert not any(output.finished for output in outputs)
        asked = await session.submit("ask", {})
        assert asked.blocks[0].text.startswith("Task not completed 0.")
        assert Hurried.pids[1] != pid
        assert (await session.submit(*rest[-1])).finished
        assert (await session.summary()).episode_return == pytest.approx(1.0)
        with pytest.raises(CallRefusedError, match="finished"):
            await session.submit(*first)


async def test_agentfly_s_reward_meets_the_game_that_was_played_and_bad_actions_are_refused():
    class Solved(WatchedScienceWorld):
        name = "solved"
        policy = ScienceWorld.policy.model_copy(update={"reward_range": (0.0, 10.0)})
        reward = scienceworld_reward

    index = index_of("find-non-living-thing")
    async with open_environment(Solved) as client:
        session = await client.create(split="train", index=index, toolset="valid_actions")
        refused = await session.submit(TOOL, {"action": "look\naround"})
        assert "one line of 1 to 200 printable" in refused.blocks[0].text
        listed = (await session.submit("scienceworld_valid_actions", {})).blocks[0].text.splitlines()
        assert "look around" in listed
        *actions, last = [await session.submit(*action) for action in gold(index)]
        assert {action.reward for action in actions} == {None}
        assert (last.reward, last.finished) == (10.0, True)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"task_name": "boil", "variation_idx": 30}, "variations 0 to 29, not 30"),
        ({"task_name": "boil", "variation_idx": True}, "variations 0 to 29, not True"),
        ({"task_name": "boi1", "variation_idx": 0}, "no task 'boi1'; it has boil, "),
        ({}, "no task None"),
    ],
)
def test_a_variation_that_does_not_exist_is_refused(task, message):
    with pytest.raises(ValueError, match=message):
        ScienceWorld(task)


def test_the_splits_hold_each_variation_once_and_begin_with_every_task():
    sizes = {split: ScienceWorld.num_tasks(split) for split in ("train", "validation", "test")}
    assert sizes == {"train": 3592, "validation": 1796, "test": 1819}
    everything = [one for split in sizes for one in list_variations(split)]
    assert len(set(everything)) == 7207
    assert [task for task, _ in list_variations("test")[:30]] == list(VARIATIONS)
    assert set(gold_paths()) <= set(everything)
    assert {(task, number) for task in VARIATIONS for number in (0, 1)} <= set(gold_paths())
    with pytest.raises(IndexError):
        ScienceWorld.get_task("train", 3592)


@pytest.mark.stress
def test_every_recorded_path_reaches_the_full_score_in_one_game_after_the_other():
    game = ScienceWorldGame(call_timeout=LIMIT)
    try:
        reached = {}
        for variation, path in gold_paths().items():
            game.reset(*variation)
            turns = (game.act(action) for action in path)
            reached[variation] = next((turn.score for turn in turns if turn.is_over), None)
    finally:
        game.close()
    assert {variation: score for variation, score in reached.items() if score != 1.0} == {}
