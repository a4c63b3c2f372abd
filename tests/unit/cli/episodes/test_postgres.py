"""A record in PostgreSQL, read by the commands while its server goes on."""

import json

import pytest

from tests.fixtures.workshop import Player, Workshop

pytestmark = pytest.mark.stress


def test_a_record_in_postgresql_is_read_alike(run, start, serve_live, postgres):
    store = postgres.create_database()
    player = Player(serve_live(Workshop, store=store).url)
    ended = player.record_everything()
    session_id, going_on = player.create(index=2, labels={"run": "b"})
    player.call(session_id, "make", reward=0.5)
    for words in (
        ("list", "--json"),
        ("list", "--json", "--label", "run=b", "--min-return", "0.5", "--open", "--since", "1h"),
        ("list",),
        ("show", ended[:8], "--json"),
        ("show", session_id, "--full"),
        ("tail", ended, "--json"),
    ):
        answers = [run("episodes", *words, *where) for where in (("--url", player.url), ("--store", store))]
        assert answers[0] == answers[1]
        assert answers[0].status == 0
    tail = start("tail", going_on, "--json", "--store", store)
    assert json.loads(tail.stdout.readline())["step"]["reward"] == 0.5
    player.delete(session_id)
    assert json.loads(tail.stdout.readline())["event"] == "closed"
    assert tail.wait(60) == 0
