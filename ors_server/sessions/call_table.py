"""The calls of one session by id: each runs once, and every request for its id gets the one result."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import anyio

from ors_server.clock import LastUse
from ors_server.errors import CapacityError, OrsServerError, StoreError
from ors_server.logs import get_logger
from ors_server.sessions.json_copies import size_of_json
from ors_server.sessions.session_call import (
    Call,
    CallResult,
    Completed,
    Failure,
    Refusal,
    result_on_record,
)
from ors_server.sessions.session_services import Services
from ors_server.trajectory import Step
from ors_server.wire import TextBlock

log = get_logger("ors_server.session")

OUTPUTS_KEPT = 32
"""Latest results of a session that stay in memory with their arguments; the record has the older ones."""

OUTPUT_SIZE_KEPT = 1024 * 1024
"""Bytes of results and arguments up to which a session keeps more than its latest result in memory."""

FAILURES_KEPT = 1024
"""Calls that failed before they ran whose answers stay readable; older ones are forgotten."""

MAX_RUNNING_SIZE = 64 * 1024 * 1024
"""Bytes of arguments of the calls of a session that run or wait; the first call may have more."""

_CALL_SIZE = 1024
"""Bytes that a call takes beside its arguments, roughly."""

_COUNTED_SIZE = 4 * 1024 * 1024
"""Bytes up to which the parts of one value are counted, because counting them holds the event loop."""


@dataclass(slots=True, eq=False, repr=False)
class CallTable:
    """Keeps the calls of one session, and cancels those that run."""

    _session_id: str
    _services: Services
    _last_use: LastUse
    _is_pending: Callable[[Call], bool]
    """Whether the step of a call waits to be written, so that a repeat of its id must find it."""
    _known: dict[str, Call] = field(default_factory=dict[str, Call], init=False)
    _kept: dict[str, int] = field(default_factory=dict[str, int], init=False)
    """Size of each result that is in memory with its arguments, by call id, oldest first."""
    _kept_size: int = field(default=0, init=False)
    """Of all of them, in bytes."""
    _on_record: dict[str, int] = field(default_factory=dict[str, int], init=False)
    """Number of the step of each call whose result is in the record only."""
    _running: dict[Call, int] = field(default_factory=dict[Call, int], init=False)
    """Size of the arguments of each call without a result, in bytes."""
    _running_size: int = field(default=0, init=False)
    _failed: dict[str, None] = field(default_factory=dict[str, None], init=False)
    """Ids of calls without a step whose arguments are not kept, oldest first."""

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
        call = Call(call_id, steps[0].tool, steps[0].arguments, result_on_record(steps[0]))
        self._known[call_id] = call
        self._keep(call, _size_of(call))

    def add_recorded(self, steps: Iterable[Step]) -> None:
        """Know the calls of steps that were copied from another session: their ids run nothing here."""
        self._on_record.update((step.call_id, step.number) for step in steps)

    def _keep(self, call: Call, size: int) -> None:
        """Note a result in memory, and let the oldest ones go; `size` is that of the call without it."""
        size += _size_of_result(call)
        self._kept_size += size - self._kept.pop(call.id, 0)
        self._kept[call.id] = size
        if len(self._kept) <= OUTPUTS_KEPT and self._kept_size <= OUTPUT_SIZE_KEPT:
            return
        for oldest in list(self._kept)[:-1]:
            if self._let_go(oldest):
                self._kept_size -= self._kept.pop(oldest)
            if len(self._kept) <= OUTPUTS_KEPT and self._kept_size <= OUTPUT_SIZE_KEPT:
                return

    def _let_go(self, call_id: str) -> bool:
        """Leave a result to the record, or forget it if it is the same when the call is repeated.

        Returns:
            Whether that was possible: a step that waits to be written stays.
        """
        call = self._known[call_id]
        first = call.repeats or call
        result = first.result if call.is_unwritten else call.result
        if self._is_pending(first):
            return False
        if isinstance(result, Completed | Refusal | Failure) and result.step is not None:
            self._on_record[call_id] = result.step
            del self._known[call_id]
        elif isinstance(result, Failure) and not call.is_unwritten:
            call.forget_arguments()
            self._failed[call_id] = None
            if len(self._failed) > FAILURES_KEPT:
                oldest = next(iter(self._failed))
                del self._failed[oldest], self._known[oldest]
        else:  # it did not run: a repeat runs, is refused after the end, or scores the same group
            del self._known[call_id]
        return True

    def add(self, call: Call) -> None:
        """Add a call that is about to run, whose id no other call has.

        Raises:
            CapacityError: If the arguments of the calls that run or wait are too many bytes.
        """
        size = _size_of(call)
        if self._running and self._running_size + size > MAX_RUNNING_SIZE:
            raise CapacityError(
                f"{len(self._running)} calls of the session run or wait, and their arguments may have "
                f"{MAX_RUNNING_SIZE} bytes in all; wait for a result first",
                retry_after=1,
            )
        self._kept_size -= self._kept.pop(call.id, 0)
        self._known[call.id] = call
        self._running[call] = size
        self._running_size += size

    async def stop(self, time_limit: float, make_error: Callable[[], OrsServerError]) -> None:
        """Cancel every call and wait until each has its result.

        A call whose step is being written has it when the store has taken the step or refused it: its caller
        never receives a failure while the step may be paid.

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
                call.cancel(make_error())
                self.finish(call, Failure(call.cancel_error))
            for call in list(self._running):
                await call.wait()

    def finish(self, call: Call, result: CallResult) -> None:
        """Give a call its result; the first one stays."""
        size = self._running.pop(call, 0)
        self._running_size -= size
        call.resolve(result)
        if self._known.get(call.id) is call:
            self._keep(call, size or _size_of(call))
        self._last_use.touch()
        log.debug(
            "call", session_id=self._session_id, tool=call.tool, call_id=call.id, result=type(result).__name__
        )


def _size_of(call: Call) -> int:
    """Return roughly how many bytes a call without its result keeps in memory."""
    return _CALL_SIZE + len(call.tool) + size_of_json(call.arguments, _COUNTED_SIZE)


def _size_of_result(call: Call) -> int:
    size = 0
    if isinstance(call.result, Completed):
        for block in call.result.recorded.blocks:
            size += len(block.text if isinstance(block, TextBlock) else block.data)
        size += size_of_json(call.result.recorded.metadata, _COUNTED_SIZE)
    elif isinstance(call.result, Refusal):
        size += len(call.result.error)
    return size
