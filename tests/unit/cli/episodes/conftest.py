"""A record of two episodes, read at the server that wrote it and in its file."""

import pytest

from tests.fixtures.workshop import Player, Workshop
from tests.unit.cli.conftest import start_command


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return str(tmp_path_factory.mktemp("record") / "episodes.db")


@pytest.fixture(scope="module")
def player(serve_live, record):
    return Player(serve_live(Workshop, store=record).url)


@pytest.fixture(scope="module")
def long_one(player):
    """An episode with everything in it, ended; its id."""
    return player.record_everything()


@pytest.fixture(scope="module")
def short_one(player, long_one):
    """A later episode that goes on; its id."""
    session_id, episode_id = player.create(index=1, session_id="known", labels={"run": "b"})
    player.call(session_id, "make", reward=0.125)
    return episode_id


@pytest.fixture(params=["server", "store"])
def where(request, player, record, long_one, short_one):
    """How a command is told where the record is."""
    return ("--url", player.url) if request.param == "server" else ("--store", record)


@pytest.fixture
def episodes(run, where):
    return lambda *words: run("episodes", *words, *where)


@pytest.fixture
def start():
    processes = []

    def start(*words):
        processes.append(start_command("episodes", *words))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()
