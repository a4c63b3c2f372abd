"""OpenEnv's 22 acceptance tests of what can be played: each is answered by something that exists."""

import pytest

from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.openenv import OPENENV_CHECKS, check_for_openenv, openenv_rows
from ors_server.audit.report import AuditFinding, AuditReport, ClassReport
from ors_server.testing import ENVIRONMENT_CHECKS
from tests.fixtures.audited.development_answers import MisprintedGolds
from tests.fixtures.audited.questions import Questions

NUMBERS = {11, *range(18, 26), *range(28, 38), 39, 40, 44}
"""The tests of the levels 2 and 3, by their numbers in OpenEnv's issue 778."""
REQUIREMENTS = {check.id for check in ENVIRONMENT_CHECKS}
NEEDED = {name for row in OPENENV_CHECKS.values() for name in row.answers} - set(HACK_CLASSES)


def report_of(**verdicts):
    """Makes a report in which every class passed but those that are named."""
    classes = {name: ClassReport(id=name, verdict=AuditVerdict.PASS) for name in HACK_CLASSES}
    for name, verdict in verdicts.items():
        finding = AuditFinding(verdict=verdict, variant="a policy", message=f"{name} is open")
        is_judged = verdict is not AuditVerdict.NOT_JUDGED
        classes[name] = ClassReport(
            id=name, verdict=verdict, reason="no gold", findings=(finding,) if is_judged else ()
        )
    return AuditReport(
        environment="quiz",
        version="1",
        target="quiz.py",
        tasks=10,
        seed=0,
        gold_return=1.0,
        chance=0.0,
        classes=tuple(classes.values()),
    )


def rows_of(report, **changed):
    outcomes = dict.fromkeys(NEEDED, "pass") | {
        name.replace("_", "-"): outcome for name, outcome in changed.items()
    }
    return {row.name: row for row in openenv_rows(report, outcomes)}


def test_the_table_has_the_22_tests_of_the_levels_2_and_3():
    numbers = {row.number for row in OPENENV_CHECKS.values()} - {None}
    assert numbers == NUMBERS
    assert len(numbers) == 22
    assert {name for name, row in OPENENV_CHECKS.items() if row.number == 25} == {"oracle_max", "floor_gap"}
    assert {name for name, row in OPENENV_CHECKS.items() if row.number is None} == {"startup"}


@pytest.mark.parametrize("row", OPENENV_CHECKS.values(), ids=lambda row: row.name)
def test_every_check_is_answered_by_something_that_exists_or_names_what_is_missing(row):
    assert set(row.answers) <= set(HACK_CLASSES) | REQUIREMENTS
    assert row.answers or row.missing
    assert row.meaning.endswith(".")


def test_an_environment_in_which_all_is_well_passes_what_can_be_judged():
    rows = rows_of(report_of())
    left = {name for name, row in rows.items() if row.verdict is not AuditVerdict.PASS}
    assert left == set()
    assert rows["oracle_max"].answered_by == ("H18", "gold-earns-the-most")
    assert rows["oracle_max"].message == ""


def test_a_failed_class_fails_the_checks_that_it_answers_with_its_message():
    rows = rows_of(report_of(H18=AuditVerdict.FAIL, H21=AuditVerdict.WARN))
    assert (rows["oracle_max"].verdict, rows["oracle_max"].message) == (AuditVerdict.FAIL, "H18: H18 is open")
    assert (rows["canary_floor"].verdict, rows["canary_floor"].message) == (
        AuditVerdict.WARN,
        "H21: H21 is open",
    )
    assert rows["floor_gap"].verdict is AuditVerdict.PASS


def test_a_requirement_can_make_a_check_worse_and_a_should_is_a_warning():
    rows = rows_of(report_of(), sessions_are_apart="fail", reward_range="warn")
    assert rows["episode_isolation"].verdict is AuditVerdict.FAIL
    assert rows["episode_isolation"].message == "sessions-are-apart failed"
    assert rows["reward_well_formed"].verdict is AuditVerdict.WARN


def test_a_check_whose_first_answer_was_not_judged_is_not_passed():
    rows = rows_of(report_of(H1=AuditVerdict.NOT_JUDGED), gold_earns_the_most="skip")
    assert rows["floor_gap"].verdict is AuditVerdict.NOT_JUDGED
    assert rows["floor_gap"].message == "H1: no gold"
    assert rows["oracle_max"].verdict is AuditVerdict.PASS
    assert rows["oracle_max"].message == "gold-earns-the-most had nothing to judge"


def test_what_was_not_run_is_not_judged():
    (seed,) = [row for row in openenv_rows(report_of(), {}) if row.name == "trajectory_record"]
    assert (seed.verdict, seed.answered_by) == (AuditVerdict.NOT_JUDGED, ())
    assert seed.message == "steps-are-recorded was not judged"


def test_a_waived_class_is_a_warning_that_names_the_reason():
    report = report_of(H9=AuditVerdict.FAIL)
    waived = tuple(
        one.model_copy(update={"is_waived": True, "reason": "an open book"}) if one.id == "H9" else one
        for one in report.classes
    )
    row = rows_of(report.model_copy(update={"classes": waived}))["no_solution_leakage"]
    assert (row.verdict, row.message) == (AuditVerdict.WARN, "H9 is waived: an open book")


async def test_the_requirements_of_an_honest_environment_are_met():
    found = await check_for_openenv(Questions)
    assert set(found) == NEEDED
    assert {name: outcome for name, outcome in found.items() if outcome not in {"pass", "skip"}} == {}
    assert found["steps-are-recorded"] == found["rewards-are-itemised"] == "pass"


async def test_the_requirements_of_a_flawed_environment_fail_where_it_is_flawed():
    found = await check_for_openenv(MisprintedGolds)
    assert found["gold-earns-the-most"] == "fail"
    row = rows_of(report_of(), gold_earns_the_most=found["gold-earns-the-most"])["oracle_max"]
    assert (row.verdict, row.message) == (AuditVerdict.FAIL, "gold-earns-the-most failed")
