"""A report in words: rows, failures, counts, Markdown, and the schema of its JSON."""

import json

import jsonschema

from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.policy import FIELDS, GOLD, JUDGE
from ors_server.audit.report import AuditFinding, LibraryReward
from ors_server.audit.report_schema import report_schema
from ors_server.audit.report_text import counts_line, detailed, failure_lines, reward_line, rows_of, text_of
from tests.unit.audit.made_reports import make_class, make_failure, make_report

CALL = ("submit", {"answer": "xViennax", "sure": True})


def test_waived_classes_come_first_and_each_row_says_why():
    report = make_report(
        make_class("H1"),
        make_failure("H3", CALL),
        make_class("H4", AuditVerdict.NOT_JUDGED, reason="no tool takes an answer"),
        make_failure("H12", is_waived=True, reason="as published (2026-11-22)"),
    )
    rows = rows_of(report)
    assert [(row.id, row.verdict, row.why) for row in rows] == [
        ("H12", "waived fail", "as published (2026-11-22)"),
        ("H1", "pass", ""),
        ("H3", "FAIL", "wrapped answers are paid"),
        ("H4", "not judged", "no tool takes an answer"),
    ]
    assert rows[1].title == HACK_CLASSES["H1"].title
    assert counts_line(report) == (
        "1 passed, 1 failed, 0 warned, 1 waived, 1 not judged (nothing to add for H4); 3 tasks, seed 7"
    )


def test_the_last_line_says_what_to_add_for_what_was_not_judged():
    report = make_report(
        make_class("H1"),
        make_class("H3", AuditVerdict.NOT_JUDGED, missing=GOLD),
        make_class("H4", AuditVerdict.NOT_JUDGED, missing=GOLD),
        make_class("H7", AuditVerdict.NOT_JUDGED, missing=JUDGE),
        make_class("H8", AuditVerdict.NOT_JUDGED),
        make_class("H9", AuditVerdict.NOT_JUDGED, missing=FIELDS, is_waived=True),
    )
    assert counts_line(report) == (
        "1 passed, 0 failed, 0 warned, 1 waived, 4 not judged (add gold_actions for H3, H4; "
        "add a judge (ORS_JUDGE_BASE_URL) for H7; nothing to add for H8); 3 tasks, seed 7"
    )


def test_a_finding_about_a_reward_of_the_library_names_it_and_its_hazards():
    hazard = LibraryReward(name="word_match_reward", hazards="it is paid for lists.", page="rewards.md")
    finding = AuditFinding(verdict=AuditVerdict.FAIL, variant="", message="m", rewards=("word_match_reward",))
    report = make_report(make_class("H4", AuditVerdict.FAIL, findings=(finding,))).model_copy(
        update={"rewards": (hazard,)}
    )
    line = "  judged by word_match_reward of this library; its hazards: it is paid for lists. See rewards.md"
    assert line in failure_lines(report, report.classes[0])
    assert "no documented hazard" in reward_line(hazard.model_copy(update={"hazards": ""}))


def test_a_failure_shows_the_calls_what_they_earn_and_the_remedy():
    report = make_report(make_failure("H3", CALL), make_failure("H4", CALL, cause="H3"))
    assert failure_lines(report, report.classes[0]) == [
        "H3 A fragment of the answer pays",
        "  what happened: wrapped answers are paid",
        "  task: test 4, seed 7",
        "  calls:",
        '    submit(answer="xViennax", sure=true)',
        "  earned: 1, the gold actions earn: 1",
        f"  how to close it: {HACK_CLASSES['H3'].remedy}",
        "  also: H4 (the same calls)",
    ]
    assert [one.id for one in detailed(report)] == ["H3"]
    assert text_of(report).startswith("the audit of quiz failed: H3, H4\n\nH3 A fragment")


def test_a_failure_whose_cause_is_waived_is_shown_itself():
    report = make_report(make_failure("H3", is_waived=True), make_failure("H4", cause="H3"))
    assert [one.id for one in detailed(report)] == ["H4"]


def test_a_finding_in_the_source_names_the_line():
    finding = AuditFinding(verdict=AuditVerdict.FAIL, variant="", message="eval", file="quiz.py", line=12)
    report = make_report(make_failure("H16", findings=(finding,)), make_failure("H17", findings=()))
    assert "  source: quiz.py:12" in failure_lines(report, report.classes[0])
    assert len(failure_lines(report, report.classes[1])) == 2


def test_long_arguments_and_many_calls_are_cut():
    failure = make_failure("H5", *[("note", {"text": "a" * 1000})] * 15)
    lines = failure_lines(make_report(failure, gold_return=2.0), failure)
    assert lines[4].endswith("a... (842 more characters))")
    assert "    ... 3 more calls" in lines
    assert "  earned: 1, compared with: 1, the gold actions earn: 2" in lines


def test_no_calls_are_said_to_be_none():
    failure = make_failure("H1")
    assert "  calls: none" in failure_lines(make_report(failure, gold_return=None), failure)


def test_the_schema_describes_the_report():
    schema = json.loads(report_schema())
    report = make_report(make_failure("H3", CALL), make_class("H1"))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert (
        list(jsonschema.Draft202012Validator(schema).iter_errors(json.loads(report.model_dump_json()))) == []
    )
