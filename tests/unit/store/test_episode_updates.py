"""Followers of an episode that this process plays read the store when there is something new, and once."""

from contextlib import aclosing
from functools import partial

import pytest
from anyio.lowlevel import checkpoint

from ors_server.model.clock import SystemClock
from ors_server.store.episode_updates import LiveUpdates, follow
from ors_server.store.memory import MemoryStore
from ors_server.testing.store_promises import after, make_origin, make_step


class CountingStore(MemoryStore):
    """Counts how often it is asked for an episode."""

    reads = 0

    async def find(self, name):
        self.reads += 1
        return await super().find(name)


class HastyClock(SystemClock):
    """Does not wait."""

    async def sleep(self, seconds):
        del seconds
        await checkpoint()


@pytest.fixture
async def played():
    """A store with an episode of two steps, and what its session says, by position in time."""
    store, origin = CountingStore(), make_origin(1)
    await store.open(origin)
    for number in (1, 2):
        await store.append(origin.episode_id, make_step(number), partial(after, origin, number))
    return store, origin, [after(origin, 2)]


async def test_followers_read_an_episode_of_this_process_once_for_each_change(played):
    store, origin, said = played
    live = LiveUpdates(lambda asked: said[-1] if asked == origin else None)
    looks = [follow(store, origin.episode_id, start=1, clock=HastyClock(), live=live) for _ in range(3)]
    async with aclosing(looks[0]), aclosing(looks[1]), aclosing(looks[2]):
        first = [await anext(look) for look in looks]
        assert [[step.number for step in update.steps] for update in first] == [[2]] * 3
        assert store.reads == 1
        for _ in range(5):
            assert not any([(await anext(look)).steps for look in looks])
        assert store.reads == 1
        await store.append(origin.episode_id, make_step(3), partial(after, origin, 3))
        said.append(after(origin, 3))
        later = [await anext(look) for look in looks]
        assert [[step.number for step in update.steps] for update in later] == [[3]] * 3
        assert {update.record.summary.steps for update in later} == {3}
        assert store.reads == 2


async def test_a_step_that_the_session_has_and_the_store_has_not_yet_is_waited_for(played):
    store, origin, said = played
    live = LiveUpdates(lambda _: said[-1])
    async with aclosing(follow(store, origin.episode_id, start=2, clock=HastyClock(), live=live)) as look:
        await anext(look)
        said.append(after(origin, 3))
        assert not any([(await anext(look)).steps for _ in range(3)])
        assert store.reads == 4
        await store.append(origin.episode_id, make_step(3), partial(after, origin, 3))
        assert [step.number for step in (await anext(look)).steps] == [3]


async def test_an_episode_that_another_process_plays_is_read_at_every_look(played):
    store, origin, _ = played
    live = LiveUpdates(lambda _: None)
    async with aclosing(follow(store, origin.episode_id, clock=HastyClock(), live=live)) as look:
        for _ in range(4):
            await anext(look)
    assert store.reads == 4
