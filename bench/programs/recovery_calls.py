"""The calls of a session that is killed before it ends, and what they cost without a server around them.

Usage: python -m bench.programs.recovery_calls ENVIRONMENT SESSIONS; prints the seconds of this process's CPU.
"""

import multiprocessing
import sys
import time

import anyio

from ors_server.environments.definition import EnvironmentDefinition
from ors_server.environments.loading import definitions_of
from ors_server.model.wire import JSONObject
from ors_server.sessions.manager import open_manager
from ors_server.sessions.session_request import SessionRequest
from ors_server.sessions.session_services import open_sandboxes

SPLIT = "train"
HARMLESS = (
    "ls -a",
    "pwd",
    "cat -- * 2>/dev/null | head -c 300",
    "find . -maxdepth 1 | sort",
    "ps",
    "id",
    "echo hello",
    "wc -c -- * 2>/dev/null",
    "df -h . | tail -1 | wc -l",
    "for i in 1 2 3; do echo $i; done",
    "sleep 0.01",
    "umask",
    "type ls",
    "printf '%s\\n' a b c | sort -r",
    "python3 -c 'print(sum(range(100)))'",
    "sed -n 1,2p /etc/passwd | wc -l",
    "seq 5",
    "true",
    "false",
    "echo $$ > /dev/null",
)
"""Commands that change nothing and whose output repeats itself: without times, which `ls -l` shows, and
without jobs in the background, whose end the shell reports at some later command."""


def calls_of(name: str, task: JSONObject, definition: EnvironmentDefinition) -> list[tuple[str, JSONObject]]:
    """Return the calls of the environment's own solution without the one that ends it, and some more."""
    gold: list[tuple[str, JSONObject]] = list(definition.source.gold_actions(task))[:-1]  # type: ignore[attr-defined]  # each bundled class has it
    if name == "shell":
        return gold + [("bash", {"command": command}) for command in HARMLESS]
    if name == "math_word_problems":
        return gold + [("calculator", {"expression": f"{number}*{number}+1"}) for number in range(6)]
    return gold * 2


async def _read_calls(name: str, sessions: int) -> list[list[tuple[str, JSONObject]]]:
    [definition] = definitions_of(name)
    tasks = [await definition.tasks.get_task(SPLIT, index) for index in range(sessions)]
    return [calls_of(name, task, definition) for task in tasks]


def read_calls(name: str, sessions: int) -> list[list[tuple[str, JSONObject]]]:
    """Return the calls of each session."""
    return anyio.run(_read_calls, name, sessions)


async def _play(name: str, calls: list[list[tuple[str, JSONObject]]]) -> tuple[float, int]:
    [definition] = definitions_of(name)
    async with (
        open_sandboxes([definition]) as sandboxes,
        open_manager([definition], sandboxes=sandboxes) as manager,
    ):
        started, steps = time.process_time(), 0
        for index, session_calls in enumerate(calls):
            status = await manager.create(SessionRequest(split=SPLIT, index=index, seed=index))
            session = manager.find(status.origin.session_id)
            await session.prompt()
            for tool, arguments in session_calls:
                await (await session.call(tool, arguments)).wait()
                steps += 1
        return time.process_time() - started, steps


if __name__ == "__main__":
    # In another process: an environment makes its world once, here while it is measured, as after a restart.
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        all_calls = pool.apply(read_calls, (sys.argv[1], int(sys.argv[2])))
    seconds, count = anyio.run(_play, sys.argv[1], all_calls)
    print(f"{seconds} {count}")
