"""Many episodes of the client at once, over connections that keep breaking: every sum is the server's."""

import random
from collections import Counter
from typing import ClassVar

import anyio
import httpx2
import pytest

from ors_server import EpisodePolicy, ToolOutput, tool
from ors_server.client import AsyncClient, ClientOptions, Patience
from ors_server.environments.call_context import CallContext
from tests.fixtures.single_task import SingleTask

pytestmark = [pytest.mark.stress, pytest.mark.timeout(600)]
EPISODES = 300
STEPS = 8


class Toll(SingleTask):
    """Pays what it is asked for, and counts what it runs."""

    name = "toll"
    policy = EpisodePolicy(invalid_call_penalty=0.1)
    runs: ClassVar[Counter[tuple[str, str]]] = Counter()

    @tool
    async def pay(self, reward: float, context: CallContext, last: bool = False) -> ToolOutput:  # noqa: FBT001, FBT002  (a schema)
        """Pays."""
        self.runs[context.session_id, context.call_id] += 1
        return ToolOutput(reward=reward, finished=last)


class Storm(httpx2.AsyncBaseTransport):
    """Loses requests and answers by the dice."""

    def __init__(self, seed: int) -> None:
        self.inner = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=100))
        self.dice = random.Random(seed)  # noqa: S311  (the same storm each time)
        self.accidents = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        luck = self.dice.random()
        self.accidents += luck < 0.3
        if luck < 0.1:
            raise httpx2.ConnectError("storm")
        response = await self.inner.handle_async_request(request)
        if luck < 0.2:
            await response.aread()
            raise httpx2.ReadError("storm")
        if luck < 0.3:
            body = await response.aread()
            return httpx2.Response(200, headers=response.headers, stream=Torn(body, self.dice))
        return response

    async def aclose(self) -> None:
        await self.inner.aclose()


class Torn(httpx2.AsyncByteStream):
    """The beginning of a body."""

    def __init__(self, body: bytes, dice: random.Random) -> None:
        self.body = body[: dice.randrange(len(body) + 1)]

    async def __aiter__(self):
        yield self.body
        raise httpx2.ReadError("torn")


@pytest.mark.parametrize("emit", ["dense", "final"])
@pytest.mark.parametrize("over", ["ors", "mcp"])
async def test_every_sum_is_the_servers_whatever_the_network_does(serve_live, emit, over):
    Toll.runs.clear()
    url = serve_live(Toll, max_sessions=EPISODES).url
    storm = Storm(7)
    patience = Patience(attempts=50, longest_pause=0.05)
    options = ClientOptions(patience=patience, transport=storm)
    sums: list[float] = []

    async def play(number: int) -> None:
        dice = random.Random(number)  # noqa: S311  (the same rewards each time)
        wanted = {"split": "train", "index": 0, "policy": {"emit": emit}}
        opened = client.episode(**wanted) if over == "ors" else client.mcp_episode(**wanted)
        async with opened as episode:
            for step in range(STEPS):
                await episode.call("pay", {"reward": dice.uniform(-1, 1), "last": step == STEPS - 1})
            summary = await episode.check()
            assert (summary.steps, summary.stop_reason) == (STEPS, "completed")
            sums.append(summary.episode_return)

    episodes = EPISODES if over == "ors" else EPISODES // 5
    async with AsyncClient(url, options=options) as client, anyio.create_task_group() as tasks:
        for number in range(episodes):
            tasks.start_soon(play, number)
    assert len(sums) == episodes
    assert len(Toll.runs) == episodes * STEPS
    assert set(Toll.runs.values()) == {1}
    assert storm.accidents > episodes
