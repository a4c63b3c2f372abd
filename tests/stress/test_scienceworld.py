"""The bundled ScienceWorld under many sessions, over ORS: every recorded path reaches the full score.

Lost JVMs cost nobody else, and pay nothing. `-s` prints how long it took, and the memory of the JVMs.
"""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from ors_server import ScienceWorldSpec
from ors_server.client import AsyncClient
from ors_server.model.errors import Blame, OrsServerError
from ors_server_tasks.scienceworld import ScienceWorld
from ors_server_tasks.scienceworld.catalogue import SPLITS, gold_paths, list_variations
from ors_server_tasks.scienceworld.game import ScienceWorldGame
from tests.fixtures.worker_processes import exists, wait_until_gone

LIMIT = 1800.0
"""Seconds that a test may take on a machine that does other work, too."""
SESSIONS = 40
JVMS = 8
MAX_MEMORY = 320 << 20
"""Bytes of a JVM that has played a few tasks."""
PARTS = 4
"""Parts of the recorded paths, each of which two JVMs play."""
SOLVED = (pytest.approx(1.0), True, None)
"""The return of an episode, whether it is finished, and the error that it met."""

pytestmark = [pytest.mark.stress, pytest.mark.external, pytest.mark.timeout(LIMIT)]


class WatchedScienceWorld(ScienceWorld):
    """The same, with the JVM of each task's newest session in sight."""

    max_games = JVMS
    pids: dict[str, int] = {}  # noqa: RUF012  (the tests' own)

    async def setup(self):
        await super().setup()
        game = await self.context.acquire_resource(spec=ScienceWorldSpec, scope="global")
        self.pids[self.task_spec["id"]] = game.pid


@pytest.fixture(scope="module")
def server(serve_live):
    return serve_live(WatchedScienceWorld)


def shortest(count):
    """The places and tasks of as many recorded paths, the shortest first."""
    places = {pair: (split, index) for split in SPLITS for index, pair in enumerate(list_variations(split))}
    chosen = sorted(gold_paths(), key=lambda pair: len(gold_paths()[pair]))[:count]
    return [(*places[pair], ScienceWorld.get_task(*places[pair])) for pair in chosen]


async def play(client, place, strike=None):
    """Plays the recorded path; returns what client and server agree on, and the error that it met."""
    split, index, task = place
    actions = list(ScienceWorld.gold_actions(task))
    async with client.episode(split=split, index=index) as episode:
        met = None
        try:
            for number, action in enumerate(actions):
                if number == 1 and strike is not None:
                    strike(task["id"])
                if (await episode.call(*action)).finished:
                    break
        except OrsServerError as error:
            met = error
        summary = await episode.check()
        return summary.episode_return, summary.phase == "finished", met


def resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


async def test_forty_sessions_at_once_reach_the_full_score_in_eight_jvms(server):
    places, ends = shortest(SESSIONS), []
    memory: dict[int, int] = {}
    started = time.monotonic()
    async with AsyncClient(server.url) as client, anyio.create_task_group() as group:

        async def play_one(place):
            ends.append(await play(client, place))
            pid = WatchedScienceWorld.pids[place[2]["id"]]
            memory[pid] = max(resident(pid), memory.get(pid, 0))

        for place in places:
            group.start_soon(play_one, place)
    seconds, steps = time.monotonic() - started, sum(len(gold_paths()[key_of(place)]) for place in places)
    figures = " ".join(f"{size / 2**20:.0f}" for size in memory.values())
    print(  # noqa: T201  (the figures)
        f"{SESSIONS} sessions, {steps} steps in {seconds:.0f} s; MiB of each JVM: {figures}"
    )
    assert ends == [SOLVED] * SESSIONS
    assert 1 < len(memory) <= JVMS
    assert max(memory.values()) < MAX_MEMORY


def key_of(place):
    return place[2]["task_name"], place[2]["variation_idx"]


def is_honest(episode_return, finished, met):
    """Whether an episode whose JVM was lost came to its end in another one, or to a machine's error."""
    if met is None:
        return finished and episode_return == pytest.approx(1.0)
    return met.blame is Blame.MACHINERY and not finished and episode_return < 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_jvms_that_are_lost_under_play_are_replaced_and_every_other_session_goes_on(server, number):
    hit, spared = shortest(12)[:3], shortest(12)[3:]
    lost, ends, others = {}, {}, []

    def strike(task_id):
        lost[task_id] = WatchedScienceWorld.pids[task_id]
        os.kill(lost[task_id], number)

    async with AsyncClient(server.url) as client:

        async def play_hit(place):
            ends[place[2]["id"]] = await play(client, place, strike)

        async def play_spared(place):
            others.append(await play(client, place))

        async with anyio.create_task_group() as group:
            for act, chosen in ((play_hit, hit), (play_spared, spared)):
                for place in chosen:
                    group.start_soon(act, place)
        assert others == [SOLVED] * len(spared)
        assert all(is_honest(*end) for end in ends.values())
        print({task: met or "went on" for task, (_, _, met) in ends.items()})  # noqa: T201  (the figures)
        for pid in lost.values():
            await anyio.to_thread.run_sync(wait_until_gone, pid)
            assert not exists(pid)
        for place in hit:
            assert await play(client, place) == SOLVED
    assert len(lost) == len(hit)
    assert not set(lost.values()) & {WatchedScienceWorld.pids[task] for task in lost}


@pytest.mark.parametrize("part", range(PARTS))
def test_every_recorded_path_reaches_the_full_score(part):
    paths = list(gold_paths().items())[part::PARTS]
    with ThreadPoolExecutor(2) as threads:
        reached = {
            pair: score for half in threads.map(play_paths, [paths[::2], paths[1::2]]) for pair, score in half
        }
    assert len(reached) == 120 / PARTS
    assert {pair: score for pair, score in reached.items() if score != 1.0} == {}


def play_paths(paths):
    """Plays paths one after the other in one JVM; returns the score at the end of each."""
    with closing(ScienceWorldGame(call_timeout=LIMIT)) as game:
        scores = []
        for variation, path in paths:
            game.reset(*variation)
            turns = (game.act(action) for action in path)
            scores.append((variation, next((turn.score for turn in turns if turn.is_over), None)))
        return scores
