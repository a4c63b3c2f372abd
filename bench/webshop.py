"""The bundled shop: steps per second of one session beside its engine without a server; memory of a game.

WebShop itself cannot be installed beside this package (Python 3.8, a Java search); its own steps take 8 to 10
milliseconds on a catalogue of this size.
"""

import asyncio
import gc
import time
from pathlib import Path

from bench.report import Goal, Row
from ors_server.testing import open_environment
from ors_server_tasks.webshop import WebShop
from ors_server_tasks.webshop.game import WebShopGame

EPISODES = 60
GAMES = 2000
MEMORY_PAGE_BYTES = 4096
"""Bytes of a page of memory."""


def measure() -> list[Row]:
    """Play the same actions served in this process and without a server, then hold many games."""
    tasks = WebShop.get_task_range("test", 0, EPISODES)
    actions = [[str(call["action"]) for _, call in WebShop.gold_actions(task)] for task in tasks]
    _play_bare(tasks, actions)
    bare = _play_bare(tasks, actions)
    served = asyncio.run(_play_served(actions))
    peer = "its engine without a server"
    return [
        Row("webshop, one session", "steps/s", served, bare, peer),
        Row(
            "webshop, a game after a search",
            "KiB",
            _memory_of_a_game(),
            0.0,
            "nothing",
            Goal("ours", most=64),
        ),
    ]


def _play_bare(tasks: list[dict[str, object]], actions: list[list[str]]) -> float:
    game = WebShopGame()
    started = time.perf_counter()
    for task, steps in zip(tasks, actions, strict=True):
        game.reset(int(str(task["task_id"])))
        for action in steps:
            game.step(action)
    return sum(map(len, actions)) / (time.perf_counter() - started)


async def _play_served(actions: list[list[str]]) -> float:
    spent = 0.0
    async with open_environment(WebShop) as client:
        for index, steps in enumerate(actions):
            session = await client.create(split="test", index=index)
            await session.prompt()
            started = time.perf_counter()
            for action in steps:
                await session.submit("webshop_browser_action", {"action": action})
            spent += time.perf_counter() - started
            await session.aclose()
    return sum(map(len, actions)) / spent


def _memory_of_a_game() -> float:
    gc.collect()
    before = _resident()
    games = [WebShopGame() for _ in range(GAMES)]
    for place, game in enumerate(games):
        game.reset(place % 2000)
        game.step("search[black cable]")
    return (_resident() - before) / len(games) / 1024


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * MEMORY_PAGE_BYTES
