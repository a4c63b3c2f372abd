"""The audit of graders that read: careless ones fail as such, careful ones pass every class."""

import pytest

from ors_server.audit.auditing import AuditOptions, audit
from ors_server.testing.local_client import open_environment
from tests.fixtures.audited import reading, reading_again

FLAWED = reading.FLAWED + reading_again.FLAWED
HONEST = reading.HONEST + reading_again.HONEST


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


@pytest.mark.parametrize("environment", [one for one, _ in FLAWED], ids=lambda one: one.name)
async def test_a_careless_reader_fails_as_such(environment):
    report = await audit(environment, AuditOptions(only=frozenset({"H23"})))
    assert [one.id for one in report.failed] == ["H23"]


@pytest.mark.parametrize("environment", HONEST, ids=lambda one: one.name)
async def test_a_careful_reader_pays_the_gold_and_passes(environment):
    assert await returns(environment, environment.gold_actions) == [1.0] * 6
    report = await audit(environment)
    assert [(one.id, one.findings) for one in [*report.failed, *report.warned]] == []
