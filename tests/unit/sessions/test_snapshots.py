"""Snapshots, going back to them, and forks: files, memory, record and sums."""

import anyio
import pytest

from ors_server import Environment, EpisodePolicy, ToolOutput, tool
from ors_server.environments.loading import define
from ors_server.model.errors import (
    CapacityError,
    EnvironmentDefinitionError,
    EnvironmentFailedError,
    EpisodeOverError,
    NotSupportedError,
    SessionNotFoundError,
    UnknownSnapshotError,
)
from ors_server.model.trajectory import Fork
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.sandbox_errors import SnapshotError
from ors_server.sandboxes.scripted import ScriptedBackend
from ors_server.sessions.manager import open_manager
from ors_server.sessions.session_request import ForkRequest, SessionLimits, SessionRequest
from ors_server.sessions.session_services import NO_SANDBOXES, Sandboxes, SessionOptions
from ors_server.sessions.snapshots import MAX_SNAPSHOTS
from ors_server.testing import FakeClock
from tests.fixtures.single_task import SingleTask


class Counter(SingleTask):
    """Counts, and may forget."""

    policy = EpisodePolicy(step_limit=6, time_limit=100.0)
    TASKS = ({"start": 0},)
    WORDS = "count"

    def __init__(self, task_spec, secrets=None):
        super().__init__(task_spec, secrets)
        self.count = 0

    def save_state(self):
        return {"count": self.count}

    def load_state(self, state):
        self.count = state["count"]

    @tool
    async def add(self, amount: int = 1) -> ToolOutput:
        """Adds.

        Args:
            amount: How much.
        """
        self.count += amount
        return ToolOutput(blocks=[], reward=float(amount), metadata={"count": self.count})

    @tool
    async def stop(self) -> ToolOutput:
        """Ends the episode."""
        return ToolOutput(blocks=[], reward=0.5, finished=True)

    @tool
    async def tell(self) -> str:
        """Tells a secret."""
        return self.secrets["word"]


class Filed(Counter):
    """Keeps its count in a file as well."""

    sandbox_limits = Limits()

    async def setup(self):
        await self.sandbox.write_file("count", b"0")

    @tool
    async def write(self, text: str) -> str:
        """Writes the file.

        Args:
            text: What.
        """
        await self.sandbox.write_file("count", text.encode())
        return "written"

    @tool
    async def read(self) -> str:
        """Reads the file."""
        return (await self.sandbox.read_file("count")).decode()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def engine(clock):
    async with open_manager([define(Counter)], clock=clock) as opened:
        yield opened


async def begin(engine, **wishes):
    status = await engine.create(SessionRequest(split="train", index=0, **wishes))
    return status.origin.session_id


async def call(engine, session_id, name, **arguments):
    with anyio.fail_after(20):
        result = await (await engine.find(session_id).call(name, arguments)).wait()
    return result.output


async def fork(engine, session_id, count=1, snapshot_id=None):
    made = await engine.fork(session_id, ForkRequest(count, snapshot_id))
    return [status.origin.session_id for status in made]


async def test_forks_go_on_by_themselves_from_the_same_place(engine):
    parent = await begin(engine)
    await call(engine, parent, "add", amount=3)
    first, second = await fork(engine, parent, count=2)
    assert (await call(engine, first, "add", amount=1)).metadata["count"] == 4
    assert (await call(engine, second, "add", amount=2)).metadata["count"] == 5
    assert (await call(engine, parent, "add", amount=4)).metadata["count"] == 7
    returns = {name: (await engine.status(name)).summary.episode_return for name in (parent, first, second)}
    assert returns == {parent: 7.0, first: 4.0, second: 5.0}


async def test_a_forks_record_is_whole_and_says_where_it_left(engine):
    parent = await begin(engine)
    await call(engine, parent, "add", amount=3)
    await call(engine, parent, "add", amount=2)
    (child,) = await fork(engine, parent)
    await call(engine, child, "add", amount=1)
    status = await engine.status(child)
    steps = await engine.steps(child)
    assert status.origin.forked_from == Fork(parent, 2)
    assert [step.number for step in steps] == [1, 2, 3]
    assert list(steps[:2]) == list(await engine.steps(parent))
    assert sum(step.reward for step in steps) == status.summary.episode_return == 6.0
    assert status.as_json()["forked_from"] == {"session_id": parent, "steps": 2}


