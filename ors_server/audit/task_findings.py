"""Adds the findings of comparing the tasks with each other to the verdicts of the policies."""

from collections.abc import Mapping, Sequence

from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import AuditFinding, ClassReport
from ors_server.testing.task_survey import TaskSurvey

VARIANT = "the tasks"
"""What these findings name as their policy."""
LEAKS = "H9"
"""The answer of a test task that is also a training task is in sight in training."""
CONTRADICTIONS = "H18"
"""Of two golds of one question, one is wrong."""
CLASSES = frozenset({LEAKS, CONTRADICTIONS})


def task_texts(survey: TaskSurvey) -> dict[str, str]:
    """Return the findings as text by class id, without the classes that have no finding.

    Repeats within a split are not holes: their text has the key `""`.
    """
    texts = {LEAKS: survey.leak_text, CONTRADICTIONS: survey.contradiction_text, "": survey.repeat_text}
    return {name: text for name, text in texts.items() if text}


def with_task_findings(
    reports: Sequence[ClassReport], texts: Mapping[str, str], only: frozenset[str] = frozenset()
) -> list[ClassReport]:
    """Add the findings of a survey of the tasks, which are failures.

    Args:
        texts: Texts of `task_texts`.
        only: Ids of the classes that are judged; all by default.
    """
    by_id = {report.id: report for report in reports}
    for name in sorted(CLASSES & set(texts)):
        if only and name not in only:
            continue
        before = by_id.get(name) or ClassReport(id=name, verdict=AuditVerdict.NOT_JUDGED)
        finding = AuditFinding(verdict=AuditVerdict.FAIL, variant=VARIANT, message=texts[name])
        changes = {"verdict": AuditVerdict.FAIL, "reason": "", "findings": (finding, *before.findings)}
        by_id[name] = before.model_copy(update=changes)
    return sorted(by_id.values(), key=lambda report: HACK_CLASSES[report.id].number)
