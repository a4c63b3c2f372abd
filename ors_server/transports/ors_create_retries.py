"""Creations whose answer was lost: a client that repeats one byte for byte is told what it missed.

Both reference clients repeat `/create` when the connection breaks, and give the session up if they are then
told that it exists. Only a creation whose client was gone before the answer could be written may be repeated;
every other second creation of a live session is refused.
"""

import hashlib

import anyio

from ors_server.errors import SessionNotFoundError
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_request import SessionRequest
from ors_server.transports import http

LOST_KEPT = 1_024
"""Lost answers that are remembered; older ones are forgotten."""


class CreateRetries:
    """Creates sessions for a door."""

    def __init__(self, engine: SessionManager) -> None:
        """Remember nothing yet.

        Args:
            engine: Where sessions live.
        """
        self._engine = engine
        self._running: dict[str, anyio.Event] = {}
        self._lost: dict[str, bytes] = {}

    async def create(
        self, session_id: str, order: SessionRequest, fingerprint: bytes, receive: http.Receive
    ) -> None:
        """Create a session, unless this very creation was carried out and its answer lost.

        Args:
            session_id: The session.
            order: What is wanted.
            fingerprint: The same for two requests only if they are the same.
            receive: Tells whether the client is still there.
        """
        while session_id in self._running:
            await self._running[session_id].wait()
        ended = self._running[session_id] = anyio.Event()
        try:
            with http.watching(receive) as has_left:
                if not await self._was_lost(session_id, fingerprint):
                    await self._engine.create(order)
                if await has_left():
                    self._remember(session_id, fingerprint)
        finally:
            del self._running[session_id]
            ended.set()

    def _remember(self, session_id: str, fingerprint: bytes) -> None:
        self._lost[session_id] = fingerprint
        while len(self._lost) > LOST_KEPT:
            del self._lost[next(iter(self._lost))]

    async def _was_lost(self, session_id: str, fingerprint: bytes) -> bool:
        if self._lost.pop(session_id, None) != fingerprint:
            return False
        try:
            await self._engine.ping(session_id)
        except SessionNotFoundError:
            return False
        return True


def fingerprint_of(*parts: str | bytes | None) -> bytes:
    """Return a digest that two requests share only if they are the same.

    Args:
        *parts: What makes up a request.
    """
    digest = hashlib.sha256()
    for part in parts:
        data = b"" if part is None else part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(data) + data if part is not None else b"-")
    return digest.digest()
