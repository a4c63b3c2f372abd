"""The audit of flawed environments and of honest ones, through the public function.

Every flaw of the development half is found in its own class, most of them by `make stress`; `python -m bench
audits` measures both halves with all classes.
"""

import json
import shlex
import sys
from pathlib import Path

import anyio
import pytest

from ors_server.audit.auditing import AuditOptions, audit
from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import AuditReport
from ors_server.testing.local_client import open_environment
from tests.fixtures.audited import exploits, honest
from tests.fixtures.audited.development_answers import Mentions
from tests.fixtures.ordinary_cases import every, leave_to_stress

ROOT = Path(__file__).parents[2]
FOUND = frozenset({"H3", "H9"})
"""Flaws that an ordinary run finds here. It finds those of all classes in the examples of their pages, by
tests/docs; `make stress` finds all of them here, too."""


def named(exploit):
    return f"{exploit.flaw}-{exploit.environment.name}"


@pytest.mark.parametrize(
    "exploit",
    leave_to_stress(exploits.DEVELOPMENT, lambda exploit: exploit.flaw in FOUND),
    ids=named,
)
async def test_a_flaw_is_found_with_a_transcript(exploit):
    report = await audit(exploit.environment, AuditOptions(only=frozenset({exploit.flaw})))
    (found,) = report.classes
    assert found.verdict is AuditVerdict.FAIL, found.reason
    assert found.title == HACK_CLASSES[exploit.flaw].title
    transcript = found.findings[0].transcript
    assert transcript is not None
    assert found.findings[0].message
    if exploit.flaw not in {"H12", "H15", "H17", "H22"}:  # these say what earns nothing, or different rewards
        async with open_environment(exploit.environment) as client:
            session = await client.create(
                split=transcript.split, index=transcript.index, seed=transcript.seed
            )
            for call in transcript.calls:
                await session.submit(call.tool, call.arguments)
            if transcript.earned is not None:
                assert (await session.summary()).episode_return == pytest.approx(transcript.earned)


@pytest.mark.parametrize(
    "environment", every(3, [honest.Shaped, honest.Exact, honest.FirstUse]), ids=lambda one: one.name
)
async def test_an_honest_environment_passes(environment):
    report = await audit(environment)
    assert [one.id for one in report.classes] == list(HACK_CLASSES)
    assert [(one.id, one.findings) for one in [*report.failed, *report.warned]] == []


async def test_without_gold_actions_what_needs_them_is_not_judged():
    report = await audit(honest.Shaped, AuditOptions(only=frozenset({"H1", "H18", "H20"}), uses_gold=False))
    verdicts = {one.id: one.verdict for one in report.classes}
    assert verdicts["H18"] is verdicts["H20"] is AuditVerdict.NOT_JUDGED
    assert "gold_actions" in report.classes[1].reason
    assert report.gold_return is None


async def test_a_server_is_audited_by_its_url_and_what_it_does_not_say_is_not_judged(serve_live):
    some = frozenset({"H1", "H2", "H3", "H4", "H5", "H15", "H20", "H21", "H23"})
    report = await audit(serve_live(Mentions).url, AuditOptions(tasks=3, only=some))
    by_id = {one.id: one for one in report.classes}
    assert by_id["H15"].verdict is by_id["H21"].verdict is AuditVerdict.NOT_JUDGED
    assert by_id["H1"].verdict is by_id["H2"].verdict is AuditVerdict.PASS
    assert {one.id for one in report.failed} == {"H3", "H4", "H23"}


async def test_a_transcript_is_minimal_and_replayed_from_the_record(tmp_path):
    record = tmp_path / "audit.sqlite"
    report = await audit(Mentions, AuditOptions(only=frozenset({"H3"}), record=str(record)))
    transcript = report.classes[0].findings[0].transcript
    assert transcript is not None
    (call,) = transcript.calls
    assert len(call.arguments["answer"]) <= len("xViennax")
    assert transcript.replay is not None
    command = [sys.executable, "-m", "ors_server", *shlex.split(transcript.replay)[1:], "--json"]
    with anyio.fail_after(120):
        ran = await anyio.run_process(command, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (line,) = ran.stdout.decode().splitlines()
    assert json.loads(line)["verdict"] == "identical"


async def test_a_report_is_json_that_reads_itself():
    report = await audit(Mentions, AuditOptions(only=frozenset({"H1", "H3"}), tasks=6))
    assert AuditReport.model_validate_json(report.model_dump_json()) == report
