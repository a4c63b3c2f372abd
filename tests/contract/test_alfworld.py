"""The bundled ALFWorld as a server plays it, in real worker processes: over both doors, killed and hung."""

import json
import os
import signal
import subprocess
from typing import Any

import pytest

from ors_server import Context, ResourcePool, ToolOutput, alfworld_episode_reward, tool
from ors_server.client import Client, McpClient
from ors_server.model.errors import OrsServerError
from ors_server.resources import ALFWorldSpec
from ors_server.rewards.define import reward
from ors_server.rewards.scoring import evaluate
from ors_server.testing.local_client import CallRefusedError, open_environment
from ors_server_tasks.alfworld import AlfworldTasks, environment, kitchens
from ors_server_tasks.alfworld.catalogue import list_folder
from tests.fixtures.recorded_rewards import recorded_cases
from tests.fixtures.seed_blocks import run
from tests.fixtures.worker_processes import gone

LIMIT = 400.0
"""Seconds that one test may take; a quiet machine needs a tenth."""
HANGS = 20.0
"""Seconds after which a call counts as hung where that is tested."""

pytestmark = [pytest.mark.external, pytest.mark.timeout(LIMIT + 30)]


class WatchedAlfworld(AlfworldTasks):
    """The same, with a tool of AgentFly's kind and the episode's worker in sight."""

    worker: Any = None

    async def setup(self):
        await super().setup()
        type(self).worker = self._worker

    @tool
    async def ask(self) -> ToolOutput:
        """Asks as a tool and a reward that were written for AgentFly do."""
        env = await self.context.acquire_resource(spec=ALFWorldSpec, scope="global", backend="local")
        observation, reward, done, info = await env.step("look")
        result = await self.grade(alfworld_episode_reward)
        return ToolOutput.ongoing(f"{observation} {reward} {done} {sorted(info)} {result.reward}")


def gold(split, index):
    return AlfworldTasks.gold_actions(AlfworldTasks.get_task(split, index))


@pytest.fixture(scope="module")
async def pool():
    """What the sessions of all tests share: starting a worker takes a second of a processor."""
    async with ResourcePool() as shared:
        yield shared


@pytest.fixture(scope="module")
def server(serve_live):
    """A server of the environment; its workers are shared by the tests of the doors."""
    return serve_live("alfworld")


@pytest.mark.parametrize("door", [Client, McpClient])
def test_the_gold_path_earns_the_maximum_over_both_doors(server, door):
    url = server.url if door is Client else f"{server.url}/mcp"
    with door(url) as client, client.episode("alfworld", split="valid_unseen", index=2) as episode:
        assert "Your task is to: " in episode.prompt()
        assert {one.name for one in episode.tools().tools} >= {
            "alfworld_step",
            "alfworld_reset",
            "alfworld_get_admissible_commands",
            "alfworld_get_task_objective",
        }
        objective = episode.call("alfworld_get_task_objective", {}).text
        assert objective.startswith("Task: ")
        assert objective.endswith("\nTask Type: pick_clean_then_place_in_recep")
        commands = episode.call("alfworld_get_admissible_commands", {}).text.splitlines()
        assert {"look", "inventory", "help"} < set(commands)
        results = [episode.call(name, arguments) for name, arguments in gold("valid_unseen", 2)]
        assert [result.reward for result in results] == [0.0] * (len(results) - 1) + [1.0]
        assert [result.finished for result in results] == [False] * (len(results) - 1) + [True]
        assert episode.check().episode_return == 1.0


async def test_a_session_has_its_game_and_starts_it_again(pool):
    async with open_environment(WatchedAlfworld, resources=pool) as client:
        session = await client.create(split="train", index=0)
        first, *middle, last = gold("train", 0)
        assert "AlfworldGame" not in await session.prompt()
        for name, arguments in (first, *middle):
            assert not (await session.submit(name, arguments)).finished
        again = await session.call("alfworld_reset")
        assert again.blocks[0].text in await session.prompt()
        assert not (await session.submit(*last)).finished  # it has nothing in its hands
        assert (
            (await session.call("ask"))
            .blocks[0]
            .text.endswith(
                "0.0 False ['admissible_commands', 'goal', 'lost', 'reward', 'task_type', 'won'] 0.0"
            )
        )
        with pytest.raises(CallRefusedError):
            await session.call("alfworld_step", action=3)
        refused = await session.call("alfworld_step", action="go " * 99)
        assert "at most 200 are allowed" in refused.blocks[0].text
        (copy,) = await session.fork()
        for name, arguments in (first, *middle, last):
            result = await copy.submit(name, arguments)
        assert (result.reward, result.finished) == (1.0, True)
        assert (await session.summary()).episode_return == 0.0
        await copy.aclose()
        await session.aclose()


@pytest.mark.parametrize(
    "by", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.stress)], ids=["killed", "stuck"]
)
async def test_a_worker_that_dies_or_hangs_is_replaced_and_pays_nothing(by, monkeypatch, pool):
    if by is signal.SIGSTOP:
        monkeypatch.setattr(environment, "CALL_LIMIT", HANGS)
    async with open_environment(WatchedAlfworld, resources=pool) as client:
        session = await client.create(split="train", index=1)
        await session.call("alfworld_step", action="look")
        worker = WatchedAlfworld.worker
        process = worker._child.pid
        os.kill(process, by)
        with pytest.raises(OrsServerError, match=r"it was running step|did not answer step within"):
            await session.call("alfworld_step", action="look")
        assert await gone(worker, process)
        assert (await session.summary()).episode_return == 0.0
        await session.aclose()
        session = await client.create(split="train", index=1)
        for name, arguments in gold("train", 1):
            result = await session.submit(name, arguments)
        assert result.reward == 1.0
        assert WatchedAlfworld.worker._child.pid != process
        await session.aclose()


