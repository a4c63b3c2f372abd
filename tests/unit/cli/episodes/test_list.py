"""`episodes list`, and how every command of the group is told what to read."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ors_server.cli.filters import read_time
from ors_server.evaluation.folder import read_run
from tests.fixtures.workshop import Player, Workshop

ROOT = Path(__file__).parents[4]
KEY = "trainer-key-0123456789"
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_the_list_has_a_row_per_episode_and_a_sum(episodes, long_one, short_one, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    ran = episodes("list")
    assert (ran.status, ran.err) == (0, "")
    heading, newer, older, total, left_out = ran.out.splitlines()
    assert heading.split()[:3] == ["id", "task", "standing"]
    assert heading.split()[-2:] == ["run", "labels"]
    assert newer.split()[:6] == [short_one[:8], "workshop", "train/1", "playing", "1", "0.125"]
    assert older.split()[:6] == [long_one[:8], "workshop", "train/4", "completed", "6", "1.25"]
    assert older.split()[-2:] == ["a", "attempt=1"]
    assert total == "2 of 2 episodes, 7 steps, mean return 1.25 (1.25 to 1.25)"
    assert left_out == "the mean is over 1 graded; left out: 1 live"


def test_the_agent_and_the_run_of_an_evaluation_have_columns(run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    store, target = str(tmp_path / "e.db"), "tests/fixtures/evaluated_environments.py:Guessing"
    monkeypatch.chdir(ROOT)
    words = ("eval", target, "--agent", "oracle", "--limit", "1", "--output", str(tmp_path / "r"))
    assert run(*words, "--store", store).status == 0
    heading, row, _ = run("episodes", "list", "--store", store).out.splitlines()
    assert heading.split()[-3:] == ["agent", "run", "labels"]
    assert row.split()[-3:] == ["oracle", read_run(tmp_path / "r").run_id, "attempt=1"]
    found = run("episodes", "list", "--store", store, "--label", "agent=oracle", "--json")
    assert found.json["labels"]["agent"] == "oracle"


def test_a_narrow_table_keeps_ids_and_numbers_whole(episodes, long_one, short_one, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = episodes("list").out.splitlines()
    assert max(map(len, lines)) <= 80
    for episode_id, episode_return in ((long_one, "1.25"), (short_one, "0.125")):
        (row,) = (line for line in lines if line.startswith(episode_id[:8]))
        assert episode_return in row.split()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--oldest-first"], "ls"),
        (["--limit", "1"], "s"),
        (["--environment", "workshop", "--split", "train", "--index", "4"], "l"),
        (["--label", "run=b"], "s"),
        (["--label", "run=a", "--label", "attempt=1"], "l"),
        (["--label", "run=a", "--label", "attempt=2"], ""),
        (["--session", "known"], "s"),
        (["--phase", "deleted"], "l"),
        (["--stop-reason", "completed"], "l"),
        (["--closed"], "l"),
        (["--open"], "s"),
        (["--min-return", "1"], "l"),
        (["--max-return", "1"], "s"),
        (["--since", "2h"], "sl"),
        (["--since", "2000-01-01"], "sl"),
        (["--until", "2000-01-01T00:00:00+01:00"], ""),
        (["--until", "1w"], ""),
        (["--credential", "nobody"], ""),
        (["--task-hash", "0"], ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_filters_choose_episodes(episodes, long_one, short_one, words, found):
    ran = episodes("list", "--json", *words)
    ids = {"l": long_one, "s": short_one}
    assert [json.loads(line)["episode_id"] for line in ran.out.splitlines()] == [ids[one] for one in found]
    assert ran.status == 0


def test_a_line_of_the_list_is_what_the_control_api_says(episodes, player):
    lines = [json.loads(line) for line in episodes("list", "--json").out.splitlines()]
    assert lines == player.ask("GET", "/episodes")["episodes"]


def test_a_list_of_nothing_says_so(episodes):
    assert episodes("list", "--environment", "none").out == "no episodes\n"
    assert episodes("list", "--environment", "none", "--json").out == ""


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--phase", "happy"], "phase: "),
        (["--label", "run"], "--label must be KEY=VALUE"),
        (["--label", "run=a", "--label", "run=b"], "a label has one value"),
        (["--since", "soon"], "a time must be ISO 8601"),
        (["--until", "999999w"], "a time must be ISO 8601"),
        (["--limit", "0"], "--limit"),
        (["--min-return", "nan"], "min_return: "),
    ],
)
def test_a_filter_that_makes_no_sense_is_a_misuse(episodes, words, complaint):
    ran = episodes("list", *words)
    assert ran.status == 2
    assert complaint in ran.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["list", "--store", "a.db", "--url", "http://localhost"], "--store or --url"),
        (["list", "--url", "localhost:8080"], "--url must be a server's"),
        (["list"], "a record in memory is read at its server only"),
        (["list", "--store", "memory"], "a record in memory"),
        (["tail", "--start", "3", "--url", "http://localhost"], "--start goes with an ID"),
        (["tail", "some", "--label", "a=b", "--url", "http://localhost"], "not both"),
        (["show", "--url", "http://localhost"], "ID"),
        (["show", "some", "--step", "0", "--url", "http://localhost"], "--step"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_command_that_makes_no_sense_is_status_2(run, words, complaint):
    ran = run("episodes", *words)
    assert ran.status == 2
    assert complaint in ran.err


def test_the_setting_says_where_the_record_is(run, record, monkeypatch, long_one):
    monkeypatch.setenv("ORS_STORE", record)
    assert run("episodes", "show", long_one, "--json").json["origin"]["episode_id"] == long_one


def test_a_store_that_is_not_there_is_told_in_one_line(run, tmp_path):
    ran = run("episodes", "list", "--store", str(tmp_path / "none.db"))
    assert ran.status == 2
    assert len(ran.err.splitlines()) == 1
    assert not (tmp_path / "none.db").exists()


def test_a_server_that_is_not_there_is_told_in_one_line(run):
    for words in (["list"], ["show", "some"], ["tail"], ["tail", "some"]):
        ran = run("episodes", *words, "--url", "http://127.0.0.1:9")
        assert ran.status == 1
        assert ran.err.startswith("ors-server: cannot reach http://127.0.0.1:9")


def test_a_key_is_read_from_the_environment(run, serve_live, monkeypatch):
    url = serve_live(Workshop, api_keys=f"trainer:t:{KEY}").url
    refused = run("episodes", "list", "--url", url)
    assert refused.status == 1
    assert "(set ORS_API_KEY)" in refused.err
    monkeypatch.setenv("ORS_API_KEY", KEY)
    session_id, _ = Player(url, KEY).create()
    found = run("episodes", "list", "--credential", "t", "--json", "--url", url).json
    assert found["session_id"] == session_id


def test_a_record_in_memory_is_read_at_its_server(run, serve_live):
    url = serve_live(Workshop, store="memory").url
    player = Player(url)
    session_id, episode_id = player.create()
    player.call(session_id, "hand_in")
    player.delete(session_id)
    assert "train/0" in run("episodes", "list", "--url", url).out
    assert "step 1  hand_in" in run("episodes", "show", episode_id[:8], "--url", url).out
    assert "step 1  hand_in" in run("episodes", "tail", session_id, "--url", url).out


def test_more_episodes_than_a_page_are_listed(run, where, monkeypatch, long_one, short_one):
    monkeypatch.setattr("ors_server.cli.episodes_source.EPISODES_AT_ONCE", 1)
    ran = run("episodes", "list", "--json", "--limit", "2", *where)
    assert len(ran.out.splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90s", datetime(2026, 1, 31, 11, 58, 30, tzinfo=UTC)),
        ("2d", datetime(2026, 1, 29, 12, tzinfo=UTC)),
        ("2026-01-02", datetime(2026, 1, 2, tzinfo=UTC)),
        ("2026-01-02T03:04+02:00", datetime(2026, 1, 2, 1, 4, tzinfo=UTC)),
    ],
)
def test_a_time_is_absolute_or_ago(text, moment):
    assert read_time(text, NOW) == moment
