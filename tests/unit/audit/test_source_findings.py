"""Findings in the source beside the verdicts of policies."""

import pytest

from ors_server.audit.auditing import with_source_findings
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import AuditFinding, ClassReport

CODE = """
from ors_server import Environment, ToolOutput, tool

class Made(Environment):
    @tool
    def submit(self, answer: str) -> ToolOutput:
        return ToolOutput.final("Submitted.", reward=float(self.answer in answer))
"""


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "made.py"
    file.write_text(CODE)
    return {"file": str(file), "line": 4, "class": "Made"}


@pytest.mark.parametrize("verdict", [AuditVerdict.PASS, AuditVerdict.NOT_JUDGED, AuditVerdict.WARN])
def test_a_class_that_did_not_fail_becomes_a_warning(source, verdict):
    before = ClassReport(id="H3", verdict=verdict, reason="nothing to play")
    (after,) = with_source_findings([before], source)
    assert (after.verdict, after.reason) == (AuditVerdict.WARN, "nothing to play")
    (finding,) = after.findings
    assert (finding.file, finding.line) == (source["file"], 7)
    assert finding.variant == "the source"


def test_a_failure_gets_the_place_as_evidence(source):
    own = AuditFinding(verdict=AuditVerdict.FAIL, variant="wrapped", message="a wrapped answer is paid")
    (after,) = with_source_findings(
        [ClassReport(id="H3", verdict=AuditVerdict.FAIL, findings=(own,))], source
    )
    assert after.verdict is AuditVerdict.FAIL
    assert [one.line for one in after.findings] == [None, 7]


def test_classes_that_are_not_asked_for_get_no_finding(source):
    reports = [ClassReport(id="H1", verdict=AuditVerdict.PASS)]
    assert with_source_findings(reports, source, frozenset({"H1"})) == reports


def test_other_classes_stay_as_they_are_and_in_order(source):
    reports = [ClassReport(id=name, verdict=AuditVerdict.PASS) for name in ("H1", "H3", "H10")]
    after = with_source_findings(reports, source)
    assert [one.id for one in after] == ["H1", "H3", "H10"]
    assert [after[0], after[2]] == [reports[0], reports[2]]


def test_without_a_source_nothing_changes():
    reports = [ClassReport(id="H3", verdict=AuditVerdict.PASS)]
    assert with_source_findings(reports, None) == reports
