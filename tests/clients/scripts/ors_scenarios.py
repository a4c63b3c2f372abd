"""What every client of the standard plays alike, its methods having the same names; the program of a script.

The functions take the client's `environments`; `refusal` makes a call that the server should refuse and tells
how it did.
"""

import asyncio
import json
import sys
import traceback
import uuid
from collections.abc import Awaitable, Callable
from typing import Any


def text_of(output: Any) -> str:
    return "".join(block.text for block in output.blocks if block.type == "text")


def shown(output: Any) -> dict[str, Any]:
    return {
        "text": text_of(output),
        "blocks": [vars(block) for block in output.blocks],
        "reward": output.reward,
        "finished": output.finished,
        "metadata": output.metadata,
    }


async def twenty_tasks(api: Any, refusal: Callable[..., Awaitable[Any]]) -> Any:
    env = api.get("refenv")
    tasks = await env.list_tasks("train")
    episodes = []
    for turn in range(20):
        index = turn % len(tasks)
        source = {"split": "train", "index": index} if turn % 2 else {"task": tasks[index]}
        async with env.session(**source) as session:
            target = (await session.get_prompt())[0].text.split("'")[1]
            wrong = await session.call_tool("echo", {"text": "nonsense"})
            right = await session.call_tool("echo", {"text": target})
            after = await refusal(session, "add", {"a": 1})
        episodes.append(
            {
                "target": target,
                "rewards": [wrong.reward, right.reward],
                "finished": right.finished,
                "after": after,
            }
        )
    return episodes


async def shapes(session: Any) -> dict[str, Any]:
    """Calls tools of every shape in a session."""
    calls = {"add": {"a": 3}, "noargs": {}, "image": {}, "empty": {}, "hint": {}}
    return {
        "prompt": [vars(block) for block in await session.get_prompt()],
        "names": [t.name for t in await session.list_tools()],
        **{name: shown(await session.call_tool(name, arguments)) for name, arguments in calls.items()},
    }


async def big_outputs(api: Any, *more: tuple[int, int, str]) -> Any:
    """Compares long outputs, made of white space and of wide characters, with what was written."""
    same = {}
    async with api.get("refenv").session(split="train", index=0) as session:
        for n, lead, fill in ((5000, 0, " "), (20000, 3, " "), (9000, 1, "\u3000"), *more):
            output = await session.call_tool("spaces", {"n": n, "lead": lead, "fill": fill})
            same[f"spaces {n} {lead} U+{ord(fill):04x}"] = text_of(output) == "x" * lead + fill * n + "end"
        output = await session.call_tool("big", {"n": 300_000, "lead": 5})
        same["big"] = text_of(output) == "x" * 5 + "\u00e9" * 300_000
    return same


async def parallel(api: Any) -> Any:
    """Calls in parallel, in one session and across sessions."""
    env = api.get("refenv")
    async with env.session(split="train", index=0) as one, env.session(split="train", index=1) as two:
        sums = await asyncio.gather(*(one.call_tool("add", {"a": i, "b": i}) for i in range(12)))
        counts = await asyncio.gather(*(s.call_tool("count", {}) for s in (one, two) for _ in range(6)))
        slow = await asyncio.gather(
            one.call_tool("slow_sync", {"seconds": 0.5}), two.call_tool("add", {"a": 1})
        )
    return {
        "sums": [text_of(o) for o in sums],
        "one": sorted(int(text_of(o)) for o in counts[:6]),
        "two": sorted(int(text_of(o)) for o in counts[6:]),
        "slow": [text_of(o) for o in slow],
    }


async def dropped(api: Any) -> Any:
    """Makes a slow call over a connection that is cut in the middle of it."""
    async with api.get("refenv").session(split="train", index=0) as session:
        first = await session.call_tool("slow_count", {"seconds": 3.0})
        second = await session.call_tool("slow_count", {"seconds": 0.1})
    return {"first": shown(first), "second": shown(second)}


async def broken_setup(api: Any) -> Any:
    """Opens sessions that cannot start."""
    env = api.get("refenv")
    seen: dict[str, Any] = {}
    for key in ("init_fail", "setup_fail"):
        task = await env.get_task("train", 0)
        task.task_spec[key] = True
        try:
            async with env.session(task=task) as session:
                await session.get_prompt()
                seen[key] = None
        except Exception as error:  # noqa: BLE001 (the kind of error is what the test asks about)
            seen[key] = str(error)
    return seen


async def slow_setup(api: Any) -> Any:
    """Opens sessions whose setup takes 80 seconds, asks for the prompt of one and calls a tool of another."""
    env = api.get("refenv")

    async def play(name: str, *, prompt_first: bool) -> Any:
        unique = f"{name}-{uuid.uuid4()}"
        task = await env.get_task("train", 0)
        task.task_spec.update(id=unique, setup_s=80.0)
        async with env.session(task=task) as session:
            prompt = (await session.get_prompt())[0].text if prompt_first else None
            count = text_of(await session.call_tool("count", {}))
            ledger = json.loads(text_of(await session.call_tool("ledger", {"task_id": unique})))
        return {"prompt": prompt, "count": count, "ledger": ledger}

    prompted, called = await asyncio.gather(
        play("prompted", prompt_first=True), play("called", prompt_first=False)
    )
    return {"prompted": prompted, "called": called}


def play_blocking(env: Any) -> Any:
    with env.session(task=env.get_task("train", 2)) as session:
        target = session.get_prompt()[0].text.split("'")[1]
        return {
            "tools": len(session.list_tools()),
            "output": shown(session.call_tool("echo", {"text": target})),
        }


Scenario = Callable[[Any], Awaitable[Any]]


async def play(api: Any, names: list[str], scenarios: dict[str, Scenario]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for name in names:
        try:
            seen[name] = await scenarios[name](api)
        except Exception:  # noqa: BLE001 (it becomes that scenario's answer)
            seen[name] = {"escaped": traceback.format_exc()}
    return seen


def answer(playing: Callable[[list[str]], Any], synchronous: Callable[[], Any]) -> None:
    """Plays the scenarios of the command line and prints what came of each."""
    results = asyncio.run(playing([name for name in sys.argv[2:] if name != "synchronous"]))
    if "synchronous" in sys.argv:
        results["synchronous"] = synchronous()
    sys.stdout.write(json.dumps(results))
