"""The audit of environments whose resources break, and of one that needs a network."""

import pytest

from ors_server.audit.auditing import AuditOptions, audit
from ors_server.audit.judgement import AuditVerdict
from tests.fixtures import resource_environments as resources

FAULTS = AuditOptions(tasks=6, only=frozenset({"H11"}))


@pytest.mark.parametrize(
    ("environment", "kinds"),
    [(resources.Lenient, {"lost", "too slow"}), (resources.Truthy, {"garbled"})],
    ids=lambda given: getattr(given, "name", ""),
)
async def test_a_lost_resource_that_pays_is_found(environment, kinds):
    (found,) = (await audit(environment, FAULTS)).classes
    assert found.verdict is AuditVerdict.FAIL
    assert {one.message for one in found.findings} == {
        f"submit earns 1 though the resource was {kind}" for kind in kinds
    }
    assert found.findings[0].transcript is not None
    assert len(found.findings[0].transcript.calls) == 1


async def test_a_lost_resource_that_is_an_error_is_no_hole():
    (found,) = (await audit(resources.Compared, FAULTS)).classes
    assert (found.verdict, found.findings) == (AuditVerdict.PASS, ())


async def test_a_reward_that_needs_a_network_to_be_right_differs_without_one():
    (found,) = (await audit(resources.Downloading, AuditOptions(tasks=4, only=frozenset({"H17"})))).classes
    assert found.verdict is AuditVerdict.FAIL
    message = "the same calls earn 1, and 0.5 played in a process without a network"
    assert found.findings[0].message == message
