"""A report as lines of text: what the terminal and a failed test show.

The texts of environments are not escaped here.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import (
    AuditReport,
    AuditTranscript,
    ClassReport,
    LibraryReward,
    TranscriptCall,
)

MAX_SHOWN_CHARACTERS = 160
"""Characters of one argument that are shown."""
MAX_SHOWN_CALLS = 12
"""Calls of one transcript that are shown."""
_WORDS = {
    AuditVerdict.FAIL: "FAIL",
    AuditVerdict.WARN: "warn",
    AuditVerdict.PASS: "pass",
    AuditVerdict.NOT_JUDGED: "not judged",
}


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One class in a table."""

    id: str
    title: str
    verdict: str
    """In words: a waived verdict says so."""
    why: str
    """What was found, why the class was not judged, or why it is waived; empty for a pass."""


def rows_of(report: AuditReport) -> list[ReportRow]:
    """Return a row for each class: waived ones first, then in the order of their ids."""
    # Waivers first, so that a reader of the report cannot overlook what was accepted.
    ordered = sorted(
        report.classes,
        key=lambda class_report: (not class_report.is_waived, HACK_CLASSES[class_report.id].number),
    )
    return [ReportRow(row.id, row.title, _verdict(row), _why(row)) for row in ordered]


def _verdict(report: ClassReport) -> str:
    return f"waived {report.verdict.value}" if report.is_waived else _WORDS[report.verdict]


def _why(report: ClassReport) -> str:
    message = report.findings[0].message if report.findings else ""
    return report.reason if report.is_waived or not message else message


def detailed(report: AuditReport) -> list[ClassReport]:
    """Return the failures that are not waived, without those that the calls of another failure show."""
    ids = {failure.id for failure in report.failed}
    return [failure for failure in report.failed if failure.cause not in ids]


def failure_lines(report: AuditReport, failure: ClassReport) -> list[str]:
    """Describe a failure: what happened, the calls, what they earn, how to close the hole."""
    lines = happened_lines(failure)
    transcript = transcript_of(failure)
    if transcript is not None:
        lines.append("calls:" if transcript.calls else "calls: none")
        lines += [f"  {line}" for line in call_lines(transcript)]
    lines += outcome_lines(report, failure)
    return [f"{failure.id} {failure.title}", *(f"  {line}" for line in lines)]


def transcript_of(failure: ClassReport) -> AuditTranscript | None:
    """Return the shortest calls that show the hole; `None` where there are none."""
    return failure.findings[0].transcript if failure.findings else None


def happened_lines(failure: ClassReport) -> list[str]:
    """Return what happened, and where: the line of the source, the task."""
    if not failure.findings:
        return []
    finding, transcript = failure.findings[0], transcript_of(failure)
    lines = [f"what happened: {finding.message}"]
    if finding.file is not None:
        lines.append(f"source: {finding.file}" + ("" if finding.line is None else f":{finding.line}"))
    if transcript is not None:
        lines.append(f"task: {transcript.split} {transcript.index}, seed {transcript.seed}")
    return lines


def outcome_lines(report: AuditReport, failure: ClassReport) -> list[str]:
    """Return what the calls and the gold actions earn, how to close the hole, and what else it shows."""
    transcript = transcript_of(failure)
    lines = [] if transcript is None else [_earned(report, transcript)]
    names = {name for finding in failure.findings for name in finding.rewards}
    lines += [reward_line(reward) for reward in report.rewards if reward.name in names]
    lines.append(f"how to close it: {HACK_CLASSES[failure.id].remedy}")
    also = [class_report.id for class_report in report.classes if class_report.cause == failure.id]
    return [*lines, f"also: {', '.join(also)} (the same calls)"] if also else lines


def reward_line(reward: LibraryReward) -> str:
    """Say that a reward of this library judged, with its hazards."""
    hazards = f"its hazards: {reward.hazards}" if reward.hazards else "it has no documented hazard"
    return f"judged by {reward.name} of this library; {hazards} See {reward.page}"


def call_lines(transcript: AuditTranscript) -> list[str]:
    """Return the calls of a transcript, one line each; the last line counts those that are left out."""
    lines = [call_line(call) for call in transcript.calls[:MAX_SHOWN_CALLS]]
    missing = len(transcript.calls) - len(lines)
    return [*lines, f"... {missing} more calls"] if missing else lines


def call_line(call: TranscriptCall) -> str:
    """Return a call as one line, with long arguments cut."""
    arguments = ", ".join(f"{name}={_value(value)}" for name, value in call.arguments.items())
    return f"{call.tool}({arguments})"


def _value(value: Any) -> str:
    text = json.dumps(value, default=str)
    missing = len(text) - MAX_SHOWN_CHARACTERS
    return text if missing <= 0 else f"{text[:MAX_SHOWN_CHARACTERS]}... ({missing} more characters)"


def _earned(report: AuditReport, transcript: AuditTranscript) -> str:
    parts = [] if transcript.earned is None else [f"earned: {transcript.earned:g}"]
    compared = transcript.gold_return
    if compared is not None and compared != report.gold_return:
        parts.append(f"compared with: {compared:g}")
    if report.gold_return is not None:
        parts.append(f"the gold actions earn: {report.gold_return:g}")
    return ", ".join(parts) or "earned: not known"


def counts_line(report: AuditReport) -> str:
    """Return how many classes have each verdict, and on how many tasks."""
    counts = Counter(class_report.verdict for class_report in report.classes if not class_report.is_waived)
    waived = sum(class_report.is_waived for class_report in report.classes)
    shown = [
        f"{counts[AuditVerdict.PASS]} passed",
        f"{counts[AuditVerdict.FAIL]} failed",
        f"{counts[AuditVerdict.WARN]} warned",
        *([f"{waived} waived"] if waived else []),
        f"{counts[AuditVerdict.NOT_JUDGED]} not judged{_missing(report)}",
    ]
    return f"{', '.join(shown)}; {report.tasks} tasks, seed {report.seed}"


def _missing(report: AuditReport) -> str:
    """Return what to add for which classes, in brackets; nothing where every class was judged."""
    ids: dict[str, list[str]] = {}
    for class_report in report.classes:
        if class_report.verdict is AuditVerdict.NOT_JUDGED and not class_report.is_waived:
            ids.setdefault(class_report.missing, []).append(class_report.id)
    other = ids.pop("", [])
    parts = [f"add {missing} for {', '.join(some)}" for missing, some in ids.items()]
    parts += [f"nothing to add for {', '.join(other)}"] if other else []
    return f" ({'; '.join(parts)})" if parts else ""


def text_of(report: AuditReport) -> str:
    """Return the failures of a report with its counts, as a failed test shows them."""
    failures: Sequence[list[str]] = [failure_lines(report, failure) for failure in detailed(report)]
    head = f"the audit of {report.environment} failed: {', '.join(failure.id for failure in report.failed)}"
    return "\n\n".join([head, *("\n".join(lines) for lines in failures), counts_line(report)])
