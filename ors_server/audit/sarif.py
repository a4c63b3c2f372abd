"""The report of an audit in SARIF 2.1.0, which code hosts show beside the lines of the source."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from ors_server._version import __version__
from ors_server.audit.hack_classes import HACK_CLASSES, PAGE, HackClass
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import AuditFinding, AuditReport, ClassReport

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {AuditVerdict.FAIL: "error", AuditVerdict.WARN: "warning"}
_ROOT = "ROOT"
"""What paths are relative to, as SARIF names it."""


def sarif_of(report: AuditReport, root: Path | None = None) -> dict[str, Any]:
    """Return a report as a SARIF log with one run.

    Each finding of a class that failed or has warnings is a result; those of waived classes are suppressed.
    The same report gives the same log.

    Args:
        root: The folder to which paths are relative, such as that of the repository. Files outside of it have
            absolute locations.
    """
    rules = list(HACK_CLASSES.values())
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "ors-server audit",
                        "informationUri": f"{PAGE}-classes.md",
                        "version": __version__,
                        "rules": [_rule(rule) for rule in rules],
                    }
                },
                "automationDetails": {"id": f"ors-server/audit/{report.environment}"},
                "columnKind": "unicodeCodePoints",
                "results": list(_results(report, root)),
            }
        ],
    }


def _rule(one: HackClass) -> dict[str, Any]:
    help_uri = one.page
    name = "".join(word.capitalize() for word in one.title.replace("-", " ").split())
    return {
        "id": one.id,
        "name": name,
        "shortDescription": {"text": f"{one.title}."},
        "fullDescription": {"text": one.question},
        "help": {
            "text": f"{one.question}\n\n{one.remedy}",
            "markdown": f"{one.question}\n\n**How to close it:** {one.remedy}",
        },
        "helpUri": help_uri,
        "defaultConfiguration": {"level": "error"},
    }


def _results(report: AuditReport, root: Path | None) -> Iterator[dict[str, Any]]:
    for one in report.classes:
        if one.verdict not in _LEVELS:
            continue
        seen: dict[str, int] = {}
        for finding in one.findings or (AuditFinding(verdict=one.verdict, variant="", message=one.title),):
            result = _result(report, one, finding, root)
            mark = result["partialFingerprints"]["auditFinding/v1"]
            count = seen[mark] = seen.get(mark, 0) + 1
            if count > 1:
                result["partialFingerprints"]["auditFinding/v1"] = f"{mark}:{count}"
            yield result


def _result(
    report: AuditReport, one: ClassReport, finding: AuditFinding, root: Path | None
) -> dict[str, Any]:
    # A finding in the source is evidence for a failure, so it has the level of its class.
    result: dict[str, Any] = {
        "ruleId": one.id,
        "ruleIndex": HACK_CLASSES[one.id].number - 1,
        "level": _LEVELS[one.verdict],
        "message": {"text": _message(report, one, finding)},
        "partialFingerprints": {"auditFinding/v1": _fingerprint(report, one, finding)},
    }
    file, line = (finding.file, finding.line) if finding.file else (report.source_file, report.source_line)
    if file:
        result["locations"] = [_location(file, line or 1, root)]
    if one.is_waived:
        justification = one.reason or "waived without a reason"
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": justification}]
    return result


def _message(report: AuditReport, one: ClassReport, finding: AuditFinding) -> str:
    text = f"{report.environment}: {one.title}: {finding.message}."
    script = finding.transcript
    if script is None:
        return text
    calls = ", then ".join(f"{call.tool}" for call in script.calls) or "no call"
    text += f" Calls: {calls} (task {script.split}/{script.index}, seed {script.seed})."
    if script.replay:
        text += f" Play it again: {script.replay}."
    return text


def _fingerprint(report: AuditReport, one: ClassReport, finding: AuditFinding) -> str:
    """Return what stays the same when lines move: the environment, the class and the kind of finding."""
    kind = finding.message if finding.file else finding.variant
    parts = "\0".join((report.environment, one.id, "source" if finding.file else "play", kind))
    return sha256(parts.encode()).hexdigest()[:32]


def _location(file: str, line: int, root: Path | None) -> dict[str, Any]:
    path = PurePath(file)
    place: dict[str, Any] = {"uri": quote(path.as_posix())}
    if root is not None and path.is_relative_to(root):
        place = {"uri": quote(path.relative_to(root).as_posix()), "uriBaseId": _ROOT}
    elif path.is_absolute():
        place = {"uri": Path(file).as_uri()}
    return {"physicalLocation": {"artifactLocation": place, "region": {"startLine": max(line, 1)}}}
