"""Plays a server with the `ors-sdk` client and prints what it saw as one JSON document.

Usage: `python play_ors_sdk.py URL SCENARIO...`, with the interpreter of a virtual environment that has
`ors-sdk`. Each scenario is a function below; its answer, or the error that escaped it, stands under its
name. The script judges nothing: the test that starts it does.
"""

import json
import sys
from functools import partial
from typing import Any

from ors.client import ORS, AsyncORS, ToolCallError
from ors_scenarios import (  # type: ignore[import-not-found]  # beside this script
    Scenario,
    answer,
    big_outputs,
    broken_setup,
    dropped,
    parallel,
    play,
    play_blocking,
    shapes,
    shown,
    slow_setup,
    text_of,
    twenty_tasks,
)

URL = sys.argv[1]


async def refusal(session: Any, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
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


async def tools(api: Any) -> Any:
    """Calls tools of every shape in one session."""
    async with api.get("refenv").session(split="train", index=0) as session:
        return {**await shapes(session), "openai": len(await session.list_tools("openai"))}


async def secrets(api: Any) -> Any:
    """Hands over secrets, which this client puts in a header."""
    async with api.get("refenv").session(split="train", index=0, secrets={"K": "v"}) as session:
        return json.loads(text_of(await session.call_tool("whoami", {})))


async def errors(api: Any) -> Any:
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


def synchronous() -> Any:
    with ORS(base_url=URL) as client:
        return play_blocking(client.environment("refenv"))


SCENARIOS: dict[str, Scenario] = {
    **{
        f.__name__: f
        for f in (discovery, tools, secrets, errors, broken_setup, big_outputs, parallel, dropped, finishing)
    },
    **{f.__name__: f for f in (other_environment, by_index, slow_setup)},
    "twenty_tasks": partial(twenty_tasks, refusal=refusal),
}


async def playing(names: list[str]) -> dict[str, Any]:
    """Plays scenarios with one client."""
    return await play(AsyncORS(base_url=URL).environments, names, SCENARIOS)


if __name__ == "__main__":
    answer(playing, synchronous)
