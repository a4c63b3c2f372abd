"""Restores, forks and discarded snapshots are whole: whoever leaves, whatever fails half-way."""

import asyncio

import anyio
import pytest

from ors_server import EpisodePolicy, ToolOutput, tool
from ors_server.environments.loading import define
from ors_server.model.errors import CallIdReusedError, EnvironmentFailedError, StoreError
from ors_server.sessions.manager import open_manager
from ors_server.sessions.session_call import Failure, RefusalReason
from ors_server.sessions.session_request import ForkRequest, SessionRequest
from ors_server.store.memory import MemoryStore
from ors_server.store.sql.verification_sums import StepSums
from ors_server.testing import FakeClock
from tests.fixtures.single_task import SingleTask


class Pair(SingleTask):
    """Holds two numbers, which are the same unless a restore stopped half-way."""

    policy = EpisodePolicy(invalid_call_penalty=0.25, tool_error_penalty=0.5, discount=0.9)
    gate: anyio.Event | None = None
    fails = False
    clock: FakeClock | None = None

    def __init__(self, task_spec, secrets=None):
        super().__init__(task_spec, secrets)
        self.left = self.right = 0

    async def save_state(self):
        return {"count": self.left}

    async def load_state(self, state):
        self.left = state["count"]
        if type(self).gate is not None:
            await type(self).gate.wait()
        if type(self).fails:
            raise RuntimeError("half-way")
        self.right = state["count"]

    @tool
    async def add(self, amount: int = 1) -> ToolOutput:
        """Adds, for as many seconds if there is a clock."""
        if type(self).clock is not None:
            await type(self).clock.advance(amount)
        self.left += amount
        self.right += amount
        same = self.left == self.right
        return ToolOutput.ongoing("", reward=float(amount), metadata={"same": same, "left": self.left})


class Store(MemoryStore):
    """Fails after so many steps of an episode that is not the first one."""

    fails_at: int | None = None
    gate: anyio.Event | None = None

    async def append(self, episode_id, step, summarise):
        if episode_id != next(iter(self._episodes)):
            if self.gate is not None:
                await self.gate.wait()
            if step.number == self.fails_at:
                raise StoreError("the disk is full")
        await super().append(episode_id, step, summarise)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store():
    return Store()


@pytest.fixture
async def engine(clock, store):
    Pair.gate, Pair.fails, Pair.clock = None, False, None
    async with open_manager([define(Pair)], clock=clock, store=store) as opened:
        yield opened


async def begin(engine):
    return (await engine.create(SessionRequest(split="train", index=0))).origin.session_id


async def call(engine, session, name="add", call_id=None, **arguments):
    with anyio.fail_after(20):
        return await (await engine.find(session).call(name, arguments, call_id=call_id)).wait()


async def leave(function, *args):
    """Calls a function and leaves it as soon as it waits."""
    async with anyio.create_task_group() as group:
        group.start_soon(function, *args)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
        if Pair.gate is not None:
            Pair.gate.set()


async def test_a_restore_whose_caller_leaves_is_whole(engine):
    session = await begin(engine)
    kept = await engine.find(session).snapshots.keep()
    await call(engine, session, amount=5)
    Pair.gate = anyio.Event()
    await leave(engine.find(session).snapshots.restore, kept.id)
    output = (await call(engine, session, amount=1)).output
    assert (output.metadata["same"], output.metadata["left"]) == (True, 1)
    assert output.metadata["episode"]["restored_to_step"] == 0


async def test_a_restore_that_fails_half_way_ends_the_episode(engine):
    session = await begin(engine)
    kept = await engine.find(session).snapshots.keep()
    await call(engine, session, amount=5)
    Pair.fails = True
    with pytest.raises(EnvironmentFailedError, match="half-way"):
        await engine.find(session).snapshots.restore(kept.id)
    assert (await call(engine, session, amount=1)).reason is RefusalReason.EPISODE_FINISHED
    summary = (await engine.status(session)).summary
    assert (summary.phase, summary.stop_reason, summary.episode_return) == ("failed", "failed", 5.0)


async def play_all_kinds(engine, session):
    await call(engine, session, amount=2)
    await call(engine, session, amount="much")
    await call(engine, session, "nonesuch")
    await call(engine, session, amount=3)


