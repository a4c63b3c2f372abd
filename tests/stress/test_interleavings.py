"""Twenty thousand random interleavings of each store, mode and door."""

import os

import pytest

from tests.fixtures.interleavings import DOORS, MODES, play_games
from tests.fixtures.planted_faults import FAULTS
from tests.properties.test_interleavings import open_inner, see_violation

__all__ = ["open_inner"]

GAMES = int(os.environ.get("ORS_INTERLEAVINGS", "20000"))
FIRST = int(os.environ.get("ORS_INTERLEAVINGS_FROM", "0"))
"""Seed of the first game; others than those of last time play other games."""


@pytest.mark.stress
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("mode", MODES)
async def test_no_interleaving_of_many_contradicts_the_record(open_inner, mode, door):
    assert await play_games(open_inner, mode, door, range(FIRST, FIRST + GAMES)) == GAMES


@pytest.mark.stress
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
async def test_the_games_see_a_fault_from_their_first_one_on(plant, monkeypatch):
    plant(monkeypatch.setattr)
    assert await see_violation(0)