async def test_limits_go_on_counting_in_a_fork(engine):
    parent = await begin(engine)
    for _ in range(5):
        await call(engine, parent, "add")
    (child,) = await fork(engine, parent)
    assert (await call(engine, child, "add")).finished is True
    assert (await engine.status(child)).summary.stop_reason == "step_limit"
    assert (await engine.status(parent)).summary.stop_reason is None


async def test_time_that_passed_since_the_snapshot_is_not_played_time(engine, clock):
    parent = await begin(engine)
    await clock.advance(40.0)
    kept = await engine.find(parent).snapshots.keep()
    await clock.advance(50.0)
    (child,) = await fork(engine, parent, snapshot_id=kept.id)
    await clock.advance(30.0)
    assert (await engine.status(parent)).summary.stop_reason == "time_limit"
    assert (await engine.status(child)).summary.stop_reason is None
    await clock.advance(31.0)
    assert (await engine.status(child)).summary.stop_reason == "time_limit"


async def test_going_back_changes_the_world_and_not_what_was_paid(engine):
    session = await begin(engine)
    await call(engine, session, "add", amount=2)
    kept = await engine.find(session).snapshots.keep()
    await call(engine, session, "add", amount=5)
    await engine.find(session).snapshots.restore(kept.id)
    output = await call(engine, session, "add", amount=1)
    assert output.metadata["count"] == 3
    assert output.metadata["episode"]["restored_to_step"] == 1
    assert output.metadata["episode"]["return"] == 8.0
    again = await call(engine, session, "add", amount=1)
    assert "restored_to_step" not in again.metadata["episode"]
    assert [(step.metadata["episode"].get("restored_to_step")) for step in await engine.steps(session)] == [
        None,
        None,
        1,
        None,
    ]


async def test_a_fork_can_begin_in_the_past_with_the_secrets_of_its_parent(engine):
    session = await begin(engine)
    await call(engine, session, "add", amount=2)
    kept = await engine.find(session).snapshots.keep()
    await call(engine, session, "add", amount=5)
    (child,) = await fork(engine, session, snapshot_id=kept.id)
    assert (await call(engine, child, "add", amount=1)).metadata["count"] == 3
    assert (await engine.status(child)).summary.episode_return == 3.0
    parent = await begin(engine, secrets={"word": "hush"})
    (child,) = await fork(engine, parent)
    assert (await call(engine, child, "tell")).blocks[0].text == "hush"


async def test_snapshots_are_listed_and_discarded_and_go_with_their_session(engine):
    session = await begin(engine)
    first, second = await engine.find(session).snapshots.keep(), await engine.find(session).snapshots.keep()
    assert [kept.id for kept in engine.find(session).snapshots.all()] == [first.id, second.id]
    await engine.find(session).snapshots.discard(first.id)
    assert [kept.id for kept in engine.find(session).snapshots.all()] == [second.id]
    with pytest.raises(UnknownSnapshotError):
        await engine.find(session).snapshots.restore(first.id)
    with pytest.raises(UnknownSnapshotError):
        await engine.find(session).snapshots.discard(first.id)
    with pytest.raises(UnknownSnapshotError):
        await engine.fork(session, ForkRequest(snapshot_id=first.id))
    await engine.delete(session)
    with pytest.raises(SessionNotFoundError):
        engine.find(session).snapshots.all()


async def test_a_session_keeps_so_many_snapshots(engine):
    session = await begin(engine)
    for _ in range(MAX_SNAPSHOTS):
        await engine.find(session).snapshots.keep()
    with pytest.raises(CapacityError, match="discard one"):
        await engine.find(session).snapshots.keep()


async def test_an_episode_that_is_over_is_not_copied(engine):
    session = await begin(engine)
    kept = await engine.find(session).snapshots.keep()
    await call(engine, session, "stop")
    for attempt in (
        engine.find(session).snapshots.keep(),
        engine.find(session).snapshots.restore(kept.id),
        engine.fork(session, ForkRequest()),
    ):
        with pytest.raises(EpisodeOverError):
            await attempt
    (child,) = await fork(engine, session, snapshot_id=kept.id)  # its past was not over
    assert (await call(engine, child, "add")).metadata["count"] == 1


