"""The door: one low-level MCP server for every endpoint, which finds the episode of each request anew."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from ors_server.errors import OrsServerError
from ors_server.transports.mcp import episode
from ors_server.transports.mcp.calls import Caller
from ors_server.transports.mcp.clients import Context, Result
from ors_server.transports.mcp.content import protocol_error
from ors_server.transports.mcp.extension import add_extension
from ors_server.transports.mcp.ground import Ground
from ors_server.transports.mcp.lobby import INSTRUCTIONS, Lobby
from ors_server.transports.mcp.loglevels import LogLevels
from ors_server.transports.mcp.rounds import Rounds

Handler: TypeAlias = Callable[[Context, Any], Awaitable[HandlerResult]]

_TRANSIENT = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class McpDoor:
    """Serves MCP in both eras, over HTTP and stdio."""

    def __init__(self, ground: Ground, *, version: str) -> None:
        """Announce everything that is served.

        Args:
            ground: Where sessions live, and who may enter.
            version: The server's version.
        """
        self._ground = ground
        self._rounds = Rounds()
        self._levels = LogLevels()
        self._engine = ground.engine
        self._caller = Caller(ground.engine, self._rounds, self._levels)
        self._lobby = Lobby(ground, self._caller)
        self.server = self._make_server(version)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Hold what outlives single requests; entered once, around everything that is served."""
        async with anyio.create_task_group() as tasks:
            self._rounds.open(tasks)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    def _make_server(self, version: str) -> Server[Any]:
        server: Server[Any] = Server(
            "ors-server",
            version=version,
            title="Open Reward Standard environments",
            instructions=INSTRUCTIONS,
            get_tool_input_schema=lambda _name: None,
            on_list_tools=self._guard(self._list_tools),
            on_call_tool=self._guard(self._call_tool),
            on_list_prompts=self._guard(self._list_prompts),
            on_get_prompt=self._guard(self._get_prompt),
            on_list_resources=self._guard(self._list_resources),
            on_list_resource_templates=self._guard(self._list_templates),
            on_read_resource=self._guard(self._read_resource),
            on_subscribe_resource=_accept,
            on_unsubscribe_resource=_accept,
            on_completion=self._guard(self._complete),
        )
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._levels.set_level)
        server.add_request_handler("server/discover", types.RequestParams, self._guard(self._discover))
        add_extension(server, self._ground, self._guard)
        server.middleware.append(self._instruct)
        return server

    def _guard(self, handler: Handler) -> Any:
        """Let the server's own errors reach the client as the protocol's."""

        async def guarded(context: Context, params: Any) -> HandlerResult:
            try:
                return await handler(context, params)
            except OrsServerError as error:
                raise protocol_error(error) from error

        return guarded

    async def _instruct(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Put the episode's own instructions into the handshake."""
        if ctx.method != "initialize":
            return await call_next(ctx)
        instructions = await self._guard(self._instructions)(ctx, None)
        result = await call_next(ctx)
        if isinstance(result, dict):
            return {**result, **instructions}
        return result

    async def _instructions(self, context: Context, _params: object) -> Result:
        session_id = self._ground.address(context)
        return {
            "instructions": INSTRUCTIONS
            if session_id is None
            else await episode.instructions(self._engine, session_id)
        }

    async def _discover(self, context: Context, params: types.RequestParams) -> HandlerResult:
        return {
            **_TRANSIENT,
            **(await self._instructions(context, params)),
            "supportedVersions": list(MODERN_PROTOCOL_VERSIONS),
            "capabilities": self.server.get_capabilities(
                protocol_version=context.protocol_version
            ).model_dump(by_alias=True, mode="json", exclude_none=True),
        }

    async def _list_tools(self, context: Context, _params: object) -> HandlerResult:
        session_id = self._ground.address(context)
        tools = (
            self._lobby.catalogue.tools
            if session_id is None
            else await episode.list_tools(self._engine, session_id)
        )
        return {"tools": tools, **_TRANSIENT}

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> HandlerResult:
        session_id = self._ground.address(context)
        if session_id is None:
            return await self._lobby.call_tool(context, params)
        return await self._caller.call_tool(context, params, session_id, params.arguments or {})

    async def _list_prompts(self, context: Context, _params: object) -> HandlerResult:
        session_id = self._ground.address(context)
        return {
            "prompts": [] if session_id is None else episode.list_prompts(self._engine, session_id),
            **_TRANSIENT,
        }

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> HandlerResult:
        session_id = self._episode(context, "prompts")
        return await episode.get_prompt(self._engine, self._caller, context, params, session_id)

    async def _list_resources(self, context: Context, _params: object) -> HandlerResult:
        session_id = self._ground.address(context)
        return {
            "resources": [] if session_id is None else episode.list_resources(self._engine, session_id),
            **_TRANSIENT,
        }

    async def _list_templates(self, context: Context, _params: object) -> HandlerResult:
        session_id = self._ground.address(context)
        return {
            "resourceTemplates": []
            if session_id is None
            else episode.list_templates(self._engine, session_id),
            **_TRANSIENT,
        }

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> HandlerResult:
        session_id = self._episode(context, "resources")
        return await episode.read_resource(self._engine, self._caller, context, params, session_id)

    async def _complete(self, context: Context, params: types.CompleteRequestParams) -> HandlerResult:
        return episode.complete(self._engine, params, self._ground.address(context))

    def _episode(self, context: Context, what: str) -> str:
        session_id = self._ground.address(context)
        if session_id is None:
            text = f"the lobby has no {what}; they belong to an episode's own endpoint"
            raise MCPError(types.INVALID_PARAMS, text)
        return session_id


async def _accept(
    _context: Context, _params: types.SubscribeRequestParams | types.UnsubscribeRequestParams
) -> types.EmptyResult:
    """Accept a subscription: the resources of an episode do not change, so nothing is ever sent."""
    return types.EmptyResult()