class AskedContext(Context):
    """A context that keeps how it was asked for an environment, and what the environment was asked."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.asked, self.steps = [], []

    async def acquire_resource(self, *args, **asked):
        assert not args
        self.asked.append(asked)
        context, env = self, await super().acquire_resource(**asked)

        class Asked:
            async def step(self, *arguments):
                context.steps.append(list(arguments))
                return await env.step(*arguments)

        return Asked()


async def test_the_reward_of_the_real_game_is_the_recorded_one():
    cases = [case for case in recorded_cases("agentfly_alfworld_episode_reward") if is_real(case)]
    assert len(cases) == 3
    async with ResourcePool(bindings={ALFWorldSpec: environment._worker_spec()}) as pool:
        context = AskedContext("rollout", pool=pool)
        env = await Context.acquire_resource(context, spec=ALFWorldSpec, scope="global", backend="local")
        await env.reset(dict(environment._find_game(AlfworldTasks.get_task("train", 0)).played))
        actions = [call["action"] for _, call in gold("train", 0)]
        for done in (False, True):
            for case in (one for one in cases if one["input"]["env_step_returns"][2] is done):
                result = await evaluate(alfworld_episode_reward, {"context": context})
                assert {"reward": result.reward, **result.extras} == case["output"]["value"]
                assert context.steps == case["env_calls"]
                asked = [{**one, "spec": "ALFWorldSpec"} for one in context.asked]
                assert asked == case["acquire"]
                assert [one.pop("spec") for one in context.asked] == [ALFWorldSpec]
                context.asked.clear()
                context.steps.clear()
            await env.play(actions)
        await context.aclose()


def is_real(case):
    """Whether ALFWorld itself answers a step so: with a number."""
    return case["input"]["env_step_returns"][1] is not None


FOR_ALFWORLD = {
    "envs.webshop_text_env": "resources",
    "WebShopSpec": "ALFWorldSpec",
    '"get_reward", task_id': '""',
    'result["reward"]': "result[1]",
    'result["observation"]': "result[0]",
}
"""What AgentFly's example of a stateful reward, which is for its shop, has in place of its shop here."""


async def test_a_reward_written_as_agentfly_s_page_shows_meets_the_game_that_the_tools_play(pool):
    written = run("agentfly", "stateful", FOR_ALFWORLD, reward=reward)["webshop_reward"]

    class PaidAsWritten(AlfworldTasks):
        reward = written

        @tool
        async def ask(self) -> ToolOutput:
            """Grades the game as it stands."""
            result = await self.grade(written, final_response="")
            return ToolOutput.ongoing(f"{result.reward} {result.extras['output']}")

    async with open_environment(PaidAsWritten, resources=pool) as client:
        session = await client.create(split="train", index=0)
        *actions, last = gold("train", 0)
        for action in actions:
            assert not (await session.submit(*action)).finished
        assert (await session.call("ask")).blocks[0].text == "0.0 Nothing happens."
        result = await session.submit(*last)
        assert (result.reward, result.finished) == (1.0, True)
        await session.aclose()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A data folder in ALFWorld's layout, with a game in each split."""
    folder = tmp_path_factory.mktemp("data")
    words = [
        os.environ["ORS_ALFWORLD_PYTHON"],
        kitchens.__file__,
        folder,
        "--seed",
        "data",
        "--games",
        *"111",
    ]
    subprocess.run(words, check=True, env={**os.environ, "PYTHONHASHSEED": "0"}, timeout=LIMIT)
    return folder


@pytest.fixture
def data(written, monkeypatch):
    """The same, which ALFWORLD_DATA names."""
    monkeypatch.setenv("ALFWORLD_DATA", str(written))
    list_folder.cache_clear()
    yield written
    list_folder.cache_clear()


def test_the_generator_writes_the_layout_of_the_real_data(written):
    games = sorted(written.glob("json_2.1.1/*/*/trial_T*"))
    assert [game.parent.parent.name for game in games] == ["train", "valid_seen", "valid_unseen"]
    for game in games:
        assert {file.name for file in game.iterdir()} == {
            "traj_data.json",
            "initial_state.pddl",
            "game.tw-pddl",
        }
        played, known = (json.loads((game / name).read_text()) for name in ("game.tw-pddl", "traj_data.json"))
        assert set(played) == {"pddl_domain", "grammar", "pddl_problem", "solvable", "walkthrough"}
        assert played["pddl_problem"] == (game / "initial_state.pddl").read_text()
        assert known["task_id"] == game.name
        assert game.parent.name.startswith(f"{known['task_type']}-")
    assert {file.name for file in (written / "logic").iterdir()} == {"alfred.pddl", "alfred.twl2"}


async def test_a_game_of_a_data_folder_is_won_and_is_refused_once_its_files_have_changed(data, pool):
    async with open_environment(AlfworldTasks, resources=pool) as client:
        version = AlfworldTasks.version
        for split in ("train", "valid_seen", "valid_unseen"):
            session = await client.create(split=split, index=0)
            for name, arguments in gold(split, 0):
                result = await session.submit(name, arguments)
            assert (result.reward, result.finished) == (1.0, True)
            await session.aclose()
            (file,) = data.glob(f"json_2.1.1/{split}/*/*/game.tw-pddl")
            text = file.read_text()
            file.write_text(f"{text} ")
            session = await client.create(split=split, index=0)
            with pytest.raises(OrsServerError, match="have changed since the server listed them; start"):
                await session.prompt()
            with pytest.raises(OrsServerError):
                await session.call("alfworld_step", action="look")
            assert (await session.summary()).episode_return == 0.0
            await session.aclose()
    list_folder.cache_clear()
    AlfworldTasks.list_splits()
    assert AlfworldTasks.version != version
