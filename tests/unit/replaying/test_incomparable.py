"""What nobody can repeat of an episode: it is told apart, and blamed on nobody."""

from collections.abc import Sequence

import anyio
import pytest

from ors_server import ToolOutput, tool
from ors_server.client.connection import HttpRequest
from ors_server.client.server import session_path
from ors_server.model.errors import OrsServerError, StoreError
from ors_server.model.trajectory import Step, StepStatus
from ors_server.replaying.normalising import Normaliser
from ors_server.replaying.replay import replay_steps
from ors_server.replaying.replay_result import ReplayVerdict, StepVerdict
from ors_server.replaying.replay_session import ReplaySession
from ors_server.sandboxes.sandbox_errors import SandboxError
from tests.unit.replaying.conftest import Casino


async def ask(session, path: str):
    return await session.client.server.connection.ask(HttpRequest("POST", session_path(session.id) + path))


async def withdrawn(session) -> None:
    """Plays a call that is withdrawn between two others."""
    await session.call("fair")
    async with anyio.create_task_group() as tasks:

        async def call() -> None:
            with pytest.raises(OrsServerError):
                await session.submit("wait", {}, call_id="slow")

        tasks.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        await ask(session, "/calls/slow/cancel")
    await session.call("fair")


async def test_a_withdrawn_call_is_not_made_again(record, again, casino):
    episode = await record(casino, withdrawn)
    assert [step.status for step in episode.steps][1] is StepStatus.CANCELLED
    replay = await again(episode, casino)
    assert [step.verdict.value for step in replay.steps] == ["same", "skipped", "same"]
    assert replay.verdict is ReplayVerdict.IDENTICAL
    assert "withdrew" in replay.steps[1].why


async def test_what_differs_after_a_withdrawn_call_is_nobodys_fault(record, again, altered, casino):
    episode = altered(await record(casino, withdrawn), 3, reward=7.0)
    replay = await again(episode, casino)
    assert replay.steps[2].verdict is StepVerdict.UNCERTAIN
    assert replay.verdict is ReplayVerdict.INCONCLUSIVE


async def test_an_episode_of_withdrawn_calls_only_says_nothing(record, again, altered, casino):
    episode = altered(await record(casino, ["fair"]), 1, status=StepStatus.CANCELLED)
    assert (await again(episode, casino)).verdict is ReplayVerdict.INCONCLUSIVE


async def test_a_call_that_the_machinery_failed_is_told_apart(record, again, altered, casino):
    failed = {"status": StepStatus.FAILED, "error_code": "sandbox_failed"}
    replay = await again(altered(await record(casino, ["fair", "fair"]), 2, **failed), casino)
    assert replay.steps[1].verdict is StepVerdict.SKIPPED
    assert "(sandbox_failed)" in replay.steps[1].why
    assert replay.verdict is ReplayVerdict.IDENTICAL


async def test_the_end_of_an_episode_whose_time_was_up_is_not_comparable(record, again, altered, casino):
    up = {"finished": True, "metadata": {"episode": {"stop_reason": "time_limit"}}}
    replay = await again(altered(await record(casino, ["fair", "foul"]), 2, **up), casino)
    assert [step.verdict.value for step in replay.steps] == ["same", "skipped"]
    assert replay.verdict is ReplayVerdict.IDENTICAL


class Broken(Casino):
    """A casino whose machinery fails."""

    @tool
    async def fair(self) -> ToolOutput:
        """Fails."""
        raise SandboxError("the disk is gone")


async def test_machinery_that_fails_the_replay_is_no_difference(record, again, casino):
    replay = await again(await record(casino, [("say", {"text": "a"}), "fair", "fair"]), Broken)
    assert [step.verdict.value for step in replay.steps] == ["same", "unplayed", "unplayed"]
    assert "failed step 2 here (sandbox_failed): " in replay.steps[2].why
    assert replay.verdict is ReplayVerdict.INCONCLUSIVE


class Lost(ReplaySession):
    """A session whose place fails after some calls."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = list(steps)

    async def call(self, call: Step) -> Step | None:
        if not self._steps:
            raise StoreError("the database is gone")
        return self._steps.pop(0)


async def test_a_place_that_fails_in_the_middle_is_no_difference(record, casino):
    episode = await record(casino, ["foul", "foul", "foul"])
    found = await replay_steps(episode.steps, Lost(episode.steps[:1]), Normaliser())
    assert [step.verdict.value for step in found] == ["same", "unplayed", "unplayed"]
    assert found[2].why == "the place of the replay failed step 2: the database is gone"


async def test_calls_at_the_same_time_are_told_and_replayed_in_the_order_of_the_record(record, again, anew):
    @tool(concurrent=True)
    async def say(self, text: str) -> ToolOutput:
        """Repeats when all are there."""
        self.there = getattr(self, "there", 0) + 1
        while not self.replayed and self.there < 2:
            await anyio.lowlevel.checkpoint()
        return ToolOutput.ongoing(text)

    async def act(session) -> None:
        async with anyio.create_task_group() as tasks:
            for text in "ab":
                tasks.start_soon(session.submit, "say", {"text": text})

    first = anew(say=say, replayed=False)
    replay = await again(await record(first, act), anew(say=say, replayed=True))
    assert replay.verdict is ReplayVerdict.IDENTICAL
    (note,) = replay.notes
    assert note.startswith("calls ran at the same time (steps 2 began")


class Forkable(Casino):
    """A casino that can be copied."""

    def save_state(self):
        return {}

    def load_state(self, state):
        """Remembers nothing."""


async def test_a_fork_is_replayed_from_its_beginning(record, again):
    async def act(session):
        await session.call("fair")
        (fork,) = await session.fork()
        await fork.call("fair")
        await fork.aclose()
        return fork

    episode = await record(Forkable, act)
    assert episode.record.origin.forked_from.steps == 1
    replay = await again(episode, Forkable)
    assert (replay.verdict, len(replay.steps)) == (ReplayVerdict.IDENTICAL, 2)
    assert "a fork of session" in replay.notes[0]


async def test_a_restored_snapshot_ends_what_can_be_compared(record, again):
    async def act(session) -> None:
        await session.call("say", text="one")
        snapshot = await ask(session, "/snapshots")
        await session.call("say", text="two")
        await ask(session, f"/snapshots/{snapshot['snapshot_id']}/restore")
        await session.call("say", text="three")
        await session.call("say", text="four")

    replay = await again(await record(Forkable, act), Forkable)
    assert [step.verdict.value for step in replay.steps] == ["same", "same", "unplayed", "unplayed"]
    assert "before step 3 the session was restored to its snapshot of step 1" in replay.steps[3].why
    assert replay.verdict is ReplayVerdict.INCONCLUSIVE
