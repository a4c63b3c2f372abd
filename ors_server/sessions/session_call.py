"""A call from its beginning to its one result, which stays readable under its id; and its turn to run."""

import asyncio
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import NoReturn, TypeAlias

import anyio

from ors_server.environments.boundary import encodable
from ors_server.environments.call_context import ProgressListener
from ors_server.environments.calling_client import CallingClient, NoClient
from ors_server.model.enumerations import quick_members
from ors_server.model.errors import (
    CallCancelledError,
    CallIdReusedError,
    CapacityError,
    InvalidRequestError,
    OrsServerError,
    StoreError,
    error_of_code,
)
from ors_server.model.trajectory import Step, StepStatus
from ors_server.model.wire import GroupScore, JSONObject, ToolOutput, make_of_checked
from ors_server.sessions.tool_arguments import are_same_arguments, digest_arguments, shown_name


class RefusalReason(StrEnum):
    """Why a call was not run; the reference implementation's words."""

    NOT_FOUND = "not_found"
    INPUT_VALIDATION = "input_validation"
    EPISODE_FINISHED = "episode_finished"


@dataclass(frozen=True, slots=True)
class Completed:
    """The call gave an output: the tool's, or the server's where an agent's mistake was charged."""

    recorded: Step
    """The step as it is on record, which holds the output."""
    size: int | None = None
    """Bytes that it takes in memory, roughly; `None` where they were not counted."""

    @property
    def step(self) -> int:
        """The step's number."""
        return self.recorded.number

    @property
    def is_error(self) -> bool:
        """Whether the output tells the agent about its own mistake."""
        return self.recorded.error_code is not None

    @property
    def output(self) -> ToolOutput:
        """The output as the standard's body."""
        step = self.recorded
        values = {"metadata": step.answer_metadata, "reward": step.reward, "finished": step.finished}
        return make_of_checked(ToolOutput, {"blocks": list(step.blocks), **values})


@dataclass(frozen=True, slots=True)
class Refusal:
    """The call was not run, or its result was discarded, and nothing was paid."""

    reason: RefusalReason
    error: str
    step: int | None = None
    """The step's number; `None` for a call after the end, which is not a step."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The call failed through no fault of the agent's, and nothing was paid."""

    error: OrsServerError
    step: int | None = None
    """The step's number; `None` for a call that is not a step, or none yet."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A group of rollouts was scored."""

    scores: tuple[GroupScore, ...]


CallResult: TypeAlias = Completed | Refusal | Failure | Scored


def result_on_record(step: Step) -> CallResult:
    """Return the result of a call from its step on record."""
    if step.status in {StepStatus.FAILED, StepStatus.CANCELLED}:
        return Failure(error_of_code(step.error_code, step.error or ""), step.number)
    if step.status is StepStatus.REFUSED and step.answer_metadata is None:
        return Refusal(RefusalReason(step.error_code or ""), step.error or "", step.number)
    return Completed(step)


MAX_CALL_ID_LENGTH = 256
"""Characters of a call's id: a session keeps the id of every call."""

MAX_READERS = 32
"""Requests that one call answers at once."""

NO_CLIENT = NoClient()
"""The client that answers no questions."""


def check_call_id(call_id: str) -> None:
    """Check that a call's id can be kept and written.

    Raises:
        InvalidRequestError: If it is too long, or UTF-8 cannot express it.
    """
    if len(call_id) > MAX_CALL_ID_LENGTH:
        raise InvalidRequestError(
            f"expected a call id of at most {MAX_CALL_ID_LENGTH} characters, got {len(call_id)}"
        )
    try:
        call_id.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"expected a call id that UTF-8 can express, got {call_id!a}") from error


