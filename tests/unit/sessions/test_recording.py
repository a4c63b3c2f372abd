"""What a session leaves on record beside its steps: its origin, its moves, its prompt, its chances."""

import platform

import pytest

from ors_server import tool
from ors_server.environments.loading import define
from ors_server.sessions.manager import open_manager
from ors_server.sessions.session_request import ForkRequest, SessionRequest
from tests.fixtures.single_task import SingleTask


class Dice(SingleTask):
    """Throws a die that can be thrown again."""

    TASKS = ({"sides": 10**9},)
    WORDS = "throw"

    def save_state(self):
        return {}

    def load_state(self, state):
        pass

    @tool
    async def throw(self) -> str:
        """Throws."""
        return str(self.rng.randrange(self.task_spec["sides"]))


class Table:
    """Throws dice on an engine."""

    def __init__(self, engine):
        self.engine = engine

    async def seat(self, **wishes):
        status = await self.engine.create(SessionRequest(split="train", index=0, **wishes))
        return status.origin.session_id

    async def throw(self, session, times=1):
        thrown = []
        for _ in range(times):
            call = await self.engine.find(session).call("throw", {})
            thrown.append((await call.wait()).output.blocks[0].text)
        return thrown


@pytest.fixture
async def table():
    async with open_manager([define(Dice)]) as engine:
        yield Table(engine)


async def test_a_seed_decides_every_chance_of_an_episode_and_one_without_gets_one(table):
    first, second, other = [await table.seat(seed=seed) for seed in (7, 7, 8)]
    thrown = await table.throw(first, 5)
    assert await table.throw(second, 5) == thrown
    assert await table.throw(other, 5) != thrown
    session = await table.seat()
    seed = (await table.engine.status(session)).origin.seed
    assert 0 <= seed < 2**53
    assert await table.throw(await table.seat(seed=seed), 3) == await table.throw(session, 3)


async def test_going_back_brings_the_chances_back(table):
    session = await table.seat(seed=7)
    untouched = await table.engine.find(session).snapshots.keep()
    first = await table.throw(session, 2)
    used = await table.engine.find(session).snapshots.keep()
    then = await table.throw(session, 2)
    await table.engine.find(session).snapshots.restore(used.id)
    assert await table.throw(session, 2) == then
    await table.engine.find(session).snapshots.restore(untouched.id)
    assert await table.throw(session, 4) == first + then


async def test_a_fork_goes_on_with_the_chances_of_its_parent(table):
    session = await table.seat(seed=7)
    await table.throw(session, 2)
    forks = await table.engine.fork(session, ForkRequest(count=2))
    then = await table.throw(session, 2)
    assert [await table.throw(fork.origin.session_id, 2) for fork in forks] == [then, then]
    origins = [fork.origin for fork in forks]
    assert len({origin.episode_id for origin in origins}) == 2
    assert {origin.seed for origin in origins} == {7}


async def test_an_instance_outside_of_a_session_has_no_chances():
    with pytest.raises(RuntimeError, match="use it in setup or later"):
        _ = Dice({"sides": 2}).rng


async def test_the_origin_holds_what_the_creator_asked_for(player, store):
    session = await player.create(
        labels={"run": "a", "attempt": "2"}, toolset="extra", seed=5, credential_id="trainer-1"
    )
    origin = (await store.find(session)).origin
    assert origin.labels == {"run": "a", "attempt": "2"}
    assert (origin.toolset, origin.seed, origin.credential_id) == ("extra", 5, "trainer-1")
    assert origin.visibility == "negotiated"
    assert origin.packages["python"] == platform.python_version()


async def test_every_move_of_an_episode_is_on_record_with_the_figures_after_it(player, store, stage):
    stage.acts["setup"] = lambda env: None
    session = await player.create()
    await player.call(session, "pay", reward=1.0)
    await player.call(session, "pay", reward=1.0)
    await player.call(session, "submit", answer="x")
    await player.delete(session)
    record = await store.find(session)
    moves = [(move.event, move.phase, move.stop_reason) for move in record.transitions]
    assert moves == [
        ("setup_done", "ready", None),
        ("step", "playing", None),
        ("end", "finished", "completed"),
        ("delete", "deleted", "completed"),
    ]
    assert record.is_closed
    assert (record.summary.phase, record.summary.episode_return) == ("deleted", 3.0)
    assert [move.at for move in record.transitions] == sorted(move.at for move in record.transitions)


async def test_a_failed_setup_is_on_record(player, store, stage):
    def fail(_environment):
        raise ValueError("no")

    stage.acts["setup"] = fail
    session = await player.create()
    await player.call(session, "pay", reward=1.0)
    record = await store.find(session)
    assert [(move.event, move.stop_reason) for move in record.transitions] == [("setup_failed", "failed")]
    assert (record.summary.phase, record.summary.steps) == ("failed", 0)


async def test_the_prompt_is_on_record_once_it_was_asked_for(player, store, stage):
    said = iter(["first", "second"])
    stage.acts["prompt"] = lambda env: next(said)
    session = await player.create()
    assert (await store.find(session)).prompt is None
    for _ in range(2):
        await player.engine.find(session).prompt()
    assert [block.text for block in (await store.find(session)).prompt] == ["first"]


async def test_a_session_id_that_is_used_again_leaves_two_records(player, store):
    for reward in (1.0, 2.0):
        await player.create(session_id="again")
        await player.call("again", "pay", reward=reward)
        await player.delete("again")
    assert (await store.find("again")).summary.episode_return == 2.0
    returns = [record.summary.episode_return for record, _ in [item async for item in store.stream()]]
    assert sorted(returns) == [1.0, 2.0]


async def test_a_prompt_that_was_asked_for_as_a_conversation_is_on_record_too(player, session, store):
    await player.engine.find(session).messages()
    assert [block.text for block in (await store.find(session)).prompt] == ["play"]
