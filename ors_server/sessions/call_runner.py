"""Plays one call: legality, arguments, turn, tool, count. Knows nothing of creation, expiry or deletion."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio

from ors_server.authoring.context import CallContext, running_call
from ors_server.authoring.definition import ToolDefinition
from ors_server.call_clock import CallClock
from ors_server.episode import CallOutcome, OutcomeKind
from ors_server.errors import EnvironmentFailedError, OrsServerError
from ors_server.logs import get_logger
from ors_server.loop_watch import AuthorCode, author_code
from ors_server.sessions.episode_recorder import EndedCall, EpisodeRecorder
from ors_server.sessions.session_call import Call, CallResult, Refusal, RefusalReason
from ors_server.sessions.session_tools import SessionTools
from ors_server.sessions.tool_arguments import InvalidArgumentsError, parse_arguments, refuse_unknown
from ors_server.sessions.tool_run import ToolJob, run_tool
from ors_server.sessions.turns import Concurrency, Turns
from ors_server.wire import JSONObject, ToolOutput
from ors_server.workers import LingeringThread

Grade: TypeAlias = Callable[[ToolOutput, str], Awaitable[ToolOutput]]

log = get_logger("ors_server.session")


class CallRunner:
    """Performs the calls of one session."""

    __slots__ = (
        "_codes",
        "_grade",
        "_lingering",
        "_recorder",
        "_services",
        "_task_spec",
        "_tools",
        "_waiting",
        "_why_cancelled",
        "turns",
    )

    def __init__(
        self,
        recorder: EpisodeRecorder,
        tools: SessionTools,
        task_spec: JSONObject,
        why_cancelled: Callable[[], OrsServerError],
        grade: Grade | None = None,
    ) -> None:
        """Keep what a call needs.

        Args:
            recorder: The episode's recorder.
            tools: The session's tools.
            task_spec: The task as the tools see it.
            why_cancelled: Says why a running call was cancelled.
            grade: Grades an output that ends the episode without a reward.
        """
        self.turns = Turns()
        self._recorder = recorder
        self._tools = tools
        self._services = recorder.services
        self._task_spec = task_spec
        self._why_cancelled = why_cancelled
        self._grade = grade
        self._codes: dict[str, AuthorCode] = {}
        """Names of the tools that have run, for the event loop's watch."""
        self._lingering: list[str] = []
        """Tools that were stopped and whose threads still run."""
        self._waiting: set[anyio.CancelScope] = set()
        """Of those who wait for a turn."""

    async def perform(self, call: Call) -> CallResult:
        """Run one call to its result, once the session is ready.

        Raises:
            StoreError: If the step could not be written, or the one before it still cannot; then the tool did
                not run.
        """
        written = await self._recorder.write_pending(call)
        if written is not None:
            return written
        over = self._recorder.refusal(call.tool)
        if over is not None:
            return over
        started = self._recorder.now
        try:
            tool = await self._tools.find(call.tool)
            parsed = None if tool is None else parse_arguments(tool, call.arguments)
        except InvalidArgumentsError as error:
            return await self._count_refusal(call, RefusalReason.INPUT_VALIDATION, str(error), started)
        except OrsServerError as error:
            return await self._recorder.record(
                call, EndedCall(CallOutcome(OutcomeKind.FAULT), started, error=error)
            )
        if tool is None:
            text = refuse_unknown(call.tool, [spec.name for spec in (await self._tools.listing()).tools])
            return await self._count_refusal(call, RefusalReason.NOT_FOUND, text, started)
        return await self._take_turn(call, tool, parsed)

    @asynccontextmanager
    async def turn(self, concurrency: Concurrency) -> AsyncGenerator[None]:
        """Wait for a turn and hold it.

        Raises:
            EnvironmentFailedError: If a tool's thread that was left behind keeps the turn for too long.
        """
        await self._wait_for_turn(concurrency)
        try:
            yield
        finally:
            self.turns.release(concurrency)

    async def _take_turn(self, call: Call, tool: ToolDefinition, parsed: object) -> CallResult:
        concurrency = (
            Concurrency.EXCLUSIVE
            if tool.exclusive
            else Concurrency.CONCURRENT
            if tool.concurrent
            else Concurrency.SERIAL
        )
        try:
            if not self.turns.acquire_now(concurrency):
                await self._wait_for_turn(concurrency)
        except EnvironmentFailedError as error:
            return await self._give_up(call, error)
        thread = LingeringThread()
        try:
            over = self._recorder.refusal(call.tool)
            return over if over is not None else await self._execute(call, tool, parsed, thread)
        finally:
            if thread.ended is None or thread.ended.is_set():
                self.turns.release(concurrency)
            else:
                self._lingering.append(tool.name)
                self._limit_waiting()
                self._services.spawn(self._give_back_later, concurrency, tool.name, thread.ended)

    async def _wait_for_turn(self, concurrency: Concurrency) -> None:
        if self.turns.acquire_now(concurrency):
            return
        with anyio.CancelScope() as scope:
            self._waiting.add(scope)
            self._limit_waiting(scope)
            try:
                await self.turns.acquire(concurrency)
                return
            finally:
                self._waiting.discard(scope)
        tools = ", ".join(repr(name) for name in dict.fromkeys(self._lingering))
        raise EnvironmentFailedError(
            f"{tools} was stopped and its thread still runs, so that nothing else may touch the environment; "
            "have the tool end in time, or make it async"
        )

    def _limit_waiting(self, *scopes: anyio.CancelScope) -> None:
        """Bound the waits for a turn while a thread that was left behind may keep it."""
        deadline = math.inf
        if self._lingering:
            deadline = anyio.current_time() + self._services.turn_time_limit
        for scope in scopes or self._waiting:
            scope.deadline = deadline

    async def _give_up(self, call: Call, error: EnvironmentFailedError) -> CallResult:
        """Answer with a fault and end the episode, for its environment can never be used again."""
        over = self._recorder.refusal(call.tool)
        if over is not None:
            return over
        log.warning("environment_lost", session_id=self._recorder.origin.session_id, error=str(error))
        result = await self._recorder.record(
            call, EndedCall(CallOutcome(OutcomeKind.FAULT), self._recorder.now, error=error)
        )
        self._recorder.fail()
        return result

    async def _execute(
        self, call: Call, tool: ToolDefinition, parsed: object, thread: LingeringThread
    ) -> CallResult:
        started = self._recorder.now
        time_limit = self._time_limit(tool)
        clock = CallClock(time_limit, watch=self._services.watch)
        job = ToolJob(
            tool=tool,
            function=self._tools.bound(tool.name),
            parsed=parsed,
            context=CallContext(
                session_id=self._recorder.origin.session_id,
                call_id=call.id,
                step=self._recorder.state.steps + 1,
                task_spec=self._task_spec,
                listeners=call.listeners,
                client=call.client,
                policy=self._recorder.policy,
                time_limit=time_limit,
            ),
            policy=self._recorder.policy,
            clock=clock,
            max_output_bytes=self._services.max_output_bytes,
            grade=self._grade,
        )
        running = running_call.set(job.context)
        code = author_code.set(self._name_code(tool.name))
        self._recorder.clocks.add(clock)
        try:
            run = await run_tool(job, thread)
        except anyio.get_cancelled_exc_class():
            outcome = CallOutcome(OutcomeKind.CANCELLED, waived=clock.waived_s)
            with anyio.CancelScope(shield=True):
                await self._recorder.record(call, EndedCall(outcome, started, error=self._why_cancelled()))
            raise
        finally:
            self._recorder.clocks.discard(clock)
            author_code.reset(code)
            running_call.reset(running)
        if run.error is not None:
            log.warning(
                "tool_failed",
                session_id=self._recorder.origin.session_id,
                tool=tool.name,
                call_id=call.id,
                exc_info=run.error,
            )
        outcome, waived = run.outcome, clock.waived_s
        if waived > 0:  # field by field, which costs a third of what `replace` does
            outcome = CallOutcome(
                outcome.kind, outcome.reward, outcome.finished, outcome.causes, outcome.metrics, waived
            )
        return await self._recorder.record(call, EndedCall(outcome, started, run.output, error=run.error))

    def _name_code(self, tool: str) -> AuthorCode:
        code = self._codes.get(tool)
        if code is None:
            code = self._codes[tool] = AuthorCode(self._recorder.origin.environment, f"tool {tool!r}")
        return code

    async def _count_refusal(
        self, call: Call, reason: RefusalReason, text: str, started: float
    ) -> CallResult:
        entry = EndedCall(CallOutcome(OutcomeKind.INVALID_CALL), started, refusal=Refusal(reason, text))
        return await self._recorder.record(call, entry)

    def _time_limit(self, tool: ToolDefinition) -> float | None:
        limits = (tool.time_limit, self._recorder.policy.call_time_limit, self._recorder.remaining_time)
        return min([limit for limit in limits if limit is not None], default=None)

    async def _give_back_later(self, concurrency: Concurrency, tool: str, ended: asyncio.Event) -> None:
        await ended.wait()
        self._lingering.remove(tool)
        self.turns.release(concurrency)
        self._limit_waiting()