@dataclass(slots=True, eq=False, repr=False)
class Call:
    """One call; every request for its id gets the same result.

    Attributes:
        result: `None` while the call runs.
        listeners: Get the progress that the tool reports.
        client: The calling program, of which the tool may ask something while the call runs.
        model_turn: What the caller attached of the model's messages, for the record; `None` once it is there.
        is_named: Whether the caller gave the id.
        has_plain_arguments: Whether the arguments are known to need no change for the record.
        repeats: The first call of this id, if its step could not be written.
        is_cancelled: Whether a request, or the end of the session, cancelled the call.
        is_sealed: Whether its result is being written, so that a cancellation comes too late.
        scope: What `cancel` cancels; `None` before the call runs and once its result is being written.
    """

    id: str
    tool: str
    arguments: JSONObject
    result: CallResult | None = None
    client: CallingClient = field(default=NO_CLIENT, kw_only=True)
    model_turn: JSONObject | None = field(default=None, kw_only=True)
    is_named: bool = field(default=True, kw_only=True)
    has_plain_arguments: bool = field(default=False, init=False)
    listeners: list[ProgressListener] = field(default_factory=list[ProgressListener], init=False)
    repeats: "Call | None" = field(default=None, init=False)
    scope: anyio.CancelScope | None = field(default=None, init=False)
    is_cancelled: bool = field(default=False, init=False)
    is_sealed: bool = field(default=False, init=False)
    _digest: bytes | None = field(default=None, init=False)
    """Of arguments that are not kept."""
    _cancel_error: OrsServerError | None = field(default=None, init=False)
    _readers: list[asyncio.Future[None]] | None = field(default=None, init=False)
    senders: int = field(default=0, init=False)
    """Requests that send the result now."""

    @property
    def is_unwritten(self) -> bool:
        """Whether the step could not be written, so that asking again under the same id is worth while."""
        result = self.result
        return isinstance(result, Failure) and isinstance(result.error, StoreError) and result.step is None

    @property
    def is_done(self) -> bool:
        """Whether the result is there."""
        return self.result is not None

    def is_same(self, tool: str, arguments: JSONObject) -> bool:
        """Say whether this is a call of that tool with those arguments."""
        if self.tool not in {tool, encodable(tool)}:
            return False
        if self._digest is not None:
            return self._digest == digest_arguments(arguments)
        return are_same_arguments(self.arguments, arguments)

    def forget_arguments(self) -> None:
        """Keep a digest instead of the arguments, by which a repeat is recognised."""
        self._digest = digest_arguments(self.arguments)
        self.arguments = {}

    def expect(self, tool: str, arguments: JSONObject) -> None:
        """Check that a repeated id comes with the same tool and arguments.

        Raises:
            CallIdReusedError: If this call is another one.
        """
        if not self.is_same(tool, arguments):
            other = "with other arguments" if self.tool == tool else f"and not of {shown_name(tool)}"
            raise CallIdReusedError(
                f"the call id {self.id!r} is taken by a call of {shown_name(self.tool)} {other}; choose "
                "another one"
            )

    def resolve(self, result: CallResult) -> None:
        """Set the result and wake all waiters; the first result stays."""
        if self.result is None:
            self.result = result
        self.scope = None
        self.client = NO_CLIENT
        self.listeners.clear()
        readers, self._readers = self._readers, None  # the call is kept for replays; its readers are not
        for reader in readers or ():
            if not reader.done():
                reader.set_result(None)

    async def wait(self) -> CallResult:
        """Return the result, waiting for it as long as it takes."""
        while self.result is None:
            await self.wait_for(None)
        return self.result

    async def wait_for(self, seconds: float | None) -> CallResult | None:
        """Return the result, or `None` if it is not there in time.

        Every call on a wire passes here, so that this is a future and a timer of the loop: a cancel scope and
        an event cost four times as much.
        """
        if self.result is not None:
            return self.result
        reader = self.add_reader()
        timer = None if seconds is None else reader.get_loop().call_later(seconds, wake, reader)
        try:
            await reader
        finally:
            if timer is not None:
                timer.cancel()
            self.remove_reader(reader)
        return self.result

    def add_reader(self) -> "asyncio.Future[None]":
        """Return a future that ends with the call; `remove_reader` follows, whether it has ended or not."""
        reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._readers is None:
            self._readers = []
        self._readers.append(reader)
        return reader

    def remove_reader(self, reader: "asyncio.Future[None]") -> None:
        """Forget a future that `add_reader` returned."""
        if self._readers is not None and reader in self._readers:
            self._readers.remove(reader)

    def begin_sending(self) -> None:
        """Count a request that sends the result, and lowers `senders` when it has: each holds a copy of it.

        Raises:
            CapacityError: If too many others do so.
        """
        if self.senders >= MAX_READERS:
            self.refuse_sender()
        self.senders += 1

    def refuse_sender(self) -> NoReturn:
        """Refuse a request that would send the result next to too many others."""
        raise CapacityError(f"{MAX_READERS} requests read the call {self.id!r} already", retry_after=1)

    @property
    def cancel_error(self) -> OrsServerError:
        """What a cancelled call fails with."""
        return self._cancel_error or CallCancelledError("the call was cancelled")

    def seal(self) -> AbstractContextManager[object]:
        """Return the context in which the result is written; a cancellation from now on comes too late."""
        self.scope = None
        self.is_sealed = True
        return anyio.CancelScope(shield=True) if self.is_cancelled else nullcontext()

    def use_scope(self, scope: anyio.CancelScope) -> None:
        """Have `cancel` cancel this scope from now on, at once if the call was cancelled before."""
        self.scope = scope
        if self.is_cancelled:
            scope.cancel()

    def cancel(self, error: OrsServerError | None = None) -> None:
        """Cancel the call, running or not begun yet; a call that is done stays as it is.

        Args:
            error: What it fails with; `CallCancelledError` by default. The first one stays.
        """
        self.is_cancelled = True
        self._cancel_error = self._cancel_error or error
        if self.scope is not None:
            self.scope.cancel()


