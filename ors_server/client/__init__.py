"""A client of ORS and MCP servers that checks its own sums.

`AsyncClient` and `Client` play episodes over the Open Reward Standard or MCP, and add up the rewards;
`check()` compares the sum with the server's. Importing this package loads neither the server nor MCP.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ors_server.client.agent_loop import Agent, Move, Played, Turn, play
from ors_server.client.app_transport import AppTransport
from ors_server.client.async_client import AsyncClient
from ors_server.client.async_episode import AsyncEpisode
from ors_server.client.blocking import Client, Episode
from ors_server.client.call_result import CallResult
from ors_server.client.client_errors import (
    BrokenAnswerError,
    CallLostError,
    CallTimeoutError,
    SumMismatchError,
    UnjudgedError,
    UnreachableError,
)
from ors_server.client.client_options import ClientOptions
from ors_server.client.connection import Patience
from ors_server.client.episode_request import EpisodeRequest
from ors_server.client.ledger import Ledger, Receipt
from ors_server.client.session_summary import Summary
from ors_server.deprecation import deprecated_names
from ors_server.model.failures import EpisodeFailure, FailureKind, FailureStage

if TYPE_CHECKING:
    from ors_server.client.mcp_blocking import McpClient
    from ors_server.client.mcp_client import AsyncMcpClient

__all__ = [
    "Agent",
    "AppTransport",
    "AsyncClient",
    "AsyncEpisode",
    "AsyncMcpClient",
    "BrokenAnswerError",
    "CallLostError",
    "CallResult",
    "CallTimeoutError",
    "Client",
    "ClientOptions",
    "Episode",
    "EpisodeFailure",
    "EpisodeRequest",
    "FailureKind",
    "FailureStage",
    "Ledger",
    "McpClient",
    "Move",
    "Patience",
    "Played",
    "Receipt",
    "SumMismatchError",
    "Summary",
    "Turn",
    "UnjudgedError",
    "UnreachableError",
    "play",
]

_find_old = deprecated_names(
    __name__, {"Wishes": "ors_server.client.episode_request:EpisodeRequest"}, removed_in="0.3"
)

_ON_USE = {"AsyncMcpClient": "mcp_client", "McpClient": "mcp_blocking"}
"""Names that load the MCP SDK, by the module that has them."""


def __getattr__(name: str) -> Any:
    """Load what needs the MCP SDK when it is used, and find deprecated names."""
    if name not in _ON_USE:
        return _find_old(name)
    return getattr(import_module(f"{__name__}.{_ON_USE[name]}"), name)
