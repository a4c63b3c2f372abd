"""Environments that keep or break their word, and their episodes as a server records them."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import anyio
import pytest

from ors_server import CallContext, EpisodePolicy, ToolError, ToolOutput, tool
from ors_server.environments.loading import define
from ors_server.model.errors import OrsServerError
from ors_server.replaying.recorded_episode import RecordedEpisode
from ors_server.replaying.replay import ReplayRequest, replay_episode
from ors_server.replaying.replay_result import EpisodeReplay
from ors_server.replaying.stage import open_local_stage
from ors_server.store.memory import MemoryStore
from ors_server.testing.local_client import LocalSession, open_environment
from tests.fixtures.single_task import SingleTask

chance = random.Random()  # noqa: S311  (what an environment should not use)
LIMIT = 20.0
"""Seconds that any one test of these may wait for anything."""


class Casino(SingleTask):
    """Fair and foul games."""

    name = "casino"
    version = "1"
    policy = EpisodePolicy(tool_error_penalty=0.25)
    greeting: ClassVar[str] = "Play."

    @classmethod
    def list_tasks(cls, split):
        return [{"id": f"table-{index}"} for index in range(3)]

    def get_prompt(self):
        return self.greeting

    @tool
    async def fair(self) -> ToolOutput:
        """Draws from the session's chances."""
        return ToolOutput.ongoing(f"You rolled {self.rng.randint(1, 10**9)}.", reward=self.rng.random())

    @tool
    async def foul(self) -> ToolOutput:
        """Draws from chances of its own."""
        return ToolOutput.ongoing(f"You rolled {chance.randint(1, 10**9)}.", reward=0.5)

    @tool
    async def crooked(self) -> ToolOutput:
        """Says the same and pays by chance."""
        return ToolOutput.ongoing("You win.", reward=chance.random())

    @tool
    async def say(self, text: str) -> ToolOutput:
        """Repeats."""
        return ToolOutput.ongoing(text)

    @tool
    async def who(self, context: CallContext) -> ToolOutput:
        """Tells whose call it is."""
        return ToolOutput.ongoing(
            f"call {context.call_id} in {context.session_id}, {self.secrets.get('door')}"
        )

    @tool
    async def cheat(self) -> ToolOutput:
        """Is a mistake."""
        raise ToolError("The house saw it.")

    @tool
    async def crash(self) -> ToolOutput:
        """Is the author's failure."""
        raise RuntimeError("no cards")

    @tool
    async def wait(self) -> ToolOutput:
        """Waits for ever."""
        await anyio.sleep_forever()
        raise AssertionError

    @tool
    async def leave(self, reward: float = 1.0) -> ToolOutput:
        """Ends the episode."""
        return ToolOutput.final("Bye.", reward=reward)


@pytest.fixture
def casino() -> type[Casino]:
    return Casino


@pytest.fixture
def anew() -> Callable[..., type[Casino]]:
    """The casino, with other attributes."""
    return lambda **attributes: type("Casino", (Casino,), attributes)


Act = Callable[[LocalSession], Any]


@pytest.fixture
def record() -> Callable[..., Any]:
    async def play(
        cls: Any, calls: Sequence[Any] | Act, *, prompt: bool = True, **order: Any
    ) -> RecordedEpisode:
        store = MemoryStore()
        with anyio.fail_after(LIMIT):
            async with open_environment(cls, store=store) as client:
                session = await client.create(**({"split": "train", "index": 0} | order))
                if prompt:
                    await session.prompt()
                if callable(calls):
                    session = await calls(session) or session
                else:
                    await _make(session, calls)
                name = session.id
                await session.aclose()
            found = await store.find(name)
            assert found is not None
            return RecordedEpisode(found, tuple(await store.steps(found.origin.episode_id)))

    return play


async def _make(session: LocalSession, calls: Sequence[Any]) -> None:
    for call in calls:
        tool_name, arguments = (call, {}) if isinstance(call, str) else call
        try:
            await session.submit(tool_name, arguments)
        except OrsServerError:
            continue


@pytest.fixture
def again() -> Callable[..., Any]:
    async def play(episode: RecordedEpisode, *environments: Any, **wish: Any) -> EpisodeReplay:
        with anyio.fail_after(LIMIT):
            async with open_local_stage([define(cls) for cls in environments]) as stage:
                return await replay_episode(episode, stage, ReplayRequest(**wish))

    return play


@pytest.fixture
def altered() -> Callable[..., RecordedEpisode]:
    def alter(episode: RecordedEpisode, number: int, **fields: Any) -> RecordedEpisode:
        steps = [replace(step, **fields) if step.number == number else step for step in episode.steps]
        return replace(episode, steps=tuple(steps))

    return alter


@pytest.fixture
async def episodes(record, casino) -> list[RecordedEpisode]:
    """Six episodes of three tasks, every task twice, the tasks by turns."""
    return [
        await record(
            casino, [("say", {"text": str(number)}), ("leave", {"reward": number / 10})], index=number % 3
        )
        for number in range(6)
    ]
