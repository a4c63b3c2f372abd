"""Many sessions, cancellation storms, and nothing left behind."""

import asyncio
import contextlib
import gc
import os
import threading
import tracemalloc
from pathlib import Path

import anyio
import pytest

from ors_server import CallContext, Environment, ToolOutput, tool
from ors_server.environments.loading import define
from ors_server.model.errors import SessionDeletedError
from ors_server.sessions.manager import open_manager
from ors_server.sessions.session_call import Completed, Failure, Refusal
from ors_server.sessions.session_request import SessionRequest
from ors_server.sessions.session_services import SessionOptions

pytestmark = [pytest.mark.stress, pytest.mark.timeout(600)]
SESSIONS = 2_000
LIMIT = 300.0
"""Seconds that a whole crowd may take."""


class Crowded(Environment):
    """Is played by many at once."""

    name = "crowded"
    made = torn_down = 0
    gate: anyio.Event

    def __init__(self, task_spec, secrets):
        super().__init__(task_spec, secrets)
        Crowded.made += 1

    @classmethod
    def list_splits(cls):
        return ["train"]

    def get_prompt(self):
        return "go"

    async def teardown(self):
        Crowded.torn_down += 1

    @tool
    async def pay(self, reward: float) -> ToolOutput:
        """Pays."""
        return ToolOutput(reward=reward)

    @tool
    async def wait(self, context: CallContext) -> ToolOutput:
        """Waits."""
        await Crowded.gate.wait()
        return ToolOutput(reward=1.0)

    @tool(concurrent=True)
    async def wait_beside(self) -> ToolOutput:
        """Waits beside others."""
        await Crowded.gate.wait()
        return ToolOutput(reward=1.0)

    @tool
    def block(self) -> ToolOutput:
        """Pays from a thread."""
        return ToolOutput(reward=1.0)


class Idle(Environment):
    """Does nothing until it is asked."""

    name = "idle"

    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        return [{"id": n, "question": "What?", "answer": str(n)} for n in range(100)]

    def get_prompt(self):
        return "go"

    @tool
    async def pay(self, reward: float) -> ToolOutput:
        """Pays."""
        return ToolOutput(reward=reward)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208  (counted, and not walked)


async def create(engine, number, **wishes):
    status = await engine.create(SessionRequest(session_id=f"s{number}", task_spec={"n": number}, **wishes))
    return status.origin.session_id


async def rest():
    """Lets everything that ends come to its end."""
    for _ in range(5):
        await anyio.wait_all_tasks_blocked()
    gc.collect()


@pytest.fixture(autouse=True)
def fresh():
    Crowded.made = Crowded.torn_down = 0
    Crowded.gate = anyio.Event()


async def test_an_idle_session_takes_at_most_ten_kibibytes():
    with anyio.fail_after(LIMIT):
        async with open_manager([define(Idle)]) as engine:
            for number in range(50):  # whatever is made once for all
                await engine.create(SessionRequest(session_id=f"warm{number}", split="train", index=number))
            gc.collect()
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            for number in range(SESSIONS):
                await engine.create(
                    SessionRequest(session_id=f"s{number}", split="train", index=number % 100)
                )
            gc.collect()
            each = (tracemalloc.get_traced_memory()[0] - before) / SESSIONS
            tracemalloc.stop()
    assert each <= 10 * 1024, f"{each:.0f} bytes for each session"


async def test_two_thousand_sessions_are_played_side_by_side_and_leave_nothing_behind():
    tasks, files = len(asyncio.all_tasks()), open_files()
    with anyio.fail_after(LIMIT):
        async with open_manager([define(Crowded)]) as engine:

            async def play(number):
                session = await create(engine, number)
                for step in range(5):
                    call = await engine.find(session).call("pay", {"reward": step / 10}, call_id=f"c{step}")
                    assert isinstance(await call.wait(), Completed)
                if number % 10 == 0:
                    await (await engine.find(session).call("block", {})).wait()
                summary = (await engine.status(session)).summary
                assert summary.episode_return == 0.0 + 0.1 + 0.2 + 0.3 + 0.4 + (number % 10 == 0)
                if number % 2:
                    await engine.delete(session)

            async with anyio.create_task_group() as group:
                for number in range(SESSIONS):
                    group.start_soon(play, number)
            assert len(await engine.sessions()) == SESSIONS // 2
        await rest()
    assert Crowded.made == Crowded.torn_down == SESSIONS
    assert len(asyncio.all_tasks()) == tasks
    assert open_files() <= files + 2


