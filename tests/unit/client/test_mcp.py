"""The client over MCP, in both eras: the same account, the same figures, the same patience."""

import json
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp.client.streamable_http import streamable_http_client

from ors_server.client import (
    AsyncMcpClient,
    CallTimeoutError,
    ClientOptions,
    Patience,
    SumMismatchError,
    UnreachableError,
)
from ors_server.model import errors

TRANSPORT = "ors_server.client.mcp_connection.streamable_http_client"
ERAS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


@pytest.fixture(params=ERAS)
def era(request):
    return request.param


def mcp_client(place, era="auto", path="", key=None, **patience):
    options = ClientOptions(
        transport=place.network, clock=place.clock, patience=Patience(ping_seconds=5_000.0, **patience)
    )
    return AsyncMcpClient(f"http://localhost:8080{path}", key, era=era, options=options)


async def climb(episode):
    for reward in (0.1, 0.2, None, 0.3):
        await episode.call("climb", {"reward": reward})
    result = await episode.call("climb", {"reward": 0.7, "top": True})
    assert (result.finished, result.step) == (True, 5)
    return 0.0 + 0.1 + 0.2 + 0.3 + 0.7


async def test_an_agents_url_is_played_and_the_figures_are_read_beside_it(place, era):
    async with place.client.mcp_episode("slope", era=era, split="train", index=1, seed=9) as episode:
        assert episode.protocol_version == ERAS[era]
        assert await episode.prompt() == "Climb train-1."
        assert "climb" in {tool.name for tool in (await episode.tools()).tools}
        total = await climb(episode)
        late = await episode.call("climb", {"reward": 1.0})
        assert (late.refusal, late.finished) == ("episode_finished", True)
        summary = await episode.check()
        assert (summary.episode_return, summary.seed, summary.steps) == (total, 9, 5)
    assert (await episode.check()).phase == "deleted"


def close_before(transport, *, opens):
    """Returns a transport of the SDK that has an answer for a stream which it has closed."""

    @asynccontextmanager
    async def closing(url, **options):
        async with transport(url, **options) as streams:
            if opens:
                yield streams
            raise BaseExceptionGroup("unhandled errors", [anyio.BrokenResourceError()])

    return closing


async def test_an_answer_that_comes_while_the_connection_closes_is_no_error(place, era, monkeypatch):
    late = close_before(streamable_http_client, opens=True)
    monkeypatch.setattr(TRANSPORT, late)
    async with place.client.mcp_episode("slope", era=era, split="train", index=1) as episode:
        total = await climb(episode)
    assert (await episode.check()).episode_return == total


async def test_a_connection_that_closes_while_it_opens_is_not_reached(place, era, monkeypatch):
    late = close_before(streamable_http_client, opens=False)
    monkeypatch.setattr(TRANSPORT, late)
    with pytest.raises(UnreachableError, match="closed while it was opened"):
        async with place.client.mcp_episode("slope", era=era, split="train", index=1):
            raise AssertionError


async def test_mcp_alone_is_enough(place, era):
    async with mcp_client(place, era) as client:
        async with client.episode("slope", split="test", index=2, seed=4, labels={"a": "b"}) as episode:
            assert await episode.prompt() == "Climb test-2."
            assert [message.role for message in await episode.messages()] == ["user"]
            total = await climb(episode)
            summary = await episode.check()
            assert (summary.episode_return, summary.seed, summary.labels) == (total, 4, {"a": "b"})
            assert set(episode.access) == {"agent_token", "agent_url", "mcp_url"}
        assert (await episode.check()).phase == "deleted"


async def test_the_lobby_is_played_as_an_agent_finds_it_and_says_why_it_starts_nothing(place, era):
    async with mcp_client(place, era) as client, client.lobby_episode("slope", "train", 0) as episode:
        assert await episode.prompt() == "Climb train-0."
        assert [message.role for message in await episode.messages()] == ["user"]
        names = {tool.name for tool in (await episode.tools()).tools}
        assert {"climb", "start_episode"} & names == {"climb"}
        total = await climb(episode)
        assert (await episode.check()).episode_return == total
    async with mcp_client(place, era) as client:
        with pytest.raises(errors.InvalidRequestError, match="Invalid index 9"):
            async with client.lobby_episode("slope", "train", 9):
                pass


async def test_the_endpoint_of_one_session_is_played_and_left_alive(place, era):
    async with place.client.episode(split="train", index=0) as owned:
        async with (
            mcp_client(place, era, f"/sessions/{owned.session_id}/mcp") as client,
            client.agent_episode() as episode,
        ):
            await episode.call("climb", {"reward": 0.5})
            assert (await episode.check()).phase == "playing"
        path = owned.access["agent_url"].removeprefix("http://localhost:8080")
        async with mcp_client(place, era, path) as client, client.agent_episode() as episode:
            assert (await episode.call("climb", {"reward": 0.25})).reward == 0.25
            with pytest.raises(errors.ForbiddenError):
                await episode.summary()
        assert (await owned.summary()).episode_return == 0.75


async def test_mistakes_refusals_and_faults_are_told_apart(place, era, slope):
    async with place.client.mcp_episode(era=era, split="train", index=0) as episode:
        charged = await episode.call("stumble")
        assert (charged.reward, charged.is_error, charged.refusal) == (-0.2, True, None)
        with pytest.raises(errors.ToolFailedError, match="the ground gave way"):
            await episode.call("collapse")
        summary = await episode.check()
        assert (summary.steps, summary.failed_steps, episode.ledger.steps) == (2, 1, 1)


