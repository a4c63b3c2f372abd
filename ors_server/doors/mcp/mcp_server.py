"""The MCP server behind every endpoint: it looks the session of each request up."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import anyio
import mcp_types as types
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ors_server.doors.access import withhold
from ors_server.doors.mcp import episode_endpoint
from ors_server.doors.mcp.deferred_calls import DeferredCalls
from ors_server.doors.mcp.extension import EnvironmentsExtension
from ors_server.doors.mcp.input_requests import InputRequests
from ors_server.doors.mcp.lobby import INSTRUCTIONS, Lobby
from ors_server.doors.mcp.log_levels import LogLevels
from ors_server.doors.mcp.long_results import replace_long_values
from ors_server.doors.mcp.mcp_calls import InputResponses, McpCalls
from ors_server.doors.mcp.mcp_results import EXTENSION, protocol_error
from ors_server.doors.mcp.sdk import (
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
from ors_server.doors.mcp.server_card import DESCRIPTION, ICON, TITLE, WEBSITE
from ors_server.doors.mcp.session_access import SessionAccess
from ors_server.doors.mcp.skills import SKILL_URI, SKILLS_EXTENSION, SkillsExtension, read_skill
from ors_server.model.errors import InvalidRequestError, OrsServerError
from ors_server.sessions.session import Session

_TRANSIENT = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
MAX_HANDSHAKE_BYTES = 64 * 1024
"""Bytes of a client's description and capabilities, which the SDK keeps as long as the connection."""


