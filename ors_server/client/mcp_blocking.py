"""The blocking client that speaks nothing but MCP; generated, so do not edit."""

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
    """A client of one server over MCP alone; the blocking twin of `AsyncMcpClient`."""

    def __init__(
        self, url: str, api_key: str | None = None, *, era: Era = "auto", options: ClientOptions | None = None
    ) -> None:
        """Start the loop; nothing is asked yet.

        Args:
            url: The server, for instance `http://127.0.0.1:8080`; or an endpoint that ends in `/mcp`.
            api_key: Sent as `X-API-Key`.
            era: Which protocol.
            options: Further settings.

        Raises:
            InvalidRequestError: If that is no such URL.
        """
        self.on_loop = AsyncMcpClient(url, api_key, era=era, options=options)
        """The client itself."""
        self._loop = LoopThread(self.on_loop.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the sessions of episodes that are open, close all connections and end the loop."""
        self._loop.close()

    @contextmanager
    def episode(self, environment: str | None = None, **wanted: Unpack[EpisodeRequest]) -> Generator[Episode]:
        """Play a new episode at its own endpoint, and delete its session at the end.

        Needs a trainer's credential.

        Args:
            environment: Name of the environment; the default one without.
            **wanted: `split` and `index`, or `task_spec`, and what else is wanted.

        Raises:
            ForbiddenError: If the credential is an agent's.
            NotSupportedError: If the server does not offer the extension.
        """
        with self._loop.hold(self.on_loop.episode(environment, **wanted)) as episode:
            yield Episode(self._loop, episode)

    @contextmanager
    def lobby_episode(self, environment: str, split: str, index: int) -> Generator[Episode]:
        """Play an episode by the lobby's tools, as an agent does that found the server's door.

        The session is left to the server, which ends it when it is idle.

        Args:
            environment: Name of the environment.
            split: Name of the split.
            index: Position of the task, from 0.

        Raises:
            InvalidRequestError: If the lobby refuses.
        """
        with self._loop.hold(self.on_loop.lobby_episode(environment, split, index)) as episode:
            yield Episode(self._loop, episode)

    @contextmanager
    def agent_episode(self) -> Generator[Episode]:
        """Play the one session whose endpoint the client was given: an `agent_url`, or an `mcp_url`.

        The session is left alive. Its figures are the trainer's, so that `summary` and `check` need an
        `mcp_url` and a trainer's credential.
        """
        with self._loop.hold(self.on_loop.agent_episode()) as episode:
            yield Episode(self._loop, episode)
