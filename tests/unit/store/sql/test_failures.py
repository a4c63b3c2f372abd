"""A store whose disk fails: it tells whoever waits, loses nothing that it promised, and goes on by itself."""

import sqlite3
import threading
from dataclasses import replace
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from ors_server.model.errors import StoreError
from ors_server.model.trajectory import Transition
from ors_server.model.wire import TextBlock
from ors_server.store.sql import write_queue, writer_thread
from ors_server.store.store_options import Durability
from ors_server.testing.store_promises import MORNING, after, make_origin, make_step

LIMIT = 20.0
MOVE = Transition("event", "ready", None, MORNING)


async def fails(attempt, match: str = "") -> None:
    with anyio.fail_after(LIMIT), pytest.raises(StoreError, match=match):
        await attempt


async def numbers(store, origin) -> list[int]:
    return [step.number for step in await store.steps(origin.episode_id)]


async def test_a_full_disk_fails_the_step_and_nothing_else_and_passes_by_itself(records, play):
    store = await records.open()
    origin = await play(store, steps=2)
    records.database.pages = 1
    long = make_step(3, arguments={"text": "x" * 100_000})
    await fails(store.append(origin.episode_id, long, partial(after, origin, 3)), "full")
    assert await numbers(store, origin) == [1, 2]
    assert (await store.find(origin.episode_id)).summary.steps == 2
    records.database.pages = 10**6
    await store.append(origin.episode_id, long, partial(after, origin, 3))
    assert await numbers(store, origin) == [1, 2, 3]


async def test_everybody_whose_step_was_in_a_failed_batch_is_told(records, play):
    store = await records.open()
    origins = [await play(store, number, 0) for number in range(5)]
    records.database.gone = True
    told = []

    async def append(origin):
        try:
            await store.append(origin.episode_id, make_step(1), partial(after, origin, 1))
        except StoreError as error:
            told.append(error)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            for origin in origins:
                group.start_soon(append, origin)
    assert len(told) == len(set(map(id, told))) == 5
    records.database.gone = False
    assert [await numbers(store, origin) for origin in origins] == [[]] * 5


