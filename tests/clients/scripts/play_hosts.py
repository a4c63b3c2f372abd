"""Plays two calls with the tools that a framework loads from an MCP endpoint; prints what a model would see.

Usage: `python play_hosts.py FRAMEWORK LOBBY_URL AGENT_URL`, with the interpreter of a virtual environment
that has the framework. The answer is JSON: for each endpoint the texts of the calls in order, each as the
framework hands it to its model. The script judges nothing: the test that starts it does.
"""

import asyncio
import gc
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

Call: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[str]]
"""Calls a tool; gives what the model would see of the result."""

SESSION = re.compile(r"session_id: ([\w-]+)")


def text(value: Any) -> str:
    """Writes whatever a framework hands on."""
    return value if isinstance(value, str) else json.dumps(value, default=repr)


@asynccontextmanager
async def llamaindex(url: str) -> AsyncIterator[Call]:
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

    tools = {t.metadata.name: t for t in await McpToolSpec(client=BasicMCPClient(url)).to_tool_list_async()}

    async def call(name: str, arguments: dict[str, Any]) -> str:
        output = await tools[name].acall(**arguments)
        return text(output.content)

    yield call


@asynccontextmanager
async def smolagents(url: str) -> AsyncIterator[Call]:
    from smolagents import MCPClient

    client = await asyncio.to_thread(
        MCPClient, {"url": url, "transport": "streamable-http"}, structured_output=False
    )
    tools = {tool.name: tool for tool in client.get_tools()}

    async def call(name: str, arguments: dict[str, Any]) -> str:
        return text(await asyncio.to_thread(lambda: tools[name](**arguments)))

    try:
        yield call
    finally:
        await asyncio.to_thread(client.disconnect)


@asynccontextmanager
async def autogen(url: str) -> AsyncIterator[Call]:
    from autogen_core import CancellationToken
    from autogen_ext.tools.mcp import StreamableHttpServerParams, mcp_server_tools

    tools = {tool.name: tool for tool in await mcp_server_tools(StreamableHttpServerParams(url=url))}

    async def call(name: str, arguments: dict[str, Any]) -> str:
        result = await tools[name].run_json(arguments, CancellationToken())
        return text(tools[name].return_value_as_string(result))

    yield call


@asynccontextmanager
async def pydantic_ai(url: str) -> AsyncIterator[Call]:
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    async def call(name: str, arguments: dict[str, Any]) -> str:
        seen: list[str] = []

        def answer(messages: list[Any], _info: Any) -> ModelResponse:
            if len(messages) == 1:
                return ModelResponse(parts=[ToolCallPart(name, arguments)])
            seen.extend(text(part.content) for part in messages[-1].parts)
            return ModelResponse(parts=[TextPart("done")])

        await Agent(FunctionModel(answer), toolsets=[MCPToolset(url)]).run("Play.")
        return "\n".join(seen)

    yield call


@asynccontextmanager
async def agent_framework(url: str) -> AsyncIterator[Call]:
    from agent_framework import MCPStreamableHTTPTool

    async with MCPStreamableHTTPTool(name="episode", url=url) as server:
        tools = {tool.name: tool for tool in server.functions}

        async def call(name: str, arguments: dict[str, Any]) -> str:
            result = await tools[name].invoke(arguments=arguments)
            parts = result if isinstance(result, list) else [result]
            return "\n".join(part if isinstance(part, str) else text(part.to_dict()) for part in parts)

        yield call


@asynccontextmanager
async def mcp_use(url: str) -> AsyncIterator[Call]:
    from mcp_use import MCPClient
    from mcp_use.agents.adapters.langchain_adapter import LangChainAdapter

    client = MCPClient.from_dict({"mcpServers": {"episode": {"url": url}}})
    try:
        tools = {tool.name: tool for tool in await LangChainAdapter().create_tools(client)}

        async def call(name: str, arguments: dict[str, Any]) -> str:
            return text(await tools[name].ainvoke(arguments))

        yield call
    finally:
        await client.close_all_sessions()


@asynccontextmanager
async def langchain(url: str) -> AsyncIterator[Call]:
    from langchain_mcp_adapters.client import MultiServerMCPClient

    client = MultiServerMCPClient({"episode": {"transport": "streamable_http", "url": url}})
    tools = {tool.name: tool for tool in await client.get_tools()}

    async def call(name: str, arguments: dict[str, Any]) -> str:
        return text(await tools[name].ainvoke(arguments))

    yield call


@asynccontextmanager
async def openai_agents(url: str) -> AsyncIterator[Call]:
    from agents import Agent, RunContextWrapper
    from agents.mcp import MCPServerStreamableHttp
    from agents.tool_context import ToolContext

    async with MCPServerStreamableHttp(params={"url": url}, name="episode") as server:
        found = await Agent(name="player", mcp_servers=[server]).get_mcp_tools(RunContextWrapper(None))
        tools: dict[str, Any] = {tool.name: tool for tool in found}

        async def call(name: str, arguments: dict[str, Any]) -> str:
            given = json.dumps(arguments)
            context: Any = ToolContext(None, tool_name=name, tool_call_id="call", tool_arguments=given)
            return text(await tools[name].on_invoke_tool(context, given))

        yield call


@asynccontextmanager
async def fastmcp(url: str) -> AsyncIterator[Call]:
    from fastmcp import Client

    async with Client(url) as client:

        async def call(name: str, arguments: dict[str, Any]) -> str:
            result = await client.call_tool(name, arguments)
            return text([part.model_dump(mode="json") for part in result.content] + [str(result.data)])

        yield call


@asynccontextmanager
async def crewai_tools(url: str) -> AsyncIterator[Call]:
    from crewai_tools import MCPServerAdapter

    adapter = await asyncio.to_thread(MCPServerAdapter, {"url": url, "transport": "streamable-http"})
    tools = {tool.name: tool for tool in adapter.tools}

    async def call(name: str, arguments: dict[str, Any]) -> str:
        return text(await asyncio.to_thread(lambda: tools[name].run(**arguments)))

    try:
        yield call
    finally:
        await asyncio.to_thread(adapter.stop)


FRAMEWORKS = {
    "llamaindex": llamaindex,
    "smolagents": smolagents,
    "autogen": autogen,
    "pydantic-ai": pydantic_ai,
    "agent-framework": agent_framework,
    "mcp-use": mcp_use,
    "langchain": langchain,
    "openai-agents": openai_agents,
    "fastmcp": fastmcp,
    "crewai-tools": crewai_tools,
}


async def play(framework: str, lobby: str, agent: str) -> dict[str, list[str]]:
    """Starts an episode in the lobby and plays it, and plays the one of the agent's URL."""
    async with FRAMEWORKS[framework](lobby) as call:
        opening = await call("start_episode", {"environment": "safe"})
        found = SESSION.search(opening)
        handle = {"session_id": found.group(1) if found else "not told"}
        in_lobby = [
            opening,
            await call("turn", handle),
            await call("open_it", {**handle, "word": "sesame", "hand": "right"}),
        ]
    async with FRAMEWORKS[framework](agent) as call:
        at_url = [await call("turn", {}), await call("open_it", {"word": "sesame", "hand": "right"})]
    return {"lobby": in_lobby, "agent": at_url}


if __name__ == "__main__":
    gc.disable()  # of the time that a framework takes to import, a fifth is collecting what stays
    json.dump(asyncio.run(play(*sys.argv[1:])), sys.stdout)
