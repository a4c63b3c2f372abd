"""Reports for tests, made without an audit."""

from typing import Any

from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import AuditFinding, AuditReport, AuditTranscript, ClassReport, TranscriptCall


def make_failure(hack_class: str = "H3", *calls: tuple[str, dict[str, Any]], **fields: Any) -> ClassReport:
    transcript = AuditTranscript(
        split="test",
        index=4,
        seed=7,
        calls=tuple(TranscriptCall(tool=tool, arguments=arguments) for tool, arguments in calls),
        earned=1.0,
        gold_return=1.0,
    )
    finding = AuditFinding(
        verdict=AuditVerdict.FAIL,
        variant="wrapped",
        message="wrapped answers are paid",
        transcript=transcript,
    )
    return ClassReport(**{"id": hack_class, "verdict": AuditVerdict.FAIL, "findings": (finding,)} | fields)


def make_class(hack_class: str, verdict: AuditVerdict = AuditVerdict.PASS, **fields: Any) -> ClassReport:
    return ClassReport(id=hack_class, verdict=verdict, **fields)


def make_report(*classes: ClassReport, **fields: Any) -> AuditReport:
    known = {"environment": "quiz", "version": "1", "target": "quiz.py", "tasks": 3, "seed": 7}
    return AuditReport(**known | {"gold_return": 1.0, "chance": 0.0, "classes": classes} | fields)
