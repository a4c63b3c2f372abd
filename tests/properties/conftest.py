"""An application spoken to in bytes, from a thread of its own, by clients that may leave at any moment."""

import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from ors_server import (
    CallContext,
    Environment,
    EpisodePolicy,
    ForbiddenActionError,
    ToolError,
    ToolOutput,
    tool,
)
from ors_server.app import App
from ors_server.environments.loading import define
from ors_server.model.settings import Settings
from ors_server.sessions.manager import SessionManager
from ors_server.testing.fake_clock import FakeClock

LIMIT = 5.0
"""Seconds that any one request may take."""


@dataclass
class Answer:
    """What a client saw of an answer."""

    status: int = 0
    body: bytes = b""
    has_left: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str, str]]:
        parsed: list[tuple[str, str]] = []
        for part in self.body.decode().split("\n\n"):
            lines = [
                line.partition(": ")[::2] for line in part.split("\n") if line and not line.startswith(":")
            ]
            if lines:
                parsed.append((lines[0][1], "\n".join(value for _, value in lines[1:])))
        return parsed

    @property
    def call_id(self) -> str:
        return next(data for name, data in self.events if name == "task_id")

    @property
    def result(self) -> Any:
        """The result of a call: the reassembled JSON, `("error", text)`, or `None` if it did not come."""
        pieces = ""
        for name, data in self.events:
            if name == "error":
                return ("error", data)
            if name in {"chunk", "end"}:
                pieces += data
            if name == "end":
                return json.loads(pieces)
        return None


class Connection:
    """One request's two channels; its client leaves after so many parts of the answer's body."""

    def __init__(self, body: bytes, leave_after: int | None) -> None:
        self.answer = Answer()
        self.ended = anyio.Event()
        self._body: bytes | None = body
        self._patience = leave_after
        self._check_patience()

    async def receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.ended.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if self.answer.has_left:
            return
        if message["type"] == "http.response.start":
            self.answer.status = message["status"]
            return
        self.answer.body += message.get("body", b"")
        if self._patience is not None:
            self._patience -= 1
            self._check_patience()

    def _check_patience(self) -> None:
        if self._patience == 0:
            self.answer.has_left = True
            self.ended.set()


class Server:
    """The application, running in a thread; every method is called from outside of it."""

    def __init__(self, environment: type[Environment], **settings: Any) -> None:
        self.clock = FakeClock()
        self.app = App([define(environment)], Settings(**settings), clock=self.clock)
        self._stack = ExitStack()
        self.portal: BlockingPortal = self._stack.enter_context(start_blocking_portal())
        self._stack.enter_context(self.portal.wrap_async_context_manager(self.app.running()))

    @property
    def engine(self) -> SessionManager:
        return self.app.manager  # type: ignore[return-value]  # this app's engine is the local one

    def close(self) -> None:
        self._stack.close()

    def ask(self, method: str, path: str, session: str | None = None, body: Any = None, **how: Any) -> Answer:
        return self.portal.call(lambda: self.send(method, path, session, body, **how))

    def ask_many(self, requests: list[tuple[Any, ...]]) -> list[Answer]:
        return self.portal.call(self._ask_many, requests)

    async def _ask_many(self, requests: list[tuple[Any, ...]]) -> list[Answer]:
        answers: dict[int, Answer] = {}

        async def send(number: int, request: tuple[Any, ...]) -> None:
            answers[number] = await self.send(*request)

        async with anyio.create_task_group() as group:
            for number, request in enumerate(requests):
                group.start_soon(send, number, request)
        return [answers[number] for number in range(len(requests))]

    async def send(
        self,
        method: str,
        path: str,
        session: str | None = None,
        body: Any = None,
        *,
        leave_after: int | None = None,
    ) -> Answer:
        connection = Connection(b"" if body is None else json.dumps(body).encode(), leave_after)
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        if session is not None:
            headers.append((b"x-session-id", session.encode()))
        scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}

        async def serve() -> None:
            await self.app(scope, connection.receive, connection.send)
            connection.ended.set()

        with anyio.fail_after(LIMIT):
            if leave_after is None:
                await serve()
            else:
                self.engine.services.spawn(serve)
                await connection.ended.wait()
        return connection.answer

    def pass_time(self, seconds: float) -> None:
        self.portal.call(self.clock.advance, seconds)

    def settle(self) -> None:
        """Lets everything come to rest that does not wait for a test."""
        self.portal.call(anyio.wait_all_tasks_blocked)


@dataclass
class Happenings:
    """What the environment did, and the gates at which its tools wait."""

    runs: Counter[tuple[str, str]] = field(default_factory=Counter)
    gates: dict[str, anyio.Event] = field(default_factory=dict)
    teardowns: Counter[str] = field(default_factory=Counter)
    made: Counter[str] = field(default_factory=Counter)


class Arcade(Environment):
    """Pays, refuses, fails and waits on demand."""

    name = "arcade"
    happenings: ClassVar[Happenings]

    def __init__(self, task_spec: dict[str, Any], secrets: dict[str, str]) -> None:
        super().__init__(task_spec, secrets)
        self.happenings.made[task_spec["id"]] += 1

    @classmethod
    def list_splits(cls) -> list[str]:
        return ["train"]

    async def teardown(self) -> None:
        self.happenings.teardowns[self.task_spec["id"]] += 1

    def get_prompt(self) -> str:
        return "play"

    def _note(self, context: CallContext) -> None:
        self.happenings.runs[context.session_id, context.call_id] += 1

    @tool
    async def pay(
        self, context: CallContext, reward: float | None = None, *, finished: bool = False
    ) -> ToolOutput:
        """Pays."""
        self._note(context)
        return ToolOutput(reward=reward, finished=finished)

    @tool
    async def fail(self, how: str, context: CallContext) -> ToolOutput:
        """Fails."""
        self._note(context)
        match how:
            case "refuse":
                raise ToolError("no")
            case "forbid":
                raise ForbiddenActionError("never")
            case "nan":
                return ToolOutput(reward=float("nan"))
            case "exit":
                raise SystemExit(1)
        raise RuntimeError(how)

    @tool
    async def wait(self, gate: str, reward: float, context: CallContext) -> ToolOutput:
        """Waits for its gate, alone among serial calls."""
        self._note(context)
        await self.happenings.gates.setdefault(gate, anyio.Event()).wait()
        return ToolOutput(reward=reward)

    @tool(concurrent=True)
    async def wait_beside(self, gate: str, reward: float, context: CallContext) -> ToolOutput:
        """Waits for its gate beside others."""
        self._note(context)
        await self.happenings.gates.setdefault(gate, anyio.Event()).wait()
        return ToolOutput(reward=reward)

    @tool
    def block(self, context: CallContext, reward: float) -> ToolOutput:
        """Pays from a thread."""
        self._note(context)
        return ToolOutput(reward=reward)


def make_arcade(happenings: Happenings, policy: EpisodePolicy) -> type[Environment]:
    """Makes an environment in which everything that can happen to a call can be asked for."""
    return type("Arcade", (Arcade,), {"happenings": happenings, "policy": policy})


@pytest.fixture
def arcade_kit() -> Any:
    """What a state machine needs: it cannot take fixtures, so its test hands them over."""
    return Server, Happenings, make_arcade