async def check_record(store, record):
    steps = await store.steps(record.origin.episode_id)
    sums = StepSums(record.origin)
    complaints = [complaint for step in steps for complaint in sums.add(step)]
    assert [*complaints, *sums.differences(record.summary)] == []
    return len(steps)


@pytest.mark.parametrize("fails_at", [1, 2, 3, 4])
async def test_a_fork_whose_copy_fails_half_way_has_the_sums_of_the_steps_that_it_has(
    engine, store, clock, fails_at
):
    Pair.clock = clock
    session = await begin(engine)
    await play_all_kinds(engine, session)
    store.fails_at = fails_at
    with pytest.raises(StoreError):
        await engine.fork(session, ForkRequest())
    records = [record async for record, _ in store.stream()]
    assert sorted([await check_record(store, record) for record in records]) == [fails_at - 1, 4]
    assert len(await engine.sessions()) == 1


async def test_a_fork_whose_caller_leaves_while_it_is_copied_is_whole_and_gone(engine, store):
    session = await begin(engine)
    await play_all_kinds(engine, session)
    store.gate = anyio.Event()

    async def fork():
        await engine.fork(session, ForkRequest())

    async with anyio.create_task_group() as group:
        group.start_soon(fork)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
        store.gate.set()
    records = [record async for record, _ in store.stream()]
    assert [await check_record(store, record) for record in records] == [4, 4]
    assert len(await engine.sessions()) == 1


async def test_the_times_of_a_fork_are_those_of_the_clock(engine, clock, store):
    session = await begin(engine)
    await call(engine, session)
    Pair.gate = anyio.Event()
    made = []

    async def fork():
        made.extend(await engine.fork(session, ForkRequest()))

    async with anyio.create_task_group() as group:
        group.start_soon(fork)
        await anyio.wait_all_tasks_blocked()
        clock.jump(50.0)
        Pair.gate.set()
    await call(engine, made[0].origin.session_id)
    step = (await engine.steps(made[0].origin.session_id))[-1]
    assert step.started_at == clock.now()


async def test_a_copied_call_id_runs_nothing_in_the_fork(engine):
    session = await begin(engine)
    first = await call(engine, session, call_id="mine", amount=2)
    (child,) = await engine.fork(session, ForkRequest())
    child = child.origin.session_id
    again = await call(engine, child, call_id="mine", amount=2)
    assert (again.step, again.output.reward) == (first.step, first.output.reward)
    assert (await engine.status(child)).summary.steps == 1
    with pytest.raises(CallIdReusedError):
        await call(engine, child, call_id="mine", amount=3)
    await call(engine, session, call_id="later", amount=1)
    assert (await call(engine, child, call_id="later", amount=4)).output.reward == 4.0


async def test_a_stream_reads_steps_and_summary_of_one_moment(engine, store):
    first, second = await begin(engine), await begin(engine)
    read = []
    async for record, steps in store.stream():
        read.append((record.origin.session_id, record.summary.steps, len(steps)))
        if len(read) == 1:
            unread = second if record.origin.session_id == first else first
            await call(engine, unread)
    assert [(steps, listed) for _, steps, listed in read] == [(0, 0), (1, 1)]
    assert {session for session, _, _ in read} == {first, second}


class LateStore(MemoryStore):
    """Refuses a step at first, then has it long before it says so, and refuses it for good."""

    def __init__(self):
        super().__init__()
        self.attempts = 0
        self.has_step, self.answers = anyio.Event(), anyio.Event()

    async def append(self, episode_id, step, summarise):
        self.attempts += 1
        if self.attempts != 2:
            raise StoreError("the disk is full")
        await super().append(episode_id, step, summarise)
        self.has_step.set()
        await self.answers.wait()


async def test_a_pending_step_that_the_store_has_counts_although_its_caller_was_cancelled(clock):
    store = LateStore()
    async with open_manager([define(Pair)], clock=clock, store=store) as engine:
        session = await begin(engine)
        assert isinstance(await call(engine, session, amount=2), Failure)
        keeping = asyncio.create_task(engine.find(session).snapshots.keep())
        with anyio.fail_after(20):
            await store.has_step.wait()
        keeping.cancel()  # as a timeout of asyncio does
        with pytest.raises(asyncio.CancelledError):
            await keeping
        assert store.attempts == 2
        store.answers.set()
        await engine.delete(session)
        record = await store.find(session)
    assert (await check_record(store, record), record.summary.episode_return) == (1, 2.0)
    assert record.is_closed
