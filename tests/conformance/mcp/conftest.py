"""The MCP door on loopback, in this process, and the real `mcp` client of both eras."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from ors_server import (
    CallContext,
    Environment,
    EpisodePolicy,
    Message,
    TextBlock,
    ToolError,
    ToolOutput,
    tool,
)
from ors_server.app import App, create_app
from ors_server.client.bounded_http import tls_context
from ors_server.model.settings import Settings
from ors_server.model.trajectory import EpisodeSummary
from ors_server.model.visibility import Visibility
from ors_server.sessions.session_request import SessionRequest
from tests.fixtures.loopback import listening
from tests.fixtures.single_task import SingleTask

ASKING = {"X-ORS-Rewards": "meta"}
"""The header by which a program asks for the figures of its calls."""
MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
LIMIT = 20.0
"""Seconds within which anything in these tests happens."""


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


@dataclass
class Signals:
    """What a tool and its test tell each other."""

    started: anyio.Event = field(default_factory=anyio.Event)
    go: anyio.Event = field(default_factory=anyio.Event)
    cancelled: anyio.Event = field(default_factory=anyio.Event)
    runs: int = 0


class Desk(Environment):
    """A desk with a tool for every way in which a call may go.

    A task is `{word}`.
    """

    name = "desk"
    version = "1"
    policy = EpisodePolicy(reward_range=(0.0, 1.0))
    signals = Signals()

    @classmethod
    def list_splits(cls) -> Sequence[str]:
        return ["train", "test"]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[dict[str, Any]]:
        return [{"word": f"{split}{number}", "answer": "secret"} for number in range(3)]

    def save_state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        assert state == {}

    def get_messages(self) -> list[Message]:
        return [
            Message(role="system", blocks=[TextBlock(text="Be brief.")]),
            Message(role="user", blocks=[TextBlock(text=f"Say {self.task_spec['word']}.")]),
        ]

    @tool
    async def say(self, text: str) -> ToolOutput:
        """Says a word.

        Args:
            text: The word.
        """
        if text == self.task_spec["word"]:
            return ToolOutput.final("Right.", reward=1.0)
        return ToolOutput.ongoing(f"You said {text}.", reward=0.0)

    @tool
    async def look(self, context: CallContext) -> str:
        """Looks around; nothing is judged."""
        return f"step {context.step}"

    @tool
    async def stumble(self) -> str:
        """Refuses."""
        raise ToolError("You stumbled.")

    @tool
    async def collapse(self) -> str:
        """Breaks."""
        raise RuntimeError("the floor gave way")

    @tool
    async def wait(self, context: CallContext) -> str:
        """Waits for its test."""
        signals = type(self).signals
        signals.runs += 1
        signals.started.set()
        try:
            await signals.go.wait()
        except BaseException:
            signals.cancelled.set()
            raise
        return f"waited, step {context.step}"

    @tool
    async def count(self, context: CallContext) -> str:
        """Reports its progress, going back once."""
        for done in (1, 2, 1, 3):
            await context.report_progress(done, 3, f"{done} of 3")
        return "counted"


class Shelf(SingleTask):
    """A shelf, whose tools share names with the desk's."""

    name = "shelf"
    SPLIT = "test"
    WORDS = "Put things on the shelf."

    @tool
    async def say(self, text: list[str], loud: Literal["yes", "no"] = "no") -> str:
        """Says words.

        Args:
            text: The words.
        """
        return " ".join(text) + ("!" if loud == "yes" else "")

    @tool
    async def put(self, session_id: str) -> str:
        """Puts something on the shelf.

        Args:
            session_id: A parameter with the lobby's favourite name.
        """
        return f"put {session_id}"


@dataclass
class Site:
    """A server on loopback."""

    url: str
    app: App

    async def start(self, environment: str = "desk", **order: Any) -> str:
        wanted = {"split": "test", "index": 0, **order}
        if "visibility" in wanted:
            wanted["visibility"] = Visibility(wanted["visibility"])
        status = await self.app.manager.create(SessionRequest(environment=environment, **wanted))
        return status.origin.session_id

    async def summary(self, session_id: str) -> EpisodeSummary:
        return (await self.app.manager.status(session_id)).summary

    @contextlib.asynccontextmanager
    async def client(
        self, path: str, era: str = MODERN, headers: dict[str, str] | None = None, **options: Any
    ) -> AsyncIterator[Client]:
        """Connects the real client, which asks for figures unless it brings headers of its own."""
        mode = "auto" if era == MODERN else "legacy"
        sent = ASKING if headers is None else headers
        async with httpx2.AsyncClient(headers=sent, timeout=LIMIT, verify=tls_context()) as http:
            transport = streamable_http_client(f"{self.url}{path}", http_client=http)
            async with Client(transport, mode=mode, **options) as client:
                yield client

    @contextlib.asynccontextmanager
    async def play(
        self,
        era: str = MODERN,
        environment: str = "desk",
        order: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AsyncIterator[tuple[str, Client]]:
        """Makes a session, and connects the real client to its endpoint."""
        session_id = await self.start(environment, **(order or {}))
        async with self.client(f"/sessions/{session_id}/mcp", era, **options) as client:
            yield session_id, client

    def http(self) -> httpx2.AsyncClient:
        """Return a plain client of HTTP."""
        return httpx2.AsyncClient(timeout=LIMIT, verify=tls_context())

    async def post(
        self,
        path: str,
        method: str,
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx2.Response:
        given = params or {}
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            **given.get("_meta", {}),
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**given, "_meta": meta}}
        name = given.get("name", given.get("uri"))
        sent = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": method,
            **({} if name is None else {"Mcp-Name": name}),
            **(ASKING if headers is None else headers),
        }
        async with httpx2.AsyncClient(timeout=LIMIT, verify=tls_context()) as http:
            return await http.post(f"{self.url}{path}", json=body, headers=sent)


@contextlib.asynccontextmanager
async def running_site(environments: Sequence[str | type], settings: Settings) -> AsyncIterator[Site]:
    """Serves environments on a free port of loopback."""
    app = create_app(environments, settings)
    async with listening(app) as url:
        yield Site(url, app)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def signals() -> Signals:
    """Fresh signals for the desk's waiting tool."""
    Desk.signals = Signals()
    return Desk.signals


@pytest.fixture
async def site(signals: Signals) -> AsyncIterator[Site]:
    async with running_site([Desk, Shelf], Settings()) as running:
        yield running


@pytest.fixture
async def make_site(signals: Signals) -> AsyncIterator[Callable[..., Any]]:
    """Starts servers with settings of their own; they end with the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(*environments: str | type, **settings: Any) -> Site:
            served = environments or (Desk, Shelf)
            return await stack.enter_async_context(running_site(served, Settings(**settings)))

        yield make


@pytest.fixture(params=[MODERN, HANDSHAKE])
def era(request: pytest.FixtureRequest) -> str:
    """Both eras of the protocol."""
    return str(request.param)