async def test_a_lock_is_waited_for_within_the_limit(records, play):
    store = await records.open(write_seconds=0.3)
    origin = await play(store)
    other = sqlite3.connect(records.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        await fails(store.append(origin.episode_id, make_step(2), partial(after, origin, 2)), "locked")
    finally:
        other.close()
    await store.append(origin.episode_id, make_step(2), partial(after, origin, 2))
    assert await numbers(store, origin) == [1, 2]


async def test_a_file_that_is_gone_is_told_and_one_that_is_back_is_gone_on_with(records, play):
    store = await records.open()
    origin = await play(store)
    elsewhere = records.path.with_suffix(".away")
    records.path.rename(elsewhere)
    await fails(store.append(origin.episode_id, make_step(2), partial(after, origin, 2)), "is gone")
    await fails(store.find(origin.episode_id), "is gone")
    records.path.write_bytes(b"")
    await fails(store.append(origin.episode_id, make_step(2), partial(after, origin, 2)), "another file")
    elsewhere.replace(records.path)
    await store.append(origin.episode_id, make_step(2), partial(after, origin, 2))
    assert await numbers(store, origin) == [1, 2]


@pytest.mark.parametrize("again", [True, False], ids=["asked-again", "given-up"])
async def test_a_commit_of_unknown_outcome_leaves_no_step_twice_and_none_that_nobody_was_told_of(
    records, play, again
):
    store = await records.open()
    origin = await play(store, steps=2)
    records.database.silent_commits = 1
    await fails(store.append(origin.episode_id, make_step(3), partial(after, origin, 3)), "nobody knows")
    assert records.rows("SELECT number FROM steps ORDER BY number") == [(1,), (2,), (3,)]
    if again:
        await store.append(origin.episode_id, make_step(3, tool="other"), partial(after, origin, 3))
        assert [step.tool for step in await store.steps(origin.episode_id)] == ["walk", "walk", "other"]
        return
    await store.close(origin.episode_id, after(origin, 2))
    assert await numbers(store, origin) == [1, 2]


async def test_a_lost_connection_is_tried_again_before_anybody_is_told(records, play):
    store = await records.open()
    records.database.code = sqlite3.SQLITE_BUSY
    records.database.silent_commits = 3
    origin = await play(store)
    store.record_transition(origin.episode_id, MOVE, after(origin, 1))
    records.database.silent_commits = 2
    await store.append(origin.episode_id, make_step(2), partial(after, origin, 2))
    assert await numbers(store, origin) == [1, 2]
    assert (await store.find(origin.episode_id)).transitions == (MOVE,)


async def test_notes_wait_for_the_disk_and_come_first_when_it_is_back(records, play):
    store = await records.open()
    origin = await play(store)
    records.database.gone = True
    moves = [replace(MOVE, event=str(number)) for number in range(3)]
    for move in moves:
        store.record_transition(origin.episode_id, move, after(origin, 1))
    await fails(store.append(origin.episode_id, make_step(2), partial(after, origin, 2)), "the disk is gone")
    await fails(store.close(origin.episode_id, after(origin, 1, phase="deleted")), "the disk is gone")
    records.database.gone = False
    with anyio.fail_after(LIMIT):
        record = await store.find(origin.episode_id)
    assert list(record.transitions) == moves
    assert (record.is_closed, record.summary.phase) == (True, "deleted")


async def test_an_entry_that_cannot_be_written_harms_nobody_else(records, play):
    store = await records.open()
    good, bad = [await play(store, number) for number in (1, 2)]
    told = []

    async def append(origin, steps):
        try:
            await store.append(
                origin.episode_id, make_step(2), partial(replace, after(origin, 2), steps=steps)
            )
        except StoreError as error:
            told.append(str(error))

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(append, bad, 2**70)
            group.start_soon(append, good, 2)
    assert len(told) == 1
    assert "too large" in told[0]
    assert (await numbers(store, good), await numbers(store, bad)) == ([1, 2], [1])


async def test_what_is_no_json_is_refused_where_it_is_appended(records, play):
    store = await records.open()
    origin = await play(store)
    await fails(
        store.append(origin.episode_id, make_step(2, error="\ud800"), partial(after, origin, 2)),
        "cannot be written as JSON",
    )
    store.record_prompt(origin.episode_id, (TextBlock(text="\ud800"),))
    assert await numbers(store, origin) == [1]
    assert (await store.find(origin.episode_id)).prompt is None


async def test_a_disk_that_fails_in_the_midst_of_single_entries_loses_none_of_those_before(records, play):
    store = await records.open()
    good, bad = [await play(store, number) for number in (1, 2)]
    records.database.holding = threading.Event()
    results = {}

    async def append(name, origin, steps):
        try:
            await store.append(
                origin.episode_id, make_step(2), partial(replace, after(origin, 2), steps=steps)
            )
            results[name] = "written"
        except StoreError as error:
            results[name] = str(error)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(append, "bad", bad, 2**70)
            group.start_soon(append, "good", good, 2)
            await anyio.wait_all_tasks_blocked()
            records.database.silent_commits = 1
            records.database.holding.set()
    assert "too large" in results["bad"]
    assert "nobody knows" in results["good"]
    await store.append(good.episode_id, make_step(2), partial(after, good, 2))
    assert await numbers(store, good) == [1, 2]


async def test_nobody_waits_for_ever_for_a_disk_that_hangs(records, play, monkeypatch):
    monkeypatch.setattr(write_queue, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(write_queue, "GRACE_SECONDS", 0.1)
    store = await records.open(write_seconds=0.1)
    origin = await play(store)
    records.database.holding = threading.Event()
    await fails(
        store.append(origin.episode_id, make_step(2), partial(after, origin, 2)), "finished no write within"
    )
    assert records.database.interrupted >= 1
    records.database.holding.set()
    with anyio.fail_after(LIMIT):
        await store.close(origin.episode_id, after(origin, 1))
    assert await numbers(store, origin) == [1]


async def test_whoever_goes_away_while_a_step_is_written_leaves_no_step_behind(records, play):
    store = await records.open()
    origin = await play(store)
    records.database.holding = threading.Event()
    with anyio.move_on_after(0.05) as scope:
        await store.append(origin.episode_id, make_step(2), partial(after, origin, 2))
    assert scope.cancelled_caught
    records.database.holding.set()
    await store.append(origin.episode_id, make_step(2, tool="other"), partial(after, origin, 2))
    assert [step.tool for step in await store.steps(origin.episode_id)] == ["walk", "other"]


async def test_a_line_that_is_full_is_waited_for_and_then_refused(records, play):
    store = await records.open(durability=Durability.BATCH, write_seconds=0.2, queue_entries=3)
    origin = await play(store)
    await store.find(origin.episode_id)
    records.database.gone = True
    for number in (2, 3, 4):
        await store.append(origin.episode_id, make_step(number), partial(after, origin, number))
    await fails(store.append(origin.episode_id, make_step(5), partial(after, origin, 5)), "queue is full")
    store.record_transition(origin.episode_id, MOVE, after(origin, 4))
    store.record_prompt(origin.episode_id, make_step(1).blocks)
    records.database.gone = False
    with anyio.fail_after(LIMIT):
        await store.append(origin.episode_id, make_step(5), partial(after, origin, 5))
        record = await store.find(origin.episode_id)
    assert await numbers(store, origin) == [1, 2, 3, 4, 5]
    assert (record.transitions, record.prompt) == ((), None)


async def test_a_store_that_cannot_write_closes_all_the_same(records, play):
    store = await records.open()
    origin = await play(store)
    records.database.gone = True
    store.record_transition(origin.episode_id, MOVE, after(origin, 1))
    with anyio.fail_after(LIMIT):
        await store.aclose()
        await store.aclose()
    await fails(store.append(origin.episode_id, make_step(2), partial(after, origin, 2)), "closed")
    store.record_transition(origin.episode_id, MOVE, after(origin, 1))
    assert not [thread for thread in threading.enumerate() if thread.name == "ors-store"]


async def test_an_episode_that_could_not_be_opened_may_be_opened_again(records, play):
    store = await records.open()
    origin = make_origin(1)
    records.database.gone = True
    await fails(store.open(origin), "the disk is gone")
    records.database.gone = False
    await fails(store.append(origin.episode_id, make_step(1), partial(after, origin, 1)), "was never opened")
    await store.open(origin)
    await store.append(origin.episode_id, make_step(1), partial(after, origin, 1))
    assert await numbers(store, origin) == [1]


async def test_forgetting_that_fails_is_tried_again(records, play):
    store = await records.open(retain_days=1.0)
    origin = await play(store)
    thread = store._queue.writer
    records.database.silent_commits = 1
    with anyio.fail_after(LIMIT):
        while records.database.silent_commits:
            thread.needs_maintenance = True
            thread.wake.set()
            await anyio.lowlevel.checkpoint()
    await store.append(origin.episode_id, make_step(2), partial(after, origin, 2))
    assert await numbers(store, origin) == [1, 2]


async def test_a_failure_of_housekeeping_is_survived(records, play, monkeypatch):
    monkeypatch.setattr(writer_thread, "MAINTENANCE_SECONDS", 0.0)
    store = await records.open(retain_episodes=0)
    origin = await play(store)
    records.database.gone = True
    await fails(store.close(origin.episode_id, after(origin, 1)), "the disk is gone")
    records.database.gone = False
    with anyio.fail_after(LIMIT):
        while await store.find(origin.episode_id) is not None:
            await anyio.lowlevel.checkpoint()
