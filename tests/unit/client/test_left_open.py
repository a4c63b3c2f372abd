"""A client that nobody closes: Python exits, sessions end, and nobody waits for ever."""

import gc
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import anyio
import pytest

from ors_server.client import Client, ClientOptions, McpClient, Move, Patience
from ors_server.client.client_errors import ClosedError
from ors_server.model import errors

LIMIT = 60
"""Seconds after which a program that should have ended has failed."""

TASK = {"split": "train", "index": 0}

BEGINNINGS = {
    "something was asked": "client = Client(url); client.environments()",
    "an episode is open": (
        "client = Client(url); held = client.episode(split='train', index=0); "
        "episode = held.__enter__(); print(episode.session_id)"
    ),
    "an episode over MCP is open": (
        "client = McpClient(url); held = client.episode(split='train', index=0); "
        "episode = held.__enter__(); print(episode.session_id)"
    ),
    "a call runs in another thread": """
import contextlib, threading
client = Client(url)
held = client.episode(split='train', index=0)
episode = held.__enter__()
print(episode.session_id)
def rest():
    with contextlib.suppress(Exception):
        episode.call('rest')
threading.Thread(target=rest, daemon=True).start()
""",
}


@pytest.fixture(scope="module")
def live(serve_live, request):
    return serve_live(f"{request.path.with_name('conftest.py')}:Slope").url


def run(program: str, *arguments: str, is_prepared: bool = False) -> "subprocess.CompletedProcess[str]":
    mark = "# prepared\n" if is_prepared else ""
    command = [sys.executable, "-c", f"{mark}import sys; url = sys.argv[1]\n{program}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)


@pytest.mark.parametrize(
    ("beginning", "ending"),
    [
        *((name, "") for name in BEGINNINGS),
        ("an episode is open", "raise KeyError('mine')"),
        ("an episode is open", "del client"),
    ],
)
def test_python_exits_and_the_sessions_are_deleted(live, beginning, ending):
    names = "from ors_server.client import Client, McpClient"
    is_prepared = beginning == "an episode is open"
    done = run(f"{names}\n{BEGINNINGS[beginning]}\n{ending}", live, is_prepared=is_prepared)
    expected = 1 if ending.startswith("raise") else 0
    assert done.returncode == expected, done.stderr
    assert "Exception ignored" not in done.stderr
    assert ("Traceback" in done.stderr) == (expected == 1)
    session_id = done.stdout.strip()
    if session_id:
        with Client(live) as client:
            assert client.summary(session_id).phase == "deleted"


def test_python_exits_though_the_server_no_longer_answers():
    program = """
import socket, threading
from ors_server.client import Client
listener = socket.create_server(("127.0.0.1", 0))
client = Client("http://127.0.0.1:%d" % listener.getsockname()[1])
threading.Thread(target=client.environments, daemon=True).start()
connection, _ = listener.accept()
"""
    assert run(program, "").returncode == 0


def test_closing_a_client_deletes_the_sessions_of_episodes_that_are_open(live):
    client = Client(live)
    held = client.episode(**TASK)
    episode = held.__enter__()
    client.close()
    with Client(live) as other:
        assert other.summary(episode.session_id).phase == "deleted"
    with pytest.raises(ClosedError):
        episode.call("climb")
    assert not held.__exit__(None, None, None)


def test_closing_a_client_ends_the_calls_that_other_threads_wait_for(live):
    client = Client(live)
    held = client.episode(**TASK)
    episode = held.__enter__()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(episode.play, _sleeper)
        _Sleeping.wait(LIMIT)
        client.close()
        with pytest.raises(ClosedError):
            waiting.result(LIMIT)


def close(client):
    client.close()
    return RuntimeError("mine")


_Sleeping = threading.Event()


async def _sleeper(_turn):
    _Sleeping.set()
    await anyio.sleep_forever()


@pytest.mark.usefixtures("quick_collections")
def test_a_client_that_nobody_holds_ends_its_thread(live):
    before = {thread for thread in threading.enumerate() if thread.name == "ors-client"}
    client = Client(live)
    assert client.environments() == ["slope"]
    (thread,) = {thread for thread in threading.enumerate() if thread.name == "ors-client"} - before
    del client
    gc.collect()
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_an_agent_that_blocks_the_loop_it_runs_on_is_told(live):
    def agent(_turn):
        return Move("climb", {"reward": episode.summary().steps})

    told = pytest.raises(errors.InvalidRequestError, match="make the agent an async function")
    with Client(live) as client, client.episode(**TASK) as episode, told:
        episode.play(agent)


def test_an_error_of_the_body_comes_out_though_the_client_was_closed_in_it(live):
    client = Client(live)
    with pytest.raises(RuntimeError, match="mine"), client.episode(**TASK):
        raise close(client)


def test_ctrl_c_ends_the_episode_and_leaves_the_client_well(live):
    with Client(live) as client:
        with suppress(KeyboardInterrupt), client.episode(**TASK) as episode:
            raise KeyboardInterrupt
        assert client.summary(episode.session_id).phase == "deleted"


def test_a_client_that_cannot_begin_says_why():
    with pytest.raises(errors.InvalidRequestError):
        McpClient("nowhere", options=ClientOptions(patience=Patience()))
