"""The report of an audit as one web page, which needs no network, and no script to be read.

The part of an audit's page about one class that failed or has warnings; all text is escaped.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from markupsafe import Markup, escape

from ors_server._version import __version__
from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import (
    AuditFinding,
    AuditReport,
    AuditTranscript,
    ClassReport,
    PolicyScore,
    TranscriptCall,
)
from ors_server.evaluation.number_format import NOTHING, count_of, number, percent
from ors_server.evaluation.report.shell import parts
from ors_server.evaluation.report.shell import report as report_page
from ors_server.model.printable import clean

_VOID = frozenset({"meta", "link", "input", "br"})
"""Elements without an end tag."""
_MAX_UNFOLDED_CHARACTERS = 400
"""Characters of an argument above which it is folded."""
_MAX_FOLDED_CHARACTERS = 80
"""Characters of a folded text that are shown."""


def render_class(class_report: ClassReport, report: AuditReport) -> Markup:
    """Return what happened, why it is a hole, the calls that show it, and how to close it."""
    about = HACK_CLASSES[class_report.id]
    return _element(
        "article",
        _element("h3", f"{class_report.id} · {class_report.title}"),
        *(part for finding in class_report.findings for part in _finding(finding)),
        *_rewards(class_report, report),
        _element("h4", "Question and remedy"),
        parts.facts(
            [
                ("why it is a hole", about.question),
                ("how to close it", about.remedy),
                *_related(class_report, report),
            ]
        ),
        class_="card",
        id=class_report.id,
    )


def _rewards(class_report: ClassReport, report: AuditReport) -> Iterator[Markup]:
    """Name the rewards of this library that judged, with their hazards."""
    names = {name for finding in class_report.findings for name in finding.rewards}
    rows = [(reward.name, reward.hazards or "no documented hazard") for reward in report.rewards]
    if shown := [row for row in rows if row[0] in names]:
        yield _element("h4", "Judged by rewards of this library, whose documented hazards are")
        yield parts.facts(shown)


def _related(class_report: ClassReport, report: AuditReport) -> Iterator[tuple[str, str]]:
    # Classes with the same cause fail by the same calls, so that one remedy closes all of them.
    root = class_report.cause or class_report.id
    related = [
        other for other in report.classes if root in {other.id, other.cause} and other.id != class_report.id
    ]
    if related:
        yield "same cause", "; ".join(f"{other.id} {other.title}" for other in related)


def _finding(finding: AuditFinding) -> Iterator[Markup]:
    yield _element("h4", "What happened")
    yield parts.preformatted(finding.message)
    rows = [("found by", finding.variant)] if finding.variant else []
    if finding.file:
        location = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
        rows.append(("source", location))
    if finding.transcript is not None:
        rows += list(_facts(finding.transcript))
    yield parts.facts(rows)
    if finding.transcript is not None:
        yield from _transcript(finding.transcript)


def _facts(script: AuditTranscript) -> Iterator[tuple[str, str]]:
    earned = f"{number(script.earned)}, against {number(script.gold_return)} for the gold actions"
    yield "earned", earned if script.gold_return is not None else number(script.earned)
    yield "task", f"{script.split}/{script.index}, seed {script.seed}"
    if script.replay:
        yield "replay", script.replay


def _transcript(script: AuditTranscript) -> Iterator[Markup]:
    yield _element("h4", count_of(len(script.calls), "call") if script.calls else "No call at all")
    if script.calls:
        yield _element("ol", *(_element("li", *_call(call)) for call in script.calls), class_="calls")


def _call(call: TranscriptCall) -> Iterator[Markup]:
    yield _element("code", call.tool)
    for name, value in call.arguments.items():
        yield _argument(name, value)


def _argument(name: str, value: Any) -> Markup:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= _MAX_UNFOLDED_CHARACTERS:
        return _element("div", _element("span", f"{name}:", class_="soft"), parts.preformatted(text))
    begin = " ".join(text[:_MAX_FOLDED_CHARACTERS].split())
    summary = _element("summary", f"{name}: {len(text):,} characters, beginning with {begin}…")
    return _element("details", summary, parts.preformatted(text))


_WORDS = {
    AuditVerdict.FAIL: ("failed", "errored"),
    AuditVerdict.WARN: ("warning", "over_budget"),
    AuditVerdict.PASS: ("passed", "yes"),
    AuditVerdict.NOT_JUDGED: ("not judged", ""),
}
"""What a verdict is called on the page, and the style of its badge."""

_MAX_CELL_CHARACTERS = 120
"""Maximum number of characters of a cell."""


def page_of(report: AuditReport) -> str:
    """Return the page: waivers, verdicts, failures, warnings, what was not judged, and scores."""
    # Once for the whole report, so that no cell can be forgotten: agents and authors write these texts.
    report = AuditReport.model_validate(_visible(report.model_dump()))
    untried = [
        class_report for class_report in report.classes if class_report.verdict is AuditVerdict.NOT_JUDGED
    ]
    waived = [class_report for class_report in report.classes if class_report.is_waived]
    sections = [
        ("waivers", "Waivers", _waivers(waived) if waived else None),
        ("verdicts", "Verdicts", _verdicts(report)),
        ("failures", "Failures", _classes(report, report.failed, "There is no failure.")),
        ("warnings", "Warnings", _classes(report, report.warned, "There is no warning.")),
        ("not-judged", "Not judged", _not_judged(untried) if untried else None),
        ("scores", "Scores of policies", _scores(report)),
        ("audit", "Audit", _about(report)),
    ]
    return report_page(
        f"Audit of {report.environment}",
        (
            "Audit",
            f"{report.environment} · {report.version}" if report.version else report.environment,
            _lead(report),
        ),
        [(name, title, content) for name, title, content in sections if content is not None],
        f"Made by ors-server {__version__}.",
    )


def _lead(report: AuditReport) -> str:
    return (
        f"{count_of(len(report.failed), 'failure')} and {count_of(len(report.warned), 'warning')} "
        f"in {count_of(len(report.classes), 'class', 'classes')} of flaws; "
        f"{count_of(report.tasks, 'task')} played with seed {report.seed}"
    )


def _visible(value: Any) -> Any:
    """Return data whose texts cannot change the writing direction of the text after them."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        table = cast("Mapping[str, Any]", value)
        return {clean(key): _visible(part) for key, part in table.items()}
    if isinstance(value, list | tuple):
        return [_visible(part) for part in cast("Sequence[Any]", value)]
    return value


