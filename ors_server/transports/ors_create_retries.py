"""Accepts a repeated `/create` if the answer to the same one was lost.

Both reference clients repeat `/create` when the connection breaks, and give the session up if the server
answers that it exists. A creation may be repeated, byte for byte, only if its client had disconnected before
the answer could be written; every other second creation of a live session is refused.
"""

import hashlib

import anyio

from ors_server.errors import SessionNotFoundError
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_request import SessionRequest
from ors_server.transports import http

MAX_LOST = 1_024
"""Most lost answers that are remembered; the oldest are forgotten first."""


class CreateRetries:
    """Creates sessions, each creation once."""

    def __init__(self, sessions: SessionManager) -> None:
        """Start without lost answers."""
        self._sessions = sessions
        self._running: dict[str, anyio.Event] = {}
        self._lost: dict[str, bytes] = {}

    async def create(
        self, session_id: str, request: SessionRequest, fingerprint: bytes, receive: http.Receive
    ) -> None:
        """Create a session, unless this very creation was carried out and its answer lost."""
        while session_id in self._running:
            await self._running[session_id].wait()
        ended = self._running[session_id] = anyio.Event()
        try:
            with http.watching_for_disconnect(receive) as has_left:
                if not await self._was_lost(session_id, fingerprint):
                    await self._sessions.create(request)
                if await has_left():
                    self._remember(session_id, fingerprint)
        finally:
            del self._running[session_id]
            ended.set()

    def _remember(self, session_id: str, fingerprint: bytes) -> None:
        self._lost[session_id] = fingerprint
        while len(self._lost) > MAX_LOST:
            del self._lost[next(iter(self._lost))]

    async def _was_lost(self, session_id: str, fingerprint: bytes) -> bool:
        if self._lost.pop(session_id, None) != fingerprint:
            return False
        try:
            await self._sessions.ping(session_id)
        except SessionNotFoundError:
            return False
        return True


def fingerprint_of(*parts: str | bytes | None) -> bytes:
    """Return a digest of a request's parts; two requests share it only if they are the same."""
    digest = hashlib.sha256()
    for part in parts:
        data = b"" if part is None else part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(data) + data if part is not None else b"-")
    return digest.digest()
