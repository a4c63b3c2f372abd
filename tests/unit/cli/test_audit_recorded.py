"""`audit --episodes`: what it prints, and its status."""

import json

import pytest
import typer

from ors_server.cli.audit_recorded import RecordedAuditOptions, run_recorded_audit
from ors_server.cli.exit_status import ExitStatus
from tests.fixtures.trained_quiz import QUIZ, record_quiz


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    where = str(tmp_path_factory.mktemp("record") / "episodes.db")
    record_quiz(where, seed=8, episodes=120, share=0.3)
    return where


def test_findings_are_a_table_and_the_status_is_1(record, capsys):
    options = RecordedAuditOptions(store=record)
    assert run_recorded_audit(options, environment=QUIZ) is ExitStatus.FAILED
    out = capsys.readouterr().out
    assert out.startswith("town_quiz: 120 episodes of 20 tasks, ")
    rows = [line.split()[:4] for line in out.splitlines()]
    assert ["fail", "judge", "words", "H7"] in rows
    assert ["fail", "missing", "tools", "H9"] in rows
    assert "ors-server episodes show " in out
    assert "not judged, town_quiz: the rewards report no components: component dominates" in out


def test_json_is_the_report(record, capsys):
    options = RecordedAuditOptions(store=record)
    assert run_recorded_audit(options, seed=4, json=True) is ExitStatus.FAILED
    report = json.loads(capsys.readouterr().out)
    assert report["seed"] == 4
    assert {one["kind"] for one in report["findings"]} >= {"judge_words"}
    assert report["findings"][0]["verdict"] == "fail"


def test_an_environment_that_is_not_here_is_judged_without_its_gold_actions(record, capsys):
    run_recorded_audit(RecordedAuditOptions(store=record), environment="town_quiz")
    captured = capsys.readouterr()
    assert "town_quiz is not installed here: its gold actions are not used" in captured.err
    assert captured.out.startswith("town_quiz: 120 episodes")


def test_filters_select_and_no_episode_is_no_failure(record, capsys):
    options = RecordedAuditOptions(store=record, filters={"label": ["run=none"]})
    assert run_recorded_audit(options) is ExitStatus.SUCCESS
    assert capsys.readouterr().out == "no episodes\n"
    lost = RecordedAuditOptions(store=record, filters={"max_return": 0.5})
    assert run_recorded_audit(lost) is ExitStatus.SUCCESS
    assert "0 winning" in capsys.readouterr().out


def test_a_wrong_filter_and_two_records_are_refused(record):
    with pytest.raises(typer.BadParameter, match="KEY=VALUE"):
        run_recorded_audit(RecordedAuditOptions(store=record, filters={"label": ["x"]}))
    with pytest.raises(typer.BadParameter, match="one record"):
        run_recorded_audit(RecordedAuditOptions(store=record, source="episodes.jsonl"))
