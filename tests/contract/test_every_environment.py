"""Every installed environment passes the suite that ships for all of them, check by check."""

import pytest

from ors_server.authoring.loading import installed_environments, load_environments
from ors_server.testing import ENVIRONMENT_CHECKS, check_environment

QUICK = [name for name in installed_environments() if not load_environments([name])[0].may_need_sandbox]
"""Each episode of the others starts a sandbox; tests of their own play every task."""


@pytest.mark.parametrize("check", ENVIRONMENT_CHECKS, ids=str)
@pytest.mark.parametrize("name", installed_environments())
def test_an_installed_environment_passes(name, check):
    tasks = 4 if name in QUICK else 1
    for verdict in check_environment(name, only=[check.id], tasks_per_split=tasks).verdicts:
        assert verdict.outcome != "fail", verdict.reason


@pytest.mark.parametrize("name", QUICK)
def test_an_installed_environment_says_what_earns_the_most_and_the_least(name):
    report = check_environment(
        name,
        only=["gold-earns-the-most", "blank-earns-the-least"],
        tasks_per_split=25,
    )
    assert [verdict.outcome for verdict in report.verdicts] == ["pass", "pass"], report