async def test_hidden_rewards_are_not_in_the_account(place, era):
    async with place.client.mcp_episode(era=era, split="train", index=0, visibility="hidden") as episode:
        result = await episode.call("climb", {"reward": 0.5})
        assert (result.reward, result.step, result.finished) == (None, None, False)
        with pytest.raises(SumMismatchError):
            await episode.check()
        assert (await episode.call("climb", {"top": True})).finished


ACCIDENTS = {
    "refused": ["refuse"],
    "lost": ["lose"],
    "cut": [("cut", 20)],
    "a gateway": [502, 504],
    "busy": [(503, {"retry-after": "3"}), (429, {})],
    "everything": ["refuse", (503, {}), "lose", ("cut", 9), 502],
}


@pytest.mark.parametrize("accidents", ACCIDENTS.values(), ids=ACCIDENTS)
async def test_a_call_runs_once_and_its_answer_is_not_missed(place, era, slope, accidents):
    async with place.client.mcp_episode(era=era, split="train", index=0) as episode:
        place.network.plan("/mcp", *accidents)
        result = await episode.call("climb", {"reward": 0.7, "top": True})
        assert (result.reward, result.finished) == (0.7, True)
        place.network.plan("/mcp")
        await episode.check()
    assert slope.runs == ["climb"]


async def test_a_stream_that_breaks_is_asked_for_again(open_place, era, slope):
    """A result that comes as an event stream is lost for the SDK, which says so; the call is sent again."""
    async with open_place() as place, place.client.mcp_episode(era=era, split="train", index=0) as episode:
        lost = [True]
        carry = place.network.inner.handle_async_request

        async def as_stream(request):
            response = await carry(request)
            if b'"tools/call"' in request.content and lost:
                lost.clear()
                response.headers["content-type"] = "text/event-stream"
                response.stream = type(response.stream)([b": hello\n\n"])
            return response

        place.network.inner.handle_async_request = as_stream
        assert (await episode.call("climb", {"reward": 0.5})).reward == 0.5
        await episode.check()
    assert slope.runs == ["climb"]


async def test_a_server_that_cannot_be_reached_is_said_to_be_and_the_connection_survives(place, era):
    async with place.client.mcp_episode(era=era, split="train", index=0) as episode:
        place.network.plan("/mcp", *["refuse"] * 99)
        with pytest.raises(UnreachableError, match="refused"):
            await episode.call("climb", {"reward": 0.5})
        place.network.plan("/mcp")
        assert (await episode.call("climb", {"reward": 0.5})).reward == 0.5
    place.network.plan("/mcp", *["refuse"] * 99)
    async with mcp_client(place, era) as client:
        with pytest.raises(UnreachableError, match="refused"):
            async with client.lobby_episode("slope", "train", 0):
                pass


async def test_the_clients_own_time_limit_ends_the_wait(place, slope):
    slope.gate = anyio.Event()
    try:
        async with (
            mcp_client(place, call_seconds=0.02) as client,
            client.episode(split="train", index=0) as episode,
        ):
            with pytest.raises(CallTimeoutError, match="may still run"):
                await episode.call("rest")
            slope.gate.set()
    finally:
        slope.gate = None


async def test_the_player_gets_its_own_errors_back(place, era):
    with pytest.raises(KeyError, match="mine"):
        async with place.client.mcp_episode(era=era, split="train", index=0) as episode:
            raise KeyError("mine")
    assert (await place.client.summary(episode.session_id)).phase == "deleted"


async def test_a_session_whose_creation_was_answered_into_the_void_is_found_again(place):
    place.network.plan("/mcp", None, "lose")
    async with mcp_client(place) as client, client.episode(split="train", index=0) as episode:
        assert episode.access == {}
        await episode.call("climb", {"reward": 0.5})
        await episode.check()


async def test_a_session_of_somebody_else_is_not_taken_for_ones_own(place):
    async with mcp_client(place) as client, client.episode(split="train", index=0, session_id="mine"):
        with pytest.raises(errors.SessionExistsError):
            async with client.episode(split="train", index=0, session_id="mine"):
                pass


async def test_signs_of_life_are_sent(place):
    options = ClientOptions(transport=place.network, clock=place.clock, patience=Patience(ping_seconds=10.0))
    async with (
        AsyncMcpClient("http://localhost:8080/mcp", options=options) as client,
        client.episode(split="train", index=0),
    ):
        with anyio.fail_after(10):
            while listings(place) < 2:
                await anyio.lowlevel.checkpoint()
    assert listings(place) >= 2


def listings(place):
    asked = [json.loads(body) for path, body in place.network.bodies if path.endswith("/mcp") and body]
    return sum(body["method"] == "tools/list" for body in asked)


async def test_an_agents_key_may_not_make_sessions_by_the_extension(open_place):
    keys = "agent:a:agent-key-of-sixteen,trainer:t:trainer-key-of-sixteen"
    async with open_place(api_keys=keys) as place, mcp_client(place, key="agent-key-of-sixteen") as client:
        with pytest.raises(errors.ForbiddenError):
            async with client.episode(split="train", index=0):
                pass
        async with client.lobby_episode("slope", "train", 0) as episode:
            await climb(episode)
            with pytest.raises(errors.ForbiddenError):
                await episode.check()
