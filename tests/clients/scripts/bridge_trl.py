"""Plays through `to_trl` as TRL's trainer does, and prints what came as JSON.

The environment of this script has TRL without PyTorch; the trainer itself runs in `train_trl.py`.
What it does with an environment is repeated here with the same look at the class: tools are its public
functions, their schemas are those of transformers, and `get_reward` is awaited if it is async.
"""

import asyncio
import inspect
import json
import logging
import sys

from transformers.utils import get_json_schema

from ors_server.adapters import to_trl
from ors_server.client import Client
from ors_server.model.errors import OrsServerError

LOGGED: list[str] = []


class Kept(logging.Handler):
    """Keeps the messages of the bridge."""

    def emit(self, record):
        LOGGED.append(record.getMessage())


def tools_of(environment):
    """The tools of an instance, as the trainer finds them."""
    return {
        name: getattr(environment, name)
        for name, _ in inspect.getmembers(type(environment), predicate=inspect.isfunction)
        if name not in {"reset", "get_reward"} and not name.startswith("_")
    }


async def roll(factory, row, *turns):
    """Plays one rollout: turns are lists of calls."""
    LOGGED.clear()
    environment = factory()
    prompt = environment.reset(**row)
    session_id = environment._episode.session_id
    said = []
    for turn in turns:
        results = []
        for name, arguments in turn:
            try:
                result = tools_of(environment)[name](**arguments)
            except Exception as error:  # noqa: BLE001  (the trainer catches everything)
                result = {"error": str(error)}
            results.append(result)
        pending = [result for result in results if inspect.isawaitable(result)]
        awaited = iter(await asyncio.gather(*pending, return_exceptions=True))
        said += [str(next(awaited)) if inspect.isawaitable(result) else result for result in results]
    reward = environment.get_reward()
    reward = await reward if inspect.isawaitable(reward) else reward
    return {
        "prompt": prompt,
        "said": said,
        "reward": reward,
        "is_async": inspect.iscoroutinefunction(environment.get_reward),
        "session_id": session_id,
        "logged": list(LOGGED),
    }


def refused(factory):
    """What a row raises that the server refuses."""
    try:
        return factory().reset(index=0, split="nowhere")
    except OrsServerError as error:
        return type(error).__name__


async def plays(url, answer, *, is_async):
    math = to_trl(url, "math_word_problems", split="test", is_async=is_async)
    ladder = to_trl(url, "ladder", is_async=is_async)
    final = to_trl(url, "ladder", policy={"emit": "final"}, is_async=is_async)
    misjudged = to_trl(url, "misjudged", is_async=is_async)
    rows = math.rows(5, environment="math")
    first = {"index": 0}
    climb = ("climb", {"hand": "left"})
    return {
        "rows": [len(rows), sorted(rows[3]), rows[3]["index"], rows[3]["environment"]],
        "types": [math is not ladder, math.__name__, ladder.__name__],
        "schemas": [get_json_schema(tool)["function"] for tool in tools_of(math()).values()],
        "gold": await roll(
            math, rows[3], [("calculator", {"expression": "1+1"})], [("submit", {"answer": answer})]
        ),
        "wrong": await roll(math, rows[3], [("submit", {"answer": "-77"})]),
        "dense": await roll(ladder, first, [climb, ("climb", {})], [("jump", {}), climb]),
        "final": await roll(final, first, [climb], [("jump", {})]),
        "half": await roll(ladder, first, [climb]),
        "silent": await roll(ladder, first),
        "broken": await roll(ladder, first, [climb], [("slip", {})], [climb]),
        "end": await roll(misjudged, first, [climb], [("land", {"answer": "x"})]),
        "unready": await roll(to_trl(url, "unready", is_async=is_async), first, [climb]),
        "refused": refused(ladder),
        "middle": await roll(misjudged, first, [climb], [("weigh", {"answer": "x"})], [("jump", {})]),
    }


async def main():
    url = sys.argv[1]
    logging.getLogger("ors_server").addHandler(Kept())
    with Client(url) as client:
        answer = client.task("test", 3, "math_word_problems")["answer"]
    seen = {
        kind: await plays(url, answer, is_async=is_async)
        for kind, is_async in (("sync", False), ("async", True))
    }
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
