"""Episodes over MCP, in both eras of the protocol.

Rewards are in the `_meta` of each result, unless the session's visibility is `hidden`. Each call has an id,
so that a call whose answer was lost can be repeated without running twice.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import mcp_types as types
from typing_extensions import override

from ors_server.client.async_episode import AsyncEpisode, AsyncOrsEpisode
from ors_server.client.call_result import CallResult
from ors_server.client.client_errors import CallTimeoutError
from ors_server.client.client_options import HttpPool
from ors_server.client.mcp_connection import McpConnection, connect
from ors_server.client.mcp_content import blocks_of, listing_of, message_of, result_of
from ors_server.client.server import SessionPlace
from ors_server.client.session_summary import Summary
from ors_server.model.errors import NotSupportedError
from ors_server.model.model_turn import MODEL_TURN
from ors_server.model.wire import Block, ImageBlock, JSONObject, Message, TextBlock, ToolListing

CALL_ID_KEY = "org.openrewardstandard/call_id"
"""Key of a request's `_meta` that makes a repeated call the same call."""
TASK_PROMPT = "task"
"""Name of the prompt with the task."""
LOBBY_TOOLS = frozenset({"list_environments", "list_tasks", "start_episode"})
"""Tools of the lobby that do not belong to an episode."""
THE_TASK = "The task:\n\n"
"""The words before the task in the lobby's answer."""
HANDLES = ("ors_session_id_", "ors_session_id", "session_id")
"""Names of the argument with the episode's id; a tool that has a parameter of the last name takes another."""


class AsyncMcpEpisode(AsyncEpisode):
    """An episode at its own MCP endpoint; `protocol_version` is the negotiated version."""

    def __init__(
        self, mcp: McpConnection, place: SessionPlace, *, owned: AsyncOrsEpisode | None = None
    ) -> None:
        """Play a session; its figures are read through `owned`, the owner's episode, or else over MCP."""
        super().__init__(place)
        self.mcp = mcp
        self.protocol_version = mcp.client.protocol_version
        self._owned = owned

    @override
    async def blocks(self) -> list[Block]:
        blocks = [block for message in await self.messages() for block in message.blocks]
        return [block for block in blocks if isinstance(block, TextBlock | ImageBlock)]

    @override
    async def messages(self) -> list[Message]:
        answer = await self.mcp.ask(lambda: self.mcp.client.get_prompt(TASK_PROMPT))
        return [message_of(message) for message in answer.messages]

    @override
    async def tools(self) -> ToolListing:
        return listing_of(await self._announced())

    @override
    async def summary(self) -> Summary:
        if self._owned is not None:
            return await self._owned.summary()
        if self._final is not None:
            return self._final
        return Summary.of(await self.mcp.method("episode", {"session_id": self.session_id}))

    @override
    async def _send(
        self, call_id: str, tool: str, arguments: JSONObject, model_turn: JSONObject | None
    ) -> CallResult:
        addressed = await self._address(tool, arguments)
        meta: Any = {CALL_ID_KEY: call_id} | ({} if model_turn is None else {MODEL_TURN: model_turn})
        limit = self.mcp.connection.patience.call_seconds
        with anyio.move_on_after(limit):
            answer = await self.mcp.ask(lambda: self.mcp.client.call_tool(tool, addressed, meta=meta))
            return result_of(call_id, tool, answer)
        raise CallTimeoutError(
            f"the call {call_id!r} of {tool!r} was not answered within {limit} seconds; it may still run"
        )

    @override
    async def steps(self) -> Sequence[JSONObject]:
        if self._owned is None:
            return await super().steps()
        return await self._owned.steps()

    @override
    async def _ping(self) -> None:
        await self._announced()

    async def aclose(self) -> None:
        """Delete the session over MCP and keep its final figures."""
        await self.mcp.method("delete", {"session_id": self.session_id})
        self._final = Summary.of(await self.mcp.method("episode", {"session_id": self.session_id}))

    async def _address(self, tool: str, arguments: JSONObject) -> JSONObject:
        del tool
        return arguments

    async def _announced(self) -> list[types.Tool]:
        return (await self.mcp.ask(self.mcp.client.list_tools)).tools


class AsyncLobbyEpisode(AsyncMcpEpisode):
    """An episode that is played with the lobby's tools, as an agent at `/mcp` does."""

    def __init__(self, mcp: McpConnection, place: SessionPlace, started: types.CallToolResult) -> None:
        """Play a session that the lobby started with this result, which has the prompt."""
        super().__init__(mcp, place)
        self._started = started
        self._handles: dict[str, str] | None = None

    @override
    async def blocks(self) -> list[Block]:
        opening, *rest = blocks_of(self._started.content)
        text = opening.text.partition(THE_TASK)[2] if isinstance(opening, TextBlock) else ""
        return [TextBlock(text=text), *rest] if text else rest

    @override
    async def messages(self) -> list[Message]:
        return [Message(role="user", blocks=[*await self.blocks()])]

    @override
    async def tools(self) -> ToolListing:
        return listing_of([tool for tool in await self._announced() if tool.name not in LOBBY_TOOLS])

    @override
    async def _address(self, tool: str, arguments: JSONObject) -> JSONObject:
        # Once: which parameter takes the session's id does not change while the lobby is connected.
        if self._handles is None:
            handles: dict[str, str] = {}
            for announced in await self._announced():
                properties: object = announced.input_schema.get("properties")
                names = cast("JSONObject", properties) if isinstance(properties, dict) else {}
                handles[announced.name] = next((name for name in HANDLES if name in names), "session_id")
            self._handles = handles
        return {**arguments, self._handles.get(tool, "session_id"): self.session_id}


@asynccontextmanager
async def play_agent_url(owned: AsyncOrsEpisode, pool: HttpPool, era: str) -> AsyncGenerator[AsyncMcpEpisode]:
    """Play a session at its agent's URL."""
    url = owned.access.get("agent_url")
    if url is None:
        raise NotSupportedError("only an ors-server has sessions that can be played over MCP")
    async with connect(url, pool, era) as mcp:
        yield AsyncMcpEpisode(mcp, owned.place, owned=owned)
