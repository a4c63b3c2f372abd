"""Rewards inside environments: what a failure comes to, and rewards that block their thread."""

import asyncio
import threading
from typing import Any

import anyio
import pytest
from typing_extensions import override

from ors_server import (
    Environment,
    EpisodePolicy,
    ImageBlock,
    ToolError,
    ToolOutput,
    efficiency_reward,
    graded_output,
    math_equal_reward,
    reward,
    tool,
)
from ors_server.rewards import evaluate
from ors_server.rewards.reward_errors import RewardDefinitionError
from ors_server.sessions.session_services import SessionOptions
from ors_server.testing import open_environment, play
from tests.fixtures.judged_environment import TASK, Sums, asking, ending
from tests.fixtures.single_task import SingleTask


class Hostile(Exception):  # noqa: N818  (any name may be raised)
    """An error that cannot be told."""

    @override
    def __str__(self) -> str:
        raise SystemExit


def raising(error: BaseException) -> Any:
    def judge(final_response):
        raise error

    return judge


def raising_later(error: BaseException) -> Any:
    async def judge(final_response):
        raise error

    return judge


FAILURES = {
    "it raises": (raising(ValueError("hm")), "error", "ValueError: hm"),
    "it raises later": (raising_later(ValueError("hm")), "error", "ValueError: hm"),
    "it exits": (raising(SystemExit(3)), "error", "SystemExit"),
    "it exits later": (raising_later(SystemExit(3)), "error", "SystemExit"),
    "its error cannot be told": (raising(Hostile()), "error", "SystemExit"),
    "it cancels itself": (raising_later(asyncio.CancelledError("me")), "error", "CancelledError: me"),
    "it blames the agent": (raising(ToolError("told")), "error", "ToolError: told"),
    "NaN": (lambda final_response: float("nan"), "error", "finite"),
    "infinity": (lambda final_response: {"reward": float("inf")}, "error", "finite"),
    "no number": (lambda final_response: "1.0", "error", "got a str"),
    "nothing": (lambda final_response: None, "error", "got a NoneType"),
    "out of its range": (reward(range=(0.0, 1.0))(lambda final_response: 1.5), "error", "outside"),
    "a field that is not there": (lambda colour: 1.0, "error", "needs colour"),
    "an extra that is NaN": (lambda final_response: {"reward": 1, "x": float("nan")}, "error", "extras"),
    "an extra that is no JSON": (lambda final_response: {"reward": 1, "x": object()}, "error", "extras"),
    "bad gold": (math_equal_reward, "bad_gold", "gold"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_a_status_and_no_number(name):
    judge, status, why = FAILURES[name]
    task = {**TASK, "answer": ""} if status == "bad_gold" else TASK
    environment = asking(judge)
    with play(environment, task_spec=task) as episode:
        output = episode.call("ask", guess="42")
        summary = episode.summary
    assert (output.reward, output.finished) == (None, False)
    assert output.metadata is not None
    assert output.metadata["reward_status"] == status
    assert why in output.metadata["reward_reason"]
    assert (summary.episode_return, summary.ungraded_steps, summary.failed_steps) == (0.0, 1, 0)
    with play(ending(judge), task_spec=task) as episode:
        output = episode.call("finish", answer="42")
        summary = episode.summary
    assert (output.reward, output.finished) == (None, True)
    assert (output.metadata or {})["reward_status"] == status
    assert (summary.stop_reason, summary.failed_steps, summary.ungraded_steps) == ("completed", 0, 1)


def test_a_prompt_that_fails_leaves_a_reward_of_trajectories_without_a_number_and_others_alone():
    class Mute(Sums):
        @override
        def get_prompt(self) -> list[str | ImageBlock]:
            raise LookupError("no prompt today")

        @tool
        async def ask(self, whole: bool) -> ToolOutput:  # noqa: FBT001  (a tool's argument)
            """Asks."""
            asked = efficiency_reward if whole else math_equal_reward
            return graded_output(await self.grade(asked, final_response="42"))

    with play(Mute) as episode:
        blind = episode.call("ask", whole=True)
        assert episode.call("ask", whole=False).reward == 1.0
    assert (blind.reward, (blind.metadata or {})["reward_status"]) == (None, "error")
    assert "no prompt today" in (blind.metadata or {})["reward_reason"]


def test_a_reward_reads_the_prompt_that_the_agent_was_told():
    tasks = []

    class Fickle(Sums):
        told = 0

        @override
        def get_prompt(self) -> list[str | ImageBlock]:
            self.told += 1
            return [f"Prompt {self.told}"]

    def look(trajectory):
        tasks.append(trajectory.task)
        return 0.0

    fickle = type("Asking", (Fickle,), {"reward": staticmethod(look), "toolsets": ("submit",)})
    for asks_before in (True, False):
        with play(fickle) as episode:
            told = episode.prompt if asks_before else "Prompt 1"
            episode.call("submit", answer="")
            assert (tasks.pop(), told) == ("Prompt 1", "Prompt 1")


async def test_an_episode_inside_another_ones_call_is_not_that_call():
    seen: list[str] = []

    class Inner(Sums):
        @override
        async def setup(self) -> None:
            seen.append((await self.grade(lambda step: step)).status.value)

    class Outer(Sums):
        @tool
        async def nest(self) -> ToolOutput:
            """Plays another episode."""
            async with open_environment(Inner) as client:
                session = await client.create(split="train", index=0)
                await session.call("add", a=1, b=1)
            return graded_output(await self.grade(lambda step: step))

    async with open_environment(Outer) as client:
        session = await client.create(split="train", index=0)
        await session.call("add", a=1, b=1)
        assert (await session.call("nest")).reward == 2.0
    assert seen == ["error"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_reward_that_would_outlast_its_call_is_given_up_and_the_agent_is_not_to_blame(is_async):
    released = threading.Event()

    def hang(final_response):
        released.wait(30)
        return 1.0

    async def hang_later(final_response):
        await anyio.sleep_forever()

    environment = asking(hang_later if is_async else hang)
    environment.policy = EpisodePolicy(call_time_limit=0.5, timeout_penalty=1.0)
    try:
        with play(environment) as episode:
            output = episode.call("ask", guess="42")
            assert episode.summary.penalty_sum == 0.0
            released.set()
    finally:
        released.set()
    assert (output.reward, output.metadata and output.metadata["reward_status"]) == (None, "limit")


async def test_what_is_no_reward_is_the_authors_error_and_not_a_status():
    environment = Sums(dict(TASK))
    with pytest.raises(RewardDefinitionError, match="has no reward"):
        await environment.grade()
    with pytest.raises(RewardDefinitionError, match="a callable"):
        await environment.grade("math_equal_reward")
    with play(asking(None)) as episode, pytest.raises(RewardDefinitionError, match="has no reward"):
        episode.call("ask", guess="42")


LIMIT = 30.0
CROWD = 45
"""More than the threads that anyio gives to everybody together."""


@pytest.fixture
def gate():
    opened = threading.Event()
    yield opened
    opened.set()


def asking_outside(name: str, reward: Any, call_time_limit: float | None = None) -> type[Environment]:
    """An environment whose tool asks a reward."""

    class Asking(SingleTask):
        SPLIT = "test"
        policy = EpisodePolicy(call_time_limit=call_time_limit)

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

    greedy, other = asking_outside("greedy", wait), asking_outside("other", lambda final_response: 0.5)
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
    async with open_environment(asking_outside("one", judge, call_time_limit=0.5), options=options) as client:
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
