"""The server under test: its default environment and its sessions."""

import json
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import anyio

from ors_server.conformance.expectations import NotApplicableError, NotMetError, expect
from ors_server.conformance.ors_wire import Event, EventStream, OrsWire, WireAnswer, get, post

ASK_AGAIN = 0.02
"""Seconds between two polls."""
CALL_LIMIT = 60.0
"""Seconds that one call may take."""
ACCEPTANCE_TOOLS = frozenset({"echo", "count", "slow_count", "ledger", "finish"})
"""Tools that identify the acceptance environment."""


def as_list(value: Any, message: str) -> list[Any]:
    """Return an array, or raise `NotMetError`."""
    expect(isinstance(value, list), f"{message}: expected an array, got {value!r}")
    return cast("list[Any]", value)


def as_object(value: Any, message: str) -> dict[str, Any]:
    """Return a JSON object, or raise `NotMetError`."""
    expect(isinstance(value, dict), f"{message}: expected an object, got {value!r}")
    return cast("dict[str, Any]", value)


def expect_status(answer: WireAnswer, *statuses: int, request: str) -> None:
    """Raise `NotMetError` unless an answer has one of the statuses."""
    expected = " or ".join(map(str, statuses))
    expect(answer.status in statuses, f"{request}: expected {expected}, got {answer}")


def expect_detail(answer: WireAnswer, *statuses: int, request: str) -> Any:
    """Return the detail of an error with one of the statuses, or raise `NotMetError`."""
    expect_status(answer, *statuses, request=request)
    body = as_object(answer.json(), request)
    expect("detail" in body, f"{request}: expected a detail, got {answer}")
    return body["detail"]


@dataclass(slots=True)
class CallEvents:
    """The events of a call's stream, and their content."""

    stream: EventStream
    events: list[Event]

    @property
    def task_id(self) -> str:
        """The id that the stream began with."""
        first = self.events[0] if self.events else Event("", "")
        expect(first.name == "task_id" and first.data.strip(), f"expected task_id first, got {first}")
        return first.data.strip()

    @property
    def error(self) -> str | None:
        """The message of the error event, if the stream ended with one."""
        last = self.events[-1] if self.events else Event("", "")
        return last.data if last.name == "error" else None

    @property
    def pieces(self) -> list[str]:
        """The pieces of the result's JSON."""
        return [event.data for event in self.events if event.name in {"chunk", "end"}]

    @property
    def result(self) -> dict[str, Any]:
        """The result of the call."""
        expect(self.error is None, f"expected a result, got the error {self.error!r}")
        return cast("dict[str, Any]", json.loads("".join(self.pieces)))

    @property
    def output(self) -> dict[str, Any]:
        """The output of a call that was carried out."""
        expect(self.result.get("ok") is True, f"expected ok, got {self.result}")
        return cast("dict[str, Any]", self.result["output"])

    @property
    def text(self) -> str:
        """The text of the output."""
        return "".join(block["text"] for block in self.output["blocks"] if block["type"] == "text")

    @property
    def was_refused(self) -> bool:
        """Whether the call was answered with ok false."""
        return self.error is None and self.result.get("ok") is False

    @property
    def mistake(self) -> tuple[str, str | None]:
        """The text and the reason of a refusal, or of an answer that charges for the agent's mistake."""
        # A server may answer a mistake with `ok` true and a penalty instead of a refusal.
        if self.was_refused:
            return self.result["error"], self.result.get("reason")
        metadata = cast("dict[str, Any]", self.output.get("metadata") or {})
        charged = cast("dict[str, Any]", metadata.get("error") or {})
        is_charged = bool(charged) and (self.output.get("reward") or 0) < 0
        expect(is_charged, f"expected ok false, got {self.events}")
        return self.text, charged.get("code")


@dataclass(slots=True)
class OrsSession:
    """One session that a check plays."""

    wire: OrsWire
    sid: str
    environment: str
    task_id: str = ""
    """The id of the task, by which the acceptance environment's ledger knows the session."""

    async def get(self, path: str) -> WireAnswer:
        """Send a GET below the environment's name."""
        return await self.wire.send(get(f"/{self.environment}{path}", X_Session_ID=self.sid))

    async def post(self, path: str) -> WireAnswer:
        """Send a POST without a body to a root path."""
        return await self.wire.send(post(path, X_Session_ID=self.sid))

    @asynccontextmanager
    async def open(
        self, tool: str, arguments: Mapping[str, Any], resume: str | None = None
    ) -> AsyncGenerator[EventStream]:
        """Make a call, or resume one by its id, and yield its stream; leaving drops the connection."""
        body: dict[str, Any] = {"name": tool, "input": dict(arguments)}
        if resume is not None:
            body["task_id"] = resume
        request = post(f"/{self.environment}/call", body, X_Session_ID=self.sid, Accept="text/event-stream")
        async with self.wire.stream(request, CALL_LIMIT) as stream:
            yield stream

    async def call(self, tool: str, resume: str | None = None, **arguments: Any) -> CallEvents:
        """Make a call, or resume one by its id, and read its whole stream."""
        async with self.open(tool, arguments, resume) as stream:
            if not stream.is_stream:
                raise NotMetError(f"calling {tool!r}: expected a stream, got {await stream.answer()}")
            return CallEvents(stream, await stream.rest())

    async def drop(self, tool: str, **arguments: Any) -> str:
        """Make a call, drop the connection when its id has arrived, and return the id."""
        async with self.open(tool, arguments) as stream:
            await stream.next()
            return CallEvents(stream, stream.events).task_id


