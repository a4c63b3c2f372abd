"""The server under test as the suite sees it: its default environment and its sessions.

Checks say what they miss by raising: [`NotMetError`][ors_server.testing.ors_subject.NotMetError] where the
server behaves otherwise, [`NotApplicableError`][ors_server.testing.ors_subject.NotApplicableError] where it
cannot be judged, for example because its environment has no tool to judge it with.
"""

import json
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import anyio

from ors_server.testing.ors_wire import Answer, Event, EventStream, OrsWire, get, post

ASK_AGAIN = 0.02
"""Seconds between two questions for something that has to happen on the server."""
ACCEPTANCE_TOOLS = frozenset({"echo", "count", "slow_count", "ledger", "finish"})
"""Tools by which the environment of the deep checks is known."""


class NotMetError(Exception):
    """The server does not behave as the requirement says."""


class NotApplicableError(Exception):
    """The requirement cannot be judged on this server."""


def expect(condition: object, message: str) -> None:
    """Judges one observation.

    Raises:
        NotMetError: with the message, if the condition is false.
    """
    if not condition:
        raise NotMetError(message)


def as_list(value: Any, message: str) -> list[Any]:
    """Judges that something is an array.

    Raises:
        NotMetError: with the message, if it is not.
    """
    expect(isinstance(value, list), f"{message}: expected an array, got {value!r}")
    return cast("list[Any]", value)


def as_object(value: Any, message: str) -> dict[str, Any]:
    """Judges that something is a JSON object.

    Raises:
        NotMetError: with the message, if it is not.
    """
    expect(isinstance(value, dict), f"{message}: expected an object, got {value!r}")
    return cast("dict[str, Any]", value)


def expect_status(answer: Answer, *statuses: int, asked: str) -> None:
    """Judges the status of an answer.

    Raises:
        NotMetError: if it is none of the given ones.
    """
    wanted = " or ".join(map(str, statuses))
    expect(answer.status in statuses, f"{asked}: expected {wanted}, got {answer}")


def expect_detail(answer: Answer, *statuses: int, asked: str) -> Any:
    """Judges an error answer and gives its detail.

    Raises:
        NotMetError: if its status is none of the given ones or it has no detail.
    """
    expect_status(answer, *statuses, asked=asked)
    body = as_object(answer.json(), asked)
    expect("detail" in body, f"{asked}: expected a detail, got {answer}")
    return body["detail"]


@dataclass(slots=True)
class Called:
    """How a call went: the events of its stream and what they say."""

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


@dataclass(slots=True)
class Seat:
    """One session that a check plays."""

    wire: OrsWire
    sid: str
    environment: str
    task_id: str = ""
    """The id of the task, by which the acceptance environment's ledger knows the session."""

    async def get(self, path: str) -> Answer:
        """Asks for something of the session, under the environment's name."""
        return await self.wire.send(get(f"/{self.environment}{path}", X_Session_ID=self.sid))

    async def post(self, path: str) -> Answer:
        """Posts to one of the session's root paths, without a body."""
        return await self.wire.send(post(path, X_Session_ID=self.sid))

    @asynccontextmanager
    async def open(
        self, tool: str, arguments: Mapping[str, Any], resume: str | None = None, time_limit: float = 60.0
    ) -> AsyncGenerator[EventStream]:
        """Makes a call, or resumes one by its id, and gives its stream; leaving drops the connection."""
        body: dict[str, Any] = {"name": tool, "input": dict(arguments)}
        if resume is not None:
            body["task_id"] = resume
        request = post(f"/{self.environment}/call", body, X_Session_ID=self.sid, Accept="text/event-stream")
        async with self.wire.stream(request, time_limit) as stream:
            yield stream

    async def call(self, tool: str, resume: str | None = None, **arguments: Any) -> Called:
        """Makes a call, or resumes one by its id, and reads its whole stream.

        Raises:
            NotMetError: if the answer is not a stream.
        """
        async with self.open(tool, arguments, resume) as stream:
            if not stream.is_stream:
                raise NotMetError(f"calling {tool!r}: expected a stream, got {await stream.answer()}")
            return Called(stream, await stream.rest())

    async def drop(self, tool: str, **arguments: Any) -> str:
        """Makes a call, leaves as soon as its id is there, and gives the id."""
        async with self.open(tool, arguments) as stream:
            first = await stream.next()
            return Called(stream, [first] if first else []).task_id


@dataclass(slots=True)
class Subject:
    """A server, its environments, and what is known of the default one."""

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
        """The first split that has tasks.

        Raises:
            NotApplicableError: if none has.
        """
        for name, size in self.sizes.items():
            if size:
                return name
        raise NotApplicableError(f"no split of {self.environment!r} has tasks")

    def needs(self, *tools: str) -> None:
        """Says which tools of the acceptance environment a check calls.

        Raises:
            NotApplicableError: if the default environment lacks one.
        """
        missing = [name for name in tools if name not in self.tools]
        if missing:
            names = ", ".join(missing)
            raise NotApplicableError(
                f"{self.environment!r} is not the acceptance environment: it has no {names}"
            )

    async def ask(self, path: str, body: Any = None, **headers: str) -> Answer:
        """Posts to a path of the default environment."""
        return await self.wire.send(post(f"/{self.environment}{path}", body, **headers))

    def task(self, **fields: Any) -> dict[str, Any]:
        """Makes what /create needs: a task of its own in the acceptance environment, else the first one."""
        if self.is_acceptance:
            return {"task_spec": {"id": f"check-{uuid.uuid4()}", "target": "hello", **fields}}
        return {"split": self.split, "index": 0}

    async def create(
        self, body: dict[str, Any], sid: str | None = None, **headers: str
    ) -> tuple[str, Answer]:
        """Asks for a session and gives its id and the answer, whatever that is."""
        sid = sid or str(uuid.uuid4())
        return sid, await self.wire.send(post("/create", body, X_Session_ID=sid, **headers))

    @asynccontextmanager
    async def session(self, body: dict[str, Any] | None = None, **headers: str) -> AsyncGenerator[Seat]:
        """Opens a session for the length of a with statement.

        Raises:
            NotMetError: if the server refuses.
        """
        body = self.task() if body is None else body
        sid, answer = await self.create(body, **headers)
        expect_status(answer, 200, asked="POST /create")
        name = body.get("env_name") or self.environment
        seat = Seat(
            self.wire, sid, name, str(as_object(body.get("task_spec", {}), "task_spec").get("id", ""))
        )
        try:
            yield seat
        finally:
            await seat.post("/delete")

    async def ledger(self, task_id: str) -> list[str]:
        """Asks the acceptance environment what happened to the sessions of a task."""
        async with self.session() as seat:
            return cast("list[str]", json.loads((await seat.call("ledger", task_id=task_id)).text))

    async def wait_for(self, task_id: str, event: str) -> list[str]:
        """Asks the ledger again and again until it has an event, and gives the ledger."""
        while event not in (events := await self.ledger(task_id)):  # noqa: ASYNC110 (the event is in another process)
            await anyio.sleep(ASK_AGAIN)
        return events


async def find(url: str, api_key: str | None = None) -> Subject:
    """Learns what a server offers.

    Args:
        url: where the server is.
        api_key: the key to send with every request, if it wants one.

    Raises:
        NotMetError: if it does not offer what every check needs.
        BrokenWireError: if it does not speak HTTP.
    """
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
    return Subject(wire, environments, by_name, splits, sizes, api_key, OrsWire(url) if api_key else None)
