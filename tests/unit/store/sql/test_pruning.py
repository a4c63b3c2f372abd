"""What is forgotten, when, and that nothing else goes with it."""

from datetime import UTC, datetime, timedelta
from functools import partial

import anyio
import pytest

from ors_server.model.clock import SystemClock
from ors_server.model.wire import TextBlock
from ors_server.store.location import parse_location
from ors_server.store.open import open_store
from ors_server.store.sql import pruning
from ors_server.store.sql.maintenance import count_store, prune, vacuum
from ors_server.store.sql.pruning import Retention
from ors_server.store.store_options import StoreOptions
from ors_server.testing.store_promises import after, make_origin, make_step
from ors_server.testing.store_promises import play as play_whole

LIMIT = 20.0
NOW = datetime.now(UTC)


async def kept(store) -> list[int]:
    return [record.origin.index async for record, _ in store.stream()]


async def until(store, wanted) -> None:
    with anyio.fail_after(LIMIT):
        while await kept(store) != wanted:
            continue


async def test_the_oldest_closed_episodes_go_first_and_live_ones_never(records, play):
    store = await records.open(retain_episodes=2)
    await play(store, 0)
    for number in range(1, 6):
        await play_whole(store, make_origin(number), 2)
    await until(store, [0, 4, 5])
    assert records.rows("SELECT count(*) FROM steps") == [(1 + 2 + 2,)]
    assert records.rows("SELECT count(*) FROM standings") == [(3,)]


class BackwardClock(SystemClock):
    """Shows an hour less at each look."""

    def __init__(self) -> None:
        self.shown = NOW

    def now(self) -> datetime:
        self.shown -= timedelta(hours=1)
        return self.shown


async def test_the_episodes_that_were_closed_last_are_kept_though_the_clock_goes_back(records):
    store = await records.open(clock=BackwardClock(), retain_episodes=2)
    origins = [make_origin(number) for number in range(5)]
    for origin in origins:
        await store.open(origin)
    for origin in reversed(origins):
        await store.close(origin.episode_id, after(origin, 0))
    await until(store, [0, 1])


async def test_nothing_is_kept_of_closed_episodes_if_nothing_is_to_be(records):
    store = await records.open(retain_episodes=0)
    for number in range(3):
        await play_whole(store, make_origin(number), 1)
    await until(store, [])


async def test_days_after_its_last_change_an_episode_goes_closed_or_not(records, play):
    store = await records.open()
    await play_whole(store, make_origin(1), 1)
    await play(store, 2)
    await store.aclose()
    place = parse_location(str(records.path))
    assert prune(place, Retention(days=2.0), NOW + timedelta(days=1)).episodes == 0
    store = await records.open(retain_days=1.0)
    await play_whole(store, make_origin(3), 1)
    await until(store, [1, 2, 3])
    await store.aclose()
    pruned = prune(place, Retention(days=2.0), NOW + timedelta(days=3))
    assert (pruned.episodes, pruned.blobs) == (3, 0)
    assert records.rows("SELECT episode_id FROM episodes") == []


async def test_a_live_episode_is_not_too_old_for_its_own_server(records, play, monkeypatch):
    store = await records.open(retain_days=1e-9)
    origin = await play(store, 1, steps=1)
    await play_whole(store, make_origin(2), 1)
    store._queue.writer.needs_maintenance = True
    store._queue.writer.wake.set()
    await until(store, [1])
    await store.append(origin.episode_id, make_step(2), partial(after, origin, 2))


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
async def test_blobs_go_with_the_last_episode_that_shows_them(records, request, backend, monkeypatch):
    monkeypatch.setattr(pruning, "BATCH_SIZE", 2)
    where = str(records.path)
    if backend == "postgres":
        where = request.getfixturevalue("postgres").create_database()
    store = await open_store(where, StoreOptions(blob_bytes=1024))
    shared = TextBlock(text="shared " * 500)
    for number in range(5):
        origin = make_origin(number)
        own = TextBlock(text=f"own {number} " * 500)
        await store.open(origin)
        await store.append(origin.episode_id, make_step(1, blocks=(shared, own)), partial(after, origin, 1))
        await store.close(origin.episode_id, after(origin, 1))
    place = parse_location(where)
    assert count_store(place).blobs == 6
    pruned = prune(place, Retention(episodes=1), NOW)
    assert (pruned.episodes, pruned.blobs) == (4, 4)
    assert (await store.steps(make_origin_id(await store.page(_all()))))[0].blocks[0] == shared
    await store.aclose()
    stats = count_store(place)
    assert (stats.episodes, stats.blobs, stats.open_episodes) == (1, 2, 0)
    if backend == "sqlite":
        assert len([path for path in records.blobs.rglob("*") if path.is_file()]) == 2
    assert prune(place, Retention(episodes=0), NOW).blobs == 2


def make_origin_id(page) -> str:
    return page[0].origin.episode_id


def _all():
    from ors_server.store.episode_filter import EpisodeFilter  # noqa: PLC0415  (beside its only use)

    return EpisodeFilter()


async def test_packing_gives_room_back_and_removes_files_that_no_row_names(records):
    store = await records.open(blob_bytes=1024)
    origin = make_origin(1)
    await store.open(origin)
    for number in range(1, 200):
        step = make_step(number, arguments={"text": "x" * 5000}, blocks=(TextBlock(text="b" * 2000),))
        await store.append(origin.episode_id, step, partial(after, origin, number))
        if number == 3:
            break
    await store.close(origin.episode_id, after(origin, 3))
    await store.aclose()
    stray = records.blobs / "ab" / ("ab" + "0" * 62)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"x" * 5000)
    place = parse_location(str(records.path))
    assert vacuum(place) >= 5000
    assert not stray.exists()
    assert count_store(place).blobs == 1
    assert len([path for path in records.blobs.rglob("*") if path.is_file()]) == 1
