"""`ors-server audit`: its table, its JSON, its files, its waivers, and how it ends.

Most tests give it a made report; what an audit finds is tested with the audit.
"""

import json
import sys
from types import ModuleType

import jsonschema
import pytest

from ors_server.audit import auditing
from ors_server.audit.auditing import AuditOptions, Progress
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report_schema import report_schema
from tests.unit.audit import quizzes
from tests.unit.audit.made_reports import make_class, make_failure, make_report
from tests.unit.cli.conftest import LIMIT, ROOT, start_command

MENTIONS = f"{quizzes.__file__}:Mentions"
WAIVER = '[[waiver]]\nclass = "{}"\nreason = "as published"\ndate = 2026-11-22\n'
FAILED = make_report(
    make_class("H1"),
    make_failure("H3", ("submit", {"answer": "a\nb\x1b[2J"})),
    make_class("H2", AuditVerdict.WARN),
)


class MadeAudit:
    """The command with a made report in place of an audit; `asked` is what the audit was asked for."""

    def __init__(self, run):
        self.run = run
        self.report = FAILED
        self.asked: tuple[str, str | None, AuditOptions] | None = None

    def __call__(self, *words, report=FAILED, target=MENTIONS):
        self.report = report
        return self.run("audit", target, *words)

    async def give(self, environment, options, *, name, on_progress):
        self.asked = (environment, name, options)
        on_progress(Progress("H1", (), 12))
        return self.report


@pytest.fixture
def audited(run, monkeypatch):
    made = MadeAudit(run)
    monkeypatch.setattr(auditing, "audit", made.give)
    return made


@pytest.fixture
def writers(monkeypatch):
    """The makers of the page and of SARIF as fakes."""

    def fake(module, function, make):
        made = ModuleType(f"ors_server.audit.{module}")
        setattr(made, function, make)
        monkeypatch.setitem(sys.modules, made.__name__, made)

    fake("audit_page", "page_of", lambda report: f"<html>{report.environment}</html>")
    fake("sarif", "sarif_of", lambda report: {"runs": [report.environment]})


def test_a_failure_is_shown_with_its_calls_and_its_remedy(audited):
    ran = audited()
    assert (ran.status, ran.err) == (1, "")
    head, first, second, third, *rest = [line.rstrip() for line in ran.out.splitlines()]
    assert head.split() == ["id", "class", "verdict", "why"]
    assert first.split() == ["H1", "Doing", "nothing", "pays", "pass"]
    assert second.split() == ["H2", "A", "constant", "answer", "pays", "warn"]
    assert third == "H3  A fragment of the answer pays  FAIL     wrapped answers are paid"
    assert rest[:2] == ["", "H3 A fragment of the answer pays"]
    assert r'    submit(answer="a\nb\u001b[2J")' in rest
    assert "  earned: 1, the gold actions earn: 1" in rest
    assert any(line.startswith("  how to close it: Compare whole") for line in rest)
    assert rest[-1] == "1 passed, 1 failed, 1 warned, 0 not judged; 3 tasks, seed 7"


def test_the_options_reach_the_audit(audited, monkeypatch):
    monkeypatch.setenv("ORS_API_KEY", "made-up")
    words = ("--tasks", "2", "--only", "h3", "--only", "H1", "--seed", "5", "--budget", "9", "--no-gold")
    audited(*words, "--environment", "quiz")
    assert audited.asked == (
        MENTIONS,
        "quiz",
        AuditOptions(
            tasks=2, only=frozenset({"H1", "H3"}), seed=5, budget=9.0, uses_gold=False, api_key="made-up"
        ),
    )
    audited("--all")
    assert audited.asked[2].plays_all is True


def test_the_report_is_written_to_files(audited, writers, tmp_path):
    page, sarif, summary = (tmp_path / name for name in ("page.html", "found.sarif", "summary.md"))
    ran = audited("--report", str(page), "--sarif", str(sarif), "--summary", str(summary))
    assert ran.out.splitlines()[-4:-1] == [f"report in {page}", f"SARIF in {sarif}", f"summary in {summary}"]
    assert page.read_text() == "<html>quiz</html>"
    assert json.loads(sarif.read_text()) == {"runs": ["quiz"]}
    assert summary.read_text().startswith("## Audit of quiz\n")


