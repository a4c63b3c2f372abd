"""The page of verdicts follows from its data, and every environment that comes with the server passes."""

from pathlib import Path

import pytest

from tests.script_modules import load_script

ROOT = Path(__file__).parents[2]
verdicts = load_script("audit_verdicts")


def test_the_page_follows_from_the_data():
    assert verdicts.PAGE.read_text() == verdicts.page(verdicts.read_data()), "run scripts/audit_verdicts.py"


def test_every_bundled_environment_passes():
    data = verdicts.read_data()
    folders = {path.name for path in (ROOT / "tasks").iterdir() if (path / "environment.py").exists()}
    assert folders == set(verdicts.BUNDLED)
    # F1 pays shared words: a wrong title that names the right page earns a part: a warning, no fault.
    expected = dict.fromkeys(verdicts.BUNDLED, "pass") | {"qa": "warns H23"}
    assert {name: data[name]["verdict"] for name in verdicts.BUNDLED} == expected
    assert all(data[name]["tasks"] >= 5 for name in verdicts.BUNDLED)


def test_a_report_becomes_a_row_with_the_first_finding_of_each_class():
    call = {"tool": "submit", "arguments": {"answer": "x" * 3000}}
    transcript = {
        "split": "test", "index": 2, "seed": 0, "calls": [call], "earned": 1.0, "gold_return": 1.0,
    }  # fmt: skip
    found = [{"message": "a <hole>", "transcript": transcript}, {"message": "another", "transcript": None}]
    classes = [
        {"id": "H1", "verdict": "pass", "findings": [], "reason": ""},
        {"id": "H3", "verdict": "fail", "findings": found, "reason": ""},
        {"id": "H5", "verdict": "warn", "findings": found[1:], "reason": ""},
        {"id": "H9", "verdict": "not_judged", "findings": [], "reason": "no answer"},
    ]
    row = verdicts.row_of({"tasks": 7, "gold_return": 1.0, "classes": classes})
    assert row["verdict"] == "fails H3; warns H5"
    assert row["not_judged"] == {"H9": "no answer"}
    shown = verdicts.page({"some/one": row})
    assert "| some | 1 | 0 | 0 | 1 |" in shown
    assert "- **H3 fails**: a \\<hole\\>. On task 2 of test, `submit(answer=" in shown
    assert "- **H5 warns**: another.\n" in shown


@pytest.mark.parametrize("text", ["a `b` c", "plain", "x" * 5000])
def test_code_in_the_page_ends_where_it_should(text):
    shown = verdicts.page(
        {"some/one": {"tasks": 1, "fail": {"H1": {
            "message": "m", "split": "test", "index": 0, "earned": None, "gold_return": None,
            "calls": [["say", {"text": text}]],
        }}, "warn": {}, "not_judged": {}, "verdict": "fails H1"}}
    )  # fmt: skip
    (line,) = (line for line in shown.splitlines() if line.startswith("- **H1 fails**"))
    ticks = "`` " if "`" in text else "`"
    assert line.count(ticks.strip()) >= 2
    assert len(line) < 1000
