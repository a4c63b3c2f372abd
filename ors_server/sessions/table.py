"""The calls of one session by id: each runs once, and everybody who asks for its id gets its one result."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio

from ors_server.call_clock import make_scope
from ors_server.errors import CallCancelledError, OrsServerError, ShuttingDownError
from ors_server.logs import get_logger
from ors_server.sessions.calls import Call, CallResult, Fault, Refusal
from ors_server.sessions.services import Services

log = get_logger("ors_server.session")

Perform: TypeAlias = Callable[[Call], Awaitable[CallResult]]

AFTER_END_KEPT = 64
"""Refused calls after the end whose answers stay readable; older ones are forgotten."""


class CallTable:
    """Starts, keeps and stops the calls of one session."""

    __slots__ = ("_after_end", "_known", "_on_end", "_running", "_services", "_session_id", "_why_stopped")

    def __init__(self, session_id: str, services: Services, on_end: Callable[[], None]) -> None:
        """Start without calls.

        Args:
            session_id: The session, for the log.
            services: What all sessions share.
            on_end: Called whenever a call has ended.
        """
        self._session_id = session_id
        self._services = services
        self._on_end = on_end
        self._known: dict[str, Call] = {}
        self._running: set[Call] = set()
        self._after_end: list[str] = []
        self._why_stopped: Callable[[], OrsServerError] | None = None

    @property
    def running(self) -> int:
        """How many calls have no result yet."""
        return len(self._running)

    def get(self, call_id: str | None) -> Call | None:
        """Return the call of that id, or `None`.

        Args:
            call_id: The id.
        """
        return None if call_id is None else self._known.get(call_id)

    def start(self, call: Call, perform: Perform) -> None:
        """Run a call in the background.

        Args:
            call: The call, whose id is not known yet.
            perform: Plays it.
        """
        self._known[call.id] = call
        self._running.add(call)
        self._services.spawn(self._run, call, perform)

    async def stop(self, time_limit: float, why: Callable[[], OrsServerError]) -> None:
        """Cancel every call, now and in future, and wait until each has its result.

        Args:
            time_limit: Seconds after which calls that ignore their cancellation get their result without
                ending.
            why: What their callers are told.
        """
        self._why_stopped = why
        if not self._running:
            return
        for call in list(self._running):
            call.cancel()
        with anyio.move_on_after(time_limit) as scope:
            for call in list(self._running):
                await call.wait()
        if scope.cancelled_caught:
            for call in list(self._running):
                log.warning("stray_call", session_id=self._session_id, tool=call.tool, call_id=call.id)
                self._end(call, Fault(self.why_cancelled()))

    def why_cancelled(self) -> OrsServerError:
        """Say why a running call was cancelled."""
        if self._why_stopped is not None:
            return self._why_stopped()
        return CallCancelledError("the call was cancelled")

    async def _run(self, call: Call, perform: Perform) -> None:
        result: CallResult | None = None
        try:
            with make_scope() as scope:
                call.scope = scope
                if self._why_stopped is None and not call.is_cancelled:
                    result = await perform(call)
            if result is None:
                result = Fault(self.why_cancelled())
        except OrsServerError as error:
            result = Fault(error)
        except Exception:  # the border between a defect of ours and everybody else's calls
            log.exception("call_defect", session_id=self._session_id, tool=call.tool)
            result = Fault(OrsServerError("the server failed; its log has the details"))
        finally:
            self._end(
                call, Fault(ShuttingDownError("the server is shutting down")) if result is None else result
            )

    def _end(self, call: Call, result: CallResult) -> None:
        self._running.discard(call)
        call.resolve(result)
        self._on_end()
        if isinstance(result, Refusal) and result.step is None:
            self._after_end.append(call.id)
            if len(self._after_end) > AFTER_END_KEPT:
                self._known.pop(self._after_end.pop(0), None)
        log.debug(
            "call", session_id=self._session_id, tool=call.tool, call_id=call.id, result=type(result).__name__
        )