def _waivers(waived: Sequence[ClassReport]) -> list[Markup]:
    return [
        _element(
            "div",
            _element("h3", f"{_title(class_report)} ", *_badges(class_report)),
            _element("p", class_report.reason or "There is no reason."),
            class_="card",
        )
        for class_report in waived
    ]


def _verdicts(report: AuditReport) -> list[Markup]:
    verdicts = [class_report.verdict for class_report in report.classes if not class_report.is_waived]
    passed, untried = verdicts.count(AuditVerdict.PASS), verdicts.count(AuditVerdict.NOT_JUDGED)
    full = "unknown" if report.gold_return is None else number(report.gold_return)
    failed = len(report.failed)
    tiles = _element(
        "div",
        parts.tile(
            "Failures", str(failed), f"{len(report.warned)} with warnings", style="down" if failed else "up"
        ),
        parts.tile("Passed", str(passed), f"of {len(report.classes)}; {untried} not judged"),
        parts.tile("Gold return", full, "mean return of the gold actions"),
        parts.tile("Chance", percent(report.chance), "of the gold return, by guessing"),
        class_="tiles",
    )
    rows: list[list[Markup]] = []
    for class_report in report.classes:
        # Only failures and warnings that are not waived have a section to link to.
        is_open = class_report.verdict in {AuditVerdict.FAIL, AuditVerdict.WARN}
        is_shown = is_open and not class_report.is_waived
        title = class_report.title
        name = _element("a", title, href=f"#{class_report.id}") if is_shown else title
        note = _note(class_report)
        below = [_element("div", note, class_="soft")] if note else []
        rows.append(
            [
                _element("td", class_report.id),
                _element("td", name, *below, class_="text"),
                _element("td", _badges(class_report)[0]),
            ]
        )
    table = _table(("class", "what it is about", "verdict"), rows, "Verdicts by class")
    return [tiles, parts.remarks(report.notes), table]


