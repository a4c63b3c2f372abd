"""Every client against hostile far sides: a clear error, no hang, nothing that looks like a defect of ours."""

import pytest

from tests.fixtures.evaluated_environments import Guessing
from tests.fixtures.hostile_plays import FAR_SIDES, spoilt
from tests.fixtures.hostile_servers import HOSTILITIES

SEEDS = {"types": 12, "texts": 4, "codings": 3, "problems": 4, "protocol": 4, "redirects": 3}
"""Plays of each far side, by the way in which it is spoilt; 1 of the others."""

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("way", HOSTILITIES)
@pytest.mark.parametrize("name", FAR_SIDES)
async def test_a_hostile_far_side_gets_a_clear_error_and_no_more(name, way, serve_live):
    live = serve_live(Guessing)
    for seed in range(SEEDS.get(way, 1)):
        with spoilt(FAR_SIDES[name], way, seed, live.port) as server:
            await FAR_SIDES[name].play(server)
