"""The report of an audit as a short text in GitHub's Markdown, for pull requests and the pages of CI jobs."""

import re
from collections.abc import Sequence

from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import AuditReport, ClassReport
from ors_server.evaluation.number_format import count_of, number

_MAX_CELL = 300
"""Maximum number of characters of a cell."""
_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~!@&$])")
"""Characters with a meaning in Markdown, HTML or GitHub (`@name`)."""


def summary_of(report: AuditReport) -> str:
    """Return a summary: counts, waivers, failures, warnings, and what was not judged."""
    waived = [class_report for class_report in report.classes if class_report.is_waived]
    untried = [
        class_report
        for class_report in report.classes
        if class_report.verdict is AuditVerdict.NOT_JUDGED and not class_report.is_waived
    ]
    parts = [f"## Audit of {escape_markdown(report.environment)}", _counts(report)]
    waivers = [
        (_title(class_report), class_report.verdict.value.replace("_", " "), class_report.reason or "-")
        for class_report in waived
    ]
    parts += _table("Waived", ("class", "verdict", "reason"), waivers)
    columns = ("class", "what happened", "how to close it")
    parts += _table("Failures", columns, [_row(class_report) for class_report in report.failed])
    parts += _table("Warnings", columns, [_row(class_report) for class_report in report.warned])
    missing = [
        (_title(class_report), class_report.reason or "-", class_report.missing or "-")
        for class_report in untried
    ]
    parts += _table("Not judged", ("class", "why", "what to add"), missing)
    rewards = [(f"[{reward.name}]({reward.page})", reward.hazards or "-") for reward in report.rewards]
    parts += _table("Rewards of this library that judged", ("reward", "hazards"), rewards)
    return "\n\n".join(parts) + "\n"


def escape_markdown(text: str) -> str:
    """Return a text on one line in which nothing is Markdown, HTML or a mention."""
    words = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return _MARKS.sub(r"\\\1", words if len(words) <= _MAX_CELL else f"{words[: _MAX_CELL - 1]}…")


def _counts(report: AuditReport) -> str:
    verdicts = [class_report.verdict for class_report in report.classes if not class_report.is_waived]
    counts = [
        count_of(len(report.failed), "failure"),
        count_of(len(report.warned), "warning"),
        f"{verdicts.count(AuditVerdict.PASS)} passed",
        f"{verdicts.count(AuditVerdict.NOT_JUDGED)} not judged",
        f"{sum(class_report.is_waived for class_report in report.classes)} waived",
    ]
    gold = "" if report.gold_return is None else f", gold return {number(report.gold_return)}"
    about = f"{count_of(report.tasks, 'task')}, seed {report.seed}{gold}"
    return f"**{', '.join(counts)}** ({about})"


def _table(title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    lines += [f"| {' | '.join((row[0], *map(escape_markdown, row[1:])))} |" for row in rows]
    return [f"### {title}", "\n".join(lines)]


def _title(report: ClassReport) -> str:
    return f"[{report.id}]({HACK_CLASSES[report.id].page}) {escape_markdown(report.title)}"


def _row(report: ClassReport) -> tuple[str, ...]:
    happened = (
        "; ".join(dict.fromkeys(finding.message for finding in report.findings)) or report.reason or "-"
    )
    also = f" (by the same calls as {report.cause})" if report.cause else ""
    return _title(report), f"{happened}{also}", HACK_CLASSES[report.id].remedy
