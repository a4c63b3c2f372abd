"""Commands that get the URL of a hostile server name its fault, and never a defect of their own.

An ordinary run plays every second pair of a command and a hostility, `make stress` all of them.
"""

import time

import pytest

from tests.fixtures.evaluated_environments import Guessing
from tests.fixtures.hostile_plays import OURS, forwarding
from tests.fixtures.hostile_servers import HostileServer, Proper
from tests.fixtures.ordinary_cases import cover_both

WAYS = {"types": 5, "texts": 2, "problems": 2, "bomb": 1, "many values": 1, "deep": 1, "redirects": 1}
"""How a server is spoilt, and how often; the seed also draws the first request that is."""
REQUESTS = {"call": 4, "eval": 12, "audit": 12, "check": 3}

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def words(tmp_path):
    """The words of a command, by its name and a URL."""

    def words(command, url):
        return {
            "call": ("call", url, "guess", '{"number": 2}', "--index", "2"),
            "eval": ("eval", url, "--agent", "random", "--limit", "1", "--output", str(tmp_path / "run")),
            "audit": ("audit", url, "--budget", "8", "--tasks", "1", "--only", "H1", "--only", "H3"),
            "check": ("check", url, "--only", "E1", "--only", "E3"),
        }[command]

    return words


@pytest.mark.parametrize(("command", "way"), cover_both(2, list(REQUESTS), list(WAYS)))
def test_a_command_names_the_servers_fault(command, way, run, words, serve_live, tmp_path):
    live = serve_live(Guessing)
    for seed in range(WAYS[way]):
        server = HostileServer(forwarding(live.port), way, seed)
        server.first = server.random.randrange(REQUESTS[command])
        with server.serving():
            ran = run(*words(command, server.url))
        assert ran.status in {0, 1, 2}, ran
        assert "defect" not in ran.out + ran.err, (seed, ran)
        assert not OURS.search(ran.err), (seed, ran.err)
        assert server.elsewhere == []
        if (tmp_path / "run").exists():
            (tmp_path / "run").rename(tmp_path / f"run-{seed}")


def test_the_budget_of_an_audit_holds_while_a_request_runs(run):
    for way in ("silence", "drip", "drip of a head"):
        with HostileServer(lambda _: Proper.of(["guessing"]), way, 1).serving() as server:
            began = time.monotonic()
            ran = run("audit", server.url, "--budget", "2")
        assert time.monotonic() - began < 15
        assert (ran.status, "did not answer within 2.0 seconds" in ran.err) == (1, True), ran


def test_the_budget_of_an_audit_holds_while_a_play_runs(run, serve_live):
    live = serve_live(Guessing)
    for way in ("silence", "drip"):
        server = HostileServer(forwarding(live.port), way, 1, first=9)
        with server.serving():
            began = time.monotonic()
            ran = run("audit", server.url, "--budget", "3", "--tasks", "1", "--only", "H1", "--only", "H3")
        assert time.monotonic() - began < 20
        assert server.spoilt
        assert "defect" not in ran.err, ran
