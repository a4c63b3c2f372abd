"""Plays a server with the `ors-sdk` client and prints what it saw as one JSON document.

Usage: `python play_ors_sdk.py URL SCENARIO...`, with the interpreter of a virtual environment that has
`ors-sdk`. Each scenario is a function below; its answer, or the error that escaped it, stands under its
name. The script judges nothing: the test that starts it does.
"""

import asyncio
import json
import sys
import traceback
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from ors.client import ORS, AsyncORS, ToolCallError

URL = sys.argv[1]


def text_of(output: Any) -> str:
    """Joins the text blocks of an output."""
    return "".join(block.text for block in output.blocks if block.type == "text")


def shown(output: Any) -> dict[str, Any]:
    """Turns an output into JSON."""
    return {
        "text": text_of(output),
        "blocks": [vars(block) for block in output.blocks],
        "reward": output.reward,
        "finished": output.finished,
        "metadata": output.metadata,
    }


async def refusal(session: Any, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Makes a call that the server should refuse and tells how it did."""
    try:
        return {"refused": None, "text": text_of(await session.call_tool(tool, arguments))}
    except ToolCallError as error:
        return {"refused": str(error)}


async def discovery(api: Any) -> Any:
    """Asks everything that can be asked without a session."""
    env, second = api.get("refenv"), api.get("secondenv")
    return {
        "splits": await env.list_splits(),
        "tasks": [t.task_spec for t in await env.list_tasks("train")],
        "environment_name": (await env.list_tasks("train"))[0].environment_name,
        "task": (await env.get_task("train", 1)).task_spec,
        "num_tasks": await env.num_tasks("train"),
        "range": [t.task_spec["target"] for t in await env.get_task_range("train", -3, None)],
        "tools": [t.name for t in await env.list_tools()],
        "second_tools": [t.name for t in await second.list_tools()],
        "second_tasks": [t.task_spec for t in await second.list_tasks("train")],
    }


async def twenty_tasks(api: Any) -> Any:
    """Plays twenty episodes, by task and by index, from the prompt alone."""
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


async def tools(api: Any) -> Any:
    """Calls tools of every shape in one session."""
    async with api.get("refenv").session(split="train", index=0) as session:
        return {
            "prompt": [vars(block) for block in await session.get_prompt()],
            "names": [t.name for t in await session.list_tools()],
            "openai": len(await session.list_tools("openai")),
            "add": shown(await session.call_tool("add", {"a": 3})),
            "noargs": shown(await session.call_tool("noargs", {})),
            "image": shown(await session.call_tool("image", {})),
            "empty": shown(await session.call_tool("empty", {})),
            "hint": shown(await session.call_tool("hint", {})),
        }


async def secrets(api: Any) -> Any:
    """Hands over secrets, which this client puts in a header."""
    async with api.get("refenv").session(split="train", index=0, secrets={"K": "v"}) as session:
        return json.loads(text_of(await session.call_tool("whoami", {})))


async def errors(api: Any) -> Any:
    """Makes every kind of call that goes wrong, all in one session."""
    seen: dict[str, Any] = {}
    async with api.get("refenv").session(split="train", index=0) as session:
        seen["unknown"] = await refusal(session, "nosuchtool", {})
        seen["invalid"] = await refusal(session, "add", {"a": "x"})
        for tool in ("boom", "boom_empty", "badret", "nan"):
            try:
                seen[tool] = shown(await session.call_tool(tool, {}))
            except RuntimeError as error:
                seen[tool] = str(error)
        seen["alive"] = text_of(await session.call_tool("add", {"a": 1}))
    return seen


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


async def big_outputs(api: Any) -> Any:
    """Compares long outputs, made of white space and of wide characters, with what was written."""
    same = {}
    async with api.get("refenv").session(split="train", index=0) as session:
        for n, lead, fill in ((5000, 0, " "), (20000, 3, " "), (9000, 1, "\u3000")):
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
    return {
        "sums": [text_of(o) for o in sums],
        "one": sorted(int(text_of(o)) for o in counts[:6]),
        "two": sorted(int(text_of(o)) for o in counts[6:]),
    }


async def dropped(api: Any) -> Any:
    """Makes a slow call over a connection that is cut in the middle of it."""
    async with api.get("refenv").session(split="train", index=0) as session:
        first = await session.call_tool("slow_count", {"seconds": 3.0})
        second = await session.call_tool("slow_count", {"seconds": 0.1})
    return {"first": shown(first), "second": shown(second)}


async def finishing(api: Any) -> Any:
    """Ends an episode without a reward and calls on."""
    async with api.get("refenv").session(split="test", index=0) as session:
        end = await session.call_tool("finish", {"reward": None})
        after = await refusal(session, "echo", {"text": "exam"})
    return {"end": shown(end), "after": after}


async def other_environment(api: Any) -> Any:
    """Plays an environment that is not the default one, by its task."""
    env = api.get("secondenv")
    async with env.session(task=(await env.list_tasks("train"))[1]) as session:
        prompt = (await session.get_prompt())[0].text
        return {"prompt": prompt, "output": shown(await session.call_tool("where", {}))}


async def by_index(api: Any) -> Any:
    """Plays environments by split and index, which this client sends without the environment's name."""
    seen: dict[str, Any] = {}
    for name in ("secondenv", "indexenv"):
        async with api.get(name).session(split="train", index=1) as session:
            tools = [t.name for t in await session.list_tools()]
            prompt = (await session.get_prompt())[0].text
            output = shown(await session.call_tool("where", {}))
            seen[name] = {"prompt": prompt, "tools": tools, "output": output}
    try:
        async with api.get("secondenv").session(split="train", index=7) as session:
            seen["past the end"] = str(await session.get_prompt())
    except Exception as error:  # noqa: BLE001 (the kind of error is what the test asks about)
        seen["past the end"] = str(error)
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
        play("slow-prompted", prompt_first=True), play("ors-slow-called", prompt_first=False)
    )
    return {"prompted": prompted, "called": called}


def synchronous() -> Any:
    """Plays one episode with the blocking client."""
    with ORS(base_url=URL) as client:
        env = client.environment("refenv")
        with env.session(task=env.get_task("train", 2)) as session:
            target = session.get_prompt()[0].text.split("'")[1]
            return {
                "tools": len(session.list_tools()),
                "output": shown(session.call_tool("echo", {"text": target})),
            }


SCENARIOS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    f.__name__: f
    for f in (
        discovery,
        twenty_tasks,
        tools,
        secrets,
        errors,
        broken_setup,
        big_outputs,
        parallel,
        dropped,
        finishing,
        other_environment,
        by_index,
        slow_setup,
    )
}


async def play(names: list[str]) -> dict[str, Any]:
    """Plays the scenarios one after the other."""
    api = AsyncORS(base_url=URL).environments
    seen: dict[str, Any] = {}
    for name in names:
        try:
            seen[name] = await SCENARIOS[name](api)
        except Exception:  # noqa: BLE001 (it becomes that scenario's answer)
            seen[name] = {"escaped": traceback.format_exc()}
    return seen


if __name__ == "__main__":
    chosen = [name for name in sys.argv[2:] if name != "synchronous"]
    results = asyncio.run(play(chosen))
    if "synchronous" in sys.argv:
        results["synchronous"] = synchronous()
    sys.stdout.write(json.dumps(results))
