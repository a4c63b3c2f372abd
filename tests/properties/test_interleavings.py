"""Random interleavings on every kind of store: what callers were told is what the record has."""

import pytest

from ors_server.store.memory import MemoryStore
from ors_server.store.open import open_store
from tests.fixtures.interleavings import DOORS, MODES, ViolationError, play_games
from tests.fixtures.planted_faults import FAULTS

GAMES = 12
"""Of each store, mode and door; `make stress` plays 20,000."""
SEARCHED = 3_000
"""Games within which a planted fault must be seen, in the modes and doors together."""
FIRST = {
    "cancel_repeats": 72,
    "pay_calls_that_were_told_of_the_end": 200,
    "replace_states_that_are_over": 200,
}
"""Seeds from which rare faults are looked for; `make stress` looks from 0."""


async def open_memory():
    return MemoryStore()


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.external)])
def open_inner(request, tmp_path):
    """Opens stores of one kind, each of them empty; the one before, which is closed, is removed."""
    if request.param == "memory":
        return open_memory
    urls: list[str] = []

    async def open_file():
        for path in tmp_path.glob("games.db*"):
            path.unlink()
        return await open_store(str(tmp_path / "games.db"))

    async def open_database():
        server = request.getfixturevalue("postgres")
        if urls:
            server.drop_database(urls.pop())
        urls.append(server.create_database())
        return await open_store(urls[0])

    return open_file if request.param == "sqlite" else open_database


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("mode", MODES)
async def test_what_callers_are_told_is_the_record_whatever_goes_on_beside_it(open_inner, mode, door):
    assert await play_games(open_inner, mode, door, range(GAMES)) == GAMES


async def see_violation(first: int) -> str | None:
    """Plays until a game finds something wrong, and returns what; `None` if none does."""
    for start in range(first, first + SEARCHED // (len(MODES) * len(DOORS)), 25):
        for mode in ("slow", "failing", "quiet"):
            for door in DOORS:
                try:
                    await play_games(open_memory, mode, door, range(start, start + 25))
                except ViolationError as violation:
                    return str(violation)
    return None


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
async def test_the_games_see_a_fault_that_was_put_in(plant, monkeypatch):
    plant(monkeypatch.setattr)
    assert await see_violation(FIRST.get(plant.__name__, 0))
