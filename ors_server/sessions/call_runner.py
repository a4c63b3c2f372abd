"""Runs the calls of one session: setup and turn, arguments, the tool in its time limit, the step."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio

from ors_server.authoring.boundary import AuthorRaisedError, call_author
from ors_server.authoring.call_context import CallContext, running_call
from ors_server.call_clock import CallClock, counting, make_scope
from ors_server.episode import CallOutcome, OutcomeKind
from ors_server.errors import EnvironmentFailedError, OrsServerError, ShuttingDownError, forget_frames
from ors_server.logs import get_logger
from ors_server.loop_watch import author_code
from ors_server.sessions.call_table import CallTable
from ors_server.sessions.episode_recorder import EndedCall, EpisodeRecorder
from ors_server.sessions.lifecycle import Setup
from ors_server.sessions.session_call import Call, CallResult, Failure, Refusal, RefusalReason
from ors_server.sessions.session_services import Services
from ors_server.sessions.session_tools import BoundTool, SessionTools
from ors_server.sessions.tool_arguments import InvalidArgumentsError, parse_arguments, refuse_unknown
from ors_server.sessions.tool_run import Grade, ToolRun
from ors_server.sessions.turns import Concurrency, Turns
from ors_server.wire import JSONObject
from ors_server.workers import LingeringThread

MakeError: TypeAlias = Callable[[], OrsServerError]

log = get_logger("ors_server.session")


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
    _make_end_error: MakeError | None = field(default=None, init=False)
    _lingering: list[str] = field(default_factory=list[str], init=False)
    """Tools that were stopped and whose threads still run."""
    _waiting: dict[anyio.CancelScope, None] = field(default_factory=dict[anyio.CancelScope, None], init=False)
    """Of the calls that wait for a turn."""

    def __post_init__(self) -> None:
        self._services = self._recorder.services

    def start(self, call: Call) -> None:
        """Run a call in the background, which goes on if its client leaves."""
        self.calls.add(call)
        if call.repeats is not None and self._recorder.has_run(call.repeats):
            call.seal()
            self._services.spawn(self._run, call, self._repeat)
        else:
            self._services.spawn(self._run, call, self._play)

    def start_other(self, call: Call, perform: Callable[[], Awaitable[CallResult]]) -> None:
        """Run something that is no step as a call, once the session is ready."""

        async def run_when_ready(_call: Call) -> CallResult | None:
            with _cancellable(call):
                await self.until_ready()
                return await perform()
            return None

        self.calls.add(call)
        self._services.spawn(self._run, call, run_when_ready)

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
        result: CallResult = Failure(ShuttingDownError("the server is shutting down"))
        try:
            if call.is_sealed:
                result = await perform(call) or Failure(call.cancel_error)
            elif self._make_end_error is not None:
                result = Failure(self._make_end_error())
            elif call.is_cancelled:
                result = Failure(call.cancel_error)
            else:
                result = await perform(call) or Failure(call.cancel_error)
        except OrsServerError as error:
            result = Failure(error)
        except Exception:  # the border between a defect of ours and all other calls
            log.exception("call_defect", session_id=self._recorder.origin.session_id, tool=call.tool)
            result = Failure(OrsServerError("the server failed; its log has the details"))
        finally:
            if isinstance(result, Failure):
                forget_frames(result.error)
            self.calls.finish(call, result)

    async def _repeat(self, call: Call) -> CallResult:
        """Write the step of a call that ran; nothing runs, so that a cancellation has nothing to stop."""
        with call.seal():
            result = await self._recorder.write_pending(call)
        if result is None and self._make_end_error is not None:
            return Failure(self._make_end_error())  # not a refusal: the tool has run, and its step is lost
        return result or Failure(OrsServerError(f"the step of the call {call.id!r} is lost"))

    async def _play(self, call: Call) -> CallResult | None:
        """Play one step; return `None` if the call was cancelled before its tool was found."""
        found: BoundTool | CallResult | None = self._find_now(call)
        if found is None:
            with _cancellable(call):
                found = await self._find(call)
        if not isinstance(found, BoundTool):
            return found
        started = self._recorder.now
        try:
            parsed = parse_arguments(found.definition, call.arguments)
        except InvalidArgumentsError as error:
            return await self._record_refusal(call, RefusalReason.INPUT_VALIDATION, str(error), started)
        except OrsServerError as error:
            return await self._recorder.record(call, _fault(error, started))
        if not self.turns.acquire_now(found.concurrency):
            result = await self._acquire_turn(call, found.concurrency)
            if result is not None:
                return result
        return await self._use_turn(call, found, parsed)

    def _find_now(self, call: Call) -> BoundTool | Refusal | None:
        """Find a call's tool without waiting; return `None` if something has to be waited for."""
        if call.repeats is not None or self._setup.is_pending or self._recorder.has_pending:
            return None
        self.check_usable()
        if self._recorder.is_deciding:
            return None
        return self._recorder.refusal(call.tool) or self.tools.found(call.tool)

    async def _find(self, call: Call) -> BoundTool | CallResult:
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

    async def _use_turn(self, call: Call, tool: BoundTool, parsed: object) -> CallResult:
        """Run the tool in the turn that was taken, and release the turn once nothing of the tool's runs."""
        thread = LingeringThread()
        try:
            if call.is_cancelled:
                return Failure(call.cancel_error)
            await self._recorder.until_decided()
            over = self._recorder.refusal(call.tool)
            return over if over is not None else await self._run_tool(call, tool, parsed, thread)
        finally:
            if thread.ended is None or thread.ended.is_set():
                self.turns.release(tool.concurrency)
            else:
                self._lingering.append(call.tool)
                self._limit_waiting()
                self._services.spawn(self._release_later, tool.concurrency, call.tool, thread.ended)

    async def _run_tool(
        self, call: Call, tool: BoundTool, parsed: object, thread: LingeringThread
    ) -> CallResult:
        """Run the tool within its time limit and record what came of it."""
        recorder = self._recorder
        run = self._make_run(call, tool, parsed)
        with recorder.playing(call, run.clock):
            context_before = running_call.set(run.context)
            code_before = author_code.set(tool.code)
            try:
                ended = await self._await_tool(call, tool, run, thread)
            except asyncio.CancelledError:  # the server ends its tasks
                with anyio.CancelScope(shield=True):
                    await self._record_run(call, run, run.cancel(call.cancel_error))
                raise
            finally:
                recorder.stop_clock(run.clock)
                author_code.reset(code_before)
                running_call.reset(context_before)
            if ended is None and call.is_cancelled:
                await self._record_run(call, run, run.cancel(call.cancel_error))
                return Failure(call.cancel_error)
            if ended is None or run.clock.is_up:  # discards a late result too
                ended = run.time_out()
            if ended.error is not None:
                self._log_failure(call, ended.error)
            return await self._record_run(call, run, ended)

    async def _record_run(self, call: Call, run: ToolRun, ended: EndedCall) -> CallResult:
        ended.user_turns, ended.unjudged = run.context.user_turns, run.context.unjudged
        return await self._recorder.record(call, ended)

    async def _await_tool(
        self, call: Call, tool: BoundTool, run: ToolRun, thread: LingeringThread
    ) -> EndedCall | None:
        """Run the tool; return `None` if it was stopped, by its time limit or by a cancellation."""
        ended: EndedCall | None = None
        try:
            with counting(run.clock, is_armed=False) as clock:
                call.use_scope(clock.cancel_scope)
                result = await call_author(
                    tool.function, run.parsed, run.context, thread=thread, on_loop=tool.definition.is_async
                )
                ended = await run.check_return(
                    result, self._recorder.policy, self._services.options.max_output_bytes, self._grade
                )
        except AuthorRaisedError as raised:
            ended = run.classify_error(raised.error)
        except OrsServerError as error:
            ended = run.fail(error)
        return ended

    def _make_run(self, call: Call, tool: BoundTool, parsed: object) -> ToolRun:
        recorder = self._recorder
        limits = (tool.definition.time_limit, recorder.policy.call_time_limit, recorder.remaining_time)
        time_limit = min((limit for limit in limits if limit is not None), default=None)
        context = CallContext(
            session_id=recorder.origin.session_id,
            call_id=call.id,
            step=recorder.next_number,
            task_spec=self._task_spec,
            listeners=call.listeners,
            client=call.client,
            policy=recorder.policy,
            time_limit=time_limit,
            charged=[],
        )
        bound = None if recorder.policy.time_limit is None else lambda: recorder.remaining_time
        clock = CallClock(time_limit, watch=self._services.watch, bound=bound)
        return ToolRun(tool.definition, parsed, context, clock, recorder.now)

    async def _record_refusal(
        self, call: Call, reason: RefusalReason, text: str, started: float
    ) -> CallResult:
        outcome = CallOutcome(OutcomeKind.INVALID_CALL)
        return await self._recorder.record(call, EndedCall(outcome, started, refusal=Refusal(reason, text)))

    async def _acquire_turn(self, call: Call, concurrency: Concurrency) -> CallResult | None:
        """Wait for the turn; return `None` once the call has it, or what the call came to without it."""
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
    """Return a scope that `Call.cancel` cancels; what comes after it goes on."""
    scope = make_scope()
    call.use_scope(scope)
    return scope


def _fault(error: OrsServerError, started: float) -> EndedCall:
    return EndedCall(CallOutcome(OutcomeKind.FAULT), started, error=error)
