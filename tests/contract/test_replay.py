"""Recorded episodes of every installed environment, played again: the same texts and the same rewards."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from ors_server.environments.loading import installed_environments, load_environments
from ors_server.recovery.recorded_episode import RecordedEpisode
from ors_server.replaying.replay import replay_episode
from ors_server.replaying.replay_result import EpisodeReplay, ReplayVerdict
from ors_server.replaying.stage import open_local_stage
from ors_server.sandboxes.choose import BackendChoice, BackendRequest
from ors_server.store.memory import MemoryStore
from ors_server.testing.environment_subject import spread
from ors_server.testing.local_client import CallRefusedError, LocalClient, open_environment
from tests.fixtures.ordinary_cases import leave_to_stress

LIMIT = 240.0
"""Seconds for everything that one test plays; a quiet machine needs a tenth."""
TASKS = {"math_word_problems": 3, "qa": 3, "support_desk": 3, "webshop": 3}
"""Tasks of each split that are played; one where every episode starts a sandbox."""

pytestmark = pytest.mark.timeout(LIMIT + 30)

UNORDERED = {"scienceworld"}
"""Games that list the objects of a room in an order that changes from play to play."""
WORK: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "alfworld": [
        ("alfworld_step", {"action": "look"}),
        ("alfworld_step", {"action": "go to nowhere"}),
        ("alfworld_get_admissible_commands", {}),
        ("alfworld_step", {"action": "x" * 201}),
        ("alfworld_reset", {}),
        ("alfworld_get_task_objective", {}),
        ("alfworld_step", {"action": "inventory"}),
    ],
    "code": [
        ("bash", {"command": "ls -la --time-style=+; pwd; echo $$ >/dev/null; false"}),
        ("python", {"code": "print(sorted(globals())[:3]); print(2 ** 64); 1 / 0"}),
        ("create", {"path": "notes.txt", "content": "one\ntwo\n"}),
        ("view", {"path": "notes.txt"}),
        ("view", {"path": "nowhere.txt"}),
        ("submit", {}),
    ],
    "math_word_problems": [
        ("calculator", {"expression": "2 ** 100 / 3"}),
        ("calculator", {"expression": "1 / 0"}),
        ("submit", {"answer": "many"}),
        ("submit", {}),
        ("submit", {"answer": "12345678"}),
    ],
    "qa": [
        ("search", {"query": "the river"}),
        ("read", {"title": "no such title"}),
        ("search", {"query": "city", "limit": 99}),
        ("fly", {}),
        ("answer", {"answer": "nobody knows"}),
    ],
    "shell": [
        ("bash", {"command": "ls -R | head -n 40; pwd; echo $HOME; uname -s"}),
        ("bash", {"command": "cat nowhere; (exit 3)"}),
        ("bash", {"command": "sleep 30", "time_limit": 0.2}),
        ("bash", {"command": "echo still here"}),
        ("submit", {}),
    ],
    "scienceworld": [
        ("scienceworld_explorer", {"action": "look around"}),
        ("scienceworld_explorer", {"action": "fly to the moon"}),
        ("scienceworld_explorer", {"action": "go to kitchen"}),
        ("scienceworld_explorer", {}),
        ("scienceworld_explorer", {"action": "inventory"}),
    ],
    "support_desk": [
        ("find_customer", {"query": "Ada"}),
        ("message_user", {"text": "What is your service PIN, and what is the order number?"}),
        ("message_user", {"text": ""}),
        ("verify_identity", {"customer_id": "C-0", "pin": "1"}),
        ("message_user", {"text": "Would a voucher be fine?"}),
        ("close_case", {"code": "maybe"}),
        ("close_case", {"code": "refused_return_window"}),
    ],
    "webshop": [
        ("webshop_browser", {"action": "search", "value": "<r>"}),
        ("webshop_browser_action", {"action": "click[next >]"}),
        ("webshop_browser", {"action": "click", "value": "no such thing"}),
        ("webshop_browser", {"action": "fly", "value": "home"}),
        ("webshop_browser_action", {"action": "search[black cable]"}),
    ],
}
"""What an agent may do that does not know the answer, mistakes included."""


def plays(name: str, cls: Any, task: dict[str, Any]) -> list[list[tuple[str, dict[str, Any]]]]:
    """What is played of one task: the oracle's calls, those of one that shows no work, and some work."""
    return [list(cls.gold_actions(task)), list(cls.blank_actions(task)), WORK.get(name, [])]


