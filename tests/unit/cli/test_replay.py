"""`replay`, as a person or a script uses it."""

import io
import json
from types import SimpleNamespace

import pytest

from tests.unit.cli.recording import write_record

FAIR = ["roll", "roll", ("guess", {"answer": "0"})]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder in which records are written and commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_episodes_of_a_store_replay_identically(run, here):
    write_record(here, [FAIR, FAIR], in_store=True)
    ran = run("replay", "--store", "episodes.db", "--all", "--environment", "dice.py")
    lines = ran.out.splitlines()
    assert (ran.status, ran.err) == (0, "")
    assert lines[-1] == "2 episodes: 2 identical"
    assert lines[0].endswith("(dice, train 0): identical: 3 of 3 steps are the same")


def test_a_difference_is_shown_and_the_status_tells(run, here):
    write_record(here, [["roll", "cheat"], FAIR])
    ran = run("replay", "--from", "episodes.jsonl", "--all", "--environment", "dice.py")
    assert ran.status == 1
    lines = ran.out.splitlines()
    assert lines[0].endswith("(dice, train 0): different: 1 of 2 steps are the same, 1 different")
    shown = lines[lines.index("  step 2, cheat {}: different") :][:4]
    assert shown[1] == "    blocks"
    assert shown[2].startswith("      - \\x1b[31mA ")
    assert shown[3].startswith("      + \\x1b[31mA ")
    assert lines[-1] == "2 episodes: 1 different, 1 identical"


def test_with_json_there_is_one_object_per_episode(run, here):
    sessions = write_record(here, [FAIR, ["cheat"]])
    ran = run("replay", "--from", "episodes.jsonl", "--all", "--environment", "dice.py", "--json")
    assert ran.status == 1
    first, second = map(json.loads, ran.out.splitlines())
    assert (first["session_id"], first["verdict"], first["steps"]) == (sessions[0], "identical", [])
    assert (second["verdict"], second["counts"]["different"]) == ("different", 1)
    assert second["steps"][0]["differences"][0]["field"] == "blocks"


def test_a_pattern_of_what_may_differ_can_be_given(run, here):
    write_record(here, [["cheat"]])
    words = ("replay", "--from", "episodes.jsonl", "--all", "--environment", "dice.py", "--volatile")
    assert run(*words, r"A \d+").status == 0
    broken = run(*words, "a*")
    assert (broken.status, "matches the empty text" in broken.err) == (2, True)


def test_episodes_are_named_or_chosen(run, here):
    sessions = write_record(here, [FAIR, FAIR, FAIR], in_store=True, labels={"run": "7"})
    words = ("replay", "--store", "episodes.db", "--environment", "dice.py")
    assert "1 episode: 1 identical" in run(*words, sessions[1]).out
    assert "1 episode: 1 identical" in run(*words, "--index", "2").out
    assert "3 episodes: 3 identical" in run(*words, "--label", "run=7", "--since", "1h").out
    assert run(*words, "--label", "run=8").out == "no episodes\n"
    assert "2 episodes: 2 identical" in run(*words, "--environment-name", "dice", "--max-return", "0").out


def test_a_file_comes_through_a_pipe(run, here, monkeypatch):
    write_record(here, [FAIR])
    monkeypatch.setattr(
        "sys.stdin", SimpleNamespace(buffer=io.BytesIO((here / "episodes.jsonl").read_bytes()))
    )
    assert "1 episode: 1 identical" in run("replay", "--from", "-", "--all", "--environment", "dice.py").out


def test_secrets_come_out_of_the_environment(run, here, monkeypatch):
    write_record(here, [["open"]], secrets={"door": "sesame"})
    assert b"sesame" in (here / "episodes.jsonl").read_bytes()  # the environment told it
    words = ("replay", "--from", "episodes.jsonl", "--all", "--environment", "dice.py")
    assert run(*words).status == 1
    monkeypatch.setenv("DOOR", "sesame")
    assert run(*words, "--secret", "door=env:DOOR").status == 0


@pytest.mark.parametrize(
    "secret", ["door=sesame", "door", "=env:DOOR", "door=env:", "door=env:NO_SUCH_VARIABLE"]
)
def test_a_secret_never_stands_on_the_line(run, here, secret):
    write_record(here, [])
    ran = run("replay", "--from", "episodes.jsonl", "--all", "--secret", secret)
    assert ran.status == 2
    assert "sesame" not in ran.err


def test_it_replays_at_a_server(run, here, serve):
    write_record(here, [FAIR, ["cheat"]])
    server = serve(str(here / "dice.py"))
    ran = run("replay", "--from", "episodes.jsonl", "--all", "--against", server.ready["url"])
    assert ran.status == 1
    assert ran.out.splitlines()[-1] == "2 episodes: 1 different, 1 identical"


def test_a_record_chooses_no_module_to_import(run, here, monkeypatch):
    """Also where a module of the environment's name could be imported."""
    monkeypatch.syspath_prepend(here)
    write_record(here, [FAIR])
    ran = run("replay", "--from", "episodes.jsonl", "--all")
    assert ran.status == 1
    assert "got 'dice'; give the environment" in ran.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--from", "episodes.jsonl"], "say which episodes"),
        (["--from", "nosuch.jsonl", "--all"], "does not exist: nosuch.jsonl"),
        (["--from", "episodes.jsonl", "--store", "episodes.db", "--all"], "give one record"),
        (["--all"], "a record in memory"),
        (["--from", "episodes.jsonl", "--label", "run"], "--label must be KEY=VALUE"),
        (["--from", "episodes.jsonl", "--since", "soon"], "a time must be ISO 8601"),
        (["--from", "episodes.jsonl", "--all", "--against", "here"], "--against must be a server's URL"),
    ],
    ids=["none", "no file", "two records", "memory", "label", "time", "no URL"],
)
def test_a_line_that_makes_no_sense_has_the_status_2(run, here, words, complaint):
    write_record(here, [])
    ran = run("replay", *words)
    assert ran.status == 2
    assert complaint in ran.err


def test_an_episode_that_is_not_on_record_is_an_error(run, here):
    write_record(here, [], in_store=True)
    assert "no episode" in run("replay", "--store", "episodes.db", "123456").err
    assert "no episode '123456' is in the file" in run("replay", "--from", "episodes.jsonl", "123456").err
