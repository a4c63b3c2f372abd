"""Defers a creation by a client that names the environment only in the paths of later requests.

The `ors-sdk` client sends `/create` with a split and an index and no environment, and then requests
`/{environment}/prompt` or `/{environment}/call`. Where several environments are served, the first of these
requests creates its session, so that the session has the environment of the path and not the default one.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import anyio

from ors_server.errors import SessionExistsError
from ors_server.sessions.session_request import SessionRequest

CLIENT = "ors-sdk/"
"""Prefix of that client's `User-Agent`."""

MAX_DEFERRED = 10_000
"""Most creations that wait for a path; the oldest are forgotten first."""

Create: TypeAlias = Callable[[SessionRequest], Awaitable[object]]


class DeferredCreates:
    """Creations that wait for the first path of their session."""

    def __init__(self, create: Create) -> None:
        """Start with none; `create` creates a session."""
        self._create = create
        self._waiting: dict[str, SessionRequest] = {}
        self._running: dict[str, anyio.Event] = {}

    def __contains__(self, session_id: str) -> bool:
        """Whether a session is still to be created."""
        return session_id in self._waiting

    def defer(self, session_id: str, request: SessionRequest) -> None:
        """Keep a creation until a path names its environment; the same creation may be repeated.

        Raises:
            SessionExistsError: If another creation waits under the same id.
        """
        if self._waiting.setdefault(session_id, request) != request or session_id in self._running:
            raise SessionExistsError("Session already exists")
        while len(self._waiting) > MAX_DEFERRED:
            del self._waiting[next(iter(self._waiting))]

    def forget(self, session_id: str) -> None:
        """Drop a creation, if it waits."""
        self._waiting.pop(session_id, None)

    async def carry_out(self, session_id: str, environment: str | None) -> None:
        """Create a session whose creation waits; once, however many requests for it arrive at the same time.

        Args:
            environment: As the path names it; `None` for the default one.

        Raises:
            OrsServerError: Whatever the creation raises; the next request tries again.
        """
        while session_id in self._running:
            await self._running[session_id].wait()
        request = self._waiting.get(session_id)
        if request is None:
            return
        ended = self._running[session_id] = anyio.Event()
        try:
            await self._create(replace(request, environment=environment))
            self.forget(session_id)
        finally:
            del self._running[session_id]
            ended.set()
