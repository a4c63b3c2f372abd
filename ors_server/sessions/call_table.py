"""The calls of one session by id: each runs once, and every request for its id gets the one result."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio

from ors_server.call_clock import make_scope
from ors_server.errors import CallCancelledError, OrsServerError, ShuttingDownError, StoreError
from ors_server.logs import get_logger
from ors_server.sessions.session_call import Call, CallResult, Completed, Failure, Refusal
from ors_server.sessions.session_services import Services
from ors_server.wire import TextBlock, ToolOutput

log = get_logger("ors_server.session")

Perform: TypeAlias = Callable[[Call], Awaitable[CallResult]]

AFTER_END_KEPT = 64
"""Refused calls after the end whose answers stay readable; older ones are forgotten."""

OUTPUTS_KEPT = 32
"""Latest outputs of a session that stay in memory; older ones are read from the record."""

OUTPUT_SIZE_KEPT = 1024 * 1024
"""Characters of outputs and arguments up to which a session keeps more than its latest output in memory."""


class CallTable:
    """Starts, keeps and stops the calls of one session."""

    __slots__ = (
        "_after_end",
        "_kept",
        "_known",
        "_on_end",
        "_on_record",
        "_running",
        "_services",
        "_session_id",
        "_why_stopped",
    )

    def __init__(self, session_id: str, services: Services, on_end: Callable[[], None]) -> None:
        """Start without calls."""
        self._session_id = session_id
        self._services = services
        self._on_end = on_end
        self._known: dict[str, Call] = {}
        self._kept: dict[str, int] = {}
        """Size of each output that is in memory, by call id, oldest first."""
        self._on_record: dict[str, tuple[int, bool]] = {}
        """Step of each call whose output is in the record only, and whether it tells of a mistake."""
        self._running: set[Call] = set()
        self._after_end: list[str] = []
        self._why_stopped: Callable[[], OrsServerError] | None = None

    @property
    def running(self) -> int:
        """How many calls have no result yet."""
        return len(self._running)

    def get(self, call_id: str | None) -> Call | None:
        """Return the call of that id, or `None`."""
        return None if call_id is None else self._known.get(call_id)

    def is_only_on_record(self, call_id: str | None) -> bool:
        """Say whether a call has to be recalled before `get` returns it."""
        return call_id in self._on_record

    async def load_recorded(self, call_id: str, episode_id: str) -> None:
        """Read a call whose output left memory from the record.

        Args:
            call_id: The id of a call that is shelved.
            episode_id: The episode of the session.

        Raises:
            StoreError: If the record could not be read.
        """
        number, is_error = self._on_record[call_id]
        steps = await self._services.store.steps(episode_id, number - 1, number)
        if not steps or steps[0].call_id != call_id:
            raise StoreError(f"the record does not hold step {number}, the call {call_id!r}")
        if self._on_record.pop(call_id, None) is None:
            return  # another request was faster
        step = steps[0]
        output = ToolOutput.model_construct(
            blocks=list(step.blocks), metadata=step.metadata, reward=step.reward, finished=step.finished
        )
        call = Call(call_id, step.tool, step.arguments, Completed(output, number, is_error))
        self._known[call_id] = call
        self._keep(call)

    def _keep(self, call: Call) -> None:
        """Note an output that is in memory, and leave the oldest ones to the record."""
        if not isinstance(call.result, Completed):
            return
        self._kept[call.id] = _size_of(call, call.result)
        while len(self._kept) > 1 and (
            len(self._kept) > OUTPUTS_KEPT or sum(self._kept.values()) > OUTPUT_SIZE_KEPT
        ):
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            result = self._known.pop(oldest).result
            if isinstance(result, Completed):
                self._on_record[oldest] = (result.step, result.is_error)

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
            why: Makes the error that their callers get.
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
                log.warning(
                    "call_ignores_cancellation", session_id=self._session_id, tool=call.tool, call_id=call.id
                )
                self._end(call, Failure(self.why_cancelled()))

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
                result = Failure(self.why_cancelled())
        except OrsServerError as error:
            result = Failure(error)
        except Exception:  # the border between a defect of ours and all other calls
            log.exception("call_defect", session_id=self._session_id, tool=call.tool)
            result = Failure(OrsServerError("the server failed; its log has the details"))
        finally:
            self._end(
                call, Failure(ShuttingDownError("the server is shutting down")) if result is None else result
            )

    def _end(self, call: Call, result: CallResult) -> None:
        self._running.discard(call)
        call.resolve(result)
        self._keep(call)
        self._on_end()
        if isinstance(result, Refusal) and result.step is None:
            self._after_end.append(call.id)
            if len(self._after_end) > AFTER_END_KEPT:
                self._known.pop(self._after_end.pop(0), None)
        log.debug(
            "call", session_id=self._session_id, tool=call.tool, call_id=call.id, result=type(result).__name__
        )


def _size_of(call: Call, result: Completed) -> int:
    """Return roughly how many characters a call keeps in memory."""
    size = sum(len(value) for value in call.arguments.values() if isinstance(value, str))
    for block in result.output.blocks:
        size += len(block.text if isinstance(block, TextBlock) else block.data)
    return size
