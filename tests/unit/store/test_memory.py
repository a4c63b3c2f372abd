"""The store in memory: a search for a text is bounded, and does not stop the server."""

from functools import partial

import anyio

from ors_server.store.episode_filter import SEARCHED_EPISODES, EpisodeFilter
from ors_server.store.memory import MemoryStore
from ors_server.testing.store_promises import after, make_origin, make_step

NORTH = EpisodeFilter(text="WALK")
NAMED = EpisodeFilter(text="maze")


async def test_a_text_is_searched_for_among_the_newest_episodes():
    store = MemoryStore()
    for number in range(SEARCHED_EPISODES + 2):
        await store.open(make_origin(number))
    totals = await store.totals(NAMED)
    oldest = await store.page(EpisodeFilter(text='"index":0,'))
    assert (totals.episodes, list(oldest)) == (SEARCHED_EPISODES, [])
    assert (await store.totals()).episodes == SEARCHED_EPISODES + 2


async def test_others_run_while_a_text_is_searched_for():
    store = MemoryStore()
    origin = make_origin(1)
    await store.open(origin)
    for number in range(1, 400):
        await store.append(origin.episode_id, make_step(number), partial(after, origin, number))
    turns = 0
    found = []

    async def search():
        found.extend([record.origin.episode_id async for record, _ in store.stream(NORTH)])
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(search)
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()
    assert found == [origin.episode_id]
    assert turns > 2


async def test_the_summary_after_a_step_is_computed_once_and_only_when_somebody_reads_it():
    store = MemoryStore()
    origin = make_origin(1)
    computed = []

    def summarise(number):
        computed.append(number)
        return after(origin, number)

    await store.open(origin)
    for number in (1, 2, 3):
        await store.append(origin.episode_id, make_step(number), partial(summarise, number))
    assert computed == []
    for _ in range(2):
        record = await store.find(origin.episode_id)
        assert record.summary == after(origin, 3)
    assert computed == [3]
