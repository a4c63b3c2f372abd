"""Two servers on one record, each a single process: neither takes the id of the other one's live session."""

import anyio
import pytest

from ors_server.model.errors import SessionExistsError
from ors_server.model.trajectory import make_episode_id
from ors_server.store.open import open_store
from ors_server.store.store_options import StoreOptions
from ors_server.testing import FakeClock
from ors_server.testing.store_promises import after, make_origin


@pytest.fixture(params=["sqlite", "postgres"])
def where(request, tmp_path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "episodes.db")
    return request.getfixturevalue("postgres").create_database()


def another(origin):
    """Return the origin of another episode in a session of the same id."""
    return make_origin(2, session_id=origin.session_id, episode_id=make_episode_id())


async def test_a_session_that_another_server_plays_is_refused_until_it_ends(where):
    first, second = await open_store(where), await open_store(where)
    origin = make_origin(1)
    await first.open(origin)
    with pytest.raises(SessionExistsError, match="another server on this record plays 'session-1'"):
        await second.open(another(origin))
    await first.close(origin.episode_id, after(origin, 0))
    await second.open(another(origin))
    with pytest.raises(SessionExistsError):
        await first.open(another(origin))
    await first.aclose()
    await second.aclose()


async def test_an_id_that_two_servers_take_at_once_is_given_to_one(where):
    first, second = await open_store(where), await open_store(where)
    results = []

    async def take(store, origin):
        try:
            await store.open(origin)
        except SessionExistsError:
            results.append("refused")
        else:
            results.append("taken")

    origin = make_origin(1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take, first, origin)
        tasks.start_soon(take, second, another(origin))
    await first.aclose()
    await second.aclose()
    assert sorted(results) == ["refused", "taken"]


async def test_a_server_may_use_an_id_of_its_own_and_one_that_it_found_left_open(where):
    store = await open_store(where)
    origin = make_origin(1)
    await store.open(origin)
    await store.open(another(origin))
    await store.aclose()
    store = await open_store(where)
    last = another(origin)
    await store.open(last)
    assert (await store.find(last.episode_id)).origin == last
    await store.aclose()


async def test_a_session_without_a_write_for_longer_than_it_may_idle_is_not_live(where):
    first = await open_store(where, clock=FakeClock())
    origin = make_origin(1)
    await first.open(origin)
    later = FakeClock()
    later.jump(61.0)
    second = await open_store(where, StoreOptions(idle_seconds=60.0), clock=later)
    taken = another(origin)
    await second.open(taken)
    assert (await second.find(taken.episode_id)).origin == taken
    await second.aclose()
    await first.aclose()
