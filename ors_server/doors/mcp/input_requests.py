"""Input requests: a tool asks a client of the era without requests by the server (from 2026-07-28).

A request is answered with questions, and the client sends the same request again with its responses. The tool
notices no difference: its call stays alive between the client's requests, so that it runs once and is one
step.
"""

import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from secrets import token_urlsafe
from typing import TypeAlias

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from typing_extensions import override

from ors_server.doors.mcp.calling_clients import ASK_LIMIT, McpCallingClient, answer_of, wire_request_of
from ors_server.doors.mcp.sdk import Context, MCPError, Result
from ors_server.environments.calling_client import Answer, AskError, Question
from ors_server.model.errors import ShuttingDownError


class WaitingCall(McpCallingClient):
    """A call that stays alive between requests, and the client as its tool sees it."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.scope = anyio.CancelScope()
        self._awaited_names: set[str] = set()
        """Names of the questions that the tool waits for; a response of another name is dropped."""
        self._responses: dict[str, object] = {}
        self._open_questions: dict[str, Question] = {}
        self._rounds = 0
        self._round_of: dict[str, int] = {}
        """In which round of questions, from 1, each open one was asked first."""
        self.states: deque[str] = deque()
        """The states that continue it, oldest first."""
        self.outcome: Result | Exception | None = None
        """The call's result, or what it raised; `None` while it runs."""
        self.over = anyio.Event()
        self._changed = anyio.Event()
        self._responded = anyio.Event()

    @property
    def is_over(self) -> bool:
        """Whether the call has ended."""
        return self.outcome is not None

    @property
    def is_asking(self) -> bool:
        """Whether the tool waits for responses of the client."""
        return bool(self._open_questions)

    def withdraw(self) -> None:
        """Stop the call, also one with an id."""
        self.is_withdrawn = True
        self.scope.cancel()

    @override
    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Wait until requests of the client have brought answers to all questions, by name.

        Raises:
            AbilityError: If the client does not offer what a question needs.
            AskError: If the answers do not come within `ASK_LIMIT` seconds.
        """
        self.require(questions)
        self._rounds += 1
        self._round_of |= dict.fromkeys(questions, self._rounds)
        self._awaited_names.update(questions)
        try:
            with anyio.fail_after(ASK_LIMIT):
                return await self._collect(questions)
        except TimeoutError as error:
            msg = f"the client did not come back with answers to {', '.join(questions)} within {ASK_LIMIT} s"
            raise AskError(msg) from error
        finally:
            for name in questions:
                self._awaited_names.discard(name)
                self._responses.pop(name, None)  # a later question of this name has its own answer
                self._open_questions.pop(name, None)

    async def _collect(self, questions: Mapping[str, Question]) -> dict[str, Answer]:
        while True:
            found = {
                name: answer_of(question, self._responses.get(name)) for name, question in questions.items()
            }
            answers = {name: answer for name, answer in found.items() if answer is not None}
            missing = {name: question for name, question in questions.items() if name not in answers}
            if not missing:
                return answers
            self._open_questions.update(missing)
            self._changed.set()
            await self._responded.wait()

    def add_responses(self, context: Context, responses: Mapping[str, object]) -> None:
        """Add a further request's responses; log lines and progress go to that request from now on."""
        self.context = context
        self._responses.update((name, responses[name]) for name in self._awaited_names if name in responses)
        self._open_questions.clear()
        before, self._changed = self._changed, anyio.Event()
        before.set()  # an earlier request waits for it, and then waits for the next
        self._responded.set()
        self._responded = anyio.Event()

    def end(self, outcome: Result | Exception) -> None:
        """Record the call's result, or what it raised."""
        self.outcome = outcome
        self._changed.set()
        self.over.set()

    async def wait(self) -> Result | None:
        """Wait until the call has ended or asks; return its result, or `None` if it asks.

        Raises:
            Exception: What the call raised.
        """
        while self.outcome is None and not self._open_questions:
            await self._changed.wait()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def open_questions(self) -> Result:
        """Return the open questions in their wire form, by name."""
        return {key: wire_request_of(question) for key, question in self._open_questions.items()}

    def numbered_questions(self) -> Result:
        """Return the open questions by names that a call uses once, also if its tool asks the same again."""
        return {
            f"{self._round_of[name]}:{name}": wire_request_of(question)
            for name, question in self._open_questions.items()
        }

    def add_numbered_responses(self, context: Context, responses: Mapping[str, object]) -> None:
        """Add the responses to open questions, by the names of `numbered_questions`."""
        numbered = {f"{self._round_of[name]}:{name}": name for name in self._open_questions}
        named = {name: responses[key] for key, name in numbered.items() if key in responses}
        if named:
            self.add_responses(context, named)


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The parts that a later request must repeat to continue a call."""

    owner: str
    """The session, so that no client continues a call of another session."""
    subject: str
    """Method, name and arguments."""
    call_id: str | None = None
    """With one, the call outlives a lost connection."""


Defer: TypeAlias = Callable[[WaitingCall], Result | None]
"""Returns the handle by which a client polls for a call, or `None` if it has to wait for the call."""

PATIENCE = 5.0
"""Seconds after which a call is deferred, if its client polls."""
MAX_STATES = 4
"""States that continue one waiting call: its latest ones, since a response may be lost."""


class InputRequests:
    """All calls that wait for a client's responses."""

    def __init__(self) -> None:
        self._tasks: TaskGroup | None = None
        self._by_state: dict[str, tuple[RequestKey, WaitingCall]] = {}
        self._by_call: dict[tuple[str, str], WaitingCall] = {}

    def run_in(self, tasks: TaskGroup) -> None:
        """Run calls in a task group that outlives every request."""
        self._tasks = tasks

    async def start(
        self,
        key: RequestKey,
        context: Context,
        responses: Mapping[str, object],
        run: Callable[[WaitingCall], Awaitable[Result]],
        defer: Defer | None = None,
    ) -> Result:
        """Run a call until it ends, asks or takes long; a repeated call id joins the call that is running.

        Args:
            responses: Responses, by question name, for the call that is joined; a new call has asked nothing.
            run: Makes the call on behalf of the client that it is given.
            defer: `None` for a client that waits however long a call takes.
        """
        running = None if key.call_id is None else self._by_call.get((key.owner, key.call_id))
        if running is not None:
            running.add_responses(context, responses)
            return await self._wait(key, running, defer)
        if self._tasks is None:
            raise ShuttingDownError("the MCP endpoint is not running")
        started = WaitingCall(context)
        if key.call_id is not None:
            self._by_call[key.owner, key.call_id] = started
        self._tasks.start_soon(self._run, key, started, run)
        return await self._wait(key, started, defer)

    async def resume(
        self, state: str, key: RequestKey, context: Context, responses: Mapping[str, object]
    ) -> Result:
        """Give a waiting call a further request's responses, and run it until it ends or asks again.

        Args:
            state: As the client received it with the questions.

        Raises:
            MCPError: If no call waits for that state: it is unknown or of another session or request, or its
                call has ended.
        """
        before, waiting = self._by_state.get(state, (None, None))
        if before is None or waiting is None or (before.owner, before.subject) != (key.owner, key.subject):
            raise MCPError(
                types.INVALID_PARAMS, "no call waits for this requestState; send the call again without it"
            )
        waiting.add_responses(context, responses)
        return await self._wait(before, waiting)

    async def _run(
        self, key: RequestKey, started: WaitingCall, run: Callable[[WaitingCall], Awaitable[Result]]
    ) -> None:
        try:
            with started.scope:
                started.end(await run(started))
        except Exception as error:  # noqa: BLE001  (raised by `wait`)
            started.end(error)
        finally:
            if not started.is_over:
                started.end(MCPError(types.INTERNAL_ERROR, "the call was cancelled"))
            if key.call_id is not None:
                self._by_call.pop((key.owner, key.call_id), None)
            for state in started.states:
                del self._by_state[state]

    async def _wait(self, key: RequestKey, waiting: WaitingCall, defer: Defer | None = None) -> Result:
        result: Result | None = None
        try:
            with anyio.move_on_after(math.inf if defer is None else PATIENCE) as patience:
                result = await waiting.wait()
            if patience.cancelled_caught and defer is not None:
                handle = defer(waiting)
                if handle is not None:
                    return handle
                result = await waiting.wait()
        except anyio.get_cancelled_exc_class():
            if key.call_id is None:
                waiting.scope.cancel()
            raise
        if result is not None:
            return result
        state = token_urlsafe(24)
        self._by_state[state] = (key, waiting)
        waiting.states.append(state)
        if len(waiting.states) > MAX_STATES:
            del self._by_state[waiting.states.popleft()]
        return {
            "resultType": "input_required",
            "inputRequests": waiting.open_questions(),
            "requestState": state,
        }
