"""The door: one low-level MCP server for every endpoint, which finds the episode of each request anew."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import mcp_types as types
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ors_server.errors import OrsServerError
from ors_server.transports.mcp import episode
from ors_server.transports.mcp.calls import Answers, Player
from ors_server.transports.mcp.content import protocol_error
from ors_server.transports.mcp.extension import EnvironmentsExtension
from ors_server.transports.mcp.ground import Ground
from ors_server.transports.mcp.lobby import INSTRUCTIONS, Lobby
from ors_server.transports.mcp.loglevels import LogLevels
from ors_server.transports.mcp.long_results import shorten
from ors_server.transports.mcp.rounds import Rounds
from ors_server.transports.mcp.sdk import (
    CallNext,
    Context,
    Handler,
    HandlerResult,
    MCPError,
    Result,
    Server,
    announce_extension,
    is_modern,
    is_plain_call,
    make_server,
    server_identity,
)
from ors_server.transports.redaction import withhold

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
        self._player = Player(ground, self._rounds, self._levels)
        self._lobby = Lobby(ground, self._player)
        self.server = self._make_server(version)
        self._identity = server_identity(self.server)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Hold what outlives single requests; entered once, around everything that is served."""
        async with anyio.create_task_group() as tasks:
            self._rounds.open(tasks)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    def _make_server(self, version: str) -> Server[Any]:
        server = make_server(
            self._first,
            version=version,
            title="Open Reward Standard environments",
            instructions=INSTRUCTIONS,
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
        announce_extension(server, EnvironmentsExtension(self._ground), _guard_trainers)
        return server

    def _guard(self, handler: Handler) -> Handler:
        """Let the server's own errors reach the client as the protocol's."""

        async def guarded(context: Context, params: Any) -> HandlerResult:
            try:
                return await handler(context, params)
            except OrsServerError as error:
                raise self._tell(context, error) from error

        return guarded

    def _tell(self, context: Context, error: OrsServerError) -> MCPError:
        """Turn a failure into the protocol's, in words that an agent may read."""
        detail = str(error) if self._ground.asks_for_figures(context) else None
        return protocol_error(withhold(error), detail=detail)

    async def _first(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Put the episode's own instructions into the handshake, and take the short way with tool calls.

        The SDK validates a call's parameters twice and its result once more. A plain call needs neither: it
        is checked here, and its result is made in its wire form.
        """
        if ctx.method == "tools/call" and ctx.params is not None and is_plain_call(ctx):
            return shorten(ctx, await self._call_plainly(ctx, ctx.params))
        if ctx.method != "initialize":
            return shorten(ctx, await call_next(ctx))
        try:
            instructions = await self._instructions(ctx)
        except OrsServerError as error:
            raise self._tell(ctx, error) from error
        result = cast("Result", await call_next(ctx))
        # Handshakes have no place for extensions yet; what is not of the specification is experimental there.
        capabilities = {**result["capabilities"], "experimental": self.server.extensions}
        return {**result, **instructions, "capabilities": capabilities}

    async def _call_plainly(self, context: Context, params: Mapping[str, Any]) -> Result:
        tool: str = params["name"]
        arguments: dict[str, Any] = params.get("arguments") or {}
        try:
            session_id = self._ground.address(context)
            if session_id is None:
                result = await self._lobby.call_tool(context, tool, arguments)
            else:
                result = await self._player.call_tool(context, session_id, tool, arguments)
        except OrsServerError as error:
            raise self._tell(context, error) from error
        return self._stamp(result) if is_modern(context) else result

    def _stamp(self, result: Result) -> Result:
        """Say who answers, as every result of the later era must."""
        return {**result, "_meta": {**result.get("_meta", {}), SERVER_INFO_META_KEY: self._identity}}

    async def _instructions(self, context: Context) -> Result:
        session_id = self._ground.address(context)
        return {
            "instructions": INSTRUCTIONS
            if session_id is None
            else await episode.instructions(self._engine, session_id)
        }

    async def _discover(self, context: Context, _params: object) -> HandlerResult:
        return {
            **_TRANSIENT,
            **(await self._instructions(context)),
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
        tool, arguments, answers = params.name, params.arguments or {}, Answers.of(params)
        session_id = self._ground.address(context)
        if session_id is None:
            return await self._lobby.call_tool(context, tool, arguments, answers)
        return await self._player.call_tool(context, session_id, tool, arguments, answers)

    async def _list_prompts(self, context: Context, _params: object) -> HandlerResult:
        session_id = self._ground.address(context)
        return {
            "prompts": [] if session_id is None else episode.list_prompts(self._engine, session_id),
            **_TRANSIENT,
        }

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> HandlerResult:
        session_id = self._episode(context, "prompts")
        return await episode.get_prompt(self._engine, self._player, context, params, session_id)

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
        return await episode.read_resource(self._engine, self._player, context, params, session_id)

    async def _complete(self, context: Context, params: types.CompleteRequestParams) -> HandlerResult:
        return episode.complete(self._engine, params, self._ground.address(context))

    def _episode(self, context: Context, what: str) -> str:
        session_id = self._ground.address(context)
        if session_id is None:
            text = f"the lobby has no {what}; they belong to an episode's own endpoint"
            raise MCPError(types.INVALID_PARAMS, text)
        return session_id


def _guard_trainers(handler: Handler) -> Handler:
    """Let the server's own errors reach a trainer's program, in full."""

    async def guarded(context: Context, params: Any) -> HandlerResult:
        try:
            return await handler(context, params)
        except OrsServerError as error:
            raise protocol_error(error) from error

    return guarded


async def _accept(
    _context: Context, _params: types.SubscribeRequestParams | types.UnsubscribeRequestParams
) -> types.EmptyResult:
    """Accept a subscription: the resources of an episode do not change, so nothing is ever sent."""
    return types.EmptyResult()
