"""The calls of one session by id: each runs once, and every request for its id gets the one result."""

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from ors_server.clock import LastUse
from ors_server.errors import OrsServerError, StoreError
from ors_server.logs import get_logger
from ors_server.sessions.session_call import Call, CallResult, Completed, Failure, Refusal
from ors_server.sessions.session_services import Services
from ors_server.wire import TextBlock

log = get_logger("ors_server.session")

AFTER_END_KEPT = 64
"""Refused calls after the end whose answers stay readable; older ones are forgotten."""

OUTPUTS_KEPT = 32
"""Latest outputs of a session that stay in memory; older ones are read from the record."""

OUTPUT_SIZE_KEPT = 1024 * 1024
"""Characters of outputs and arguments up to which a session keeps more than its latest output in memory."""


@dataclass(slots=True, eq=False, repr=False)
class CallTable:
    """Keeps the calls of one session, and cancels those that run."""

    _session_id: str
    _services: Services
    _last_use: LastUse
    _known: dict[str, Call] = field(default_factory=dict[str, Call], init=False)
    _kept: dict[str, int] = field(default_factory=dict[str, int], init=False)
    """Size of each output that is in memory, by call id, oldest first."""
    _kept_size: int = field(default=0, init=False)
    """Of all of them."""
    _on_record: dict[str, int] = field(default_factory=dict[str, int], init=False)
    """Number of the step of each call whose output is in the record only."""
    _running: dict[Call, None] = field(default_factory=dict[Call, None], init=False)
    _after_end: list[str] = field(default_factory=list[str], init=False)

    @property
    def running(self) -> int:
        """How many calls have no result yet."""
        return len(self._running)

    def get(self, call_id: str | None) -> Call | None:
        """Return the call of that id, or `None`."""
        return None if call_id is None else self._known.get(call_id)

    def is_only_on_record(self, call_id: str | None) -> bool:
        """Say whether a call must be loaded from the record before `get` returns it."""
        return call_id in self._on_record

    async def load_recorded(self, call_id: str, episode_id: str) -> None:
        """Read a call whose output left memory from the record."""
        number = self._on_record[call_id]
        steps = await self._services.store.steps(episode_id, number - 1, number)
        if not steps or steps[0].call_id != call_id:
            raise StoreError(f"the record does not hold step {number}, the call {call_id!r}")
        if self._on_record.pop(call_id, None) is None:
            return  # another request was faster
        call = Call(call_id, steps[0].tool, steps[0].arguments, Completed(steps[0]))
        self._known[call_id] = call
        self._keep(call)

    def _keep(self, call: Call) -> None:
        """Note an output that is in memory, and leave the oldest ones to the record."""
        if not isinstance(call.result, Completed):
            return
        size = _size_of(call, call.result)
        self._kept_size += size - self._kept.get(call.id, 0)
        self._kept[call.id] = size
        while len(self._kept) > 1 and (len(self._kept) > OUTPUTS_KEPT or self._kept_size > OUTPUT_SIZE_KEPT):
            oldest = next(iter(self._kept))
            self._kept_size -= self._kept.pop(oldest)
            result = self._known.pop(oldest).result
            if isinstance(result, Completed):
                self._on_record[oldest] = result.step

    def add(self, call: Call) -> None:
        """Add a call that is about to run, whose id no other call has."""
        self._known[call.id] = call
        self._running[call] = None

    async def stop(self, time_limit: float, make_error: Callable[[], OrsServerError]) -> None:
        """Cancel every call and wait until each has its result.

        A call whose step is being written has it when the store has taken the step or refused it: its caller
        is never told of a failure while the step may be paid.

        Args:
            time_limit: Seconds after which calls that ignore their cancellation fail without ending.
        """
        if not self._running:
            return
        for call in list(self._running):
            call.cancel(make_error())
        with anyio.move_on_after(time_limit) as scope:
            for call in list(self._running):
                await call.wait()
        if scope.cancelled_caught:
            for call in [call for call in self._running if not call.is_sealed]:
                log.warning(
                    "call_ignores_cancellation", session_id=self._session_id, tool=call.tool, call_id=call.id
                )
                self.finish(call, Failure(call.cancel_error))
            for call in list(self._running):
                await call.wait()

    def finish(self, call: Call, result: CallResult) -> None:
        """Give a call its result; the first one stays."""
        self._running.pop(call, None)
        call.resolve(result)
        self._keep(call)
        self._last_use.touch()
        if isinstance(result, Refusal) and result.step is None:
            self._after_end.append(call.id)
            if len(self._after_end) > AFTER_END_KEPT:
                self._known.pop(self._after_end.pop(0), None)
        log.debug(
            "call", session_id=self._session_id, tool=call.tool, call_id=call.id, result=type(result).__name__
        )


def _size_of(call: Call, result: Completed) -> int:
    """Return roughly how many characters a call keeps in memory."""
    size = 0
    for value in call.arguments.values():
        if isinstance(value, str):
            size += len(value)
    for block in result.recorded.blocks:
        size += len(block.text if isinstance(block, TextBlock) else block.data)
    return size
