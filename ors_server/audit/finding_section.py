"""The part of an audit's page about one class that failed or has warnings; all text is escaped."""

import json
from collections.abc import Iterator
from typing import Any

from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.report import AuditFinding, AuditReport, AuditTranscript, ClassReport, TranscriptCall
from ors_server.evaluation.number_format import count_of, number
from ors_server.evaluation.report.markup import Markup, element
from ors_server.evaluation.report.shell import facts
from ors_server.evaluation.report.transcript_section import preformatted

_FOLDED = 400
"""Characters of an argument above which it is folded."""
_BEGIN = 80
"""Characters of a folded text that are shown."""


def render_class(one: ClassReport, report: AuditReport) -> Markup:
    """Return what happened, why it is a hole, the calls that show it, and how to close it."""
    about = HACK_CLASSES[one.id]
    return element(
        "article",
        element("h3", f"{one.id} · {one.title}"),
        *(part for finding in one.findings for part in _finding(finding)),
        *_rewards(one, report),
        element("h4", "Question and remedy"),
        facts(
            [
                ("why it is a hole", about.question),
                ("how to close it", about.remedy),
                *_related(one, report),
            ]
        ),
        class_="card",
        id=one.id,
    )


def _rewards(class_report: ClassReport, report: AuditReport) -> Iterator[Markup]:
    """Name the rewards of this library that judged, with their hazards."""
    names = {name for finding in class_report.findings for name in finding.rewards}
    rows = [(reward.name, reward.hazards or "no documented hazard") for reward in report.rewards]
    if shown := [row for row in rows if row[0] in names]:
        yield element("h4", "Judged by rewards of this library, whose documented hazards are")
        yield facts(shown)


def _related(one: ClassReport, report: AuditReport) -> Iterator[tuple[str, str]]:
    root = one.cause or one.id
    others = [other for other in report.classes if root in {other.id, other.cause} and other.id != one.id]
    if others:
        yield "same cause", "; ".join(f"{other.id} {other.title}" for other in others)


def _finding(finding: AuditFinding) -> Iterator[Markup]:
    yield element("h4", "What happened")
    yield preformatted(finding.message)
    rows = [("found by", finding.variant)] if finding.variant else []
    if finding.file:
        place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
        rows.append(("source", place))
    if finding.transcript is not None:
        rows += list(_facts(finding.transcript))
    yield facts(rows)
    if finding.transcript is not None:
        yield from _transcript(finding.transcript)


def _facts(script: AuditTranscript) -> Iterator[tuple[str, str]]:
    earned = f"{number(script.earned)}, against {number(script.gold_return)} for the gold actions"
    yield "earned", earned if script.gold_return is not None else number(script.earned)
    yield "task", f"{script.split}/{script.index}, seed {script.seed}"
    if script.replay:
        yield "replay", script.replay


def _transcript(script: AuditTranscript) -> Iterator[Markup]:
    yield element("h4", count_of(len(script.calls), "call") if script.calls else "No call at all")
    if script.calls:
        yield element("ol", *(element("li", *_call(call)) for call in script.calls), class_="calls")


def _call(call: TranscriptCall) -> Iterator[Markup]:
    yield element("code", call.tool)
    for name, value in call.arguments.items():
        yield _argument(name, value)


def _argument(name: str, value: Any) -> Markup:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= _FOLDED:
        return element("div", element("span", f"{name}:", class_="soft"), preformatted(text))
    begin = " ".join(text[:_BEGIN].split())
    summary = element("summary", f"{name}: {len(text):,} characters, beginning with {begin}…")
    return element("details", summary, preformatted(text))
