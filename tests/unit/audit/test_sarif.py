"""The report of an audit as SARIF: complete, stable, and with places in the source."""

import json
from collections import Counter
from pathlib import Path

import pytest

from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import ClassReport
from ors_server.audit.sarif import sarif_of
from tests.fixtures.made_audit import make_audit

ROOT = Path("/project")


def results_of(report, root=ROOT):
    (run,) = sarif_of(report, root)["runs"]
    return run["results"]


def test_a_log_has_what_the_standard_requires():
    log = sarif_of(make_audit(), ROOT)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    assert run["tool"]["driver"]["name"] == "ors-server audit"
    assert json.loads(json.dumps(log, allow_nan=False)) == log


def test_every_class_is_a_rule_with_its_remedy():
    driver = sarif_of(make_audit(), ROOT)["runs"][0]["tool"]["driver"]
    assert [rule["id"] for rule in driver["rules"]] == list(HACK_CLASSES)
    assert len({rule["name"] for rule in driver["rules"]}) == len(HACK_CLASSES) == 23
    for rule in driver["rules"]:
        assert rule["name"].isalnum()
        assert rule["shortDescription"]["text"]
        assert HACK_CLASSES[rule["id"]].remedy in rule["help"]["text"]
        assert rule["helpUri"].endswith(f"/{rule['id'].lower()}.md")


def test_failures_are_errors_and_warnings_are_warnings():
    levels = {(one["ruleId"], one["level"]) for one in results_of(make_audit())}
    expected = {("H1", "error"), ("H4", "error"), ("H11", "error"), ("H5", "error")}
    assert levels == expected | {("H3", "warning"), ("H14", "warning")}


def test_results_name_their_rule_by_its_place():
    rules = sarif_of(make_audit(), ROOT)["runs"][0]["tool"]["driver"]["rules"]
    for result in results_of(make_audit()):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"].startswith("sums: ")


def test_a_finding_is_at_its_own_line_or_at_that_of_the_class():
    places = {
        (one["ruleId"], one["locations"][0]["physicalLocation"]["region"]["startLine"])
        for one in results_of(make_audit())
    }
    assert {("H3", 28), ("H11", 71), ("H11", 12), ("H1", 12)} <= places
    place = results_of(make_audit())[0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "environments/sums.py", "uriBaseId": "ROOT"}


@pytest.mark.parametrize("root", [None, Path("/elsewhere")])
def test_a_file_outside_of_the_root_has_an_absolute_place(root):
    place = results_of(make_audit(), root)[0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "file:///project/environments/sums.py"}


def test_without_a_source_there_is_no_place():
    report = make_audit(source_file=None, source_line=None)
    with_places = [one["ruleId"] for one in results_of(report) if "locations" in one]
    assert with_places == ["H3", "H11"]


def test_only_what_is_waived_is_suppressed_with_its_reason():
    suppressed = {
        one["ruleId"]: one["suppressions"] for one in results_of(make_audit()) if "suppressions" in one
    }
    assert suppressed.keys() == {"H5"}
    assert "the game has no end" in suppressed["H5"][0]["justification"]


def test_fingerprints_are_unique_and_do_not_depend_on_lines():
    first = [one["partialFingerprints"]["auditFinding/v1"] for one in results_of(make_audit())]
    assert max(Counter(first).values()) == 1
    moved = make_audit(source_line=99, seed=1, tasks=3)
    assert [one["partialFingerprints"]["auditFinding/v1"] for one in results_of(moved)] == first
    other = make_audit(environment="products")
    assert not {one["partialFingerprints"]["auditFinding/v1"] for one in results_of(other)} & set(first)


def test_equal_findings_have_different_fingerprints():
    report = make_audit()
    twice = report.classes[2].model_copy(update={"findings": report.classes[2].findings * 2})
    marks = [
        one["partialFingerprints"]["auditFinding/v1"] for one in results_of(make_audit(classes=(twice,)))
    ]
    assert len(set(marks)) == 2


def test_the_same_report_gives_the_same_log():
    assert json.dumps(sarif_of(make_audit(), ROOT)) == json.dumps(sarif_of(make_audit(), ROOT))


def test_a_failure_without_a_finding_is_a_result_all_the_same():
    report = make_audit(classes=(ClassReport(id="H2", verdict=AuditVerdict.FAIL),))
    (result,) = results_of(report)
    assert "A constant answer pays" in result["message"]["text"]


def test_an_audit_without_flaws_has_no_results():
    classes = tuple(ClassReport(id=name, verdict=AuditVerdict.PASS) for name in HACK_CLASSES)
    assert results_of(make_audit(classes=classes)) == []