async def test_all_forks_or_none(clock):
    options = SessionOptions(limits=SessionLimits(sessions=3))
    async with open_manager([define(Counter)], options, clock=clock) as engine:
        parent = await begin(engine)
        with pytest.raises(CapacityError):
            await engine.fork(parent, ForkRequest(count=3))
        assert [status.origin.session_id for status in await engine.sessions()] == [parent]
        assert len(await fork(engine, parent, count=2)) == 2


async def test_files_are_copied_and_go_back():
    backend = ScriptedBackend()
    sandboxes = Sandboxes(backend, await backend.probe())
    async with open_manager([define(Filed)], sandboxes=sandboxes) as engine:
        parent = await begin(engine)
        await call(engine, parent, "write", text="one")
        kept = await engine.find(parent).snapshots.keep()
        await call(engine, parent, "write", text="two")
        (now,) = await fork(engine, parent)
        (past,) = await fork(engine, parent, snapshot_id=kept.id)
        await call(engine, now, "write", text="three")
        assert (await call(engine, past, "read")).blocks[0].text == "one"
        assert (await call(engine, parent, "read")).blocks[0].text == "two"
        await engine.find(parent).snapshots.restore(kept.id)
        assert (await call(engine, parent, "read")).blocks[0].text == "one"
        assert kept.as_json()["size_bytes"] == 3
    assert all(sandbox.report.backend == "scripted" for sandbox in backend.sandboxes)


async def test_an_environment_that_cannot_be_copied_says_so():
    class Plain(Counter):
        save_state = Environment.save_state
        load_state = Environment.load_state

    async with open_manager([define(Plain)], sandboxes=NO_SANDBOXES) as engine:
        session = await begin(engine)
        for attempt in (engine.find(session).snapshots.keep(), engine.fork(session, ForkRequest())):
            with pytest.raises(NotSupportedError, match="save_state and load_state"):
                await attempt


def test_the_two_halves_belong_together():
    class Half(Counter):
        load_state = Environment.load_state

    with pytest.raises(EnvironmentDefinitionError, match="save_state and load_state together"):
        define(Half)


@pytest.mark.parametrize("state", [[1], None, {"x": float("nan")}, {"x": object()}])
async def test_memory_is_a_json_object(state):
    class Odd(Counter):
        def save_state(self):
            return state

    async with open_manager([define(Odd)]) as engine:
        session = await begin(engine)
        with pytest.raises(EnvironmentFailedError, match="save_state must return a JSON object"):
            await engine.find(session).snapshots.keep()


async def test_a_fork_whose_memory_fails_leaves_nothing_behind():
    class Amnesiac(Counter):
        def load_state(self, state):
            raise RuntimeError("what was it")

    async with open_manager([define(Amnesiac)]) as engine:
        session = await begin(engine)
        with pytest.raises(EnvironmentFailedError, match="what was it"):
            await engine.fork(session, ForkRequest())
        assert len(await engine.sessions()) == 1


async def test_a_snapshot_that_cannot_be_discarded_keeps_neither_its_fellows_nor_the_sandbox(monkeypatch):
    backend = ScriptedBackend()
    discarded: list[str] = []

    async def discard(snapshot):
        discarded.append(snapshot.id)
        if snapshot.id == broken.id:
            raise SnapshotError("the disk is gone")

    sandboxes = Sandboxes(backend, await backend.probe())
    async with open_manager([define(Filed)], sandboxes=sandboxes) as engine:
        session = await begin(engine)
        kept = [await engine.find(session).snapshots.keep() for _ in range(3)]
        broken = kept[1]
        monkeypatch.setattr(type(broken), "aclose", discard)
        assert await engine.delete(session)
        assert (await engine.status(session)).summary.phase == "deleted"
        assert sorted(discarded) == sorted(each.id for each in kept)
        assert [sandbox.is_closed for sandbox in backend.sandboxes] == [True]
