"""The audit of graders that read: careless ones fail as such, careful ones pass.

An ordinary run audits every third of the first ten of both in the class of careless reading; `make stress`
audits all of them, the careful ones in every class. An ordinary run of `test_audit.py` audits an honest
environment in every class.
"""

import pytest

from ors_server.audit.auditing import AuditOptions, audit
from ors_server.audit.judgement import AuditVerdict
from ors_server.testing.local_client import open_environment
from tests.fixtures.audited import reading, reading_again
from tests.fixtures.ordinary_cases import leave_to_stress

FLAWED = reading.FLAWED + reading_again.FLAWED
HONEST = reading.HONEST + reading_again.HONEST
READING = AuditOptions(only=frozenset({"H23"}))
ON_FEW_TASKS = AuditOptions(only=READING.only, tasks=10)
"""For careless ones, which ten of their thirty tasks give away."""
FEW = [*[environment for environment, _ in reading.FLAWED][::3], *reading.HONEST[::3]]
"""Those that an ordinary run audits in the class of careless reading."""


async def returns(environment, answer_of):
    """The returns of an answer to the first tasks."""
    earned = []
    async with open_environment(environment) as client:
        for index, task in enumerate(environment.list_tasks("test")[:6]):
            session = await client.create(split="test", index=index)
            for name, arguments in answer_of(task):
                await session.submit(name, arguments)
            earned.append((await session.summary()).episode_return)
            await session.aclose()
    return earned


@pytest.mark.parametrize(("environment", "answer_of"), FLAWED, ids=lambda given: getattr(given, "name", ""))
async def test_a_careless_reader_can_be_farmed(environment, answer_of):
    farmed = await returns(environment, lambda task: [("submit", {"answer": answer_of(task)})])
    assert farmed == await returns(environment, environment.gold_actions) == [1.0] * 6


@pytest.mark.parametrize(
    "environment", leave_to_stress((one for one, _ in FLAWED), FEW.__contains__), ids=lambda one: one.name
)
async def test_a_careless_reader_fails_as_such(environment):
    report = await audit(environment, ON_FEW_TASKS)
    assert [one.id for one in report.failed] == ["H23"]


@pytest.mark.parametrize("environment", HONEST, ids=lambda reader: reader.name)
async def test_a_careful_reader_pays_the_gold(environment):
    assert await returns(environment, environment.gold_actions) == [1.0] * 6


@pytest.mark.parametrize(
    "environment", leave_to_stress(HONEST, FEW.__contains__), ids=lambda reader: reader.name
)
async def test_a_careful_reader_passes_as_such(environment):
    report = await audit(environment, READING)
    assert [(one.id, one.verdict, one.findings) for one in report.classes] == [("H23", AuditVerdict.PASS, ())]


@pytest.mark.stress
@pytest.mark.parametrize("environment", HONEST, ids=lambda reader: reader.name)
async def test_a_careful_reader_passes_every_class(environment):
    report = await audit(environment)
    assert [(one.id, one.findings) for one in [*report.failed, *report.warned]] == []
