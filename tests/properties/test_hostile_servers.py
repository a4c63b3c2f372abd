"""Every client against hostile far sides: a clear error, no hang, nothing like a defect of ours."""

import pytest

from tests.fixtures.evaluated_environments import Guessing
from tests.fixtures.hostile_plays import FAR_SIDES, play_socket, spoilt
from tests.fixtures.hostile_servers import HOSTILITIES
from tests.fixtures.hostile_sockets import WAYS, HostileSocket

SEEDS = {"types": 12, "texts": 4, "codings": 3, "problems": 4, "protocol": 4, "redirects": 3}
"""Plays of each far side, by the way in which it is spoilt; 1 of the others."""
SOCKET_SEEDS = {"types": 12, "errors": 6, "odd": 4}

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("way", HOSTILITIES)
@pytest.mark.parametrize("name", FAR_SIDES)
async def test_a_hostile_far_side_gets_a_clear_error_and_no_more(name, way, serve_live):
    live = serve_live(Guessing)
    for seed in range(SEEDS.get(way, 1)):
        with spoilt(FAR_SIDES[name], way, seed, live.port) as server:
            await FAR_SIDES[name].play(server)


@pytest.mark.parametrize("way", WAYS)
async def test_a_hostile_socket_of_openenv_gets_a_clear_error_and_no_more(way):
    count = 0
    for seed in range(SOCKET_SEEDS.get(way, 2)):
        with HostileSocket(way, seed).serving() as server:
            await play_socket(server.url)
        count += server.spoilt
        assert server.elsewhere == []
    assert count, "the plays did not reach what was spoilt"
