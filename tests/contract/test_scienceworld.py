"""The bundled ScienceWorld as a server plays it, in real JVMs: over both doors, killed and stopped."""

import json
import os
import signal
from typing import Any

import pytest

from ors_server import Context, ResourcePool, ScienceWorldSpec, ToolOutput, scienceworld_reward, tool
from ors_server.client import Client, McpClient
from ors_server.model.errors import Blame, OrsServerError, UnknownTaskError
from ors_server.rewards.define import reward
from ors_server.rewards.scoring import evaluate
from ors_server.testing.local_client import CallRefusedError, open_environment
from ors_server_tasks.scienceworld import ScienceWorld, environment
from ors_server_tasks.scienceworld.catalogue import VARIATIONS, gold_paths, list_variations
from ors_server_tasks.scienceworld.game import ScienceWorldGame
from tests.fixtures.recorded_rewards import recorded_cases
from tests.fixtures.seed_blocks import run

LIMIT = 400.0
"""Seconds that one test may take; a quiet machine needs a tenth."""
TOOL = "scienceworld_explorer"

pytestmark = [pytest.mark.external, pytest.mark.timeout(LIMIT)]


class WatchedScienceWorld(ScienceWorld):
    """The same, with a tool of AgentFly's kind and the episode's JVM in sight."""

    pids: Any = None
    playing: Any = None

    async def game(self):
        return await self.context.acquire_resource(spec=ScienceWorldSpec, scope="global", backend="local")

    async def setup(self):
        await super().setup()
        type(self).playing, type(self).pids = self, [(await self.game()).pid]

    @tool
    async def ask(self) -> ToolOutput:
        """Asks as a tool and a reward that were written for AgentFly do."""
        env = await self.game()
        type(self).pids.append(env.pid)
        asked = await env.step("get_reward")
        result = await self.grade(scienceworld_reward)
        return ToolOutput.ongoing(f"{asked['observation']} {asked['reward']} {result.reward}")


@pytest.fixture(scope="module")
async def pool():
    """What the sessions of all tests share: starting a JVM takes a second of a processor."""
    async with ResourcePool() as shared:
        yield shared


@pytest.fixture(scope="module")
def game():
    """A game that the tests share."""
    playing = ScienceWorldGame(call_timeout=LIMIT)
    yield playing
    playing.close()


@pytest.fixture(scope="module")
def server(serve_live):
    """A server whose JVM both doors play in."""
    return serve_live(ScienceWorld)


def index_of(task):
    return list_variations("train").index((task, 0))


def gold(index):
    return ScienceWorld.gold_actions(ScienceWorld.get_task("train", index))


@pytest.mark.parametrize("door", [Client, McpClient])
def test_the_gold_path_earns_the_maximum_over_both_doors(server, door):
    index = index_of("find-non-living-thing")
    url = server.url if door is Client else f"{server.url}/mcp"
    with door(url) as client, client.episode("scienceworld", split="train", index=index) as episode:
        assert "find a(n) non-living thing" in episode.prompt()
        assert "focus on OBJ" in episode.prompt()
        results = [episode.call(name, arguments) for name, arguments in gold(index)]
        assert [result.finished for result in results] == [False] * (len(results) - 1) + [True]
        assert episode.check().episode_return == pytest.approx(1.0)


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.stress)])
async def test_a_jvm_that_is_killed_or_stopped_under_play_is_replaced_and_the_episode_goes_on(number, pool):
    class Hurried(WatchedScienceWorld):
        name = "hurried"
        action_timeout = 60.0 if number == signal.SIGKILL else 30.0

    # The pool that the tests share has games with one limit only.
    async with (
        ResourcePool() as own,
        open_environment(Hurried, resources=pool if number == signal.SIGKILL else own) as client,
    ):
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


