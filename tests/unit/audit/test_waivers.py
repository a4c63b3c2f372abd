"""`audit.toml`: what is read, what is refused, where it is found, and what it changes."""

import sys
from datetime import date

import pytest

from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.waivers import Waiver, WaiverError, apply_waivers, find_waivers, read_waivers
from tests.unit.audit.made_reports import make_class, make_failure, make_report

DAY = date(2026, 11, 22)
ENTRY = '[[waiver]]\nclass = "H2"\nreason = "as published"\ndate = 2026-11-22\n'


@pytest.fixture
def written(tmp_path):
    def write(text):
        file = tmp_path / "audit.toml"
        file.write_text(text)
        return file

    return write


def test_waivers_are_read_in_order(written):
    second = '[[waiver]]\nclass = "h13"\nreason = "two\\n lines"\ndate = 2026-11-22\n'
    assert read_waivers(written(ENTRY + second)) == (
        Waiver("H2", "as published", DAY),
        Waiver("H13", "two lines", DAY),
    )
    assert read_waivers(written("")) == ()


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('class = "H2"', 'class = "H99"', "waiver 1: unknown class 'H99': expected some of H1, H2"),
        ('class = "H2"', "class = 2", "expected a class such as 'H2', got 2"),
        ('class = "H2"\n', "", "expected a class such as 'H2', got nothing"),
        ('"as published"', '" "', "expected a reason in words, got ' '; write why"),
        ('reason = "as published"\n', "", "expected a reason in words, got nothing"),
        (
            "date = 2026-11-22\n",
            "",
            "expected a date such as 2026-11-22 without quotation marks, got nothing",
        ),
        ("2026-11-22", '"2026-11-22"', "without quotation marks, got '2026-11-22'"),
        ("2026-11-22", "2026-11-22T10:00:00", "expected a date such as"),
        (
            "date",
            "until = 2027-01-01\ndate",
            "expected the keys class, reason, date, got 'until'; remove it",
        ),
        ("[[waiver]]", "[waiver]", "expected only [[waiver]] tables, got 'waiver' that is not a list"),
        ("[[waiver]]", "[[waivers]]", "expected only [[waiver]] tables, got 'waivers'"),
        ("[[waiver]]", "[[waiver", "expected TOML, got: "),
        (ENTRY, ENTRY + ENTRY, "expected one waiver per class, got several for H2; keep one"),
        (ENTRY, "waiver = [1]", "waiver 1: expected a table, got 1"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_the_remedy(written, old, new, complaint):
    file = written(ENTRY.replace(old, new, 1))
    with pytest.raises(WaiverError) as raised:
        read_waivers(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert complaint in str(raised.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(WaiverError, match=r"none\.toml: cannot read the file of waivers: No such file"):
        read_waivers(tmp_path / "none.toml")


def test_the_file_is_beside_the_source_or_the_declaration(written, tmp_path, monkeypatch):
    file = written(ENTRY)
    (tmp_path / "quiz.py").write_text("class Quiz: ...")
    (tmp_path / "environment.toml").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    places = ["quiz.py", "quiz.py:Quiz", "environment.toml", "", "../" + tmp_path.name]
    for place in [str(tmp_path / each) for each in places] + ["quiz:Quiz", "quiz"]:
        assert find_waivers(place).resolve() == file, place
    assert "quiz" not in sys.modules


def test_a_class_has_the_file_beside_its_module():
    assert find_waivers(Waiver) is None
    assert find_waivers(int) is None


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:1", "gymnasium/Taxi-v4", "nosuch", "no.such", "qa", "sys"]
)
def test_without_a_file_there_are_no_waivers(target):
    assert find_waivers(target) is None


def test_failures_and_warnings_are_waived_and_a_stale_waiver_is_noted():
    report = make_report(
        make_class("H1"),
        make_class("H2", AuditVerdict.WARN),
        make_failure("H3"),
        make_failure("H4"),
        make_class("H5", AuditVerdict.NOT_JUDGED, reason="no tool takes an answer"),
    )
    waived = apply_waivers(report, [Waiver(f"H{n}", "as published", DAY) for n in (1, 2, 3, 5, 6)])
    assert [one.id for one in waived.classes if one.is_waived] == ["H2", "H3"]
    assert [one.id for one in waived.failed] == ["H4"]
    assert waived.classes[1].reason == "as published (2026-11-22)"
    assert waived.classes[4] == report.classes[4]
    assert waived.notes == ("the waiver for H1 of 2026-11-22 is stale, because the class passes; remove it",)