def test_json_is_the_report_and_nothing_else(audited, tmp_path):
    ran = audited("--json", "--summary", str(tmp_path / "summary.md"))
    assert (ran.status, ran.err) == (1, "")
    assert ran.out == f"{FAILED.model_dump_json()}\n"


def test_warnings_are_no_failure(audited):
    ran = audited(report=make_report(make_class("H1"), make_class("H2", AuditVerdict.WARN)))
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == "1 passed, 0 failed, 1 warned, 0 not judged; 3 tasks, seed 7"


def test_waivers_beside_the_environment_are_applied_and_a_stale_one_is_noted(audited, tmp_path):
    (tmp_path / "quiz.py").write_text("")
    (tmp_path / "audit.toml").write_text(WAIVER.format("H3") + WAIVER.format("H1"))
    ran = audited(target=str(tmp_path / "quiz.py"))
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[1].split("pays")[1].split() == ["waived", "fail", "as", "published", "(2026-11-22)"]
    assert lines[-2].startswith("note: the waiver for H1 of 2026-11-22 is stale")
    assert lines[-1] == "1 passed, 0 failed, 1 warned, 1 waived, 0 not judged; 3 tasks, seed 7"


def test_waivers_of_another_file_replace_those_beside_the_environment(audited, tmp_path):
    (tmp_path / "quiz.py").write_text("")
    (tmp_path / "audit.toml").write_text(WAIVER.format("H3"))
    (tmp_path / "none.toml").write_text("")
    assert audited("--waivers", str(tmp_path / "none.toml"), target=str(tmp_path / "quiz.py")).status == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--only", "H99"), "--only: unknown class 'H99': expected some of H1, H2"),
        (("--all", "--tasks", "2"), "choose one of them"),
        (("--report", "/nowhere/page.html"), "cannot write /nowhere/page.html: there is no folder /nowhere"),
        (("--waivers", "/nowhere/audit.toml"), "does not exist"),
        (("--tasks", "0"), "--tasks"),
    ],
)
def test_a_wrong_command_line_is_refused_before_anything_is_played(audited, words, complaint):
    ran = audited(*words)
    assert (ran.status, ran.out, audited.asked) == (2, "", None)
    assert complaint in ran.err


def test_a_wrong_file_of_waivers_is_refused_before_anything_is_played(audited, tmp_path):
    file = tmp_path / "accepted.toml"
    file.write_text(WAIVER.format("H3").replace("as published", ""))
    ran = audited("--waivers", str(file))
    assert (ran.status, ran.out, audited.asked) == (2, "", None)
    assert f"{file}: waiver 1: expected a reason in words, got ''" in ran.err


def test_an_audit_of_an_environment_finds_the_same_each_time(run):
    words = ("audit", MENTIONS, "--tasks", "2", "--only", "H3", "--seed", "3", "--json")
    first = run(*words)
    assert (first.status, first.err) == (1, "")
    jsonschema.validate(first.json, json.loads(report_schema()))
    assert (first.json["environment"], first.json["seed"], first.json["tasks"]) == ("mentions", 3, 2)
    assert [(one["id"], one["verdict"]) for one in first.json["classes"]] == [("H3", "fail")]
    assert run(*words).out == first.out


def test_an_environment_that_does_not_load_is_one_line(tmp_path):
    (tmp_path / "quiz.py").write_text("raise ValueError('boom')")
    process = start_command("audit", str(tmp_path / "quiz.py"), cwd=ROOT)
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out) == (1, "")
    assert "importing it failed: ValueError: boom" in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_a_budget_that_is_over_at_once_leaves_all_unjudged(run):
    ran = run("audit", MENTIONS, "--budget", "0", "--only", "H1", "--only", "H2", "--json")
    assert ran.status == 0
    assert {one["verdict"] for one in ran.json["classes"]} == {"not_judged"}


def test_openenv_s_checks_are_answered_by_their_names(run):
    ran = run("audit", MENTIONS, "--openenv", "--only", "H22", "--only", "H18", "--tasks", "4", "--json")
    assert ran.status == 0
    rows = {row["name"]: row for row in ran.json}
    assert rows["episode_isolation"]["verdict"] == "pass"
    assert rows["oracle_max"]["verdict"] == "pass"
    assert len(rows) > 20


def test_without_a_target_there_is_nothing_to_audit(run):
    ran = run("audit")
    assert ran.status == 2
    assert "expected an environment or a URL to audit, or --episodes" in ran.err