async def test_agentfly_s_reward_meets_the_game_that_was_played_and_bad_actions_are_refused(pool):
    class Solved(WatchedScienceWorld):
        name = "solved"
        policy = ScienceWorld.policy.model_copy(update={"reward_range": (0.0, 10.0)})
        reward = scienceworld_reward

    index = index_of("find-non-living-thing")
    async with open_environment(Solved, resources=pool) as client:
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
        ({"task_name": "boil", "variation_idx": 30}, "variations 0 to 29, got 30"),
        ({"task_name": "boil", "variation_idx": True}, "variations 0 to 29, got True"),
        ({"task_name": "boi1", "variation_idx": 0}, "unknown task 'boi1'; expected one of boil, "),
        ({}, "unknown task None"),
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


async def test_a_task_that_does_not_exist_is_refused_by_the_server_and_by_the_game(game, pool):
    with pytest.raises(ValueError, match="variations 0 to 29, got 30"):
        game.reset("boil", 30)
    async with open_environment(ScienceWorld, resources=pool) as client:
        with pytest.raises(OrsServerError, match="the task boil has variations 0 to 29, got 30"):
            await client.create(task_spec={"task_name": "boil", "variation_idx": 30})
        with pytest.raises(UnknownTaskError):
            await client.create(split="train", index=3592)


def test_the_catalogue_is_the_game_s(game):
    world = game._world

    def ask(task):
        world.load(task, 0, "easy", False)  # noqa: FBT003  (no gold path)
        splits = (world.getVariationsTrain(), world.getVariationsDev(), world.getVariationsTest())
        return world.getTaskMaxVariations(task), [json.loads(split.toString()) for split in splits]

    assert set(game._jvm.call(lambda: list(world.getTaskNames()))) == set(VARIATIONS)
    assert len(VARIATIONS) == 30
    for task, (first, second, most) in VARIATIONS.items():
        wanted = [list(range(first)), list(range(first, second)), list(range(second, most))]
        assert game._jvm.call(ask, task) == (most, wanted)


async def test_a_fork_goes_on_in_a_game_of_its_own_and_a_restored_session_is_not_paid_twice(pool):
    index = index_of("lifespan-longest-lived")
    async with open_environment(WatchedScienceWorld, resources=pool) as client:
        session = await client.create(split="train", index=index)
        *actions, last = gold(index)
        outputs = [await session.submit(*actions[0])]
        snapshots = client.engine.find(session.id).snapshots
        early = await snapshots.keep()
        pid = WatchedScienceWorld.pids[0]
        outputs += [await session.submit(*action) for action in actions[1:]]
        (copy,) = await session.fork()
        assert WatchedScienceWorld.pids[0] != pid
        assert await copy.prompt() == await session.prompt()
        summary = await copy.summary()
        assert 0 < summary.episode_return == sum(output.reward for output in outputs) < 1
        assert (await copy.submit(*last)).finished
        assert (await copy.summary()).episode_return == pytest.approx(1.0)
        assert (await session.summary()).episode_return == summary.episode_return
        await snapshots.restore(early.id)
        assert WatchedScienceWorld.pids[0] == pid
        again = [await session.submit(*action) for action in actions[1:]]
        assert [text(output) for output in again] == [text(output) for output in outputs[1:]]
        assert {output.reward for output in again} == {0.0}
        assert (await session.submit(*last)).finished
        assert (await session.summary()).episode_return == pytest.approx(1.0)


def text(output):
    return output.blocks[0].text


