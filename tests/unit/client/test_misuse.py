"""What a caller does wrong is one of the client's own errors, which says what to do, and nothing is sent."""

import math

import pytest

from ors_server.client import AsyncClient, AsyncMcpClient, Client, ClientOptions, McpClient, Move
from ors_server.client.client_errors import ClosedError
from ors_server.model import errors
from ors_server.model.errors import InvalidRequestError

URL = "http://127.0.0.1:1"


def circle():
    arguments: dict = {}
    arguments["self"] = arguments
    return arguments


WRONG_ARGUMENTS = [
    ([1], r"expected the arguments of 'climb' as a mapping .* got list \[1\]"),
    ("x", "got str 'x'"),
    (5, "got int 5"),
    ({1: 2}, "expected the name of a parameter of 'climb' as a string, got int 1"),
    ({"reward": math.nan}, "cannot be written as JSON"),
    ({"reward": {1}}, "set is not JSON serializable"),
    ({"reward": object()}, "object is not JSON serializable"),
    ({"reward": "\ud800"}, "surrogates not allowed"),
    (circle(), "Circular reference"),
]


@pytest.mark.parametrize("by_mcp", [False, True])
@pytest.mark.parametrize(("arguments", "words"), WRONG_ARGUMENTS, ids=lambda value: str(value)[:20])
async def test_arguments_that_are_none_are_refused_before_they_are_sent(place, by_mcp, arguments, words):
    make = place.client.mcp_episode if by_mcp else place.client.episode
    async with make(split="train", index=0) as episode:
        with pytest.raises(InvalidRequestError, match=words):
            await episode.call("climb", arguments)
        assert episode.ledger.unanswered == ()
        assert (await episode.check()).steps == 0


async def test_names_and_ids_are_strings(place):
    async with place.client.episode(split="train", index=0) as episode:
        with pytest.raises(InvalidRequestError, match="expected the name of a tool as a string, got int 5"):
            await episode.call(5)
        for call_id in (5, ""):
            with pytest.raises(InvalidRequestError, match="expected a call id that is a string"):
                await episode.call("climb", call_id=call_id)
    with pytest.raises(
        InvalidRequestError, match="expected the name of an environment as a string, got int 5"
    ):
        await place.client.num_tasks("train", 5)
    for ask in (place.client.summary, place.client.steps):
        with pytest.raises(
            InvalidRequestError, match="expected the name of a session as a string, got NoneType None"
        ):
            await ask(None)


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (None, "expected an agent that is a function of a Turn, got None"),
        (
            lambda turn: ("climb", {}),
            r"expected a Move from the agent, or None to give up, got \('climb', \{\}\)",
        ),
        (lambda turn: Move("climb", [1]), "expected the arguments of 'climb' as a mapping"),
    ],
)
async def test_an_agent_is_a_function_that_returns_moves(place, agent, words):
    from ors_server.client import play  # noqa: PLC0415  (its name is a method's too)

    async with place.client.episode(split="train", index=0) as episode:
        with pytest.raises(InvalidRequestError, match=words):
            await play(episode, agent, max_calls=1)


@pytest.mark.parametrize("client", [AsyncClient, AsyncMcpClient, Client, McpClient])
@pytest.mark.parametrize(
    "url",
    [
        5,
        None,
        "",
        "ftp://x",
        "127.0.0.1:8080",
        "http://x:port",
        "http://x:99999999",
        "http://a b",
        "http://[",
    ],
)
def test_an_address_that_is_none_is_refused_at_once(client, url):
    with pytest.raises(InvalidRequestError, match="expected a URL such as"):
        client(url)


@pytest.mark.parametrize("client", [AsyncClient, AsyncMcpClient, Client, McpClient])
@pytest.mark.parametrize("key", [5, "a\nb", "ключ"])
def test_a_key_that_no_header_can_carry_is_refused_at_once_and_not_shown(client, key):
    with pytest.raises(InvalidRequestError, match="expected an API key of printable ASCII") as refused:
        client(URL, key)
    assert str(key) not in str(refused.value)


@pytest.mark.parametrize("client", [AsyncClient, AsyncMcpClient, Client, McpClient])
def test_options_are_the_clients_own(client):
    with pytest.raises(InvalidRequestError, match=r"expected options=ClientOptions\(\.\.\.\), got dict"):
        client(URL, options={"patience": 1})


async def test_an_era_that_does_not_exist_is_refused(place):
    client = AsyncMcpClient(URL, era="bogus", options=place.options)
    with pytest.raises(InvalidRequestError, match="expected an era of auto, legacy, 2026-07-28, got 'bogus'"):
        async with client.episode(split="train", index=0):
            pass


async def test_a_closed_client_says_so(place):
    client = AsyncClient("http://localhost:8080", options=place.options)
    async with client.episode(split="train", index=0) as episode:
        await client.aclose()
        with pytest.raises(ClosedError, match="the client is closed"):
            await episode.call("climb")
    with pytest.raises(ClosedError):
        await client.environments()
    mcp = AsyncMcpClient("http://localhost:8080", options=place.options)
    await mcp.aclose()
    with pytest.raises(ClosedError):
        async with mcp.episode(split="train", index=0):
            pass
    assert issubclass(ClosedError, errors.ClientError)


def test_a_closed_blocking_client_says_so_and_may_be_closed_again():
    client = Client(URL, options=ClientOptions())
    client.close()
    client.close()
    with pytest.raises(ClosedError, match="the client is closed"):
        client.environments()
    with pytest.raises(ClosedError), client.episode(split="train", index=0):
        pass
