"""Every installed environment passes the suite that ships for all of them, check by check."""

from functools import cache

import pytest

from ors_server.environments.loading import installed_environments, load_environments
from ors_server.testing import ENVIRONMENT_CHECKS, check_environment
from ors_server.testing.environment_suite import CheckVerdict
from tests.fixtures.ordinary_cases import leave_to_stress

SANDBOXED = ("code", "shell")
SLOW_START = ("alfworld", "scienceworld")
QUICK = [name for name in installed_environments() if name not in SANDBOXED + SLOW_START]
"""Each episode of the others starts a sandbox or another program; tests of their own play every task. `make
stress` checks the slowest ones."""
PLAYED_WHOLE = ("math_word_problems", "qa", "webshop")
"""Quick ones of which other tests play the gold actions of a whole split (`test_math_word_problems.py`,
`test_qa.py`) or of two catalogues (`tests/unit/tasks/webshop/test_purchases.py`)."""

pytestmark = pytest.mark.timeout(300)  # the first test of an environment makes all its checks


@cache
def verdicts(name: str) -> tuple[CheckVerdict, ...]:
    """Checks an environment once: starting its server and its sandboxes takes longer than most checks."""
    return check_environment(name, tasks_per_split=4 if name in QUICK else 1).verdicts


@pytest.mark.parametrize("name", installed_environments())
def test_an_installed_environment_needs_a_sandbox_or_is_checked_on_more_tasks(name):
    assert load_environments([name])[0].may_need_sandbox == (name in SANDBOXED)


@pytest.mark.parametrize("check", ENVIRONMENT_CHECKS, ids=str)
@pytest.mark.parametrize(
    "name",
    leave_to_stress(installed_environments(), lambda name: name not in SLOW_START),
)
def test_an_installed_environment_passes(name, check):
    found = [verdict for verdict in verdicts(name) if verdict.check is check]
    assert found, "the check was not made"
    for verdict in found:
        assert verdict.outcome != "fail", verdict.reason


@pytest.mark.parametrize("name", leave_to_stress(QUICK, lambda name: name not in PLAYED_WHOLE))
def test_an_installed_environment_says_what_earns_the_most_and_the_least(name):
    report = check_environment(
        name,
        only=["gold-earns-the-most", "blank-earns-the-least"],
        tasks_per_split=25,
    )
    assert [verdict.outcome for verdict in report.verdicts] == ["pass", "pass"], report
