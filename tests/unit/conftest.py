"""A stage for environments whose every behaviour a test writes, a clock that a test owns, an engine."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import anyio
import pytest

from ors_server import CallContext, Environment, EpisodePolicy, ToolOutput, Toolset, terminal, tool
from ors_server.environments.loading import define
from ors_server.model.errors import StoreError
from ors_server.sessions.manager import SessionManager, open_manager
from ors_server.sessions.session_request import SessionRequest
from ors_server.sessions.session_services import SessionOptions
from ors_server.store.memory import MemoryStore
from ors_server.testing import FakeClock

LIMIT = 10.0
"""Seconds that any one wait of a test may take."""


class Stage:
    """What an environment does, act by act, and what happened on it."""

    def __init__(self) -> None:
        self.acts: dict[str, Callable[..., Any]] = {}
        self.happened: list[str] = []
        self.instances: list[Any] = []

    def act(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Adds an act under the function's name; it is given the environment and the call's context."""
        self.acts[function.__name__] = function
        return function

    def gate(self, name: str, result: Any = None) -> anyio.Event:
        """Adds an act that waits for the event, and then gives a result."""
        opened = anyio.Event()

        async def wait(*_args: Any) -> Any:
            await opened.wait()
            return result

        self.acts[name] = wait
        return opened

    def hold(self, name: str, result: Any = None) -> tuple[anyio.Event, threading.Event]:
        """Adds an act that sets the first event, and blocks its thread until the second one is set."""
        running, released, loop = anyio.Event(), threading.Event(), asyncio.get_running_loop()

        def block(*_args: Any) -> Any:
            loop.call_soon_threadsafe(running.set)
            released.wait(LIMIT)
            return result

        self.acts[name] = block
        return running, released

    def fail(self, name: str, error: BaseException | type[BaseException]) -> None:
        def act(*_args: Any) -> None:
            raise error

        self.acts[name] = act

    async def perform(self, name: str, *args: Any) -> Any:
        self.happened.append(name)
        act = self.acts.get(name)
        result = None if act is None else act(*args)
        return await result if hasattr(result, "__await__") else result


class Extra(Toolset):
    """A toolset that a session may ask for."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        stage = environment.stage
        stage.happened.append("toolset made")
        if "toolset" in stage.acts:
            stage.acts["toolset"](self)

    @tool
    async def extra(self) -> str:
        """Says whose toolset it is."""
        return self.environment.task_spec.get("id", "nobody")


class Playground(Environment):
    """Does what a test says."""

    name = "playground"
    stage: ClassVar[Stage]
    session_toolsets: ClassVar[Mapping[str, type[Toolset]]] = {"extra": Extra}

    def __init__(self, task_spec: dict[str, Any], secrets: dict[str, str]) -> None:
        super().__init__(task_spec, secrets)
        self.stage.happened.append("made")
        self.stage.instances.append(self)
        if "make" in self.stage.acts:
            self.stage.acts["make"](self)

    @classmethod
    def list_splits(cls) -> list[str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return [{"id": f"{split}-{i}", "nested": {"list": [i]}} for i in range(3)]

    async def setup(self) -> None:
        await self.stage.perform("setup", self)

    async def teardown(self) -> None:
        await self.stage.perform("teardown", self)

    def get_prompt(self) -> Any:
        return self.stage.acts["prompt"](self) if "prompt" in self.stage.acts else "play"

    def list_task_tools(self) -> Any:
        self.stage.happened.append("task tools")
        return self.stage.acts["task_tools"](self) if "task_tools" in self.stage.acts else []

    @tool
    async def do(self, act: str, context: CallContext) -> ToolOutput:
        """Performs an act."""
        return await self.stage.perform(act, self, context)

    @tool
    async def say(self, act: str, context: CallContext) -> str:
        """Performs an act that gives text."""
        return await self.stage.perform(act, self, context)

    @tool(concurrent=True)
    async def together(self, act: str, context: CallContext) -> ToolOutput:
        """Performs an act beside others."""
        return await self.stage.perform(act, self, context)

    @tool(exclusive=True)
    async def alone(self, act: str, context: CallContext) -> ToolOutput:
        """Performs an act while no other call runs."""
        return await self.stage.perform(act, self, context)

    @tool(time_limit=0.02)
    async def hurried(self, act: str, context: CallContext) -> ToolOutput:
        """Performs an act under a time limit."""
        return await self.stage.perform(act, self, context)

    @tool
    def block(self, act: str, context: CallContext) -> ToolOutput:
        """Performs a blocking act."""
        return self.stage.acts[act](self, context)

    @tool(time_limit=0.02)
    def block_hurried(self, act: str, context: CallContext) -> ToolOutput:
        """Performs a blocking act under a time limit."""
        return self.stage.acts[act](self, context)

    @tool
    async def pay(self, reward: float | None = None, *, finished: bool = False) -> ToolOutput:
        """Pays."""
        return ToolOutput(reward=reward, finished=finished)

    @tool
    async def keep(self, payload: dict[str, Any]) -> str:
        """Changes what it was given."""
        payload["nested"]["changed"] = True
        return "kept"

    @tool(shared=False)
    async def secret_door(self) -> str:
        """Is there in some tasks."""
        return "opened"

    @terminal
    @tool
    async def submit(self, answer: str) -> ToolOutput:
        """Grades."""
        return ToolOutput.final(answer, reward=1.0)


def make_playground(stage: Stage, **attributes: Any) -> type[Environment]:
    """Makes an environment class whose tools do what the stage's acts say."""
    return type("Playground", (Playground,), {"stage": stage, **attributes})