async def test_an_episode_that_another_game_answers_differently_cannot_go_on_and_is_not_paid(pool):
    index = index_of("lifespan-longest-lived")
    async with open_environment(WatchedScienceWorld, resources=pool) as client:
        session = await client.create(split="train", index=index)
        first, second, *_ = gold(index)
        await session.submit(*first)
        before = (await session.summary()).episode_return
        playing = WatchedScienceWorld.playing
        playing._history = [(action, "another answer") for action, _ in playing._history]
        os.kill(WatchedScienceWorld.pids[0], signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(OrsServerError, match="answers differently to action 1") as caught:
                await session.submit(*second)
            assert caught.value.blame is Blame.MACHINERY
        summary = await session.summary()
        assert summary.episode_return == before
        assert summary.phase != "finished"


def test_a_replaced_game_may_list_objects_in_another_order_but_not_what_it_numbers():
    rooms = ("You see: a lamp, a door, ", "You see: a door, a lamp, ")
    assert len({environment._digest(each) for each in rooms}) == 1
    assert environment._digest("You see: a lamp, a lamp, ") != environment._digest(rooms[0])
    asked = "Ambiguous request: Please enter the number for the action you intended (or blank to cancel):"
    numbered = (f"{asked}\n0:\topen door\n1:\topen box", f"{asked}\n0:\topen box\n1:\topen door")
    assert len({environment._digest(each) for each in numbered}) == 2


class LentGame:
    """The tests' game, which nobody closes, and what it was asked."""

    def __init__(self, game):
        self.game, self.asked = game, []

    def step(self, *arguments):
        self.asked.append(list(arguments))
        return self.game.step(*arguments)


def state_of(score):
    """The state of a game whose environment says a recorded score; AgentFly keeps the best one."""
    return "solved" if score >= 1 else "begun" if score > 0 else "new" if score == 0 else "failed"


async def test_the_reward_of_the_real_game_is_the_recorded_one(game):
    actions = [call["action"] for _, call in gold(index_of("lifespan-longest-lived"))]
    plays = {
        "new": [],
        "begun": actions[:-1],
        "solved": actions,
        "failed": [*actions[:-1], "focus on baby baby mouse"],
    }
    cases = recorded_cases("agentfly_scienceworld_reward")
    assert {state_of(case["input"]["env_score"]) for case in cases} == set(plays)
    for state, played in plays.items():
        game.reset("lifespan-longest-lived", 0)
        scores = [game.act(action).score for action in played] or [0.0]
        best = max([0.0, *scores])
        assert state_of(min(scores) if state == "failed" else best) == state
        for case in (one for one in cases if state_of(one["input"]["env_score"]) == state):
            lent, wanted = LentGame(game), dict(case["output"]["value"])
            if "score" in wanted and case["input"]["env_score"] not in (0, 1):
                wanted["score"] = best  # no real game has the recorded one
            pool = ResourcePool(bindings={ScienceWorldSpec: ScienceWorldSpec.local(lambda lent=lent: lent)})
            trajectory = [{"role": "user"}] * case["input"]["trajectory_len"]
            async with pool, Context("rollout", pool=pool, trajectory=trajectory) as context:
                result = await evaluate(scienceworld_reward, {"context": context})
            assert {"reward": result.reward, **result.extras} == wanted
            assert lent.asked == case["env_calls"]


FOR_SCIENCEWORLD = {
    "envs.webshop_text_env": "resources",
    "WebShopSpec": "ScienceWorldSpec",
    ", task_id: int": "",
    '"get_reward", task_id': '"get_reward"',
}
"""What AgentFly's example of a stateful reward, which is for its shop, has in place of its shop here."""


@pytest.mark.stress  # an ordinary run plays this reward in the shop and in ALFWorld
async def test_a_reward_written_as_agentfly_s_page_shows_meets_the_game_that_the_tools_play(pool):
    written = run("agentfly", "stateful", FOR_SCIENCEWORLD, reward=reward)["webshop_reward"]

    class PaidAsWritten(ScienceWorld):
        name = "paid_as_written"
        reward = written

        @tool
        async def ask(self) -> ToolOutput:
            """Grades the game as it stands."""
            result = await self.grade(written, final_response="")
            return ToolOutput.ongoing(f"{result.reward} {result.extras['output']}")

    index = index_of("lifespan-longest-lived")
    async with open_environment(PaidAsWritten, resources=pool) as client:
        session = await client.create(split="train", index=index)
        *actions, last = gold(index)
        outputs = [await session.submit(*action) for action in actions]
        best = max(output.metadata["score"] for output in outputs) / 100
        asked, said = text(await session.call("ask")).split(" ", 1)
        assert (pytest.approx(float(asked), abs=0.01), said) == (best, "Task not completed")
        result = await session.submit(*last)
        assert (result.reward, result.finished) == (1.0, True)
