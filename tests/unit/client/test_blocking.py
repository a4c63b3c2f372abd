"""The blocking twins say the same as the clients that they wrap, from any thread."""

import inspect
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

from ors_server.client import AsyncClient, AsyncEpisode, AsyncMcpClient, Client, Episode, McpClient, Move
from ors_server.model import errors


@pytest.fixture(scope="module")
def live(serve_live, request):
    return serve_live(f"{request.path.with_name('conftest.py')}:Slope").url


def public(cls):
    return {name for name in dir(cls) if not name.startswith("_")} - {"on_loop"}


def test_every_method_has_its_twin():
    own = {"close", "aclose", "keep_alive", "play", "ledger"}
    assert public(Client) - own == public(AsyncClient) - own
    assert public(McpClient) - own == public(AsyncMcpClient) - own
    assert public(Episode) - own == public(AsyncEpisode) - own
    for ours, theirs in ((Client, AsyncClient), (McpClient, AsyncMcpClient), (Episode, AsyncEpisode)):
        for name in public(ours) & public(theirs):
            function = getattr(ours, name)
            if inspect.isfunction(function):
                assert [*inspect.signature(function).parameters] == [
                    *inspect.signature(getattr(theirs, name)).parameters
                ]


def test_a_script_asks_plays_and_checks(live):
    with Client(live) as client:
        assert client.environments() == ["slope"]
        assert [split.name for split in client.splits()] == ["train", "test"]
        assert (client.num_tasks("train"), client.task("train", 1)) == (3, {"name": "train-1"})
        assert client.tasks("train", 2) == [{"name": "train-2"}]
        assert "climb" in {tool.name for tool in client.tools().tools}
        with client.episode("slope", split="train", index=0, seed=3) as episode:
            assert (episode.environment, episode.prompt()) == ("slope", "Climb train-0.")
            assert (len(episode.blocks()), len(episode.messages())) == (1, 1)
            assert "climb" in {tool.name for tool in episode.tools().tools}
            assert episode.call("climb", {"reward": 0.5}, call_id="a").reward == 0.5
            assert "agent_url" in episode.access
            with client.attach(episode.session_id) as joined:
                assert joined.call("climb", {"reward": 0.25}, call_id="b").reward == 0.25
                assert joined.check().episode_return == 0.75
            with pytest.raises(errors.OrsServerError, match="Calls of other clients made step 2"):
                episode.check()
            assert (episode.summary().seed, episode.ledger.total, episode.finished) == (3, 0.5, False)
        assert client.summary(episode.session_id).phase == "deleted"
        assert [step["reward"] for step in client.steps(episode.session_id)] == [0.5, 0.25]


def test_episodes_are_played_over_mcp(live):
    with Client(live) as client, client.mcp_episode(split="train", index=0) as episode:
        assert episode.call("climb", {"reward": 0.5, "top": True}).finished
        assert episode.check().episode_return == 0.5
    with McpClient(live, era="legacy") as alone:
        with alone.episode(split="train", index=0) as episode:
            assert (
                episode.play(lambda turn: Move("climb", {"reward": 1.0, "top": True})).episode_return == 1.0
            )
        with alone.lobby_episode("slope", "train", 0) as episode:
            assert episode.call("climb", {"reward": 0.5}).reward == 0.5
            address = f"{live}/sessions/{episode.session_id}/mcp"
        with McpClient(address) as other, other.agent_episode() as joined:
            assert joined.call("climb", {"reward": 0.25}).reward == 0.25


def test_threads_share_a_client_and_episodes_end_in_any_order(live):
    with Client(live) as client:
        first = client.episode(split="train", index=0)
        second = client.episode(split="train", index=1)
        one, two = first.__enter__(), second.__enter__()
        with ThreadPoolExecutor(4) as threads:
            paid = [*threads.map(lambda _: one.call("climb", {"reward": 0.5}).reward, range(4))]
        first.__exit__(None, None, None)
        assert two.call("climb", {"reward": 0.1}).reward == 0.1
        second.__exit__(None, None, None)
        assert (paid, one.check().episode_return, two.check().episode_return) == ([0.5] * 4, 2.0, 0.1)


async def test_a_notebook_whose_own_loop_runs_is_no_obstacle(live):
    with Client(live) as client, client.episode(split="train", index=0) as episode:
        await anyio.lowlevel.checkpoint()
        assert episode.call("climb", {"reward": 0.5}).reward == 0.5


def test_an_error_in_the_body_ends_the_session_and_comes_out_as_it_was(live):
    with Client(live) as client:
        with pytest.raises(KeyError, match="mine"), client.episode(split="train", index=0) as episode:
            raise KeyError("mine")
        assert client.summary(episode.session_id).phase == "deleted"


def test_importing_the_client_loads_neither_the_server_nor_mcp():
    heavy = [
        "starlette",
        "uvicorn",
        "sympy",
        "mcp",
        "sqlalchemy",
        "alembic",
        "openai",
        "pyarrow",
        "tree_sitter",
    ]
    program = f"import sys, ors_server.client; print([name for name in {heavy} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_a_name_that_the_client_does_not_have_is_missed():
    with pytest.raises(ImportError):
        from ors_server.client import Nonesuch  # noqa: F401, PLC0415  (importing it is the test)
