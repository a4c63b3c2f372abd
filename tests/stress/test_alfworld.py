"""The bundled ALFWorld under many sessions, over ORS: every game is won, and lost workers cost nobody else.

`-s` prints how long it took, and the memory of a worker.
"""

import os
import re
import signal
import time
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from ors_server.client import AsyncClient, ClientOptions, Patience
from ors_server.model.errors import Blame, OrsServerError
from ors_server.resources import ALFWorldSpec
from ors_server_tasks.alfworld import AlfworldTasks
from tests.fixtures.bundled_plays import play_all, shared_servers
from tests.fixtures.worker_processes import exists, wait_until_gone

SESSIONS = 16
MAX_MEMORY = 200 << 20
"""Bytes of a worker that has played a few games."""
IMPATIENT = ClientOptions(patience=Patience(seconds=0.0))
"""Of a client that does not repeat a call which the machine has failed."""

__all__ = ["shared_servers"]
pytestmark = [
    pytest.mark.stress,
    pytest.mark.external,
    pytest.mark.timeout(1200),
    pytest.mark.usefixtures("shared_servers"),
]


class WatchedAlfworld(AlfworldTasks):
    """The same, with each episode's worker in sight."""

    pids: dict[str, int] = {}  # noqa: RUF012  (each test begins with an empty one)
    """The process of the newest session of each task."""

    async def setup(self):
        await super().setup()
        self.pids[self.task_spec["id"]] = self._worker._child.pid


@pytest.fixture(scope="module")
def server(serve_live):
    return serve_live(WatchedAlfworld)


def places(count):
    """The first tasks of every split in turn, and what wins them."""
    found = [(split, index) for index in range(count) for split in ("train", "valid_seen", "valid_unseen")]
    return [(*place, AlfworldTasks.get_task(*place)) for place in found[:count]]


async def win(client, place, pause=None):
    """Plays a walkthrough, and returns the return that client and server agree on, and the calls' results."""
    split, index, task = place
    *actions, last = AlfworldTasks.gold_actions(task)
    async with client.episode("alfworld", split=split, index=index) as episode:
        results = [await episode.call(*actions[0])]
        if pause is not None:
            await pause(task["id"])
        results += [await episode.call(*action) for action in [*actions[1:], last]]
        assert [result.reward for result in results] == [0.0] * len(actions) + [1.0]
        assert [result.finished for result in results] == [False] * len(actions) + [True]
        return (await episode.check()).episode_return


async def lose(client, place, pause):
    """Plays until the worker is lost, and returns the errors of the call that meets that and of the next."""
    split, index, task = place
    first, second, *_ = AlfworldTasks.gold_actions(task)
    errors = []
    async with client.episode("alfworld", split=split, index=index) as episode:
        assert (await episode.call(*first)).reward == 0.0
        await pause(task["id"])
        for _ in range(2):
            with pytest.raises(OrsServerError) as caught:
                await episode.call(*second)
            errors.append(caught.value)
        summary = await episode.check()
        assert (summary.episode_return, summary.finished_at) == (0.0, None)
    return errors


def resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


async def test_sixteen_sessions_at_once_win_on_eight_workers(server):
    WatchedAlfworld.pids.clear()
    memory = {}

    async def look(task_id):
        pid = WatchedAlfworld.pids[task_id]
        memory[pid] = resident(pid)

    returns = []
    started = time.monotonic()
    async with AsyncClient(server.url) as client, anyio.create_task_group() as group:

        async def play(place):
            returns.append(await win(client, place, look))

        for place in places(SESSIONS):
            group.start_soon(play, place)
    seconds = time.monotonic() - started
    assert returns == [1.0] * SESSIONS
    assert 1 < len(memory) <= ALFWorldSpec.max_global_num
    assert max(memory.values()) < MAX_MEMORY
    figures = " ".join(f"{size / 2**20:.0f}" for size in memory.values())
    print(f"{SESSIONS} sessions in {seconds:.0f} s; MiB of each worker: {figures}")  # noqa: T201  (the figures)


@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGKILL, "was ended by SIGKILL"), (signal.SIGSTOP, "did not answer .* was killed")],
    ids=["killed", "stopped"],
)
async def test_sessions_whose_workers_are_lost_fail_unpaid_and_the_others_win(server, number, words):
    WatchedAlfworld.pids.clear()
    hit, spared = places(12)[:2], places(12)[2:]  # more than there are workers
    lost, errors, returns = {}, [], []

    async def strike(task_id):
        lost[task_id] = WatchedAlfworld.pids[task_id]
        os.kill(lost[task_id], number)

    async def lose_one(place):
        async with AsyncClient(server.url, options=IMPATIENT) as impatient:
            errors.extend(await lose(impatient, place, strike))

    async def win_one(place):
        returns.append(await win(client, place))

    async with AsyncClient(server.url) as client:
        async with anyio.create_task_group() as group:
            for act, chosen in ((lose_one, hit), (win_one, spared)):
                for place in chosen:
                    group.start_soon(act, place)
        assert returns == [1.0] * len(spared)
        assert [error.blame for error in errors] == [Blame.MACHINERY] * 2 * len(hit)
        assert sum(re.search(words, str(error)) is not None for error in errors) == len(hit)
        for pid in lost.values():
            await anyio.to_thread.run_sync(wait_until_gone, pid)
            assert not exists(pid)
        assert [await win(client, place) for place in hit] == [1.0] * len(hit)
    assert not set(lost.values()) & {WatchedAlfworld.pids[task_id] for task_id in lost}


def test_the_walkthrough_of_every_game_wins():
    plays = {
        (split.name, index): (split.name, index, AlfworldTasks.gold_actions(task))
        for split in AlfworldTasks.list_splits()
        for index, task in enumerate(AlfworldTasks.list_tasks(split.name))
    }
    outcomes = play_all("alfworld", plays, 1100.0)
    assert len(outcomes) == 48
    assert {
        key for key, outcome in outcomes.items() if (outcome.reward, outcome.finished) != (1.0, True)
    } == set()
