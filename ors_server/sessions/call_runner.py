"""Runs the calls of one session: found by id or started, setup and turn, arguments, the tool, the step.

A call id runs once, and every request for it gets the one result. What a tool returned or raised decides how
its call ends before any sum or store is touched; the recorder then counts and writes the step.
"""

import asyncio
import json
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeAlias, cast

import anyio
from pydantic import BaseModel, ValidationError

from ors_server.environments.boundary import (
    AuthorRaisedError,
    call_author,
    describe,
    describe_authors,
    text_of,
)
from ors_server.environments.call_context import CallContext, running_call
from ors_server.environments.definition import ToolDefinition
from ors_server.environments.tool import ForbiddenActionError, ToolError
from ors_server.model.episode import CallOutcome, OutcomeKind
from ors_server.model.errors import (
    CapacityError,
    EnvironmentFailedError,
    OrsServerError,
    ShuttingDownError,
    StoreError,
    ToolFailedError,
    ToolOutputError,
    forget_frames,
)
from ors_server.model.logs import get_logger, secret_values
from ors_server.model.policy import EpisodePolicy
from ors_server.model.trajectory import REWARD_REASON, REWARD_STATUS, Step, is_unjudged
from ors_server.model.wire import JSONObject, TextBlock, ToolOutput
from ors_server.rewards.result import RewardStatus
from ors_server.rewards.result_output import has_result, numeric_extras
from ors_server.sessions.call_meters import outcome_of
from ors_server.sessions.episode_recorder import EndedCall, EpisodeRecorder
from ors_server.sessions.lifecycle import Setup
from ors_server.sessions.session_call import (
    Call,
    CallResult,
    Completed,
    Concurrency,
    Failure,
    Refusal,
    RefusalReason,
    Turns,
    result_on_record,
)
from ors_server.sessions.session_services import LastUse, Services
from ors_server.sessions.session_tools import BoundTool, SessionTools
from ors_server.sessions.tool_arguments import (
    CheckedOutput,
    InvalidArgumentsError,
    are_plain_arguments,
    check_output,
    make_error_output,
    parse_arguments,
    refuse_unknown,
    size_of_json,
)
from ors_server.timing import spans
from ors_server.timing.call_clock import CallClock, counting, make_scope
from ors_server.timing.loop_watch import author_code
from ors_server.timing.workers import LingeringThread

log = get_logger("ors_server.session")


MAX_KEPT_OUTPUTS = 32
"""Latest results of a session that stay in memory with their arguments; the record has the older ones."""

MAX_KEPT_SIZE = 1024 * 1024
"""Bytes of results and arguments up to which a session keeps more than its latest result in memory."""

MAX_KEPT_FAILURES = 1024
"""Calls that failed before they ran whose answers stay readable; older ones are forgotten."""

MAX_RUNNING_SIZE = 64 * 1024 * 1024
"""Bytes of arguments of the calls of a session that run or wait; the first call may have more."""

