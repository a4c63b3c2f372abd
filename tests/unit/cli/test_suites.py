"""Suites: several environments and agents in one `eval`, resumed, reported, compared."""

import json
import re
import shutil

import pytest

from ors_server.cli.main import main

QUICK = ["--limit", "3", "--store", "memory"]


@pytest.fixture
def suite(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    words = ["eval", "qa", "math_word_problems", "--agent", "oracle", "--agent", "noop", *QUICK]
    assert main([*words, "--output", "s", "--report", "page.html"]) == 0
    return capfd.readouterr().out


def test_each_agent_plays_each_environment_and_a_table_ends_it(suite):
    lines = [re.split(r"  +", line.strip()) for line in suite.splitlines()]
    assert lines[0] == ["agent", "qa", "math_word_problems"]
    assert lines[1][:2] == ["oracle", "1"]
    assert lines[2][:2] == ["noop", "0"]
    assert suite.splitlines()[-2:] == ["suite in s", "report in page.html"]


def test_the_page_of_a_suite_has_a_row_for_each_run(suite, tmp_path):
    page = (tmp_path / "page.html").read_text()
    for name in ("qa", "math_word_problems", "oracle", "noop"):
        assert re.search(rf"<td[^>]*>{name}</td>", page), name


def test_what_ended_is_not_repeated_and_what_is_missing_is_played(suite, tmp_path, capfd):
    kept = tmp_path / "s" / "qa-oracle" / "attempts.jsonl"
    before = kept.read_bytes()
    shutil.rmtree(tmp_path / "s" / "qa-noop")
    (tmp_path / "page.html").unlink()
    assert main(["eval", "--resume", "s", "--store", "memory"]) == 0
    assert kept.read_bytes() == before
    attempts = (tmp_path / "s" / "qa-noop" / "attempts.jsonl").read_text().splitlines()
    assert len(attempts) == 3
    assert (tmp_path / "page.html").exists()
    assert f"report in {tmp_path / 'page.html'}" in capfd.readouterr().out


def test_json_has_every_run(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    words = ["eval", "qa", "--agent", "oracle", "--agent", "noop", *QUICK, "--output", "s", "--json"]
    assert main(words) == 0
    stated = json.loads(capfd.readouterr().out)
    assert stated["suite"] == "s"
    assert [run["folder"] for run in stated["runs"]] == ["s/qa-oracle", "s/qa-noop"]
    assert [run["summary"]["overall"]["reward"]["value"] for run in stated["runs"]] == [1.0, 0.0]


def test_a_report_takes_the_folder_of_a_suite_or_runs_of_any_agents(suite, capfd):
    assert main(["report", "s"]) == 0
    whole = capfd.readouterr().out
    assert main(["report", "s/qa-oracle", "s/qa-noop", "--html", "two.html"]) == 0
    two = capfd.readouterr().out
    assert {line.split()[0] for line in whole.splitlines()[:3]} == {"agent", "oracle", "noop"}
    assert "math_word_problems" not in two
    assert two.splitlines()[-1] == "report in two.html"
    assert main(["report", "s", "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)) == 4


def test_runs_are_compared_with_the_first_one_a_line_each(suite, capfd):
    assert main(["compare", "s/qa-noop", "s/qa-oracle", "s/qa-noop"]) == 0
    lines = [re.split(r"  +", line.strip()) for line in capfd.readouterr().out.splitlines()]
    assert lines[0] == [
        "run",
        "tasks",
        "first",
        "this",
        "difference",
        "interval",
        "sign flips",
        "better",
        "worse",
    ]
    assert [line[1:5] for line in lines[1:]] == [["3", "0", "1", "+1"], ["3", "0", "0", "0"]]
    assert main(["compare", "s/qa-noop", "s/qa-oracle", "s/qa-noop", "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)) == 2


def test_a_page_of_one_run_is_written_again_when_the_run_is_resumed(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    words = ["eval", "qa", "--agent", "oracle", *QUICK, "--output", "one", "--html", "page.html"]
    assert main(words) == 0
    (tmp_path / "page.html").unlink()
    assert main(["eval", "--resume", "one", "--store", "memory"]) == 0
    assert (tmp_path / "page.html").exists()
    capfd.readouterr()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["eval", "qa", "--agent", "oracle", "--agent", "noop", "--output", "s"], "s holds a suite already"),
        (
            ["eval", "qa", "--agent", "oracle", "--resume", "s"],
            "resumed with the targets and agents of its start",
        ),
        (
            ["eval", "--resume", "s/qa-oracle", "--agent", "noop", "--agent", "oracle"],
            "one run is resumed at a time",
        ),
        (
            ["compare", "s/qa-noop", "s/math_word_problems-noop"],
            "only runs of one environment can be compared, got qa and math_word_problems",
        ),
        (["compare", "s/qa-noop", "s/qa-oracle", "s/qa-noop", "--html", "x.html"], "--html shows two runs"),
    ],
)
def test_mistakes_say_what_to_do(suite, capfd, words, message):
    assert main(words) == 2
    assert message in capfd.readouterr().err


def test_every_run_of_a_suite_is_checked_before_the_first_is_played(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "qa", "nosuchenv", "--agent", "noop", *QUICK, "--output", "s"]) == 2
    assert "nosuchenv" in capfd.readouterr().err
    assert not (tmp_path / "s").exists()


def test_a_damaged_run_is_named(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text('{"a":')
    assert main(["report", "broken"]) == 2
    assert "broken/run.json" in capfd.readouterr().err
