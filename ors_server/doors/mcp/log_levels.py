"""The log levels that clients request: in the handshake era by connection, later by request."""

from collections import OrderedDict
from collections.abc import Callable
from typing import get_args

import mcp_types as types

from ors_server.doors.mcp.sdk import Context, is_modern
from ors_server.environments.calling_client import LogLevel

_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
_MAX_CONNECTIONS = 10_000
"""Connections whose level is remembered; the transport holds no more of them at a time."""


def requested_levels(context: Context) -> frozenset[LogLevel]:
    """Return which levels of log lines a request allows.

    In the later era the request names the least severe one in its `_meta`, and without it gets none. In the
    handshake era the connection decides, so each request allows all.
    """
    if not is_modern(context):
        return frozenset(_LEVELS)
    least = (context.meta or {}).get(types.LOG_LEVEL_META_KEY)
    return frozenset(_LEVELS[_LEVELS.index(least) :] if least in _LEVELS else ())


class LogLevels:
    """The levels that each connection of the handshake era wants; all of them until it sets one."""

    def __init__(self) -> None:
        self._levels: OrderedDict[str, frozenset[LogLevel]] = OrderedDict()

    async def set_level(self, context: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Remember the least severe level that a connection wants."""
        self._levels[_connection_of(context)] = frozenset(_LEVELS[_LEVELS.index(params.level) :])
        while len(self._levels) > _MAX_CONNECTIONS:
            self._levels.popitem(last=False)
        return types.EmptyResult()

    def of(self, context: Context) -> Callable[[], frozenset[LogLevel]]:
        """Return a function that gives the levels that a request's connection wants at that time."""
        return lambda: self._levels.get(_connection_of(context), frozenset(_LEVELS))


def _connection_of(context: Context) -> str:
    request = context.request
    return "" if request is None else str(request.headers.get("mcp-session-id", ""))