class FailingStore(MemoryStore):
    """A store that fails when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: set[str] = set()
        self.error: BaseException = StoreError("the disk is full")
        self.waits: dict[str, anyio.Event] = {}
        """What each kind of write waits for, as on a disk that is busy."""
        self.appended: list[tuple[str, int]] = []
        """Call id and number of each step that was written, in the order of the writes."""

    async def open(self, origin: Any) -> None:
        await self._work("open")
        await super().open(origin)

    async def append(self, episode_id: str, step: Any, summarise: Any) -> None:
        await self._work("append")
        await super().append(episode_id, step, summarise)
        self.appended.append((step.call_id, step.number))

    async def close(self, episode_id: str, summary: Any) -> None:
        await self._work("close")
        await super().close(episode_id, summary)

    async def _work(self, what: str) -> None:
        if what in self.waits:
            with anyio.move_on_after(LIMIT / 4):
                await self.waits[what].wait()
        if what in self.fails:
            raise self.error


class Player:
    """Plays on an engine with few words, every wait bounded."""

    def __init__(self, engine: SessionManager) -> None:
        self.engine = engine

    async def create(self, **wishes: Any) -> str:
        if "split" not in wishes:
            wishes.setdefault("task_spec", {"id": "task"})
        with anyio.fail_after(LIMIT):
            status = await self.engine.create(SessionRequest(**wishes))
        return status.origin.session_id

    async def call(
        self, session_id: str, tool_name: str, call_id: str | None = None, **arguments: Any
    ) -> Any:
        with anyio.fail_after(LIMIT):
            call = await self.engine.find(session_id).call(tool_name, arguments, call_id=call_id)
            return await call.wait()

    async def act(self, session_id: str, act: str, tool_name: str = "do", call_id: str | None = None) -> Any:
        return await self.call(session_id, tool_name, call_id, act=act)

    async def summary(self, session_id: str) -> Any:
        return (await self.engine.status(session_id)).summary

    async def steps(self, session_id: str) -> Any:
        return await self.engine.steps(session_id)

    async def delete(self, session_id: str) -> bool:
        with anyio.fail_after(LIMIT):
            return await self.engine.delete(session_id)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def store() -> FailingStore:
    return FailingStore()


@pytest.fixture
def open_player(stage, clock, store):
    """Opens an engine that serves the playground; options are the engine's, `policy` the environment's."""

    @asynccontextmanager
    async def open_it(
        *, policy: EpisodePolicy | None = None, cls: Any = None, **options: Any
    ) -> AsyncIterator[Player]:
        served = cls or make_playground(stage, policy=policy or EpisodePolicy())
        options.setdefault("lingering_time_limit", 0.05)
        options.setdefault("ending_time_limit", 0.05)
        async with open_manager(
            [define(served)], SessionOptions(**options), clock=clock, store=store
        ) as engine:
            yield Player(engine)

    return open_it


@pytest.fixture
async def player(open_player) -> AsyncIterator[Player]:
    async with open_player() as opened:
        yield opened


@pytest.fixture
async def session(player) -> str:
    """The id of a session of the playground; what `stage.acts` says of its making came too late."""
    return await player.create()


@pytest.fixture
def playground(stage):
    """Makes playground classes with other attributes."""
    return lambda **attributes: make_playground(stage, **attributes)
