"""A client of one server that speaks nothing but MCP."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

from typing_extensions import Unpack

from ors_server.client.async_episode import kept_open
from ors_server.client.client_options import ClientOptions, Reach, given_options, given_url
from ors_server.client.episode_request import EpisodeRequest, check_request, control_body
from ors_server.client.mcp_connection import Era, connect
from ors_server.client.mcp_content import start_of
from ors_server.client.mcp_episode import AsyncLobbyEpisode, AsyncMcpEpisode
from ors_server.client.server import SessionPlace
from ors_server.errors import SessionExistsError
from ors_server.wire import JSONObject

START_EPISODE = "start_episode"
"""The lobby's tool that starts an episode."""


class AsyncMcpClient:
    """A client of one server over MCP alone."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        era: Era = "auto",
        options: ClientOptions | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            url: The server, for instance `http://127.0.0.1:8080`; or an endpoint that ends in `/mcp`.
            api_key: Sent as `X-API-Key`.
            era: Which protocol.
            options: Further settings.

        Raises:
            InvalidRequestError: If that is no such URL.
        """
        address = given_url(url)
        path = urlsplit(address).path.rstrip("/")
        self.endpoint = address if path.endswith("/mcp") else f"{address}/mcp"
        self._root = self.endpoint.removesuffix("/mcp")
        self._reach = Reach(self._root, api_key, given_options(options))
        self._era = era

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._reach.connection.http.aclose()

    @asynccontextmanager
    async def episode(
        self, environment: str | None = None, **wanted: Unpack[EpisodeRequest]
    ) -> AsyncGenerator[AsyncMcpEpisode]:
        """Play a new episode at its own endpoint, and delete its session at the end.

        Needs a trainer's credential.

        Args:
            environment: Name of the environment; the default one without.
            **wanted: `split` and `index`, or `task_spec`, and what else is wanted.

        Raises:
            ForbiddenError: If the credential is an agent's.
            NotSupportedError: If the server does not offer the extension.
        """
        check_request(wanted)
        place = await self._create(environment, wanted)
        async with connect(f"{self._root}/sessions/{place.session_id}/mcp", self._reach, self._era) as mcp:
            episode = AsyncMcpEpisode(mcp, place)
            async with kept_open(episode, mcp.connection, [episode.aclose]):
                yield episode

    async def _create(self, environment: str | None, wanted: EpisodeRequest) -> SessionPlace:
        session_id = wanted.get("session_id") or str(uuid4())
        told: JSONObject = {}
        async with connect(self.endpoint, self._reach, self._era) as lobby:
            try:
                told = await lobby.method("create", control_body(environment, wanted, session_id))
            except SessionExistsError:
                if wanted.get("session_id") is not None:
                    raise  # somebody else's; an id of our own exists only if an answer was lost
            status = await lobby.method("episode", {"session_id": session_id})
        return SessionPlace(session_id, status["environment"], self._access(told))

    def _access(self, told: JSONObject) -> dict[str, str]:
        if "agent_path" not in told:
            return {}
        return {
            "agent_token": str(told["agent_token"]),
            "agent_url": f"{self._root}{told['agent_path']}",
            "mcp_url": f"{self._root}{told['path']}",
        }

    @asynccontextmanager
    async def lobby_episode(
        self, environment: str, split: str, index: int
    ) -> AsyncGenerator[AsyncLobbyEpisode]:
        """Play an episode by the lobby's tools, as an agent does that found the server's door.

        The session is left to the server, which ends it when it is idle.

        Args:
            environment: Name of the environment.
            split: Name of the split.
            index: Position of the task, from 0.

        Raises:
            InvalidRequestError: If the lobby refuses.
        """
        wanted: dict[str, Any] = {"environment": environment, "split": split, "index": index}
        async with connect(self.endpoint, self._reach, self._era) as lobby:
            told = await lobby.ask(lambda: lobby.client.call_tool(START_EPISODE, wanted))
            yield AsyncLobbyEpisode(lobby, SessionPlace(start_of(told), environment), told)

    @asynccontextmanager
    async def agent_episode(self) -> AsyncGenerator[AsyncMcpEpisode]:
        """Play the one session whose endpoint the client was given: an `agent_url`, or an `mcp_url`.

        The session is left alive. Its figures are the trainer's, so that `summary` and `check` need an
        `mcp_url` and a trainer's credential.
        """
        async with connect(self.endpoint, self._reach, self._era) as mcp:
            episode = AsyncMcpEpisode(mcp, SessionPlace(_session_of(self.endpoint), ""))
            async with kept_open(episode, mcp.connection, []):
                yield episode


def _session_of(endpoint: str) -> str:
    segments = urlsplit(endpoint).path.split("/")
    return segments[segments.index("sessions") + 1] if "sessions" in segments else ""
