"""A client of one server over MCP alone."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

from typing_extensions import Unpack

from ors_server.client.async_episode import kept_open
from ors_server.client.client_options import ClientOptions, HttpPool, given_options, given_url
from ors_server.client.episode_request import EpisodeRequest, check_request, control_body
from ors_server.client.mcp_connection import Era, connect
from ors_server.client.mcp_content import start_of
from ors_server.client.mcp_episode import AsyncLobbyEpisode, AsyncMcpEpisode
from ors_server.client.server import SessionPlace
from ors_server.client.typed_answers import McpAccessFields, PlayedFields, read_answer
from ors_server.model.errors import SessionExistsError
from ors_server.model.wire import JSONObject

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
            url: The server, for instance `http://127.0.0.1:8080`, or an endpoint that ends in `/mcp`.
        """
        address = given_url(url)
        path = urlsplit(address).path.rstrip("/")
        self.endpoint = address if path.endswith("/mcp") else f"{address}/mcp"
        self._root = self.endpoint.removesuffix("/mcp")
        self._pool = HttpPool(self._root, api_key, given_options(options))
        self._era = era

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.connection.http.aclose()

    @asynccontextmanager
    async def episode(
        self, environment: str | None = None, **requested: Unpack[EpisodeRequest]
    ) -> AsyncGenerator[AsyncMcpEpisode]:
        """Play a new episode at its own endpoint, with a trainer's key; its session is deleted at the end.

        Args:
            **requested: The fields of [`EpisodeRequest`][ors_server.client.EpisodeRequest].

        Raises:
            ForbiddenError: If the credential is an agent's.
            NotSupportedError: If the server does not offer the extension.
        """
        check_request(requested)
        session = await self._create(environment, requested)
        async with connect(f"{self._root}/sessions/{session.session_id}/mcp", self._pool, self._era) as mcp:
            episode = AsyncMcpEpisode(mcp, session)
            async with kept_open(episode, mcp.connection, [episode.aclose]):
                yield episode

    async def _create(self, environment: str | None, requested: EpisodeRequest) -> SessionPlace:
        session_id = requested.get("session_id") or str(uuid4())
        answer: JSONObject = {}
        async with connect(self.endpoint, self._pool, self._era) as lobby:
            try:
                answer = await lobby.method("create", control_body(environment, requested, session_id))
            except SessionExistsError:
                if requested.get("session_id") is not None:
                    raise  # a random id exists only if an answer was lost
            status = await lobby.method("episode", {"session_id": session_id})
        environment = read_answer(PlayedFields, status, "the answer of the method episode")["environment"]
        return SessionPlace(session_id, environment, self._access(answer))

    def _access(self, answer: JSONObject) -> dict[str, str]:
        if "agent_path" not in answer:
            return {}
        access = read_answer(McpAccessFields, answer, "the answer of the method create")
        return {
            "agent_token": access["agent_token"],
            "agent_url": f"{self._root}{access['agent_path']}",
            "mcp_url": f"{self._root}{access['path']}",
        }

    @asynccontextmanager
    async def lobby_episode(
        self, environment: str, split: str, index: int
    ) -> AsyncGenerator[AsyncLobbyEpisode]:
        """Play an episode with the lobby's tools, as an agent does; its session ends when it is idle.

        Args:
            index: Position of the task in its split, from 0.

        Raises:
            InvalidRequestError: If the lobby refuses.
        """
        requested: dict[str, Any] = {"environment": environment, "split": split, "index": index}
        async with connect(self.endpoint, self._pool, self._era) as lobby:
            answer = await lobby.ask(lambda: lobby.client.call_tool(START_EPISODE, requested))
            yield AsyncLobbyEpisode(lobby, SessionPlace(start_of(answer), environment), answer)

    @asynccontextmanager
    async def agent_episode(self) -> AsyncGenerator[AsyncMcpEpisode]:
        """Play the session of the client's endpoint, an `agent_url` or `mcp_url`, without deleting it.

        `summary` and `check` need an `mcp_url` and a trainer's key.
        """
        async with connect(self.endpoint, self._pool, self._era) as mcp:
            segments = urlsplit(self.endpoint).path.split("/")
            session_id = segments[segments.index("sessions") + 1] if "sessions" in segments else ""
            episode = AsyncMcpEpisode(mcp, SessionPlace(session_id, ""))
            async with kept_open(episode, mcp.connection, []):
                yield episode
