"""Every client against hostile far sides, far more often than in the suite."""

import pytest

from tests.fixtures.evaluated_environments import Guessing
from tests.fixtures.hostile_plays import FAR_SIDES, play_socket, spoilt
from tests.fixtures.hostile_servers import HOSTILITIES
from tests.fixtures.hostile_sockets import WAYS, HostileSocket

OFTEN = frozenset({"types", "texts", "codings", "problems", "protocol", "redirects", "errors", "odd"})
"""Ways whose plays end quickly."""
SEEDS, QUICK_SEEDS = 10, 150

pytestmark = [pytest.mark.stress, pytest.mark.timeout(3_600)]


def seeds_of(way):
    return range(100, 100 + (QUICK_SEEDS if way in OFTEN else SEEDS))


@pytest.mark.parametrize("way", HOSTILITIES)
@pytest.mark.parametrize("name", FAR_SIDES)
async def test_no_hostile_far_side_brings_out_more_than_a_clear_error(name, way, serve_live):
    live = serve_live(Guessing)
    count = 0
    for seed in seeds_of(way):
        with spoilt(FAR_SIDES[name], way, seed, live.port) as server:
            await FAR_SIDES[name].play(server)
        count += server.spoilt > 0
    assert count >= SEEDS // 2, "the plays did not reach what was spoilt"


@pytest.mark.parametrize("way", WAYS)
async def test_no_hostile_socket_of_openenv_brings_out_more_than_a_clear_error(way):
    count = 0
    for seed in seeds_of(way):
        with HostileSocket(way, seed).serving() as server:
            await play_socket(server.url)
        count += server.spoilt
        assert server.elsewhere == []
    assert count, "the plays did not reach what was spoilt"
