"""Adds findings in an environment's source to the verdicts of its policies."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import AuditFinding, ClassReport
from ors_server.audit.static_rules import find_suspicious

VARIANT = "the source"
"""What findings in the source name as their policy."""


def with_source_findings(
    reports: Sequence[ClassReport], source: Mapping[str, Any] | None, only: frozenset[str] = frozenset()
) -> list[ClassReport]:
    """Add what the rules find in the source of the environment's class.

    A class that failed gets the places as evidence. Another one becomes a warning: the source alone proves
    nothing, as no play earned anything with it.

    Args:
        source: The class's `file`, `line` and name (`class`); `None` if the source is not known.
        only: Ids of the classes that are judged; all by default.
    """
    if source is None:
        return list(reports)
    known = {report.id: report for report in reports}
    for place in find_suspicious(Path(str(source["file"])), str(source["class"])):
        if only and place.hack_class not in only:
            continue
        before = known.get(place.hack_class) or ClassReport(
            id=place.hack_class, verdict=AuditVerdict.NOT_JUDGED
        )
        finding = AuditFinding(
            verdict=AuditVerdict.WARN,
            variant=VARIANT,
            message=place.message,
            file=str(source["file"]),
            line=place.line,
        )
        known[place.hack_class] = _with_finding(before, finding)
    return sorted(known.values(), key=lambda one: HACK_CLASSES[one.id].number)


def _with_finding(report: ClassReport, finding: AuditFinding) -> ClassReport:
    verdict = max(report.verdict, AuditVerdict.WARN, key=lambda one: one.weight)
    return report.model_copy(update={"verdict": verdict, "findings": (*report.findings, finding)})
