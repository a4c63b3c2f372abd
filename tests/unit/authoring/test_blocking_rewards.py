"""Rewards that block: they run in their environment's share of the threads; only their own time counts."""

import threading
from typing import Any

import anyio
import pytest

from ors_server import Environment, EpisodePolicy, ToolOutput, graded_output, tool
from ors_server.rewards import evaluate
from ors_server.sessions.session_services import SessionOptions
from ors_server.testing import open_environment

LIMIT = 30.0
CROWD = 45
"""More than the threads that anyio gives to everybody together."""


@pytest.fixture
def gate():
    opened = threading.Event()
    yield opened
    opened.set()


def asking(name: str, reward: Any, call_time_limit: float | None = None) -> type[Environment]:
    """An environment whose tool asks a reward."""

    class Asking(Environment):
        policy = EpisodePolicy(call_time_limit=call_time_limit)

        @classmethod
        def list_splits(cls) -> list[str]:
            return ["test"]

        @classmethod
        def list_tasks(cls, split: str) -> list[dict[str, str]]:
            del split
            return [{}]

        def get_prompt(self) -> str:
            return "Ask."

        @tool
        async def ask(self) -> ToolOutput:
            """Asks the reward."""
            return graded_output(await self.grade(reward, final_response="x"), "asked")

    Asking.name = name
    return Asking


async def start_call(client, environment):
    session = await client.create(environment=environment, split="test", index=0)
    return await client.engine.find(session.id).call("ask", {})


async def test_blocking_rewards_of_one_environment_leave_threads_to_another(gate):
    def wait(final_response: str) -> float:
        del final_response
        return float(gate.wait(LIMIT))

    greedy, other = asking("greedy", wait), asking("other", lambda final_response: 0.5)
    async with open_environment(greedy, other, options=SessionOptions(worker_threads=16)) as client:
        with anyio.fail_after(LIMIT):
            waiting = [await start_call(client, "greedy") for _ in range(CROWD)]
            await anyio.wait_all_tasks_blocked()
            threads = client.engine.services.queues()["threads"]
            assert (threads["running"], threads["waiting"]) == (10, CROWD - 10)
            quick = await start_call(client, "other")
            assert (await quick.wait()).output.reward == 0.5
            assert not any(call.is_done for call in waiting)
            gate.set()
            assert {(await call.wait()).output.reward for call in waiting} == {1.0}


async def test_a_reward_that_waits_for_a_thread_is_not_late(gate):
    began: list[None] = []

    def judge(final_response: str) -> float:
        del final_response
        began.append(None)
        return 1.0 if len(began) > 1 else float(gate.wait(LIMIT))

    options = SessionOptions(worker_threads=1)
    async with open_environment(asking("one", judge, call_time_limit=0.5), options=options) as client:
        with anyio.fail_after(LIMIT):
            slow = await start_call(client, "one")
            await anyio.wait_all_tasks_blocked()
            queued = await start_call(client, "one")
            late = await slow.wait()
            assert late.output.reward is None
            assert late.output.metadata["reward_status"] == "limit"
            with anyio.move_on_after(0.3):  # its whole time limit has passed in the queue by then
                await queued.wait()
            assert not queued.is_done
            gate.set()
            assert (await queued.wait()).output.reward == 1.0


async def test_outside_a_server_a_blocking_reward_runs_in_a_thread_too():
    threads: list[int] = []

    def judge(final_response: str) -> float:
        threads.append(threading.get_ident())
        return float(final_response == "x")

    assert (await evaluate(judge, {"final_response": "x"})).reward == 1.0
    assert threads != [threading.get_ident()]
