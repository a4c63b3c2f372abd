"""Plays an episode with LangChain's MCP adapter, which opens a session for each call; prints JSON.

Usage: play_langchain.py URL
"""

import asyncio
import json
import sys
from typing import Any

from langchain_mcp_adapters.client import MultiServerMCPClient


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part if isinstance(part, str) else part.get("text", "") for part in content)


async def play(url: str) -> dict[str, Any]:
    client = MultiServerMCPClient({"episode": {"transport": "streamable_http", "url": url}})
    tools = {tool.name: tool for tool in await client.get_tools()}
    seen: dict[str, Any] = {"tools": list(tools)}
    seen["texts"] = [text_of(await tools["count"].ainvoke({})) for _ in range(3)]
    prompt = await client.get_prompt("episode", "task")
    seen["prompt"] = text_of(prompt[-1].content)
    seen["last"] = text_of(await tools["stop"].ainvoke({"said": 3}))
    try:
        seen["late"] = text_of(await tools["count"].ainvoke({}))
    except Exception as error:  # noqa: BLE001  (the test judges what came)
        seen["late"] = f"{type(error).__name__}: {error}"
    return seen


if __name__ == "__main__":
    json.dump(asyncio.run(play(sys.argv[1])), sys.stdout)
