"""The bundled ALFWorld as a server plays it, in real worker processes: over both doors, killed and hung."""

import asyncio
import os
import signal
from typing import Any

import pytest

from ors_server import ToolOutput, alfworld_episode_reward, tool
from ors_server.client import Client, McpClient
from ors_server.errors import OrsServerError
from ors_server.resources import ALFWorldSpec
from ors_server.testing.local_client import CallRefusedError, open_environment
from ors_server_tasks.alfworld import AlfworldTasks, environment
from tests.fixtures.bundled_plays import play_all
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


async def test_a_session_has_its_game_and_starts_it_again():
    async with open_environment(WatchedAlfworld) as client:
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
async def test_a_worker_that_dies_or_hangs_is_replaced_and_pays_nothing(by, monkeypatch):
    if by is signal.SIGSTOP:
        monkeypatch.setattr(environment, "CALL_LIMIT", HANGS)
    async with open_environment(WatchedAlfworld) as client:
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


@pytest.mark.stress
@pytest.mark.timeout(1200)
async def test_sixteen_sessions_at_once_share_eight_workers():
    pids = set()
    async with open_environment(WatchedAlfworld) as client:

        async def play(place):
            split, index = place
            session = await client.create(split=split, index=index)
            for name, arguments in gold(split, index):
                pids.add(WatchedAlfworld.worker._child.pid)
                result = await session.submit(name, arguments)
            await session.aclose()
            return result.reward, result.finished

        places = [(split, index) for split in ("train", "valid_seen") for index in range(8)]
        ends = await asyncio.gather(*map(play, places))
        assert ends == [(1.0, True)] * 16
        assert 1 < len(pids) <= ALFWorldSpec.max_global_num


@pytest.mark.stress
@pytest.mark.timeout(1200)
def test_the_gold_path_of_every_task_earns_the_maximum():
    plays = {
        (split.name, index): (split.name, index, gold(split.name, index))
        for split in AlfworldTasks.list_splits()
        for index in range(AlfworldTasks.num_tasks(split.name))
    }
    outcomes = play_all("alfworld", plays, 1100.0)
    assert len(outcomes) == 48
    assert {
        key for key, outcome in outcomes.items() if (outcome.reward, outcome.finished) != (1.0, True)
    } == set()
