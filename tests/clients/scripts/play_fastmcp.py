"""Plays an episode with fastmcp's client and prints what it saw as JSON.

Usage: play_fastmcp.py URL MODE, where MODE is `legacy`, `auto` or a protocol version.
"""

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport


async def play(url: str, mode: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    async with Client(url, mode=mode) as client:
        seen["tools"] = [tool.name for tool in await client.list_tools()]
        prompt = await client.get_prompt("task")
        seen["prompt"] = prompt.messages[-1].content.text
    texts = []
    for _ in range(3):
        async with Client(url, mode=mode) as client:
            result = await client.call_tool("count", {})
            texts.append(result.content[0].text)
    seen["texts"] = texts
    async with Client(url, mode=mode) as client:
        wrong = await client.call_tool("stop", {"said": "three"}, raise_on_error=False)
        seen["wrong"] = wrong.is_error
        last = await client.call_tool("stop", {"said": 3})
        seen["last"] = [block.text for block in last.content]
        seen["meta"] = last.meta
        late = await client.call_tool("count", {}, raise_on_error=False)
        seen["late"] = late.is_error
    asking = StreamableHttpTransport(url, headers={"X-ORS-Rewards": "meta"})
    async with Client(asking, mode=mode) as client:
        late = await client.call_tool("count", {}, raise_on_error=False)
        seen["asked"] = late.meta
    return seen


if __name__ == "__main__":
    json.dump(asyncio.run(play(*sys.argv[1:])), sys.stdout)
