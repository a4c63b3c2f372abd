"""Plays four environments with the `openreward` client, each by its name; prints what it saw as JSON.

Usage: `python play_openreward_names.py URL deployments`, with the interpreter of a virtual environment that
has `openreward`. The script judges nothing: the test that starts it does.
"""

import asyncio
import json
import os
import sys
from typing import Any

os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"
os.environ["OPENREWARD_API_URL"] = os.environ["OPENREWARD_SESSION_URL"] = sys.argv[1]

from openreward import AsyncOpenReward


async def play() -> dict[str, Any]:
    """Plays four environments, each by its name alone, and asks for one that is not served."""
    api = AsyncOpenReward(api_key="").environments
    seen: dict[str, Any] = {}
    for name in ("refenv", "secondenv", "indexenv", "owner/termenv"):
        env = api.get(name) if "/" not in name else AsyncOpenReward(api_key="a-key").environments.get(name)
        task = await env.get_task("train", 0)
        async with env.session(split="train", index=0) as session:
            prompt = (await session.get_prompt())[0].text
            own = [t.name for t in await session.list_tools()]
        async with env.session(task=task) as session:
            again = (await session.get_prompt())[0].text
        seen[name] = {
            "environment": task.environment_name,
            "tools": [t.name for t in await env.list_tools()],
            "own": own,
            "prompts": [prompt, again],
        }
    asked = {
        "tools": lambda env: env.list_tools(),
        "tasks": lambda env: env.list_tasks("train"),
        "session": lambda env: env.session(split="train", index=0).__aenter__(),
    }
    seen["nonsense"] = {}
    for what, ask in asked.items():
        try:
            seen["nonsense"][what] = str(await ask(api.get("nonsense")))
        except Exception as error:  # noqa: BLE001 (the kind of error is what the test asks about)
            seen["nonsense"][what] = f"{type(error).__name__}: {error}"
    return seen


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"deployments": asyncio.run(play())}))
