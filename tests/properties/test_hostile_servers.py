"""Every client against hostile far sides: a clear error, no hang, nothing like a defect of ours.

An ordinary run plays a third of the pairs of a client and a hostility, and each of both.
"""

import anyio
import anyio.to_thread
import pytest

from ors_server.adapters.openenv_server import from_openenv
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.resources.resource_errors import ResourceTimeoutError
from tests.fixtures.evaluated_environments import Guessing
from tests.fixtures.hostile_client import SOCKET, HostileClient
from tests.fixtures.hostile_plays import FAR_SIDES, play_socket, spoilt
from tests.fixtures.hostile_servers import HOSTILITIES
from tests.fixtures.hostile_sockets import WAYS, HostileSocket
from tests.fixtures.ordinary_cases import cover_both

SEEDS = {"types": 5, "texts": 2, "codings": 3, "problems": 2, "protocol": 2, "redirects": 3}
"""Plays of each far side, by the way in which it is spoilt; 1 of the others. `make stress` has 150."""
SOCKET_SEEDS = {"types": 6, "errors": 6, "odd": 4}

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(("name", "way"), cover_both(3, list(FAR_SIDES), list(HOSTILITIES)))
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


LARGEST = 192
"""MiB that the clients may need: the modules that they load, and the longest answers that they read."""


@pytest.fixture(scope="module")
def hostile_client():
    client = HostileClient()
    yield client
    client.close()


@pytest.mark.parametrize("way", ["endless chunks", "bomb"])
@pytest.mark.parametrize("name", FAR_SIDES)
def test_a_hostile_far_side_does_not_make_a_client_large(name, way, serve_live, hostile_client):
    live = serve_live(Guessing)
    with spoilt(FAR_SIDES[name], way, 0, live.port) as server:
        server.first, server.only_once = 0, False
        while not server.spoilt:  # on a busy machine a client may give up before it has asked
            assert hostile_client.play(name, server.url, live.port) < LARGEST


@pytest.mark.parametrize("way", ["fragments", "bomb"])
def test_a_hostile_socket_does_not_make_a_client_large(way, hostile_client):
    with HostileSocket(way, 0).serving() as server:
        while not server.spoilt:
            assert hostile_client.play(SOCKET, server.url, 0) < LARGEST


async def test_a_listing_of_tools_that_is_given_up_ends_its_connection():
    server = HostileSocket("deaf", 0)
    server.is_mcp, server.first = True, 0
    with server.serving():
        with pytest.raises(EnvironmentDefinitionError, match="did not answer within 1 seconds"):
            await anyio.to_thread.run_sync(lambda: from_openenv(server.url, answer_seconds=1.0))
        assert server.left.wait(2.0)


async def test_a_teardown_that_is_cancelled_ends_its_connection():
    server = HostileSocket("deaf", 0)
    server.is_mcp, server.first = False, 1
    with server.serving():
        environment = await anyio.to_thread.run_sync(lambda: from_openenv(server.url, answer_seconds=1.0))
        played = environment(environment.list_tasks("train")[0])
        await played.setup()
        with pytest.raises(ResourceTimeoutError, match="did not answer step"):
            await played.step({"number": 1})
        with anyio.move_on_after(0.1) as scope:
            await played.teardown()
        assert scope.cancelled_caught
        assert await anyio.to_thread.run_sync(server.left.wait, 2.0)
