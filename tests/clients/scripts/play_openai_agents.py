"""Plays an episode with the OpenAI Agents SDK, its model being scripted; prints what it saw as JSON.

Usage: play_openai_agents.py URL
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

SCRIPT = [("count", {}), ("count", {}), ("count", {}), ("stop", {"said": 3})]


class ScriptedModel(Model):
    """Calls the script's tools one after the other, then says that it is done."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []

    async def get_response(self, *args: Any, **given: Any) -> ModelResponse:
        turn = len(self.inputs)
        self.inputs.append(given["input"] if "input" in given else args[1])
        if turn < len(SCRIPT):
            name, arguments = SCRIPT[turn]
            item: Any = ResponseFunctionToolCall(
                type="function_call", call_id=f"call{turn}", name=name, arguments=json.dumps(arguments)
            )
        else:
            text = ResponseOutputText(type="output_text", text="Done.", annotations=[])
            item = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield


async def play(url: str) -> dict[str, Any]:
    set_tracing_disabled(True)
    model = ScriptedModel()
    async with MCPServerStreamableHttp(params={"url": url}, name="episode") as server:
        seen: dict[str, Any] = {"tools": [tool.name for tool in await server.list_tools()]}
        prompt = await server.get_prompt("task")
        seen["prompt"] = prompt.messages[-1].content.text
        agent = Agent(name="player", instructions="Play.", mcp_servers=[server], model=model)
        result = await Runner.run(agent, seen["prompt"])
        seen["final"] = result.final_output
        late = await server.call_tool("count", {})
        seen["late"] = late.isError
    outputs = [item for item in model.inputs[-1] if item.get("type") == "function_call_output"]
    seen["texts"] = [json.dumps(item["output"]) for item in outputs]
    return seen


if __name__ == "__main__":
    json.dump(asyncio.run(play(sys.argv[1])), sys.stdout)