@dataclass(slots=True)
class OrsSubject:
    """A server, its environments, and the tools and splits of the default one."""

    wire: OrsWire
    environments: list[str]
    tools: dict[str, Any]
    """Tool name -> description, of the default environment."""
    splits: list[dict[str, str]]
    sizes: dict[str, int]
    """Split name -> how many tasks it has."""
    api_key: str | None = None
    anonymous: OrsWire | None = None
    """The same server without a key."""
    is_acceptance: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_acceptance = set(self.tools) >= ACCEPTANCE_TOOLS

    @property
    def environment(self) -> str:
        """The name of the default environment."""
        return self.environments[0]

    @property
    def split(self) -> str:
        """The first split that has tasks; raises `NotApplicableError` without one."""
        for name, size in self.sizes.items():
            if size:
                return name
        raise NotApplicableError(f"no split of {self.environment!r} has tasks")

    def needs(self, *tools: str) -> None:
        """Raise `NotApplicableError` unless the default environment has these tools."""
        missing = [name for name in tools if name not in self.tools]
        if missing:
            names = ", ".join(missing)
            raise NotApplicableError(
                f"{self.environment!r} is not the acceptance environment: it has no {names}"
            )

    async def ask(self, path: str, body: Any = None, **headers: str) -> WireAnswer:
        """Send a POST to a path of the default environment."""
        return await self.wire.send(post(f"/{self.environment}{path}", body, **headers))

    def task(self, **fields: Any) -> dict[str, Any]:
        """Return a body of /create: a new task of the acceptance environment, else the first task."""
        if self.is_acceptance:
            return {"task_spec": {"id": f"check-{uuid.uuid4()}", "target": "hello", **fields}}
        return {"split": self.split, "index": 0}

    async def create(
        self, body: dict[str, Any], sid: str | None = None, **headers: str
    ) -> tuple[str, WireAnswer]:
        """Request a session, and return its id and the answer."""
        sid = sid or str(uuid.uuid4())
        return sid, await self.wire.send(post("/create", body, X_Session_ID=sid, **headers))

    @asynccontextmanager
    async def session(self, body: dict[str, Any] | None = None, **headers: str) -> AsyncGenerator[OrsSession]:
        """Open a session, and delete it at the end; raises `NotMetError` if the server refuses."""
        body = self.task() if body is None else body
        sid, answer = await self.create(body, **headers)
        expect_status(answer, 200, request="POST /create")
        name = body.get("env_name") or self.environment
        session = OrsSession(
            self.wire, sid, name, str(as_object(body.get("task_spec", {}), "task_spec").get("id", ""))
        )
        # Also after a failed check, so that a check leaves no session on the server.
        try:
            yield session
        finally:
            await session.post("/delete")

    async def ledger(self, task_id: str) -> list[str]:
        """Return the events of a task's sessions from the acceptance environment."""
        async with self.session() as session:
            return cast("list[str]", json.loads((await session.call("ledger", task_id=task_id)).text))

    async def wait_for(self, task_id: str, event: str) -> list[str]:
        """Poll the ledger until it has an event, and return it."""
        while event not in (events := await self.ledger(task_id)):  # noqa: ASYNC110 (the event is in another process)
            await anyio.sleep(ASK_AGAIN)
        return events


Check: TypeAlias = Callable[[OrsSubject], Awaitable[None]]
"""Raises where the server does not meet a requirement, or where that cannot be judged."""


class OrsChecks(dict[str, Check]):
    """The checks of a module, by the ids of their requirements."""

    def of(self, requirement_id: str, *tools: str) -> Callable[[Check], Check]:
        """Add the check of a requirement, which calls these tools of the acceptance environment."""

        def add(check: Check) -> Check:
            # The needed tools decide first: without them the check would fail without a fault.
            async def run(server: OrsSubject) -> None:
                server.needs(*tools)
                await check(server)

            self[requirement_id] = run
            return check

        return add


async def find(url: str, api_key: str | None = None) -> OrsSubject:
    """Find the environments, tools and splits of the server at a URL."""
    wire = OrsWire(url, {"X-API-Key": api_key} if api_key else None)
    environments = as_list((await wire.send(get("/list_environments"))).json(), "/list_environments")
    expect(environments, "/list_environments: expected at least one name")
    name = environments[0]
    tools = (await wire.send(get(f"/{name}/tools"))).json()["tools"]
    splits = (await wire.send(get(f"/{name}/splits"))).json()
    sizes: dict[str, int] = {}
    for split in splits:
        answer = await wire.send(post(f"/{name}/num_tasks", {"split": split["name"]}))
        sizes[split["name"]] = answer.json()["num_tasks"]
    by_name = {tool["name"]: tool for tool in tools}
    return OrsSubject(wire, environments, by_name, splits, sizes, api_key, OrsWire(url) if api_key else None)
