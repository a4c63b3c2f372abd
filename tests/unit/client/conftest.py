"""An application in this process, a network to it that a test breaks, and a clock that waits for nobody."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import anyio
import httpx2
import pytest

from ors_server import Environment, EpisodePolicy, TextBlock, ToolError, ToolOutput, tool
from ors_server.app import create_app
from ors_server.client import AsyncClient, ClientOptions, Patience
from ors_server.model.settings import Settings
from tests.fixtures.hurried_clock import HurriedClock

URL = "http://localhost:8080"


PATIENT = Patience(ping_seconds=HurriedClock.LONG)


class Cut(httpx2.AsyncByteStream):
    """A body that breaks off after so many bytes."""

    def __init__(self, body: bytes, after: int) -> None:
        self._body = body
        self._after = after

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body[: self._after]
        raise httpx2.ReadError("cut")


@dataclass
class Network(httpx2.AsyncBaseTransport):
    """Carries requests to what serves them, and does to each matching one what the test has planned."""

    inner: httpx2.AsyncBaseTransport
    plans: dict[str, list[Any]] = field(default_factory=dict)
    """By the end of a path: what happens to the next requests, in order."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[tuple[str, bytes]] = field(default_factory=list)

    def plan(self, path: str, *accidents: Any) -> None:
        """Plans accidents: `refuse`, `lose`, `cut` after so many bytes, a status, or a status and headers."""
        self.plans[path] = list(accidents)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        self.asked.append((request.method, path))
        self.bodies.append((path, await request.aread()))
        plan = next((plan for end, plan in self.plans.items() if path.endswith(end) and plan), None)
        accident = None if plan is None else plan.pop(0)
        if accident == "refuse":
            raise httpx2.ConnectError("refused")
        if isinstance(accident, tuple) and isinstance(accident[0], int):
            return httpx2.Response(accident[0], headers=accident[1], json={"detail": "not now"})
        response = await self.inner.handle_async_request(request)
        if accident is None:
            return response
        body = await response.aread()
        if accident == "lose":
            raise httpx2.ReadError("lost")
        if isinstance(accident, int):
            return httpx2.Response(accident, text="<html>bad gateway</html>")
        return httpx2.Response(response.status_code, headers=response.headers, stream=Cut(body, accident[1]))

    def count(self, end: str) -> int:
        return sum(path.endswith(end) for _, path in self.asked)


class Slope(Environment):
    """Pays fractions that do not add up in decimal; a task is `{name}`."""

    name = "slope"
    version = "7"
    policy = EpisodePolicy(step_limit=20, invalid_call_penalty=0.1, tool_error_penalty=0.2)
    runs: ClassVar[list[str]] = []
    gate: ClassVar[anyio.Event | None] = None

    @classmethod
    def list_splits(cls) -> Sequence[str]:
        return ["train", "test"]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[dict[str, Any]]:
        return [{"name": f"{split}-{number}"} for number in range(3)]

    def get_prompt(self) -> str:
        return f"Climb {self.task_spec['name']}."

    @tool
    async def climb(self, reward: float | None = None, top: bool = False) -> ToolOutput:  # noqa: FBT001, FBT002  (a schema)
        """Climbs a step."""
        self.runs.append("climb")
        return ToolOutput(blocks=[TextBlock(text="higher")], reward=reward, finished=top)

    @tool
    async def stumble(self) -> ToolOutput:
        """Stumbles."""
        raise ToolError("ouch")

    @tool
    async def collapse(self) -> ToolOutput:
        """Breaks."""
        self.runs.append("collapse")
        raise RuntimeError("the ground gave way")

    @tool
    async def rest(self) -> str:
        """Waits for its test."""
        self.runs.append("rest")
        if self.gate is not None:
            await self.gate.wait()
        return "rested"

    @tool
    async def speak(self, text: str) -> str:
        """Says something long."""
        return text

    @tool
    async def whisper(self) -> str:
        """Tells a secret."""
        return json.dumps(self.secrets)


@dataclass
class Place:
    """A served application, its network and a client of it."""

    client: AsyncClient
    network: Network
    clock: HurriedClock
    app: Any
    options: ClientOptions


@pytest.fixture
def open_place() -> Callable[..., Any]:
    """Serves the slope, or others, in this process, with a client whose patience a test may choose."""

    @asynccontextmanager
    async def opened(
        *environments: type, key: str | None = None, patience: Patience = PATIENT, **settings: Any
    ) -> AsyncIterator[Place]:
        Slope.runs.clear()
        app = create_app(list(environments) or [Slope], Settings(**settings))
        async with app.running():
            network, clock = Network(httpx2.ASGITransport(app)), HurriedClock()
            options = ClientOptions(patience=patience, transport=network, clock=clock)
            async with AsyncClient(URL, key, options=options) as client:
                yield Place(client, network, clock, app, options)

    return opened


@pytest.fixture
async def place(open_place: Callable[..., Any]) -> AsyncIterator[Place]:
    async with open_place() as opened:
        yield opened


@pytest.fixture
def slope() -> type[Slope]:
    return Slope
