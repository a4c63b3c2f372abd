"""Which log lines the clients of the handshake era want; later clients say it with each request."""

from collections import OrderedDict
from collections.abc import Callable
from typing import get_args

import mcp_types as types

from ors_server.authoring.client import LogLevel
from ors_server.transports.mcp.sdk import Context, is_modern

_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
_KEPT = 10_000
"""Connections whose wish is remembered; the transport holds no more of them at a time."""


def requested_levels(context: Context) -> frozenset[LogLevel]:
    """Return which levels of log lines a request allows.

    A request of the later era names the least severe in its `_meta`, and without a name it gets none; the
    handshake era says it for the whole connection, so that there a request allows all.
    """
    if not is_modern(context):
        return frozenset(_LEVELS)
    least = (context.meta or {}).get(types.LOG_LEVEL_META_KEY)
    return frozenset(_LEVELS[_LEVELS.index(least) :] if least in _LEVELS else ())


class LogLevels:
    """The least severe level that each connection wants; all of them until it says so."""

    def __init__(self) -> None:
        """Start with nobody's wishes."""
        self._wanted: OrderedDict[str, frozenset[LogLevel]] = OrderedDict()

    async def set_level(self, context: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Remember a connection's wish.

        Args:
            context: The request.
            params: The least severe level.
        """
        self._wanted[_connection(context)] = frozenset(_LEVELS[_LEVELS.index(params.level) :])
        while len(self._wanted) > _KEPT:
            self._wanted.popitem(last=False)
        return types.EmptyResult()

    def of(self, context: Context) -> Callable[[], frozenset[LogLevel]]:
        """Return a function that says which levels a request's connection wants when it is called.

        Args:
            context: The request.
        """
        return lambda: self._wanted.get(_connection(context), frozenset(_LEVELS))


def _connection(context: Context) -> str:
    request = context.request
    return "" if request is None else str(request.headers.get("mcp-session-id", ""))
