"""The report of an audit in SARIF 2.1.0, which code hosts show next to the lines of the source."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from ors_server._version import __version__
from ors_server.audit.hack_classes import HACK_CLASSES, PAGES_URL, HackClass
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import AuditFinding, AuditReport, ClassReport

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {AuditVerdict.FAIL: "error", AuditVerdict.WARN: "warning"}
_ROOT = "ROOT"
"""The name of the base of relative paths, in SARIF's `uriBaseId`."""


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
                        "informationUri": f"{PAGES_URL}-classes.md",
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


def _rule(hack_class: HackClass) -> dict[str, Any]:
    help_uri = hack_class.page
    name = "".join(word.capitalize() for word in hack_class.title.replace("-", " ").split())
    return {
        "id": hack_class.id,
        "name": name,
        "shortDescription": {"text": f"{hack_class.title}."},
        "fullDescription": {"text": hack_class.question},
        "help": {
            "text": f"{hack_class.question}\n\n{hack_class.remedy}",
            "markdown": f"{hack_class.question}\n\n**How to close it:** {hack_class.remedy}",
        },
        "helpUri": help_uri,
        "defaultConfiguration": {"level": "error"},
    }


def _results(report: AuditReport, root: Path | None) -> Iterator[dict[str, Any]]:
    for class_report in report.classes:
        if class_report.verdict not in _LEVELS:
            continue
        seen: dict[str, int] = {}
        for finding in class_report.findings or (
            AuditFinding(verdict=class_report.verdict, variant="", message=class_report.title),
        ):
            result = _result(report, class_report, finding, root)
            # Results with the same fingerprint would be merged by the code host; a number tells them apart.
            mark = result["partialFingerprints"]["auditFinding/v1"]
            count = seen[mark] = seen.get(mark, 0) + 1
            if count > 1:
                result["partialFingerprints"]["auditFinding/v1"] = f"{mark}:{count}"
            yield result


def _result(
    report: AuditReport, class_report: ClassReport, finding: AuditFinding, root: Path | None
) -> dict[str, Any]:
    # A finding in the source is evidence for a failure, so it has the level of its class.
    result: dict[str, Any] = {
        "ruleId": class_report.id,
        "ruleIndex": HACK_CLASSES[class_report.id].number - 1,
        "level": _LEVELS[class_report.verdict],
        "message": {"text": _message(report, class_report, finding)},
        "partialFingerprints": {"auditFinding/v1": _fingerprint(report, class_report, finding)},
    }
    file, line = (finding.file, finding.line) if finding.file else (report.source_file, report.source_line)
    if file:
        result["locations"] = [_location(file, line or 1, root)]
    if class_report.is_waived:
        justification = class_report.reason or "waived without a reason"
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": justification}]
    return result


def _message(report: AuditReport, class_report: ClassReport, finding: AuditFinding) -> str:
    text = f"{report.environment}: {class_report.title}: {finding.message}."
    script = finding.transcript
    if script is None:
        return text
    calls = ", then ".join(f"{call.tool}" for call in script.calls) or "no call"
    text += f" Calls: {calls} (task {script.split}/{script.index}, seed {script.seed})."
    if script.replay:
        text += f" Play it again: {script.replay}."
    return text


def _fingerprint(report: AuditReport, class_report: ClassReport, finding: AuditFinding) -> str:
    """Return what stays the same when lines move: the environment, the class and the kind of finding."""
    kind = finding.message if finding.file else finding.variant
    # Without the line and the seed, so that an unrelated edit does not open the finding again.
    parts = "\0".join((report.environment, class_report.id, "source" if finding.file else "play", kind))
    return sha256(parts.encode()).hexdigest()[:32]


def _location(file: str, line: int, root: Path | None) -> dict[str, Any]:
    path = PurePath(file)
    location: dict[str, Any] = {"uri": quote(path.as_posix())}
    if root is not None and path.is_relative_to(root):
        location = {"uri": quote(path.relative_to(root).as_posix()), "uriBaseId": _ROOT}
    elif path.is_absolute():
        location = {"uri": Path(file).as_uri()}
    return {"physicalLocation": {"artifactLocation": location, "region": {"startLine": max(line, 1)}}}
