"""How a tool asks a client of the era without requests by the server (from 2026-07-28).

A request is answered with the questions, and the client sends the same request again with the answers. The
tool notices no difference: its call stays alive between the client's requests, so that it runs once and is
one step.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from secrets import token_urlsafe

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from typing_extensions import override

from ors_server.authoring.client import Answer, AskError, Question
from ors_server.errors import ShuttingDownError
from ors_server.transports.mcp.clients import ASK_LIMIT, McpClient, answer_of, wire_request_of
from ors_server.transports.mcp.sdk import Context, MCPError, Result


class Round(McpClient):
    """A client of the era of single requests, and the call that it keeps alive by asking again."""

    def __init__(self, context: Context, answers: Mapping[str, object]) -> None:
        """Start with the answers that came with the first request.

        Args:
            context: The first request.
            answers: Responses by key, possibly none.
        """
        super().__init__(context)
        self.scope = anyio.CancelScope()
        self._answers = dict(answers)
        self._wanted: dict[str, Question] = {}
        self._outcome: Result | Exception | None = None
        self._news = anyio.Event()
        self._answered = anyio.Event()

    @property
    def is_over(self) -> bool:
        """Whether the call has ended."""
        return self._outcome is not None

    @override
    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Wait until requests of the client have brought all the answers.

        Args:
            questions: By key.

        Returns:
            The answers by key.

        Raises:
            AbilityError: If the client does not offer what a question needs.
            AskError: If it does not come back in time.
        """
        self.require(questions)
        try:
            with anyio.fail_after(ASK_LIMIT):
                return await self._collect(questions)
        except TimeoutError as error:
            msg = f"the client did not come back with answers to {', '.join(questions)} within {ASK_LIMIT} s"
            raise AskError(msg) from error
        finally:
            for key in questions:
                self._wanted.pop(key, None)

    async def _collect(self, questions: Mapping[str, Question]) -> dict[str, Answer]:
        while True:
            found = {key: answer_of(question, self._answers.get(key)) for key, question in questions.items()}
            answers = {key: answer for key, answer in found.items() if answer is not None}
            open_questions = {key: question for key, question in questions.items() if key not in answers}
            if not open_questions:
                return answers
            self._wanted.update(open_questions)
            self._news.set()
            await self._answered.wait()

    def answer(self, context: Context, answers: Mapping[str, object]) -> None:
        """Take the answers of a further request; log lines and progress go to that request from now on.

        Args:
            context: The request.
            answers: Responses by key.
        """
        self.context = context
        self._answers.update(answers)
        self._wanted.clear()
        before, self._news = self._news, anyio.Event()
        before.set()  # an earlier request waits for it, and goes on to wait for the next
        self._answered.set()
        self._answered = anyio.Event()

    def end(self, outcome: Result | Exception) -> None:
        """Note how the call ended.

        Args:
            outcome: Its result, or what it raised.
        """
        self._outcome = outcome
        self._news.set()

    async def next(self) -> Result | None:
        """Wait until the call has ended or asks.

        Returns:
            The call's result, or `None` if it asks.

        Raises:
            Exception: What the call raised.
        """
        while self._outcome is None and not self._wanted:
            await self._news.wait()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def questions(self) -> Result:
        """Return the open questions in their wire form, by key."""
        return {key: wire_request_of(question) for key, question in self._wanted.items()}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that may be answered with questions, and what a later one must repeat to go on with it."""

    owner: str
    """Session and credential, so that nobody goes on with another's call."""
    what: str
    """Method, name and arguments."""
    call_id: str | None = None
    """With one, the call outlives a lost connection."""


class Rounds:
    """All calls that wait for a client to come back."""

    def __init__(self) -> None:
        """Start with none."""
        self._tasks: TaskGroup | None = None
        self._by_state: dict[str, tuple[Asked, Round]] = {}
        self._by_call: dict[tuple[str, str], Round] = {}

    def open(self, tasks: TaskGroup) -> None:
        """Say where the calls run from now on.

        Args:
            tasks: Outlives every request.
        """
        self._tasks = tasks

    async def begin(
        self,
        asked: Asked,
        context: Context,
        answers: Mapping[str, object],
        run: Callable[[Round], Awaitable[Result]],
    ) -> Result:
        """Run a call until it ends or asks.

        Args:
            asked: What the request is.
            context: The request.
            answers: Responses that it already carries, by key.
            run: Makes the call on behalf of the client that it is given.

        Returns:
            The call's result, or the questions with the state that the client has to send back.
        """
        running = None if asked.call_id is None else self._by_call.get((asked.owner, asked.call_id))
        if running is not None:
            running.answer(context, answers)
            return await self._wait(asked, running)
        if self._tasks is None:
            raise ShuttingDownError("the MCP door is not open")
        started = Round(context, answers)
        if asked.call_id is not None:
            self._by_call[asked.owner, asked.call_id] = started
        self._tasks.start_soon(self._run, asked, started, run)
        return await self._wait(asked, started)

    async def go_on(
        self, state: str, asked: Asked, context: Context, answers: Mapping[str, object]
    ) -> Result:
        """Give a waiting call the answers of a further request, and run it until it ends or asks again.

        Args:
            state: What the client was given with the questions.
            asked: What the request is.
            context: The request.
            answers: Responses by key.

        Returns:
            The call's result, or further questions.

        Raises:
            MCPError: If no call waits for that state: it was never given out, was altered, belongs to
                somebody else or to another request, or its call has ended.
        """
        before, waiting = self._by_state.get(state, (None, None))
        if before is None or waiting is None or (before.owner, before.what) != (asked.owner, asked.what):
            raise MCPError(types.INVALID_PARAMS, "no call waits for this requestState; make the call anew")
        waiting.answer(context, answers)
        return await self._wait(before, waiting)

    async def _run(self, asked: Asked, started: Round, run: Callable[[Round], Awaitable[Result]]) -> None:
        try:
            with started.scope:
                started.end(await run(started))
        except Exception as error:  # noqa: BLE001  (handed to whoever waits for the call)
            started.end(error)
        finally:
            if not started.is_over:
                started.end(MCPError(types.INTERNAL_ERROR, "the call was cancelled"))
            if asked.call_id is not None:
                self._by_call.pop((asked.owner, asked.call_id), None)
            for state in [state for state, (_, waiting) in self._by_state.items() if waiting is started]:
                del self._by_state[state]

    async def _wait(self, asked: Asked, waiting: Round) -> Result:
        try:
            result = await waiting.next()
        except anyio.get_cancelled_exc_class():
            if asked.call_id is None:
                waiting.scope.cancel()
            raise
        if result is not None:
            return result
        state = token_urlsafe(24)
        self._by_state[state] = (asked, waiting)
        return {"resultType": "input_required", "inputRequests": waiting.questions(), "requestState": state}