@asynccontextmanager
async def recorded(name: str, wanted: BackendRequest | None = None) -> AsyncGenerator[list[RecordedEpisode]]:
    """Episodes of an environment as a server records them."""
    store = MemoryStore()
    async with open_environment(name, store=store, sandbox=wanted) as client:
        definition = client.engine.environment(None)
        for split in definition.splits:
            for index in spread(await definition.tasks.num_tasks(split.name), TASKS.get(name, 1)):
                task = await definition.tasks.get_task(split.name, index)
                for actions in plays(name, definition.source, task):
                    await play(client, split.name, index, actions)
    yield [RecordedEpisode(record, tuple(steps)) async for record, steps in store.stream()]


async def play(client: LocalClient, split: str, index: int, actions: list[tuple[str, dict]]) -> None:
    session = await client.create(split=split, index=index)
    await session.prompt()
    for tool, arguments in actions:
        try:
            await session.submit(tool, arguments)
        except CallRefusedError:
            continue
    await session.aclose()


def differs_in_order_only(replay: dict[str, Any]) -> bool:
    """Whether the steps differ in texts only, which have the same characters in another order."""
    found = [difference for step in replay["steps"] for difference in step.get("differences", ())]
    return all(
        one["field"] == "blocks" and sorted(json.dumps(one["was"])) == sorted(json.dumps(one["now"]))
        for one in found
    )


# One of the two worlds in which another program plays, and one of the two with sandboxes, is enough for an
# ordinary run.
@pytest.mark.parametrize(
    "name",
    leave_to_stress(installed_environments(), lambda name: name not in ("scienceworld", "code")),
)
async def test_recorded_episodes_of_an_installed_environment_replay_identically(name):
    replays: list[EpisodeReplay] = []
    with anyio.fail_after(LIMIT):
        async with recorded(name) as episodes, open_local_stage() as stage:
            replays.extend([await replay_episode(episode, stage) for episode in episodes])
    tasks = len(load_environments([name])[0].splits) * TASKS.get(name, 1)
    assert len(replays) == 3 * tasks
    assert sum(episode.record.summary.episode_return == 1.0 for episode in episodes) >= tasks
    wrong = [replay.as_json() for replay in replays if replay.verdict is not ReplayVerdict.IDENTICAL]
    assert [replay for replay in wrong if name not in UNORDERED or not differs_in_order_only(replay)] == []
    assert any(len(replay.steps) > 2 for replay in replays)
    assert {note for replay in replays for note in replay.notes} <= {"the server's version was 0 and is 0"}


@pytest.mark.stress
@pytest.mark.parametrize("choice", [BackendChoice.LANDLOCK, BackendChoice.NONE])
@pytest.mark.parametrize("name", ["code", "shell"])
async def test_they_do_so_where_an_isolation_shows_paths_of_the_host(name, choice):
    wanted = BackendRequest(choice=choice, allow_unsandboxed=True, allow_visible_answers=True)
    with anyio.fail_after(LIMIT):
        async with recorded(name, wanted) as episodes, open_local_stage(sandbox=wanted) as stage:
            replays = [await replay_episode(episode, stage) for episode in episodes]
    assert [replay.as_json() for replay in replays if replay.verdict is not ReplayVerdict.IDENTICAL] == []


def test_work_is_played_of_every_bundled_environment():
    assert set(WORK) == set(installed_environments())
