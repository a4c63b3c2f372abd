"""Every installed environment passes the suite that ships for all of them, check by check."""

import pytest

from ors_server.authoring.loading import installed_environments, load_environments
from ors_server.testing import ENVIRONMENT_CHECKS, check_environment


@pytest.mark.parametrize("check", ENVIRONMENT_CHECKS, ids=str)
@pytest.mark.parametrize("name", installed_environments())
def test_an_installed_environment_passes(name, check):
    for verdict in check_environment(name, only=[check.id], tasks_per_split=4).verdicts:
        assert verdict.outcome != "fail", verdict.reason


@pytest.mark.parametrize("name", installed_environments())
def test_an_installed_environment_says_what_earns_the_most_and_the_least(name):
    # Every episode starts a server of its own here; the environments' own tests play every task on one.
    needs_sandbox = any(definition.may_need_sandbox for definition in load_environments([name]))
    report = check_environment(
        name,
        only=["gold-earns-the-most", "blank-earns-the-least"],
        tasks_per_split=5 if needs_sandbox else 25,
    )
    assert [verdict.outcome for verdict in report.verdicts] == ["pass", "pass"], report
