"""The checks of records and of isolation: what they demand, and of which environments."""

from types import MappingProxyType

import pytest

from ors_server.conformance.expectations import NotApplicableError, NotMetError
from ors_server.environments.loading import define
from ors_server.sandboxes.isolation_report import IsolatedResource, IsolationReport, Strength
from ors_server.sessions.session_services import Sandboxes
from ors_server.testing import check_environment
from ors_server.testing import environment_checks as records
from ors_server.testing.environment_subject import EnvironmentSubject

RECORDS = ("steps-are-recorded", "steps-are-counted", "rewards-are-itemised", "reward-parts-are-known")
ISOLATION = (records.network_is_closed, records.host_is_out_of_reach, records.resources_are_bounded)


@pytest.fixture
def with_shell(good):
    return define(type("WithShell", (good,), {"toolsets": ("bash",)}))


def subject_of(definition, *isolated):
    means = MappingProxyType(dict.fromkeys(isolated, "a test"))
    sandboxes = Sandboxes(report=IsolationReport("made up", Strength.PARTIAL, means))
    return EnvironmentSubject(definition, 1, sandboxes=sandboxes)


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_right_also_where_calls_fail_or_are_refused(environments, name):
    for kind in (environments.Good, environments.Fragile, environments.Bare):
        (verdict,) = check_environment(kind, only=[name]).verdicts
        assert verdict.outcome == "pass", verdict


async def test_a_part_that_the_policy_does_not_list_is_named(good, monkeypatch):
    monkeypatch.setattr(records, "TOOL_COMPONENT", "another")
    with pytest.raises(NotMetError, match=r"pays \['tool'\]; the policy lists \['another', 'withheld'\]"):
        await records.reward_parts_are_known.run(EnvironmentSubject(define(good), 1))


@pytest.mark.parametrize("check", ISOLATION, ids=str)
async def test_without_a_sandbox_no_command_runs_that_would_need_isolation(good, check):
    subject = EnvironmentSubject(define(good), 1)
    await check.run(subject)
    assert subject.sessions_created == 0


@pytest.mark.parametrize("check", ISOLATION, ids=str)
async def test_a_sandbox_that_isolates_everything_passes(with_shell, check):
    subject = subject_of(with_shell, *IsolatedResource)
    await check.run(subject)
    assert subject.sessions_created == 0


@pytest.mark.parametrize(
    ("check", "named"),
    list(zip(ISOLATION, ["network", "files, sessions, processes", "memory, pids, disk"], strict=True)),
)
async def test_a_sandbox_that_isolates_nothing_is_named_with_what_is_open(with_shell, check, named):
    with pytest.raises(NotMetError, match=f"the sandbox backend 'made up' does not isolate {named}$"):
        await check.run(subject_of(with_shell))


@pytest.mark.parametrize("check", ISOLATION, ids=str)
async def test_where_no_sandbox_works_there_is_nothing_to_judge(with_shell, check):
    with pytest.raises(NotApplicableError, match="no sandbox here: nothing works"):
        await check.run(EnvironmentSubject(with_shell, 1, sandboxes=Sandboxes(refusal="nothing works")))
