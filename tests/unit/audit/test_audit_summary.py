"""The summary of an audit in Markdown."""

import pytest

from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import ClassReport
from ors_server.audit.summary import escape_markdown, summary_of
from tests.fixtures.made_audit import make_audit


def test_it_counts_and_names_failures_warnings_and_waivers():
    text = summary_of(make_audit())
    assert "**3 failures, 2 warnings, 15 passed, 2 not judged, 1 waived** (30 tasks, seed 7" in text
    titles = [line for line in text.splitlines() if line.startswith("### ")]
    assert titles == ["### Waived", "### Failures", "### Warnings", "### Not judged"]
    assert "by the same calls as H1" in text
    assert HACK_CLASSES["H11"].remedy in text


def test_every_row_of_a_table_has_the_cells_of_its_head():
    tables = [block for block in summary_of(make_audit()).split("\n\n") if block.startswith("|")]
    widths = [{line.replace("\\|", "").count("|") for line in block.splitlines()} for block in tables]
    assert len(widths) == 4
    assert all(len(one) == 1 for one in widths)


def test_texts_are_neither_markdown_nor_html():
    text = summary_of(make_audit())
    assert "<script>" not in text.replace("\\<", "")
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", "a\\|b"),
        ("a\nb\r\nc", "a b c"),
        ("<b>", "\\<b\\>"),
        ("@owner", "\\@owner"),
        ("\\|", "\\\\\\|"),
        ("[x](y)", "\\[x\\](y)"),
    ],
)
def test_signs_are_escaped(text, escaped):
    assert escape_markdown(text) == escaped


def test_long_texts_are_cut():
    assert len(escape_markdown("word " * 1000)) == 300


def test_an_audit_without_flaws_has_no_tables():
    classes = tuple(ClassReport(id=name, verdict=AuditVerdict.PASS) for name in HACK_CLASSES)
    assert "|" not in summary_of(make_audit(classes=classes))