_CALL_SIZE = 1024
"""Bytes that a call takes besides its arguments, roughly."""

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
        self._keep(call, _size_of_arguments(call))

    def add_recorded(self, steps: Iterable[Step]) -> None:
        """Know the calls of steps that were copied from another session: their ids run nothing here."""
        self._on_record.update((step.call_id, step.number) for step in steps)

    def _keep(self, call: Call, arguments_size: int) -> None:
        """Note a result that is in memory, and let the oldest ones go."""
        result, kept = call.result, self._kept
        if isinstance(result, Completed) and result.size is not None:
            size = arguments_size + result.size
        else:
            size = arguments_size + _size_of_result(result)
        self._kept_size += size - kept.pop(call.id, 0)
        kept[call.id] = size
        if len(kept) <= MAX_KEPT_OUTPUTS and self._kept_size <= MAX_KEPT_SIZE:
            return
        oldest = next(iter(kept))  # in a long episode, each call lets one go
        if oldest != call.id and self._let_go(oldest):
            self._kept_size -= kept.pop(oldest)
        self.trim()

    def trim(self) -> None:
        """Let the oldest results in memory go; those whose steps wait to be written stay."""
        kept = self._kept
        if len(kept) <= MAX_KEPT_OUTPUTS and self._kept_size <= MAX_KEPT_SIZE:
            return
        for oldest in list(kept)[:-1]:
            if self._let_go(oldest):
                self._kept_size -= kept.pop(oldest)
            if len(kept) <= MAX_KEPT_OUTPUTS and self._kept_size <= MAX_KEPT_SIZE:
                return

    def _let_go(self, call_id: str) -> bool:
        """Leave a result to the record, or forget it if it is the same when the call is repeated.

        Returns:
            Whether that was possible: a step that waits to be written stays.
        """
        call = self._known[call_id]
        result = call.result
        if not isinstance(result, Completed):  # only a call that failed may wait to be written
            first = call.repeats or call
            if call.is_unwritten:
                result = first.result
            if self._is_pending(first):
                return False
        else:
            self._on_record[call_id] = result.recorded.number
            del self._known[call_id]
            return True
        if isinstance(result, Completed | Refusal | Failure) and result.step is not None:
            self._on_record[call_id] = result.step
            del self._known[call_id]
        elif isinstance(result, Failure) and not call.is_unwritten:
            call.forget_arguments()
            self._failed[call_id] = None
            if len(self._failed) > MAX_KEPT_FAILURES:
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
        size = _size_of_arguments(call)
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

    async def until_idle(self) -> None:
        """Wait until no call runs."""
        while self._running:
            await next(iter(self._running)).wait()

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
        arguments_size = self._running.pop(call, None)
        call.resolve(result)
        if arguments_size is None:  # its session's end answered it, and it is counted
            return
        self._running_size -= arguments_size
        if self._known.get(call.id) is call:
            self._keep(call, arguments_size)
        self._last_use.at = self._services.clock.monotonic()
        if log.standard.isEnabledFor(logging.DEBUG):
            name = type(result).__name__
            log.debug("call", session_id=self._session_id, tool=call.tool, call_id=call.id, result=name)


def _size_of_arguments(call: Call) -> int:
    """Return roughly how many bytes a call keeps in memory without its result."""
    turn = 0 if call.model_turn is None else size_of_json(call.model_turn, _COUNTED_SIZE)
    return _CALL_SIZE + len(call.tool) + size_of_json(call.arguments, _COUNTED_SIZE) + turn


def _size_of_result(result: CallResult | None) -> int:
    size = 0
    if isinstance(result, Completed):
        for block in result.recorded.blocks:
            size += len(block.text if isinstance(block, TextBlock) else block.data)
        size += size_of_json(result.recorded.metadata, _COUNTED_SIZE)
    elif isinstance(result, Refusal):
        size += len(result.error)
    return size


ANSWER = "answer"
"""The argument of a finishing call that is the agent's final response."""

Grade: TypeAlias = Callable[[ToolOutput, str], Awaitable[ToolOutput]]
"""Grades an output that ends the episode without a reward, given the agent's final response."""