class McpServer:
    """Serves MCP in both eras, over HTTP and stdio."""

    def __init__(self, access: SessionAccess, *, version: str) -> None:
        self._access = access
        self._input_requests = InputRequests()
        self._levels = LogLevels()
        self._sessions = access.sessions
        self._deferred = DeferredCalls(access, self._protocol_error)
        self._calls = McpCalls(access, self._input_requests, self._levels, self._deferred)
        self._lobby = Lobby(access, self._calls)
        self.server = self._make_server(version)
        self._identity = server_identity(self.server)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Keep calls that outlive their requests; entered once, around everything that is served."""
        async with anyio.create_task_group() as tasks:
            self._input_requests.run_in(tasks)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    def _make_server(self, version: str) -> Server[Any]:
        server = make_server(
            self._middleware,
            version=version,
            title=TITLE,
            description=DESCRIPTION,
            website_url=WEBSITE,
            icons=[types.Icon.model_validate(ICON)],
            instructions=INSTRUCTIONS,
            on_list_tools=self._guard(self._list_tools),
            on_call_tool=self._guard(self._call_tool),
            on_list_prompts=self._list("prompts", episode_endpoint.list_prompts),
            on_get_prompt=self._guard(self._get_prompt),
            on_list_resources=self._list("resources", episode_endpoint.list_resources),
            on_list_resource_templates=self._list("resourceTemplates", episode_endpoint.list_templates),
            on_read_resource=self._guard(self._read_resource),
            on_subscribe_resource=_accept,
            on_unsubscribe_resource=_accept,
            on_completion=self._guard(self._complete),
            on_subscriptions_listen=self._guard(self._follow_changes),
        )
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._levels.set_level)
        server.add_request_handler("server/discover", types.RequestParams, self._guard(self._discover))
        # For trainers: its errors have all details.
        guard_trainers = partial(_guarded, convert=lambda _context, error: protocol_error(error))
        announce_extension(server, EnvironmentsExtension(self._access), guard_trainers)
        announce_extension(server, self._deferred, self._guard)
        announce_extension(server, SkillsExtension(self._access), self._guard)
        return server

    def _guard(self, handler: Handler) -> Handler:
        return _guarded(handler, self._protocol_error)

    def _protocol_error(self, context: Context, error: OrsServerError) -> MCPError:
        """Turn an error into a JSON-RPC error that an agent may read."""
        detail = str(error) if self._access.may_read_reasons(context) else None
        return protocol_error(withhold(error), detail=detail)

    async def _middleware(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer plain tool calls here, and put the episode's instructions into the handshake.

        The SDK validates a call's parameters twice and its result once. A plain call needs neither:
        `is_plain_call` checks the parameters, and the result is built in its wire form.
        """
        if ctx.request_id is None:  # a notification has no answer, so it runs no call
            return await call_next(ctx)
        if ctx.method == "tools/call" and ctx.params is not None and is_plain_call(ctx):
            return replace_long_values(ctx, await self._call_plainly(ctx, ctx.params))
        if ctx.method != "initialize":
            return replace_long_values(ctx, await call_next(ctx))
        try:
            _check_handshake(ctx.params)
            instructions = await self._instructions(ctx)
        except OrsServerError as error:
            raise self._protocol_error(ctx, error) from error
        result = cast("Result", await call_next(ctx))
        # Handshakes have no place for extensions yet; what is not of the specification is experimental there.
        own = {EXTENSION: self.server.extensions[EXTENSION]}
        capabilities = {**result["capabilities"], "experimental": own}
        if self._access.find_session(ctx) is None:
            capabilities["tools"] = {**capabilities["tools"], "listChanged": True}
        return {**result, **instructions, "capabilities": capabilities}

    async def _call_plainly(self, context: Context, params: Mapping[str, Any]) -> Result:
        tool: str = params["name"]
        arguments: dict[str, Any] = params.get("arguments") or {}
        try:
            session_id = self._access.find_session(context)
            if session_id is None:
                result = await self._lobby.call_tool(context, tool, arguments)
            else:
                result = await self._calls.call_tool(context, session_id, tool, arguments)
        except OrsServerError as error:
            raise self._protocol_error(context, error) from error
        return self._stamp(result) if is_modern(context) else result

    def _stamp(self, result: Result) -> Result:
        """Add the server's identity, which every result of the later era must carry."""
        return {**result, "_meta": {**result.get("_meta", {}), SERVER_INFO_META_KEY: self._identity}}

    async def _instructions(self, context: Context) -> Result:
        session = await self._find(context)
        text = INSTRUCTIONS if session is None else await episode_endpoint.instructions(session)
        return {"instructions": text}

    async def _discover(self, context: Context, _params: object) -> HandlerResult:
        offered = self.server.get_capabilities(protocol_version=context.protocol_version)
        capabilities = offered.model_dump(by_alias=True, mode="json", exclude_none=True)
        is_lobby = self._access.find_session(context) is None
        # The lobby's tools are all that ever changes.
        capabilities["tools"]["listChanged"] = is_lobby
        capabilities["prompts"]["listChanged"] = False
        capabilities["resources"] |= {"listChanged": False, "subscribe": False}
        if not is_lobby:
            del capabilities["extensions"][SKILLS_EXTENSION]
        return {
            **_TRANSIENT,
            **(await self._instructions(context)),
            "supportedVersions": list(MODERN_PROTOCOL_VERSIONS),
            "capabilities": capabilities,
        }

    async def _follow_changes(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> HandlerResult:
        """Tell a client of the later era that the lobby lists other tools."""
        if self._access.find_session(context) is not None:
            raise MCPError(types.METHOD_NOT_FOUND, "nothing that an episode lists ever changes")
        return await self._lobby.listen(context, params)

    def end_subscriptions(self) -> None:
        """End the streams by which clients learn of changes."""
        self._lobby.listen.close()

    async def _list_tools(self, context: Context, _params: object) -> HandlerResult:
        session = await self._find(context)
        if session is None:
            tools = self._lobby.list_tools(context)
        else:
            tools = await episode_endpoint.list_tools(session)
        return {"tools": tools, **_TRANSIENT}

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> HandlerResult:
        tool, arguments, responses = params.name, params.arguments or {}, InputResponses.of(params)
        session_id = self._access.find_session(context)
        if session_id is None:
            return await self._lobby.call_tool(context, tool, arguments, responses)
        return await self._calls.call_tool(context, session_id, tool, arguments, responses)

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> HandlerResult:
        session = await self._require_episode(context, "prompts")
        return await episode_endpoint.get_prompt(session, self._calls, context, params)

    def _list(self, key: str, list_all: Callable[[Session], list[Result]]) -> Handler:
        """Return the handler that lists what an episode offers; the lobby offers nothing of it."""

        async def list_offers(context: Context, _params: object) -> HandlerResult:
            session = await self._find(context)
            return {key: [] if session is None else list_all(session), **_TRANSIENT}

        return self._guard(list_offers)

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> HandlerResult:
        if params.uri == SKILL_URI and self._access.find_session(context) is None:
            return read_skill()
        session = await self._require_episode(context, "resources")
        return await episode_endpoint.read_resource(session, self._calls, context, params)

    async def _complete(self, context: Context, params: types.CompleteRequestParams) -> HandlerResult:
        return episode_endpoint.complete(await self._find(context), params)

    async def _find(self, context: Context) -> Session | None:
        """Return the session of a request, or `None` in the lobby; `SessionNotFoundError` if it is gone."""
        session_id = self._access.find_session(context)
        return None if session_id is None else await self._sessions.obtain(session_id)

    async def _require_episode(self, context: Context, feature: str) -> Session:
        session = await self._find(context)
        if session is None:
            text = f"the lobby has no {feature}: request them at an episode's own endpoint"
            raise MCPError(types.INVALID_PARAMS, text)
        return session


def _guarded(handler: Handler, convert: Callable[[Context, OrsServerError], MCPError]) -> Handler:
    async def guarded(context: Context, params: Any) -> HandlerResult:
        try:
            return await handler(context, params)
        except OrsServerError as error:
            raise convert(context, error) from error

    return guarded


async def _accept(
    _context: Context, _params: types.SubscribeRequestParams | types.UnsubscribeRequestParams
) -> types.EmptyResult:
    """Accept a subscription; an episode's resources never change, so no notification follows."""
    return types.EmptyResult()


def _check_handshake(params: Mapping[str, Any] | None) -> None:
    size = len(json.dumps(params))
    if size > MAX_HANDSHAKE_BYTES:
        raise InvalidRequestError(
            f"expected at most {MAX_HANDSHAKE_BYTES:,} bytes as the parameters of initialize, got {size:,}; "
            "leave out icons and long descriptions of the client"
        )
