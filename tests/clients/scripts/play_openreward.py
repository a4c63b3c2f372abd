"""Plays a server with the `openreward` client and prints what it saw as one JSON document.

Usage: `python play_openreward.py URL SCENARIO...`, with the interpreter of a virtual environment that has
`openreward`. Each scenario is a function below; its answer, or the error that escaped it, stands under its
name. The script judges nothing: the test that starts it does.
"""

import asyncio
import json
import os
import sys
from functools import partial
from typing import Any

os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"
os.environ["OPENREWARD_API_URL"] = os.environ["OPENREWARD_SESSION_URL"] = sys.argv[1]

from openreward import AsyncOpenReward, OpenReward
from openreward.api.environments.types import GroupCandidate, Message, TextBlock
from openreward.api.errors import ScoreGroupFailed, ScoreGroupUnsupported, ToolCallError, ToolFailed
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


def client(api_key: str = "") -> Any:
    """Makes a client of the server under test; without a key it takes that of `OPENREWARD_API_KEY`."""
    return AsyncOpenReward(api_key=api_key)


async def refusal(session: Any, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        output = await session.call_tool(tool, arguments)
    except ToolCallError as error:
        return {"refused": error.reason, "detail": error.detail}
    return {"refused": None, "text": text_of(output)}


async def discovery(api: Any) -> Any:
    """Asks everything that can be asked without a session."""
    env = api.get("refenv")
    second = api.get("secondenv", variant="secondenv")
    index = api.get("indexenv", variant="indexenv")
    try:
        listed = await index.list_tasks("train")
    except Exception as error:  # noqa: BLE001 (the kind of error is what the test asks about)
        listed = str(error)
    task = await env.get_task("train", 1)
    return {
        "splits": await env.list_splits(),
        "tasks": [t.task_spec for t in await env.list_tasks("train")],
        "environment_name": task.environment_name,
        "task": task.task_spec,
        "num_tasks": await env.num_tasks("train"),
        "empty": await env.num_tasks("extra"),
        "range": [t.task_spec["target"] for t in await env.get_task_range("train", -3, None)],
        "tools": [t.name for t in await env.list_tools()],
        "openai_tools": len(await env.list_tools("openai")),
        "anthropic_tools": len(await env.list_tools("anthropic")),
        "google_tools": len(await env.list_tools("google")),
        "second_tools": [t.name for t in await second.list_tools()],
        "second_task": (await second.get_task("train", 1)).task_spec,
        "index_list": str(listed),
        "index_task": (await index.get_task("train", 999)).task_spec,
        "index_count": await index.num_tasks("train"),
    }


async def tools(api: Any) -> Any:
    """Calls tools of every shape in one session."""
    async with api.get("refenv").session(split="train", index=0) as session:
        return {
            **await shapes(session),
            "version": await session.version(),
            "lax": shown(await session.call_tool("add", {"a": "3", "b": 4})),
        }


async def nulls(api: Any) -> Any:
    """Sends explicit nulls for optional parameters whose schema allows none."""
    arguments = {"a": 1, "tags": None, "note": None, "z": 1.5}
    async with api.get("refenv").session(split="train", index=0) as session:
        return await refusal(session, "tagged", arguments)


async def secrets(api: Any) -> Any:
    """Hands over secrets, with and without allowed domains, and an API key."""
    seen = {}
    pairs = {"openai_api_key": "v1", "SCOPED": ("v2", ["example.org"])}
    async with api.get("refenv").session(split="train", index=0, secrets=pairs) as session:
        seen["given"] = json.loads(text_of(await session.call_tool("whoami", {})))
    async with (
        client("user-key").environments as keyed,
        keyed.get("refenv").session(split="train", index=0, secrets=pairs) as session,
    ):
        seen["with_key"] = json.loads(text_of(await session.call_tool("whoami", {})))
    async with api.get("refenv").session(split="train", index=0) as session:
        seen["none"] = json.loads(text_of(await session.call_tool("whoami", {})))
    return seen


async def errors(api: Any) -> Any:
    env = api.get("refenv")
    seen: dict[str, Any] = {}
    async with env.session(split="train", index=0) as session:
        seen["unknown"] = await refusal(session, "nosuchtool", {})
        seen["invalid"] = await refusal(session, "add", {"a": "x"})
        seen["missing"] = await refusal(session, "add", {})
        seen["alive"] = text_of(await session.call_tool("add", {"a": 1}))
    for tool in ("boom", "boom_empty", "badret"):
        async with env.session(split="train", index=0) as session:
            try:
                seen[tool] = shown(await session.call_tool(tool, {}))
            except ToolFailed as error:
                seen[tool] = error.message
    return seen


async def nan(api: Any) -> Any:
    async with api.get("refenv").session(split="train", index=0) as session:
        try:
            return shown(await session.call_tool("nan", {}))
        except ToolFailed as error:
            return {"failed": error.message}


async def sessions_at_once(api: Any) -> Any:
    """Holds forty sessions open together and wins each."""
    env = api.get("refenv")

    async def win(index: int) -> float:
        async with env.session(split="train", index=index % 4) as session:
            prompt = (await session.get_prompt())[0].text
            return float((await session.call_tool("echo", {"text": prompt.split("'")[1]})).reward)

    return await asyncio.gather(*(win(i) for i in range(40)))


async def finishing(api: Any) -> Any:
    """Ends episodes with and without a reward and calls on."""
    seen = {}
    for name, reward in (("half", 0.5), ("ungraded", None)):
        async with api.get("refenv").session(split="test", index=0) as session:
            end = await session.call_tool("finish", {"reward": reward})
            after = await refusal(session, "echo", {"text": "exam"})
            seen[name] = {"end": shown(end), "after": after, "prompt": len(await session.get_prompt())}
    return seen


async def messages(api: Any) -> Any:
    """Reads a conversation, and a prompt as a conversation."""
    seen: dict[str, Any] = {}
    async with api.get("termenv", variant="termenv").session(split="train", index=0) as session:
        conversation = await session.get_messages()
        seen["roles"] = [m.role for m in conversation]
        seen["types"] = [[b.type for b in m.blocks] for m in conversation]
        seen["anthropic"] = await session.get_messages("anthropic")
        seen["openai"] = await session.get_messages("openai")
        seen["prompt"] = [b.text for b in await session.get_prompt()]
    async with api.get("refenv").session(split="train", index=0) as session:
        seen["wrapped"] = await session.get_messages("openai")
    return seen


async def terminal(api: Any) -> Any:
    seen: dict[str, Any] = {}
    async with api.get("termenv", variant="termenv").session(split="train", index=0) as session:
        seen["tools"] = [t.name for t in await session.list_tools()]
        seen["terminal"] = vars(await session.terminal_tool())
        seen["output"] = shown(await session.call_terminal_tool("4"))
    async with api.get("refenv").session(split="train", index=0) as session:
        seen["without"] = await session.is_assistant_message_final()
    return seen


async def score_group(api: Any) -> Any:
    """Scores a group of completions, and asks where that cannot be done."""

    def said(text: str) -> list[Any]:
        return [Message(role="assistant", blocks=[TextBlock(text=text)])]

    seen: dict[str, Any] = {}
    async with api.get("termenv", variant="termenv").session(split="train", index=0) as session:
        seen["supported"] = await session.supports_score_group()
        group = [said("abc"), GroupCandidate(messages=said("abcdefg"), metadata={"rollout": 2})]
        seen["scores"] = [vars(score) for score in await session.score_group(group)]
        try:
            await session.score_group([])
            seen["failed"] = None
        except ScoreGroupFailed as error:
            seen["failed"] = error.message
        seen["afterwards"] = shown(await session.call_terminal_tool("5"))
    async with api.get("refenv").session(split="train", index=0) as session:
        try:
            await session.score_group([said("abc")])
            seen["refenv"] = "scored"
        except ScoreGroupUnsupported:
            seen["refenv"] = "unsupported"
    return seen


async def stranger(api: Any) -> Any:
    """Comes with a key that the server does not know."""
    seen: dict[str, Any] = {}
    async with client("not-a-key").environments as keyed:
        try:
            seen["tasks"] = len(await keyed.get("refenv").list_tasks("train"))
        except Exception as error:  # noqa: BLE001 (the kind of error is what the test asks about)
            seen["error"] = f"{type(error).__name__}: {error}"
    seen["known"] = len(await api.get("refenv").list_tasks("train"))
    return seen


async def variants(api: Any) -> Any:
    """Plays environments that are not the default one."""
    seen = {}
    for name in ("secondenv", "indexenv"):
        async with api.get(name, variant=name).session(split="train", index=1) as session:
            prompt = (await session.get_prompt())[0].text
            seen[name] = {"prompt": prompt, "output": shown(await session.call_tool("where", {}))}
    return seen


def synchronous() -> Any:
    with OpenReward(api_key="").environments as api:
        return play_blocking(api.get("refenv"))


SCENARIOS: dict[str, Scenario] = {
    **{
        f.__name__: f
        for f in (discovery, tools, nulls, secrets, errors, broken_setup, nan, parallel, sessions_at_once)
    },
    **{
        f.__name__: f
        for f in (dropped, finishing, messages, terminal, score_group, stranger, variants, slow_setup)
    },
    "twenty_tasks": partial(twenty_tasks, refusal=refusal),
    "big_outputs": lambda api: big_outputs(api, (9000, 2, "\u00a0")),
}


async def playing(names: list[str]) -> dict[str, Any]:
    """Plays scenarios with one client."""
    async with client().environments as api:
        return await play(api, names, SCENARIOS)


if __name__ == "__main__":
    answer(playing, synchronous)