@dataclass(slots=True)
class ToolRun:
    """A tool that runs once."""

    tool: ToolDefinition
    parsed: Any
    """Its validated arguments."""
    context: CallContext
    clock: CallClock
    """Counts the call's own time and knows its limit."""
    started: float
    """Seconds from the origin of the server's clock."""

    async def check_return(
        self, result: Any, policy: EpisodePolicy, max_bytes: int, grade: Grade | None
    ) -> EndedCall:
        """End the call by what the tool returned, after grading it if it ends the episode ungraded.

        Args:
            grade: `None` if the environment names no reward.
        """
        tool = self.tool
        try:
            is_output = tool.returns_output and type(result) is ToolOutput
            output: ToolOutput = result if is_output else tool.to_output(result)
            if grade is not None and output.finished and not has_result(output):
                self.clock.arm()
                output = await grade(output, self._final_response(output))
            checked = check_output(output, policy, max_bytes)
            if checked.metadata or checked.finished:
                self._note_missing_number(checked, is_graded=grade is not None)
        except ToolOutputError as error:
            named = error
            if tool.where and not str(error).startswith(tool.where):
                named = ToolOutputError(f"{tool.where}: {error}")
                named.__cause__ = error
            return self.fail(named)
        except OrsServerError as error:
            return self.fail(error)
        except Exception as error:  # noqa: BLE001  (an author's own subclass of an output may do anything)
            text = f"{tool.name!r} returned an illegal output: {describe(error)}"
            return self.fail(ToolOutputError(text), error)
        return self.end(OutcomeKind.COMPLETED, checked)

    def classify_error(self, error: BaseException) -> EndedCall:
        """End the call by what the tool raised."""
        text = text_of(error)
        if isinstance(error, ForbiddenActionError):
            return self.end(OutcomeKind.FORBIDDEN, make_error_output(text or "forbidden", "forbidden"))
        if isinstance(error, ToolError):
            output = make_error_output(text or "the tool failed", "tool_error")
            return self.end(OutcomeKind.TOOL_ERROR, output)
        if isinstance(error, ValidationError):
            return self.fail(ToolOutputError(describe_authors(error)), error)
        return self.fail(ToolFailedError(describe_authors(error)), error)

    def fail(self, error: OrsServerError, cause: BaseException | None = None) -> EndedCall:
        """End the call by a fault, for which nothing is charged."""
        if cause is not None:
            error.__cause__ = cause
        text = str(error)
        if (masked := secret_values.mask(text)) != text:
            error.args = (masked,)
        return self.end(OutcomeKind.FAULT, error=error)

    def time_out(self) -> EndedCall:
        """End the call because its time was up."""
        limit = self.clock.limit
        text = f"{self.tool.name!r} did not return within {limit:g} seconds and was stopped"
        return self.end(OutcomeKind.TIMEOUT, make_error_output(text, "timeout", {"time_limit": limit}))

    def end(
        self, kind: OutcomeKind, output: CheckedOutput | None = None, error: OrsServerError | None = None
    ) -> EndedCall:
        """End the call: here alone is an outcome made of a tool that ran.

        Args:
            output: What the agent gets; its reward counts if the call completed.
            error: Of an author or a cancellation, instead of an output.
        """
        context = self.context
        unjudged = context.unjudged if context.is_judged else None
        if kind is OutcomeKind.COMPLETED and output is not None:
            outcome = CallOutcome(
                kind,
                output.reward,
                output.finished,
                tuple(context.charged),
                numeric_extras(output.metadata) if output.metadata else {},
                is_unjudged=unjudged is not None,
            )
        else:
            outcome = CallOutcome(kind, is_unjudged=unjudged is not None)
        return EndedCall(outcome, self.started, output, None, error, context.user_turns, unjudged)

    def _note_missing_number(self, output: CheckedOutput, *, is_graded: bool) -> None:
        """Note an output whose status has no number, or that ends a graded episode without a reward."""
        metadata = output.metadata or {}
        if is_unjudged(metadata):
            self.context.note_unjudged(
                metadata[REWARD_STATUS], str(metadata.get(REWARD_REASON, "the output states no reason"))
            )
        elif is_graded and output.finished and output.reward is None:
            self.context.note_unjudged(
                RewardStatus.ERROR, "the output ends the episode without a reward, and the class has one"
            )

    def _final_response(self, output: ToolOutput) -> str:
        """Return the call's `answer`, a terminal tool's message, or else the tool's text."""
        arguments = self.parsed.model_dump(mode="json") if isinstance(self.parsed, BaseModel) else {}
        name = ANSWER if ANSWER in arguments else self.tool.terminal_arg
        if name not in arguments:
            return "\n".join(block.text for block in output.blocks if isinstance(block, TextBlock))
        value = arguments[name]
        return value if isinstance(value, str) else "" if value is None else json.dumps(value)


MakeError: TypeAlias = Callable[[], OrsServerError]