def _note(report: ClassReport) -> str:
    if report.is_waived:
        return _short(f"waived: {report.reason}", _MAX_CELL_CHARACTERS)
    first = report.findings[0].message if report.findings else ""
    also = f" (by the same calls as {report.cause})" if report.cause else ""
    return (
        _short(report.reason if report.verdict is AuditVerdict.NOT_JUDGED else first, _MAX_CELL_CHARACTERS)
        + also
    )


def _badges(report: ClassReport) -> list[Markup]:
    words, style = _WORDS[report.verdict]
    waived = [Markup(" "), _element("span", "waived", class_="badge")] if report.is_waived else []
    return [_element("span", words, class_=f"badge {style}".strip()), *waived]


def _classes(report: AuditReport, classes: Sequence[ClassReport], nothing: str) -> list[Markup]:
    if not classes:
        return [_element("p", nothing, class_="soft")]
    return [render_class(class_report, report) for class_report in classes]


def _not_judged(untried: Sequence[ClassReport]) -> list[Markup]:
    note = _element("p", "These classes have not passed: nothing is known about them.", class_="soft")
    groups = (
        (
            _element("h4", _title(untried_class)),
            _element("p", HACK_CLASSES[untried_class.id].question, class_="soft"),
            _element("p", f"Not judged: {untried_class.reason or 'no reason was given'}."),
        )
        for untried_class in untried
    )
    return [note, _element("div", *(part for group in groups for part in group), class_="card")]


def _scores(report: AuditReport) -> list[Markup]:
    rows = [
        _score_row(class_report, score) for class_report in report.classes for score in class_report.scores
    ]
    if not rows:
        return [_element("p", "There are no scores.", class_="soft")]
    heads = ("class", "variant", "verdict", "mean return", "share of gold", "95 % interval", "tasks")
    note = _element("p", "The variants of each policy that earned the most, the best first.", class_="soft")
    return [note, _table(heads, rows, "Scores of policies")]


def _score_row(report: ClassReport, score: PolicyScore) -> list[Markup]:
    words, style = _WORDS[score.verdict]
    is_bounded = score.low is not None and score.high is not None
    bounds = f"{percent(score.low or 0.0)} to {percent(score.high or 0.0)}" if is_bounded else NOTHING
    return [
        _element("td", report.id),
        _element("td", _short(score.variant, _MAX_CELL_CHARACTERS), class_="text"),
        _element("td", _element("span", words, class_=f"badge {style}".strip())),
        _element("td", number(score.mean), class_="number"),
        _element("td", NOTHING if score.share is None else percent(score.share), class_="number"),
        _element("td", bounds, class_="number"),
        _element("td", str(score.tasks), class_="number"),
    ]


def _about(report: AuditReport) -> list[Markup]:
    location = f"{report.source_file}:{report.source_line}" if report.source_file else NOTHING
    pairs = [
        ("environment", report.environment),
        ("version", report.version or NOTHING),
        ("target", report.target),
        ("source", location),
        ("tasks", str(report.tasks)),
        ("seed", str(report.seed)),
        ("gold return", number(report.gold_return)),
        ("chance", percent(report.chance)),
    ]
    return [_element("div", parts.facts(pairs), class_="card")]


def _title(report: ClassReport) -> str:
    return f"{report.id} {report.title}"


def _short(text: str, max_length: int) -> str:
    words = " ".join(text.split())
    return words if len(words) <= max_length else f"{words[: max_length - 1]}…"


def _table(heads: Sequence[str], rows: Sequence[Sequence[Markup]], label: str) -> Markup:
    numbers = {"mean return", "share of gold", "95 % interval", "tasks"}
    named = (
        _element("th", head, scope="col", class_="number" if head in numbers else None) for head in heads
    )
    table = _element(
        "table",
        _element("thead", _element("tr", *named)),
        _element("tbody", *(_element("tr", *cells) for cells in rows)),
    )
    scroll = _element("div", table, class_="scroll", tabindex="0", role="region", aria_label=label)
    return _element("div", scroll, class_="card")


def _element(name: str, /, *content: str, **attributes: str | None) -> Markup:
    """Return an element.

    In attribute names an underscore at the end is removed (`class_`) and others become hyphens; `None` omits
    an attribute.
    """
    spelled = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    begin = f"<{name}{spelled}>"
    return Markup(begin if name in _VOID else f"{begin}{Markup().join(content)}</{name}>")  # noqa: S704  (escaped above)
