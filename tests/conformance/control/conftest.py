"""The control API spoken to without a socket."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any, ClassVar

import anyio
import httpx2
import pytest

from ors_server import Environment, EpisodePolicy, Split, ToolOutput, tool
from ors_server.app import App, create_app
from ors_server.model.settings import Settings

ORIGIN = "http://localhost:8080"
WAIT_LIMIT = 20.0
"""Seconds after which a test that waits has failed."""

KEYS = {"agent": "agent-key-0123456789", "trainer": "trainer-key-0123456789", "admin": "admin-key-0123456789"}
"""An API key of every role."""

API_KEYS = ",".join(f"{role}:{role}-1:{key}" for role, key in KEYS.items())


class Gate(Environment):
    """Waits where a test wants it to, and charges for mistakes."""

    name = "gate"
    version = "7"
    policy = EpisodePolicy(step_limit=5, invalid_call_penalty=0.5)
    entered: ClassVar[anyio.Event]
    opened: ClassVar[anyio.Event]

    @classmethod
    def list_splits(cls) -> list[Split]:
        return [Split(name="train", type="train"), Split(name="broken", type="test")]

    @classmethod
    def num_tasks(cls, split: str) -> int:
        if split == "broken":
            raise RuntimeError("the tasks cannot be counted")
        return 1200

    @classmethod
    def get_task(cls, split: str, index: int) -> dict[str, Any]:
        if not 0 <= index < 1200:
            raise IndexError(index)
        return {"number": index}

    async def setup(self) -> None:
        if self.task_spec.get("setup_fail"):
            raise RuntimeError("setup failed on purpose")

    def save_state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        assert state == {}

    def get_prompt(self) -> str:
        return f"Task {self.task_spec.get('number')}."

    @tool
    async def wait(self) -> ToolOutput:
        """Waits until the test lets it go on."""
        type(self).entered.set()
        await type(self).opened.wait()
        return ToolOutput.ongoing("waited", reward=0.25, metadata={"answer": 42})

    @tool
    async def pay(self, reward: float) -> ToolOutput:
        """Pays."""
        return ToolOutput.ongoing("paid", reward=reward, metadata={"answer": 42})

    @tool
    async def tell(self) -> ToolOutput:
        """Tells the secrets that the session was given."""
        return ToolOutput.ongoing(", ".join(f"{k}={v}" for k, v in self.secrets.items()))


class Control:
    """Speaks to the control API of one application."""

    def __init__(self, app: App, client: httpx2.AsyncClient) -> None:
        self.app = app
        self.client = client

    async def ask(self, method: str, path: str, *, key: str | None = None, **kwargs: Any) -> httpx2.Response:
        headers = {**kwargs.pop("headers", {}), **({} if key is None else {"X-API-Key": key})}
        with anyio.fail_after(WAIT_LIMIT):
            return await self.client.request(method, f"/_ors{path}", headers=headers, **kwargs)

    async def get(self, path: str, **kwargs: Any) -> httpx2.Response:
        return await self.ask("GET", path, **kwargs)

    async def post(self, path: str, body: Any = None, **kwargs: Any) -> httpx2.Response:
        return await self.ask("POST", path, json=body, **kwargs)

    async def create(self, **order: Any) -> str:
        key = order.pop("key", None)
        answer = await self.post("/sessions", {"task_spec": {}} | order, key=key)
        assert answer.status_code == 201, answer.text
        return answer.json()["session_id"]

    async def call(self, session_id: str, name: str, arguments: Any = None, **kwargs: Any) -> Any:
        """Calls a tool and gives the answer's JSON."""
        body = {"name": name, "arguments": arguments or {}} | kwargs.pop("body", {})
        answer = await self.post(f"/sessions/{session_id}/calls", body, **kwargs)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
async def open_control() -> AsyncIterator[Callable[..., Any]]:
    """Runs applications on demand, from environments and settings; they live until the end of the test."""
    async with AsyncExitStack() as stack:

        async def start(*environments: str | type, shutdown: Any = None, **settings: Any) -> Control:
            Gate.entered, Gate.opened = anyio.Event(), anyio.Event()
            app = create_app(environments or (Gate,), Settings(**settings))
            app.on_shutdown = shutdown
            await stack.enter_async_context(app.running())
            transport = httpx2.ASGITransport(app)
            client = httpx2.AsyncClient(transport=transport, base_url=ORIGIN)
            return Control(app, await stack.enter_async_context(client))

        yield start


@pytest.fixture
async def control(open_control: Callable[..., Any]) -> Control:
    """A server without keys, whose environment is `gate`."""
    return await open_control()


@pytest.fixture
async def keyed(open_control: Callable[..., Any]) -> Control:
    return await open_control(api_keys=API_KEYS)


@pytest.fixture
def gate() -> type[Gate]:
    return Gate


@pytest.fixture
def keys() -> dict[str, str]:
    """An API key of every role."""
    return KEYS


@pytest.fixture
def api_keys() -> str:
    return API_KEYS