@dataclass(slots=True, eq=False, repr=False)
class CallRunner:
    """Runs the calls of one session."""

    _recorder: EpisodeRecorder
    calls: CallTable
    tools: SessionTools
    _setup: Setup
    _task_spec: JSONObject
    _grade: Grade | None = None
    turns: Turns = field(default_factory=Turns, init=False)
    _services: Services = field(init=False)
    _loop: asyncio.AbstractEventLoop = field(init=False)
    """The one that plays the session: finding it is a system call in Python 3.11."""
    _make_end_error: MakeError | None = field(default=None, init=False)
    _lingering: list[str] = field(default_factory=list[str], init=False)
    """Tools that were stopped and whose threads still run."""
    _waiting: dict[anyio.CancelScope, None] = field(default_factory=dict[anyio.CancelScope, None], init=False)
    """Of the calls that wait for a turn."""

    def __post_init__(self) -> None:
        self._services = self._recorder.services
        self._loop = asyncio.get_running_loop()

    def start(self, call: Call) -> None:
        """Run a call in the background, which keeps running if its client disconnects."""
        self.calls.add(call)
        perform: Callable[[Call], Awaitable[CallResult | None]] = self._play
        if call.repeats is not None and self._recorder.has_run(call.repeats):
            call.seal()
            perform = self._repeat
        # `_run` lets nothing out, and takes its task off the list.
        self._services.tasks.add(self._loop.create_task(self._run(call, perform)))

    def start_other(self, call: Call, perform: Callable[[], Awaitable[CallResult]]) -> None:
        """Run something that is not a step as a call, once the session is ready."""

        async def run_when_ready(_call: Call) -> CallResult | None:
            with _cancellable(call):
                await self.until_ready()
                return await perform()
            return None

        self.calls.add(call)
        self._services.tasks.add(self._loop.create_task(self._run(call, run_when_ready)))

    def end(self, make_error: MakeError) -> None:
        """Refuse everything from now on, requests that still wait for the session included."""
        self._make_end_error = make_error

    def check_usable(self) -> None:
        """Check that the session was not ended and that its setup did not fail."""
        if self._make_end_error is not None:
            raise self._make_end_error()
        self._setup.check()

    async def until_ready(self) -> None:
        """Wait for setup."""
        await self._setup.wait()
        self.check_usable()

    @asynccontextmanager
    async def exclusive_turn(self) -> AsyncGenerator[None]:
        """Wait until the session is ready and no call runs, and hold new ones back."""
        await self.until_ready()
        await self._wait_for_turn(Concurrency.EXCLUSIVE)
        try:
            self.check_usable()
            yield
        finally:
            self.turns.release(Concurrency.EXCLUSIVE)

    async def _run(self, call: Call, perform: Callable[[Call], Awaitable[CallResult | None]]) -> None:
        result: CallResult | None = None
        try:
            if self._make_end_error is not None and not call.is_sealed:
                result = Failure(self._make_end_error())
            elif call.is_sealed or not call.is_cancelled:
                result = await perform(call)
            result = result or Failure(call.cancel_error)
        except OrsServerError as error:
            result = Failure(error)
        except Exception:  # the border between a defect of ours and all other calls
            log.exception("call_defect", session_id=self._recorder.origin.session_id, tool=call.tool)
            result = Failure(OrsServerError("the server failed; its log has the details"))
        finally:
            if result is None:  # the server ends its tasks
                result = Failure(ShuttingDownError("the server is shutting down"))
            if isinstance(result, Failure):
                forget_frames(result.error)
            self.calls.finish(call, result)
            task = asyncio.current_task(self._loop)
            self._services.tasks.discard(cast("asyncio.Task[None]", task))

    async def write_pending(self) -> None:
        """Write the steps that the store would not take, and leave the older results to the record.

        Raises:
            StoreError: If the store still fails.
        """
        await self._recorder.write_pending()
        self.calls.trim()

    async def _repeat(self, call: Call) -> CallResult:
        """Write the step of a call that ran; nothing runs, so that a cancellation has nothing to stop."""
        with call.seal():
            result = await self._recorder.write_pending(call)
        if result is None and self._make_end_error is not None:
            return Failure(self._make_end_error())  # not a refusal: the tool has run, and its step is lost
        return result or Failure(OrsServerError(f"the step of the call {call.id!r} is lost"))

    async def _play(self, call: Call) -> CallResult | None:
        """Play one step; return `None` if the call was cancelled before its tool was found."""
        recorder = self._recorder
        tool: BoundTool | CallResult | None = None
        if self._setup.is_done and call.repeats is None and recorder.is_playable:
            tool = self.tools.bound.get(call.tool)
        has_waited = tool is None
        if tool is None:  # something has to be waited for, or failed
            with self._waiting_time(), _cancellable(call):
                tool = await self._find_tool(call)
        if not isinstance(tool, BoundTool):
            return tool
        started = recorder.services.clock.monotonic()
        call.has_plain_arguments = are_plain_arguments(call.arguments)
        try:
            parsed = parse_arguments(tool.definition, call.arguments, are_plain=call.has_plain_arguments)
        except InvalidArgumentsError as error:
            return await self._record_refusal(call, RefusalReason.INPUT_VALIDATION, str(error), started)
        except OrsServerError as error:
            return await recorder.record(call, _fault(error, started))
        if not self.turns.acquire_now(tool.concurrency):
            has_waited = True
            with self._waiting_time():
                result = await self._acquire_turn(call, tool.concurrency)
            if result is not None:
                return result
        thread = LingeringThread()
        # Most servers trace nothing.
        is_traced = spans.tracing.tracer is not None and spans.is_traced()
        run = self._run_in_span if is_traced else self._run_tool
        try:
            return await run(call, tool, parsed, thread, has_waited=has_waited)
        finally:  # the turn is released once nothing of the tool's runs
            if thread.ended is None or thread.ended.is_set():
                self.turns.release(tool.concurrency)
            else:
                self._lingering.append(call.tool)
                self._limit_waiting()
                self._services.spawn(self._release_later, tool.concurrency, call.tool, thread.ended)

    async def _end_after_wait(self, call: Call) -> CallResult | None:
        """Say what else has ended a call while it waited: its cancellation, or the end of the episode."""
        if call.is_cancelled:
            return Failure(call.cancel_error)
        await self._recorder.until_decided()
        return self._recorder.refusal(call.tool)

    async def _run_in_span(
        self, call: Call, tool: BoundTool, parsed: object, thread: LingeringThread, *, has_waited: bool
    ) -> CallResult:
        """Run the tool in a span of OpenTelemetry."""
        origin = self._recorder.origin
        attributes = {
            "ors.environment": origin.environment,
            "ors.session.id": origin.session_id,
            "ors.episode.id": origin.episode_id,
        }
        with spans.tool_span(tool.definition.name, call.id, attributes) as span:
            result = await self._run_tool(call, tool, parsed, thread, has_waited=has_waited)
            if isinstance(result, Completed):
                step = result.recorded
                spans.note_outcome(
                    span, outcome_of(step), step=step.number, reward=step.reward, is_fault=False
                )
            elif isinstance(result, Failure):
                spans.note_outcome(span, "failed", step=result.step or 0, reward=None, is_fault=True)
            return result

    @contextmanager
    def _waiting_time(self) -> Generator[None]:
        """Measure what waits in it: only calls that have to wait pay for that."""
        began = perf_counter()
        yield
        recorder = self._recorder
        recorder.services.meters.of(recorder.origin.environment).waiting_seconds.add(perf_counter() - began)

    async def _find_tool(self, call: Call) -> BoundTool | CallResult:
        """Find a call's tool, once the session is ready and every earlier step is on record."""
        await self.until_ready()
        recorder = self._recorder
        result = await recorder.write_pending(call)
        if result is None:
            await recorder.until_decided()
            result = recorder.refusal(call.tool)
        if result is not None:
            return result
        started = recorder.now
        try:
            tool = await self.tools.find(call.tool)
        except OrsServerError as error:
            return await recorder.record(call, _fault(error, started))
        if tool is not None:
            return tool
        text = refuse_unknown(call.tool, [spec.name for spec in (await self.tools.listing()).tools])
        return await self._record_refusal(call, RefusalReason.NOT_FOUND, text, started)

    async def _run_tool(
        self, call: Call, tool: BoundTool, parsed: object, thread: LingeringThread, *, has_waited: bool
    ) -> CallResult:
        """Run the tool within its time limit and record its result, in the task of the call.

        Args:
            has_waited: Whether another call may have ended the episode meanwhile.
        """
        if has_waited and (over := await self._end_after_wait(call)) is not None:
            return over
        recorder = self._recorder
        run = self._make_run(call, tool, parsed)
        clock, ended = run.clock, None  # stays so if the tool is stopped
        try:
            running_call.set(run.context)  # until the task ends
            author_code.set(tool.code)
            try:
                with (counting_scope := counting(clock, is_armed=False)):
                    call.scope = counting_scope.scope
                    if call.is_cancelled:
                        counting_scope.scope.cancel()
                    result = await call_author(
                        tool.function, parsed, run.context, thread=thread, on_loop=tool.definition.is_async
                    )
                    ended = await run.check_return(
                        result, recorder.policy, self._services.options.max_output_bytes, self._grade
                    )
            except AuthorRaisedError as raised:
                ended = run.classify_error(raised.error)
            except OrsServerError as error:
                ended = run.fail(error)
            except asyncio.CancelledError:  # the server ends its tasks
                with anyio.CancelScope(shield=True):
                    await recorder.record(call, run.end(OutcomeKind.CANCELLED, error=call.cancel_error))
                raise
            finally:
                if clock.bound is not None:
                    recorder.stop_clock(clock)
            if ended is None and call.is_cancelled:
                await recorder.record(call, run.end(OutcomeKind.CANCELLED, error=call.cancel_error))
                return Failure(call.cancel_error)
            if ended is None or clock.is_up:  # discards a late result too
                ended = run.time_out()
            if ended.error is not None:
                self._log_failure(call, ended.error)
            return await recorder.record(call, ended)
        finally:
            if call in recorder.playing:
                recorder.leave(call)

    def _make_run(self, call: Call, tool: BoundTool, parsed: object) -> ToolRun:
        recorder = self._recorder
        policy, time_limit = recorder.policy, tool.definition.time_limit
        bound = None if policy.time_limit is None else lambda: recorder.remaining_time
        left = None if policy.time_limit is None else recorder.remaining_time
        for limit in (policy.call_time_limit, left):
            if limit is not None and (time_limit is None or limit < time_limit):
                time_limit = limit
        clock = CallClock(time_limit, watch=self._services.watch, bound=bound)
        context = CallContext(
            session_id=recorder.origin.session_id,
            call_id=call.id,
            step=recorder.begin(call, clock),
            task_spec=self._task_spec,
            listeners=call.listeners,
            client=call.client,
            policy=policy,
            time_limit=time_limit,
        )
        return ToolRun(tool.definition, parsed, context, clock, recorder.services.clock.monotonic())

    async def _record_refusal(
        self, call: Call, reason: RefusalReason, text: str, started: float
    ) -> CallResult:
        outcome = CallOutcome(OutcomeKind.INVALID_CALL)
        return await self._recorder.record(call, EndedCall(outcome, started, refusal=Refusal(reason, text)))

    async def _acquire_turn(self, call: Call, concurrency: Concurrency) -> CallResult | None:
        """Wait for the turn; return `None` once the call has it, or its result without a turn."""
        try:
            with _cancellable(call):
                await self._wait_for_turn(concurrency)
                return None
        except EnvironmentFailedError as error:
            return await self._give_up(call, error)
        return Failure(call.cancel_error)

    async def _wait_for_turn(self, concurrency: Concurrency) -> None:
        if self.turns.acquire_now(concurrency):
            return
        with anyio.CancelScope() as scope:
            self._waiting[scope] = None
            self._limit_waiting()
            try:
                await self.turns.acquire(concurrency)
                return
            finally:
                del self._waiting[scope]
        tools = ", ".join(repr(name) for name in dict.fromkeys(self._lingering))
        raise EnvironmentFailedError(
            f"{tools} was stopped and its thread still runs, so that nothing else may touch the environment; "
            "have the tool end in time, or make it async"
        )

    def _limit_waiting(self) -> None:
        """Bound the waits for a turn while the thread of a tool that was stopped may keep it."""
        deadline = math.inf
        if self._lingering:
            deadline = anyio.current_time() + self._services.options.turn_time_limit
        for scope in self._waiting:
            scope.deadline = deadline

    async def _release_later(self, concurrency: Concurrency, tool: str, ended: asyncio.Event) -> None:
        await ended.wait()
        self._lingering.remove(tool)
        self.turns.release(concurrency)
        self._limit_waiting()

    async def _give_up(self, call: Call, error: EnvironmentFailedError) -> CallResult:
        """Answer with a fault and end the episode, for its environment can never be used again."""
        recorder = self._recorder
        over = recorder.refusal(call.tool)
        if over is not None:
            return over
        log.warning("environment_lost", session_id=recorder.origin.session_id, error=str(error))
        result = await recorder.record(call, _fault(error, recorder.now))
        await recorder.fail()
        return result

    def _log_failure(self, call: Call, error: OrsServerError) -> None:
        session_id = self._recorder.origin.session_id
        log.warning("tool_failed", session_id=session_id, tool=call.tool, call_id=call.id, exc_info=error)


def _cancellable(call: Call) -> anyio.CancelScope:
    """Return a scope that `Call.cancel` cancels; what follows it continues."""
    scope = make_scope()
    call.use_scope(scope)
    return scope


def _fault(error: OrsServerError, started: float) -> EndedCall:
    return EndedCall(CallOutcome(OutcomeKind.FAULT), started, error=error)
