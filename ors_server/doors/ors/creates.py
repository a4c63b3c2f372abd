"""Creations of sessions over ORS: their secrets, and what clients repeat, or complete by a later path.

Both reference clients repeat `/create` when the connection breaks, and give the session up if the server
answers that it exists. The `ors-sdk` client names an environment only in the paths of later requests.
"""

import asyncio
import base64
import binascii
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias
from weakref import WeakValueDictionary

from ors_server.doors.http import messages as http
from ors_server.model.errors import InvalidRequestError, SessionExistsError, SessionNotFoundError
from ors_server.model.wire import Secret
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_request import SessionRequest

MAX_LOST = 1_024
"""Maximum number of lost answers that are remembered; the oldest are forgotten first."""

DEFERRING_USER_AGENT = "ors-sdk/"
"""Prefix of the `User-Agent` of the client that names the environment later."""

MAX_DEFERRED = 10_000
"""Maximum number of creations that wait for a path; the oldest are forgotten first."""

Create: TypeAlias = Callable[[SessionRequest], Awaitable[object]]


def read_secrets(header: str | None) -> dict[str, str]:
    """Read the `X-Secrets` header: base64 of a JSON object `{name: {"value": …, "allowed_domains": […]}}`.

    Raises:
        InvalidRequestError: If it has another form; the message never repeats the header.
    """
    if header is None:
        return {}
    try:
        decoded = json.loads(base64.b64decode(header, validate=True))
        return {name: Secret.model_validate(secret).value for name, secret in decoded.items()}
    except (binascii.Error, ValueError, AttributeError, RecursionError):
        raise InvalidRequestError(
            'expected X-Secrets as base64 of a JSON object {"NAME": {"value": "..."}}'
        ) from None


class CreateRetries:
    """Creates sessions, each creation once.

    A creation may be repeated, byte for byte, only if its answer was probably not read: the client had
    disconnected before it could be written, or the connection was reset after that, and no call was made in
    the session. Every other second creation of a live session is refused.
    """

    def __init__(self, sessions: SessionManager) -> None:
        self._sessions = sessions
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._lost: dict[str, bytes] = {}

    async def create(
        self,
        session_id: str,
        request: SessionRequest,
        fingerprint: bytes,
        receive: http.Receive,
        exchange: http.Exchange | None = None,
    ) -> None:
        """Create a session, unless this very creation was carried out and its answer lost."""
        async with self._locks.setdefault(session_id, asyncio.Lock()):
            with http.watching_for_disconnect(receive, exchange) as has_left:
                if not self._was_lost(session_id, fingerprint):
                    await self._sessions.create(request)
                remember = partial(self._remember, session_id, fingerprint)
                if await has_left():
                    remember()
                elif exchange is not None:
                    exchange.on_unread = remember

    def _remember(self, session_id: str, fingerprint: bytes) -> None:
        self._lost[session_id] = fingerprint
        while len(self._lost) > MAX_LOST:
            del self._lost[next(iter(self._lost))]

    def _was_lost(self, session_id: str, fingerprint: bytes) -> bool:
        if self._lost.pop(session_id, None) != fingerprint:
            return False
        try:
            session = self._sessions.find(session_id)
        except SessionNotFoundError:
            return False
        # A client that makes calls has the answer: then the repeat is another client's, which must not join.
        return not session.running_calls and session.recorder.summary().steps == 0


def fingerprint_of(*parts: str | bytes | None) -> bytes:
    """Return a digest of a request's parts; two requests share it only if they are the same."""
    digest = hashlib.sha256()
    for part in parts:
        data = b"" if part is None else part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(data) + data if part is not None else b"-")
    return digest.digest()


class DeferredCreates:
    """Creations with a split and an index and no environment, which wait for the first path of their session.

    Where several environments are served, the session then has the environment of the path and not the
    default one.
    """

    def __init__(self, create: Create) -> None:
        """Start with none; `create` creates a session."""
        self._create = create
        self.waiting: dict[str, SessionRequest] = {}
        """The sessions that are still to be created, by id."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def defer(self, session_id: str, request: SessionRequest) -> None:
        """Keep a creation until a path names its environment; the same creation may be repeated.

        Raises:
            SessionExistsError: If another creation waits under the same id.
        """
        # A lock exists only while a path's request carries the creation out: then a repeat is too late.
        if self.waiting.setdefault(session_id, request) != request or session_id in self._locks:
            raise SessionExistsError("Session already exists")
        while len(self.waiting) > MAX_DEFERRED:
            del self.waiting[next(iter(self.waiting))]

    def forget(self, session_id: str) -> None:
        """Drop a creation, if it waits."""
        self.waiting.pop(session_id, None)

    async def carry_out(self, session_id: str, environment: str | None) -> None:
        """Create a session whose creation waits; once, however many requests for it arrive at the same time.

        Args:
            environment: As the path names it; `None` for the default one.

        Raises:
            OrsServerError: Any error of the creation; the next request tries again.
        """
        async with self._locks.setdefault(session_id, asyncio.Lock()):
            request = self.waiting.get(session_id)
            if request is not None:
                await self._create(replace(request, environment=environment))
                self.forget(session_id)
