"""Names of episodes, as people type them."""

from datetime import UTC, datetime

import pytest

from ors_server.model.errors import AmbiguousEpisodeError, EpisodeNotFoundError
from ors_server.model.trajectory import EpisodeOrigin
from ors_server.store.lookup import find_episode
from ors_server.store.memory import MemoryStore

IDS = ("abcdef" + "0" * 26, "abcdef" + "1" * 26, "abcdef" + "2" * 26, "fedcba" + "0" * 26)


@pytest.fixture
async def store():
    store = MemoryStore()
    for number, episode_id in enumerate(IDS):
        await store.open(
            EpisodeOrigin(
                f"s{number}",
                "game",
                "1",
                "1",
                {},
                "0" * 64,
                None,
                None,
                datetime(2026, 1, 1, tzinfo=UTC),
                {},
                episode_id=episode_id,
            )
        )
    return store


@pytest.mark.parametrize("name", [IDS[3], "fedcba", "fedcba000", "s3"])
async def test_an_episode_has_several_names(store, name):
    assert (await find_episode(store, name)).origin.episode_id == IDS[3]


async def test_a_prefix_of_several_says_which(store):
    with pytest.raises(AmbiguousEpisodeError, match=f"{IDS[0]}, {IDS[1]} and others"):
        await find_episode(store, "abcdef")


@pytest.mark.parametrize("name", ["", "fedcb", "FEDCBA", "fedcb%", "nothing", "fedcba1"])
async def test_anything_else_is_not_found(store, name):
    with pytest.raises(EpisodeNotFoundError, match="first 6 digits"):
        await find_episode(store, name)


async def test_an_episode_that_is_forgotten_meanwhile_is_not_found(store):
    async def forgotten(name):
        return None

    store.find = forgotten
    with pytest.raises(EpisodeNotFoundError):
        await find_episode(store, "fedcba")
