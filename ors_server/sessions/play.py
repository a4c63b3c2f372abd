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
from ors_server.episode import Outcome, OutcomeKind
from ors_server.errors import EnvironmentFailedError, OrsServerError
from ors_server.logs import get_logger
from ors_server.loop_watch import AuthorCode, author_code
from ors_server.sessions.arguments import InvalidArgumentsError, parse_arguments, refuse_unknown
from ors_server.sessions.book import Entry, EpisodeBook
from ors_server.sessions.calls import Call, CallResult, Refusal, RefusalReason
from ors_server.sessions.runner import ToolJob, run_tool
from ors_server.sessions.tools import SessionTools
from ors_server.sessions.turns import Manner, Turns
from ors_server.wire import JSONObject, ToolOutput
from ors_server.workers import LingeringThread

Grade: TypeAlias = Callable[[ToolOutput, str], Awaitable[ToolOutput]]

log = get_logger("ors_server.session")


class Play:
    """Performs the calls of one session."""

    __slots__ = (
        "_book",
        "_codes",
        "_grade",
        "_lingering",
        "_services",
        "_task_spec",
        "_tools",
        "_waiting",
        "_why_cancelled",
        "turns",
    )

    def __init__(
        self,
        book: EpisodeBook,
        tools: SessionTools,
        task_spec: JSONObject,
        why_cancelled: Callable[[], OrsServerError],
        grade: Grade | None = None,
    ) -> None:
        """Keep what a call needs.

        Args:
            book: The episode's book.
            tools: The session's tools.
            task_spec: The task as the tools see it.
            why_cancelled: Says why a running call was cancelled.
            grade: Grades an output that ends the episode without a reward.
        """
        self.turns = Turns()
        self._book = book
        self._tools = tools
        self._services = book.services
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

        Args:
            call: The call.

        Raises:
            StoreError: If the step could not be written, or the one before it still cannot; then the tool did
                not run.
        """
        written = await self._book.catch_up(call)
        if written is not None:
            return written
        over = self._book.refusal(call.tool)
        if over is not None:
            return over
        started = self._book.now
        try:
            tool = await self._tools.find(call.tool)
            parsed = None if tool is None else parse_arguments(tool, call.arguments)
        except InvalidArgumentsError as error:
            return await self._count_refusal(call, RefusalReason.INPUT_VALIDATION, str(error), started)
        except OrsServerError as error:
            return await self._book.count(call, Entry(Outcome(OutcomeKind.FAULT), started, error=error))
        if tool is None:
            text = refuse_unknown(call.tool, [spec.name for spec in (await self._tools.listing()).tools])
            return await self._count_refusal(call, RefusalReason.NOT_FOUND, text, started)
        return await self._take_turn(call, tool, parsed)

    @asynccontextmanager
    async def turn(self, manner: Manner) -> AsyncGenerator[None]:
        """Wait for a turn and hold it.

        Args:
            manner: How the turn shares the session.

        Raises:
            EnvironmentFailedError: If a tool's thread that was left behind keeps the turn for too long.
        """
        await self._wait_for_turn(manner)
        try:
            yield
        finally:
            self.turns.give_back(manner)

    async def _take_turn(self, call: Call, tool: ToolDefinition, parsed: object) -> CallResult:
        manner = (
            Manner.EXCLUSIVE if tool.exclusive else Manner.CONCURRENT if tool.concurrent else Manner.SERIAL
        )
        try:
            if not self.turns.take_now(manner):
                await self._wait_for_turn(manner)
        except EnvironmentFailedError as error:
            return await self._give_up(call, error)
        thread = LingeringThread()
        try:
            over = self._book.refusal(call.tool)
            return over if over is not None else await self._execute(call, tool, parsed, thread)
        finally:
            if thread.ended is None or thread.ended.is_set():
                self.turns.give_back(manner)
            else:
                self._lingering.append(tool.name)
                self._limit_waiting()
                self._services.spawn(self._give_back_later, manner, tool.name, thread.ended)

    async def _wait_for_turn(self, manner: Manner) -> None:
        if self.turns.take_now(manner):
            return
        with anyio.CancelScope() as scope:
            self._waiting.add(scope)
            self._limit_waiting(scope)
            try:
                await self.turns.take(manner)
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
        over = self._book.refusal(call.tool)
        if over is not None:
            return over
        log.warning("environment_lost", session_id=self._book.origin.session_id, error=str(error))
        result = await self._book.count(call, Entry(Outcome(OutcomeKind.FAULT), self._book.now, error=error))
        self._book.fail()
        return result

    async def _execute(
        self, call: Call, tool: ToolDefinition, parsed: object, thread: LingeringThread
    ) -> CallResult:
        started = self._book.now
        time_limit = self._time_limit(tool)
        clock = CallClock(time_limit, watch=self._services.watch)
        job = ToolJob(
            tool=tool,
            function=self._tools.bound(tool.name),
            parsed=parsed,
            context=CallContext(
                session_id=self._book.origin.session_id,
                call_id=call.id,
                step=self._book.state.steps + 1,
                task_spec=self._task_spec,
                listeners=call.listeners,
                client=call.client,
                policy=self._book.policy,
                time_limit=time_limit,
            ),
            policy=self._book.policy,
            clock=clock,
            max_output_bytes=self._services.max_output_bytes,
            grade=self._grade,
        )
        running = running_call.set(job.context)
        code = author_code.set(self._name_code(tool.name))
        self._book.clocks.add(clock)
        try:
            run = await run_tool(job, thread)
        except anyio.get_cancelled_exc_class():
            outcome = Outcome(OutcomeKind.CANCELLED, waived=clock.waived_s)
            with anyio.CancelScope(shield=True):
                await self._book.count(call, Entry(outcome, started, error=self._why_cancelled()))
            raise
        finally:
            self._book.clocks.discard(clock)
            author_code.reset(code)
            running_call.reset(running)
        if run.error is not None:
            log.warning(
                "tool_failed",
                session_id=self._book.origin.session_id,
                tool=tool.name,
                call_id=call.id,
                exc_info=run.error,
            )
        outcome, waived = run.outcome, clock.waived_s
        if waived > 0:  # field by field, which costs a third of what `replace` does
            outcome = Outcome(
                outcome.kind, outcome.reward, outcome.finished, outcome.causes, outcome.metrics, waived
            )
        return await self._book.count(call, Entry(outcome, started, run.output, error=run.error))

    def _name_code(self, tool: str) -> AuthorCode:
        code = self._codes.get(tool)
        if code is None:
            code = self._codes[tool] = AuthorCode(self._book.origin.environment, f"tool {tool!r}")
        return code

    async def _count_refusal(
        self, call: Call, reason: RefusalReason, text: str, started: float
    ) -> CallResult:
        entry = Entry(Outcome(OutcomeKind.INVALID_CALL), started, refusal=Refusal(reason, text))
        return await self._book.count(call, entry)

    def _time_limit(self, tool: ToolDefinition) -> float | None:
        limits = (tool.time_limit, self._book.policy.call_time_limit, self._book.remaining_time)
        return min([limit for limit in limits if limit is not None], default=None)

    async def _give_back_later(self, manner: Manner, tool: str, ended: asyncio.Event) -> None:
        await ended.wait()
        self._lingering.remove(tool)
        self.turns.give_back(manner)
        self._limit_waiting()
