"""The audit of environments that make trouble: nothing hangs, and nothing is left behind."""

import json
import os
import tempfile

import anyio
import pytest

from ors_server.audit.audited_server import AuditError, open_audited
from ors_server.audit.auditing import AuditOptions, audit
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.plays import CallPlan
from ors_server.model.errors import OrsServerError
from ors_server.processes.host_processes import descendants
from tests.fixtures import troubled_environments as troubled
from tests.fixtures.audited.development_answers import Mentions
from tests.prepared_processes import PREPARED

SAY_TODO = CallPlan("test", 0, (("submit", {"answer": "TODO"}),))
SAY_IT = CallPlan("test", 1, (("submit", {"answer": "Brussels"}),))


def only(*classes, **options):
    return AuditOptions(tasks=6, only=frozenset(classes), **options)


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path, monkeypatch):
    """Looks at what the audit leaves: no process, and no file where temporary files are made."""
    (tmp_path / "made").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "made"))
    before = set(descendants(os.getpid()))
    yield
    assert set(descendants(os.getpid())) - PREPARED.pids() <= before
    assert list((tmp_path / "made").iterdir()) == []


@pytest.mark.parametrize("environment", [troubled.Holding, troubled.Ending])
async def test_a_process_that_hangs_or_ends_is_started_again(environment):
    async with open_audited(environment) as server:
        assert await server.play([SAY_TODO], 10.0) == {}
        assert server.suspects == {0}
        assert server.process is not None
        assert server.process.starts == 2
        played = await server.play([SAY_IT], 30.0)
    assert played[0].total == 1.0


@pytest.mark.parametrize(
    "environment", [troubled.Holding, pytest.param(troubled.Ending, marks=pytest.mark.stress)]
)
async def test_an_answer_that_hangs_or_ends_the_grader_is_named(environment, monkeypatch):
    monkeypatch.setattr("ors_server.audit.audit_context.BATCH_SECONDS", 12.0)
    monkeypatch.setattr("ors_server.audit.audit_context.ALONE_SECONDS", 8.0)
    report = await audit(environment, only("H2"))
    (found,) = report.classes
    assert found.id == "H2"
    assert found.verdict is AuditVerdict.PASS  # a hang pays nothing
    assert any("TODO" in note for note in report.notes)


async def test_an_environment_without_tasks_is_refused_in_one_line():
    with pytest.raises(AuditError, match=r"has no task to play"):
        await audit(troubled.Empty)


async def test_an_environment_that_does_not_load_is_refused_in_one_line(tmp_path):
    file = tmp_path / "broken.py"
    file.write_text("import nothing_of_this_name\n")
    with pytest.raises(OrsServerError, match="nothing_of_this_name") as raised:
        await audit(str(file))
    assert "\n" not in str(raised.value)


async def test_a_class_that_no_import_reaches_is_refused():
    class Local(Mentions):
        pass

    with pytest.raises(AuditError, match="top level"):
        await audit(Local)


async def test_gold_actions_that_raise_are_said_and_the_rest_goes_on():
    report = await audit(troubled.GoldFails, only("H2", "H18"))
    by_id = {one.id: one for one in report.classes}
    assert by_id["H18"].verdict is AuditVerdict.NOT_JUDGED
    assert any("KeyError" in note for note in report.notes)


async def test_what_an_environment_prints_is_no_answer():
    report = await audit(troubled.Talkative, only("H2", "H18"))
    assert [one.verdict for one in report.classes] == [AuditVerdict.PASS, AuditVerdict.PASS]


async def test_a_session_that_never_gets_ready_is_no_finding():
    report = await audit(troubled.SlowSetup, only("H1", "H2"))
    assert not report.failed


async def test_a_budget_that_is_over_leaves_the_rest_unjudged():
    report = await audit(Mentions, only("H2", "H4", budget=0.0))
    assert {one.verdict for one in report.classes} == {AuditVerdict.NOT_JUDGED}
    assert "time" in report.classes[0].reason


@pytest.mark.parametrize(
    "classes",
    [
        pytest.param(frozenset({"H2", "H3", "H13", "H17", "H18", "H20"}), id="some classes"),
        pytest.param(frozenset(), id="all classes", marks=pytest.mark.stress),
    ],
)
async def test_the_same_audit_twice_is_the_same_json(classes):
    options = AuditOptions(tasks=6, seed=3, only=classes)
    first, second = [await audit(Mentions, options) for _ in range(2)]
    assert first.model_dump_json() == second.model_dump_json()
    assert json.loads(first.model_dump_json())["environment"] == "mentions"


async def test_a_server_elsewhere_that_never_answers_is_given_up(serve_live, monkeypatch):
    monkeypatch.setattr("ors_server.audit.audited_server.PLAY_SECONDS", 0.5)
    with pytest.raises(OrsServerError, match=r"the server answered no play within 0.5 seconds"):
        with anyio.fail_after(120):
            await audit(serve_live(troubled.Silent).url)