def wake(reader: "asyncio.Future[None]") -> None:
    """End a reader's wait, unless it has ended."""
    if not reader.done():
        reader.set_result(None)


@quick_members
class Concurrency(Enum):
    """How a call shares its session with others."""

    SERIAL = "serial"
    """One at a time among serial calls; next to concurrent ones."""
    CONCURRENT = "concurrent"
    """Next to everything but exclusive calls."""
    EXCLUSIVE = "exclusive"
    """Alone; it waits for all and holds new ones back."""


class _TurnRequest:
    __slots__ = ("concurrency", "granted")

    def __init__(self, concurrency: Concurrency) -> None:
        self.concurrency = concurrency
        self.granted = anyio.Event()


class Turns:
    """Hands out turns in order of arrival within the rules of `concurrency`."""

    __slots__ = ("_concurrent", "_exclusive", "_serial", "_waiting")

    def __init__(self) -> None:
        self._serial = False
        self._concurrent = 0
        self._exclusive = False
        self._waiting: list[_TurnRequest] = []

    @property
    def is_idle(self) -> bool:
        """Whether no call has or awaits a turn."""
        return not (self._serial or self._concurrent or self._exclusive or self._waiting)

    async def acquire(self, concurrency: Concurrency) -> None:
        """Wait for a turn; it must be given back."""
        if self.acquire_now(concurrency):
            return
        waiter = _TurnRequest(concurrency)
        self._waiting.append(waiter)
        try:
            await waiter.granted.wait()
        except BaseException:
            if waiter.granted.is_set():
                self.release(concurrency)
            else:
                self._waiting.remove(waiter)
                self._grant()
            raise

    def acquire_now(self, concurrency: Concurrency) -> bool:
        """Take a turn that is free, which must be given back; return whether it was."""
        if concurrency is Concurrency.SERIAL and not (self._serial or self._exclusive or self._waiting):
            self._serial = True  # what nearly every call takes
            return True
        if not self._is_free(concurrency, self._waiting):
            return False
        self._occupy(concurrency)
        return True

    def release(self, concurrency: Concurrency) -> None:
        """End a turn and wake the next waiters."""
        match concurrency:
            case Concurrency.SERIAL:
                self._serial = False
            case Concurrency.CONCURRENT:
                self._concurrent -= 1
            case Concurrency.EXCLUSIVE:
                self._exclusive = False
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        still_waiting: list[_TurnRequest] = []
        for waiter in self._waiting:
            if self._is_free(waiter.concurrency, still_waiting):
                self._occupy(waiter.concurrency)
                waiter.granted.set()
            else:
                still_waiting.append(waiter)
        self._waiting = still_waiting

    def _is_free(self, concurrency: Concurrency, ahead: list[_TurnRequest]) -> bool:
        if self._exclusive or (
            ahead and any(waiter.concurrency is Concurrency.EXCLUSIVE for waiter in ahead)
        ):
            return False
        match concurrency:
            case Concurrency.SERIAL:
                return not self._serial and not (
                    ahead and any(waiter.concurrency is Concurrency.SERIAL for waiter in ahead)
                )
            case Concurrency.CONCURRENT:
                return True
            case Concurrency.EXCLUSIVE:
                return not (self._serial or self._concurrent or ahead)

    def _occupy(self, concurrency: Concurrency) -> None:
        match concurrency:
            case Concurrency.SERIAL:
                self._serial = True
            case Concurrency.CONCURRENT:
                self._concurrent += 1
            case Concurrency.EXCLUSIVE:
                self._exclusive = True