async def test_a_storm_of_cancellations_leaves_every_session_playable_and_every_sum_right():
    with anyio.fail_after(LIMIT):
        async with open_manager([define(Crowded)]) as engine:
            sessions = [await create(engine, number) for number in range(200)]
            calls = [
                await engine.find(session).call(name, {})
                for session in sessions
                for name in ("wait", "wait_beside", "wait", "wait_beside", "wait_beside")
            ]
            for turn in range(0, len(calls), 3):
                calls[turn].cancel()
                if turn % 30 == 0:
                    await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            Crowded.gate.set()
            results = [await call.wait() for call in calls]
            assert all(isinstance(result, Completed | Failure) for result in results)
            assert all(isinstance(results[turn], Failure) for turn in range(0, len(calls), 3))
            paid = sum(isinstance(result, Completed) for result in results)
            for session in sessions:
                assert isinstance(
                    await (await engine.find(session).call("pay", {"reward": 0.0})).wait(), Completed
                )
            total = sum([(await engine.status(session)).summary.episode_return for session in sessions])
            assert total == paid


async def test_deleting_in_the_middle_of_everything_tears_down_each_session_once():
    tasks, threads = len(asyncio.all_tasks()), threading.active_count()
    with anyio.fail_after(LIMIT):
        async with open_manager([define(Crowded)], SessionOptions(lingering_time_limit=5.0)) as engine:

            async def live(number):
                session = await create(engine, number)
                calls = [
                    await engine.find(session).call(name, arguments)
                    for name, arguments in [
                        ("wait", {}),
                        ("block", {}),
                        ("pay", {"reward": 1.0}),
                        ("wait_beside", {}),
                    ]
                ]
                async with anyio.create_task_group() as group:
                    for _ in range(3):
                        group.start_soon(engine.delete, session)
                for call in calls:
                    assert isinstance(await call.wait(), Completed | Failure | Refusal)

            async with anyio.create_task_group() as group:
                for number in range(500):
                    group.start_soon(live, number)
            assert await engine.sessions() == []
        await rest()
    assert Crowded.made == Crowded.torn_down == 500
    assert len(asyncio.all_tasks()) == tasks
    assert threading.active_count() <= threads + 64


async def create_or_lose(engine, number):
    """Makes a session, which somebody may delete meanwhile."""
    with contextlib.suppress(SessionDeletedError):
        await create(engine, number)


async def test_creators_and_deleters_that_leave_at_once_leave_nothing_behind():
    with anyio.fail_after(LIMIT):
        async with open_manager([define(Crowded)]) as engine:
            for round_number in range(50):
                async with anyio.create_task_group() as group:
                    for number in range(10):
                        group.start_soon(create_or_lose, engine, number)
                        group.start_soon(engine.delete, f"s{number}")
                    for _ in range(round_number % 7):
                        await anyio.lowlevel.checkpoint()
                    group.cancel_scope.cancel()
                async with anyio.create_task_group() as group:
                    for number in range(10):
                        group.start_soon(engine.delete, f"s{number}")
            assert await engine.sessions() == []
        await rest()
    assert Crowded.made == Crowded.torn_down


async def test_calls_that_are_repeated_by_many_run_once_each():
    with anyio.fail_after(LIMIT):
        async with open_manager([define(Crowded)]) as engine:
            session = await create(engine, 0)

            async def ask(call_id):
                call = await engine.find(session).call("pay", {"reward": 1.0}, call_id=call_id)
                await call.wait()

            async with anyio.create_task_group() as group:
                for number in range(5_000):
                    group.start_soon(ask, f"c{number % 50}")
            summary = (await engine.status(session)).summary
    assert (summary.steps, summary.episode_return) == (50, 50.0)
