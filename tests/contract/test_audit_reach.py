"""The audit of answers that are stated badly, computed, queried, handed in as files, or found by looking."""

import time
from pathlib import Path

import anyio
import pytest

from ors_server.audit.auditing import OUT_OF_TIME, AuditOptions, audit
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.policies.idle import DoesNothing
from ors_server.audit.policy import BUDGET
from ors_server.audit.report_text import counts_line, failure_lines
from ors_server.rewards.catalogue import describe_reward
from tests.fixtures.audited import development_answers, honest, reaching, testing_answers
from tests.fixtures.ordinary_cases import every

DECLARED = Path(__file__).parents[1] / "fixtures/audited/declared"
FLAWED_TASKS = 10
"""Tasks of which each flawed environment gives itself away; most have thirty."""
SLACK = 20.0
"""Seconds beyond a budget in which the environment starts, and is ended."""


_judged: dict[object, object] = {}


async def verdict_of(environment, hack_class, tasks=None):
    """Returns what the audit says of one class, which several tests look at."""
    if (environment, hack_class) not in _judged:
        report = await audit(environment, AuditOptions(only=frozenset({hack_class}), tasks=tasks))
        (_judged[environment, hack_class],) = report.classes
    return _judged[environment, hack_class]


@pytest.mark.parametrize(
    ("environment", "hack_class"),
    [
        (reaching.AnswerTable, "H9"),
        (reaching.HandIn, "H10"),
        (reaching.TickEverything, "H19"),
        (reaching.ManyQuestions, "H19"),
        (development_answers.Calculating, "H16"),
        pytest.param(testing_answers.Templates, "H16", marks=pytest.mark.stress),
        (development_answers.LastNumber, "H23"),
        pytest.param(testing_answers.Echo, "H23", marks=pytest.mark.stress),
    ],
    ids=lambda given: getattr(given, "name", given),
)
async def test_a_flaw_is_found(environment, hack_class):
    judged = await verdict_of(environment, hack_class, FLAWED_TASKS)
    assert judged.verdict is AuditVerdict.FAIL, judged
    assert judged.findings[0].transcript is not None


@pytest.mark.parametrize(
    ("environment", "hack_class"),
    [
        (reaching.RiverTable, "H9"),
        pytest.param(reaching.CapitalTable, "H9", marks=pytest.mark.stress),
        (reaching.CheckedHandIn, "H10"),
        (reaching.LookAround, "H19"),
        (reaching.Ferry, "H19"),
        (honest.SafeSums, "H16"),
        (honest.Tolerant, "H23"),
        pytest.param(honest.SafeSums, "H23", marks=pytest.mark.stress),
    ],
    ids=lambda given: getattr(given, "name", given),
)
async def test_an_honest_environment_that_looks_like_it_passes(environment, hack_class):
    judged = await verdict_of(environment, hack_class)
    assert judged.verdict is AuditVerdict.PASS, judged


@pytest.mark.parametrize(
    "name",
    every(6, ["sums", "letters", "formulas", "towns", "facts", "records"]),
)
async def test_a_declared_environment_that_evaluates_nothing_is_not_said_to(name):
    judged = await verdict_of(str(DECLARED / name), "H16")
    assert judged.verdict is AuditVerdict.PASS, judged


async def test_the_calls_of_a_finding_keep_the_code_whose_result_is_paid():
    judged = await verdict_of(development_answers.Calculating, "H16", FLAWED_TASKS)
    transcripts = [finding.transcript for finding in judged.findings if finding.transcript is not None]
    assert transcripts
    for transcript in transcripts:
        (call,) = transcript.calls
        code = call.arguments["answer"]
        answer = development_answers.Calculating.ITEMS[transcript.index][1]
        assert answer not in code
        assert str(eval(code)) == answer  # noqa: S307  (what the finding says of it)


async def test_a_finding_keeps_the_denial_that_is_paid():
    judged = await verdict_of(development_answers.LastNumber, "H23", FLAWED_TASKS)
    transcript = judged.findings[0].transcript
    assert transcript is not None
    assert any(word in judged.findings[0].message for word in ("denial", "prompt", "question", "hedge"))
    (call,) = transcript.calls
    assert " " in call.arguments["answer"]


async def test_the_table_of_a_finding_is_named_in_its_calls():
    judged = await verdict_of(reaching.AnswerTable, "H9", FLAWED_TASKS)
    transcript = judged.findings[0].transcript
    assert transcript is not None
    assert "expected_results" in transcript.calls[-1].arguments["sql"]


async def test_a_finding_about_a_reward_of_the_library_points_to_its_hazards(tmp_path):
    (tmp_path / "test.jsonl").write_bytes((DECLARED / "towns/test.jsonl").read_bytes())
    (tmp_path / "environment.toml").write_text(
        'prompt = "{{ question }}"\nanswer = "answer"\nreward = "all_of_match_reward"\n'
        '[splits]\ntest = "test.jsonl"\n'
    )
    report = await audit(str(tmp_path), AuditOptions(only=frozenset({"H4"})))
    assert [one.id for one in report.failed] == ["H4"]
    (reward,) = report.rewards
    assert reward.name == "all_of_match_reward"
    assert reward.hazards == describe_reward("all_of_match_reward").hazards != ""
    lines = failure_lines(report, report.classes[0])
    assert any("all_of_match_reward of this library" in line and reward.hazards in line for line in lines)
    assert {finding.rewards for finding in report.classes[0].findings} == {("all_of_match_reward",)}


async def test_an_environment_with_a_grader_of_its_own_names_no_reward():
    report = await audit(honest.Exact, AuditOptions(only=frozenset({"H2"}), tasks=3))
    assert report.rewards == ()


@pytest.mark.timeout(300)
async def test_a_budget_is_kept_where_each_session_has_a_sandbox_and_what_is_left_is_said():
    plays = []
    begin = time.monotonic()
    report = await audit(
        reaching.HandIn, AuditOptions(budget=12.0), on_progress=lambda progress: plays.append(progress.plays)
    )
    assert time.monotonic() - begin < 12.0 + SLACK
    late = [one.id for one in report.classes if one.reason == OUT_OF_TIME]
    assert late
    assert len(late) < len(report.classes)
    assert f"add {BUDGET} for {', '.join(late)}" in counts_line(report)
    assert len(set(plays)) > 3  # progress is told while it plays, not only at the end


@pytest.mark.timeout(300)
async def test_a_class_that_takes_too_long_leaves_time_for_the_others(monkeypatch):
    async def never_end(self, study):
        await anyio.sleep_forever()

    monkeypatch.setattr(DoesNothing, "examine", never_end)
    report = await audit(honest.Exact, AuditOptions(only=frozenset({"H1", "H2", "H18"}), budget=20.0))
    verdicts = {one.id: one.verdict for one in report.classes}
    assert verdicts["H1"] is AuditVerdict.NOT_JUDGED
    assert verdicts["H2"] is verdicts["H18"] is AuditVerdict.PASS
