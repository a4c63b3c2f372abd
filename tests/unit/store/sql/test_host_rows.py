"""Which host of a server may write the record, and which has a slot of session ids."""

from contextlib import asynccontextmanager
from functools import partial

import pytest

from ors_server.model.errors import InvalidRequestError, SettingsError, StoreError
from ors_server.model.host_slot import HostSlot, slot_of
from ors_server.store.open import open_reader, open_store
from ors_server.store.sql.host_rows import give_up_slots, mark_draining
from ors_server.store.store_options import StoreOptions
from ors_server.testing.store_promises import after, make_origin, make_step


@pytest.fixture(params=["sqlite", "postgres"])
def where(request, tmp_path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "episodes.db")
    return request.getfixturevalue("postgres").create_database()


@asynccontextmanager
async def host(where, number, count=2):
    """Open the record as a host of several machines."""
    slot = HostSlot.read(f"{number}/{count}", None, f"host-{number}:8080")
    store = await open_store(where, StoreOptions(slot=slot, write_seconds=2.0))
    try:
        yield store
    finally:
        await store.aclose()


def origin_of(number):
    """Return an origin whose session belongs to a host of two."""
    return next(found for n in range(100) if slot_of((found := make_origin(n)).session_id) % 2 == number)


async def test_hosts_have_equal_shares_and_an_address_each(where):
    async with host(where, 0), host(where, 1) as store:
        table = await store.hosts()
    assert [table.owners.count(number) for number in (0, 1)] == [512, 512]
    assert {number: row.address for number, row in table.rows.items()} == {
        0: "host-0:8080",
        1: "host-1:8080",
    }


async def test_a_host_that_was_replaced_writes_nothing_under_its_old_epoch(where):
    origin = origin_of(0)
    async with host(where, 0) as old:
        await old.open(origin)
        await old.append(origin.episode_id, make_step(1), partial(after, origin, 1))
        async with host(where, 0) as new:
            assert [episode.session_id for episode in new.left_open] == [origin.session_id]
            with pytest.raises(StoreError, match="another process has taken the place of host h0"):
                await old.append(origin.episode_id, make_step(2), partial(after, origin, 2))
            with pytest.raises(StoreError, match="another process has taken the place of host h0"):
                await old.open(make_origin(99))
            await new.append(origin.episode_id, make_step(2), partial(after, origin, 2))
            assert len(await new.steps(origin.episode_id)) == 2
            assert await new.find(make_origin(99).episode_id) is None


async def test_the_slots_of_a_drained_host_go_to_all_others_with_their_sessions(where):
    origin = origin_of(1)
    async with host(where, 0, 3) as first, host(where, 2, 3) as last:
        async with host(where, 1, 3) as drained:
            before = await first.hosts()
            assert await first.hosts(before) is before
            moving = next(found for n in range(100) if slot_of((found := make_origin(n)).session_id) % 3 == 1)
            await drained.open(moving)
            await first.change_hosts(mark_draining, 1)
            assert (await drained.hosts()).rows[1].is_draining
            await drained.change_hosts(give_up_slots, 1)
            with pytest.raises(StoreError, match="another process has taken the place of host h1"):
                await drained.open(origin)
        table = await first.hosts(before)
        assert 1 not in table.owners
        shares = [table.owners.count(number) for number in (0, 2)]
        assert max(shares) - min(shares) <= 1
        taker = {0: first, 2: last}[table.owners[slot_of(moving.session_id)]]
        found = await taker.open_episodes({slot_of(moving.session_id)})
        assert [episode.session_id for episode in found] == [moving.session_id]
        await taker.append(moving.episode_id, make_step(1), partial(after, moving, 1))


async def test_the_last_host_keeps_its_slots(where):
    async with host(where, 0) as first, host(where, 1):
        await first.change_hosts(mark_draining, 1)
        for change in (mark_draining, give_up_slots):
            with pytest.raises(InvalidRequestError, match="no other host could take the sessions of h0"):
                await first.change_hosts(change, 0)
        assert (await first.hosts()).owners.count(0) == 512


async def test_a_single_process_and_several_hosts_refuse_each_other(where):
    async with host(where, 0):
        with pytest.raises(SettingsError, match="another server with several hosts uses the record"):
            await open_store(where)
        with pytest.raises(SettingsError, match="another server with several hosts uses the record"):
            async with host(where, 0, 3):
                pass
    alone = await open_store(where)
    with pytest.raises(SettingsError, match="a multi-host server needs exclusive access"):
        async with host(where, 0):
            pass
    await alone.aclose()
    reader = await open_reader(where)
    await reader.aclose()


async def test_hosts_of_another_number_begin_with_equal_shares_again(where):
    async with host(where, 0, 2), host(where, 1, 2) as store:
        await store.change_hosts(give_up_slots, 1)
        first = (await store.hosts()).rows[0].epoch
    async with host(where, 0, 3) as store:
        table = await store.hosts()
    assert [table.owners.count(number) for number in range(3)] == [342, 341, 341]
    assert table.rows[0].epoch > first
