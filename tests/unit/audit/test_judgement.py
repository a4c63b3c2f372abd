"""Thresholds of the audit, and which answers are chance."""

import pytest

from ors_server.audit.judgement import AuditVerdict, Scale, chance_of, judge_share


@pytest.mark.parametrize(
    ("share", "chance", "verdict"),
    [
        (0.0, 0.0, AuditVerdict.PASS),
        (0.24, 0.0, AuditVerdict.PASS),
        (0.25, 0.0, AuditVerdict.WARN),
        (0.49, 0.0, AuditVerdict.WARN),
        (0.5, 0.0, AuditVerdict.FAIL),
        (0.25, 0.25, AuditVerdict.PASS),
        (0.5, 0.25, AuditVerdict.FAIL),
        (0.5, 0.5, AuditVerdict.PASS),
        (0.6, 0.5, AuditVerdict.WARN),
        (0.7, 0.5, AuditVerdict.FAIL),
    ],
)
def test_a_share_is_judged_against_chance(share, chance, verdict):
    assert judge_share(share, chance) is verdict


def test_the_chance_of_a_guess():
    assert chance_of(None, 4, 4, 30) == 0.25
    assert chance_of(None, 0, 2, 30) == 0.5
    assert chance_of(None, 0, 30, 30) == 0.0
    assert chance_of(None, 0, 1, 30) == 0.0  # one answer to everything is a flaw, not chance
    assert chance_of(0.1, 4, 4, 30) == 0.1


def test_a_scale_needs_gold_actions_that_earn_something():
    assert Scale(0.0, 2.0).share(1.0) == 0.5
    assert Scale(-1.0, 1.0).share(0.0) == 0.5
    assert not Scale(1.0, 1.0).is_usable
