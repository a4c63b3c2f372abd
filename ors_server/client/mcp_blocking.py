"""The blocking client that uses only MCP; generated, so do not edit."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Self

from typing_extensions import Unpack

from ors_server.client.blocking import Episode
from ors_server.client.client_options import ClientOptions
from ors_server.client.episode_request import EpisodeRequest
from ors_server.client.loop_thread import LoopThread
from ors_server.client.mcp_client import AsyncMcpClient
from ors_server.client.mcp_connection import Era


class McpClient:
    """A client of one server over MCP alone: `AsyncMcpClient` with methods that block."""

    def __init__(
        self, url: str, api_key: str | None = None, *, era: Era = "auto", options: ClientOptions | None = None
    ) -> None:
        """Start the loop and open nothing yet."""
        self.on_loop = AsyncMcpClient(url, api_key, era=era, options=options)
        """The async client."""
        self._loop = LoopThread(self.on_loop.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the sessions of open episodes, close all connections and end the loop."""
        self._loop.close()

    @contextmanager
    def episode(
        self, environment: str | None = None, **requested: Unpack[EpisodeRequest]
    ) -> Generator[Episode]:
        """Play a new episode at its own endpoint, with a trainer's key; its session is deleted at the end."""
        with self._loop.hold(self.on_loop.episode(environment, **requested)) as episode:
            yield Episode(self._loop, episode)

    @contextmanager
    def lobby_episode(self, environment: str, split: str, index: int) -> Generator[Episode]:
        """Play an episode with the lobby's tools, as an agent does; its session ends when it is idle."""
        with self._loop.hold(self.on_loop.lobby_episode(environment, split, index)) as episode:
            yield Episode(self._loop, episode)

    @contextmanager
    def agent_episode(self) -> Generator[Episode]:
        """Play the session of the client's endpoint, an `agent_url` or `mcp_url`, without deleting it."""
        with self._loop.hold(self.on_loop.agent_episode()) as episode:
            yield Episode(self._loop, episode)
