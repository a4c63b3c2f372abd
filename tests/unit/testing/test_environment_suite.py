"""The suite for environments finds what is wrong, and says what."""

import anyio
import pytest

from ors_server.conformance.ors_manifest import Level
from ors_server.environments.loading import define
from ors_server.testing import ENVIRONMENT_CHECKS, CheckVerdict, check_environment, inspect_environment
from ors_server.testing.environment_subject import spread
from tests.fixtures.shared_dice import Dice


def test_an_environment_that_keeps_every_rule_passes_every_check(good):
    report = check_environment(good)
    assert [str(verdict) for verdict in report.verdicts if verdict.outcome != "pass"] == []
    assert len(report.verdicts) == len(ENVIRONMENT_CHECKS)
    assert report.is_conformant


def test_an_environment_that_breaks_a_rule_fails_the_check_of_it(broken, check):
    report = check_environment(broken, only=[check])
    (verdict,) = report.verdicts
    assert verdict.outcome == "fail", report
    assert verdict.reason
    assert report.is_conformant is (verdict.check.level is not Level.MUST)


def test_ids_are_unique_and_every_check_says_what_it_wants():
    ids = [check.id for check in ENVIRONMENT_CHECKS]
    assert len(ids) == len(set(ids))
    assert all(check.text for check in ENVIRONMENT_CHECKS)
    assert [str(check) for check in ENVIRONMENT_CHECKS] == ids


@pytest.mark.parametrize("check", ENVIRONMENT_CHECKS, ids=str)
def test_checks_can_be_run_one_by_one_from_an_author_s_tests(good, check):
    (verdict,) = check_environment(good, only=[check.id], tasks_per_split=1).verdicts
    assert verdict.outcome == "pass", verdict


def test_what_an_environment_does_not_declare_is_not_judged(environments):
    report = check_environment(environments.Bare)
    outcomes = {verdict.check.id: verdict.outcome for verdict in report.verdicts}
    skipped = {name for name, outcome in outcomes.items() if outcome == "skip"}
    assert skipped == {"prompt-keeps-answers", "gold-earns-the-most", "blank-earns-the-least", "end-is-final"}
    assert "fail" not in outcomes.values()


def test_gold_without_a_range_is_judged_by_what_else_earns(environments):
    (verdict,) = check_environment(environments.Unranged, only=["gold-earns-the-most"]).verdicts
    assert (verdict.outcome, verdict.reason) == ("pass", "")


def test_an_author_s_exception_in_gold_actions_is_a_failure_not_a_crash(environments):
    (verdict,) = check_environment(environments.Wild, only=["gold-earns-the-most"]).verdicts
    assert verdict.outcome == "fail"
    assert "KeyError" in verdict.reason


def test_verdicts_are_told_as_they_fall_and_definitions_are_taken_too(good):
    told: list[CheckVerdict] = []

    async def run():
        return await inspect_environment(define(good), only=["tasks-exist"], on_verdict=told.append)

    report = anyio.run(run)
    assert tuple(told) == report.verdicts


def test_a_reference_may_lead_to_several_environments():
    report = check_environment("tests/fixtures/refenv.py", only=["tasks-exist"])
    played = [verdict.environment for verdict in report.verdicts]
    assert played == ["refenv", "secondenv", "indexenv", "termenv"]


@pytest.mark.parametrize(
    ("size", "count", "positions"),
    [(0, 3, []), (1, 3, [0]), (3, 3, [0, 1, 2]), (100, 3, [0, 50, 99]), (100, 2, [0, 99]), (5, 1, [0])],
)
def test_tasks_are_sampled_from_the_first_to_the_last(size, count, positions):
    assert spread(size, count) == positions


def test_what_sessions_share_is_started_once_for_all_episodes(environments):
    made = Dice.made
    report = check_environment(environments.Sharing)
    assert [str(verdict) for verdict in report.verdicts if verdict.outcome == "fail"] == []
    assert 1 <= Dice.made - made <= 2  # two sessions are played side by side
    assert Dice.ended == Dice.made
