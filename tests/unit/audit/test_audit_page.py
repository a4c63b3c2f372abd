"""The report of an audit as a page: complete, and safe whatever an agent wrote."""

import re
from html.parser import HTMLParser

import pytest

from ors_server.audit.audit_page import page_of
from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import ClassReport
from tests.fixtures.made_audit import HOSTILE, LONG, make_audit, make_transcript


class Read(HTMLParser):
    """The elements of a page, and the text of each section."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.sections = {}
        self.section = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if tag == "section":
            self.section = attributes["id"]

    def handle_data(self, data):
        self.sections[self.section] = self.sections.get(self.section, "") + data


@pytest.fixture(scope="module")
def read():
    return Read(page_of(make_audit()))


def test_waivers_come_first_then_verdicts_and_failures(read):
    sections = [attributes["id"] for tag, attributes in read.elements if tag == "section"]
    assert sections == ["waivers", "verdicts", "failures", "warnings", "not-judged", "scores", "audit"]
    assert "the game has no end" in read.sections["waivers"]


def test_every_class_has_its_verdict(read):
    for one in make_audit().classes:
        assert one.title in read.sections["verdicts"]
    words = read.sections["verdicts"]
    assert [words.count(word) for word in ("failed", "passed", "waived:")] == [4, 15, 1]


def test_every_failure_says_what_happened_why_and_how_to_close_it(read):
    for one in make_audit().failed:
        assert HACK_CLASSES[one.id].question in read.sections["failures"]
        assert HACK_CLASSES[one.id].remedy in read.sections["failures"]
        assert all(finding.message.split(" ")[0] in read.sections["failures"] for finding in one.findings)
    assert "0.9, against 1 for the gold actions" in read.sections["failures"]
    assert "ors-server replay --store audit.sqlite --label audit=H1" in read.sections["failures"]
    assert "H4 Listing every candidate pays" in read.sections["failures"]
    assert "/project/environments/sums.py:71" in read.sections["failures"]


def test_waived_failures_are_not_among_the_failures(read):
    assert "Repeating a step pays" not in read.sections["failures"]


def test_warnings_and_reasons_are_there(read):
    assert "/project/environments/sums.py:28" in read.sections["warnings"]
    assert "no judge is a model" in read.sections["not-judged"]
    assert "74.0 % to 96.5 %" in read.sections["scores"]


def test_long_texts_are_folded_and_whole(read):
    assert LONG.strip() in read.sections["failures"]
    assert any(tag == "details" for tag, _ in read.elements)


def test_no_text_of_an_agent_becomes_markup(read):
    assert [tag for tag, _ in read.elements if tag in {"img", "iframe", "b", "object"}] == []
    assert sum(tag == "script" for tag, _ in read.elements) == 1
    assert not [name for _, attributes in read.elements for name in attributes if name.startswith("on")]
    assert HOSTILE.partition("\u202e")[0].strip() in read.sections["failures"]


def test_bidirectional_control_signs_of_transcripts_are_escapes():
    page = page_of(make_audit(environment="sums\u202e", version="\u2067"))
    assert "\\u202eturned" in page
    assert not {"\u202e", "\u2067"} & set(page)


def test_nothing_is_loaded_from_anywhere(read):
    links = [
        attributes[name] for _, attributes in read.elements for name in ("src", "href") if name in attributes
    ]
    assert [link for link in links if not link.startswith(("#", "data:"))] == []
    policy = next(a["content"] for t, a in read.elements if t == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none'")


def test_links_lead_to_what_is_on_the_page(read):
    names = {attributes["id"] for _, attributes in read.elements if "id" in attributes}
    links = {a["href"][1:] for _, a in read.elements if a.get("href", "").startswith("#")}
    assert links <= names


def test_an_audit_without_flaws_says_so():
    classes = tuple(ClassReport(id=name, verdict=AuditVerdict.PASS) for name in HACK_CLASSES)
    read = Read(
        page_of(make_audit(classes=classes, gold_return=None, version="", notes=(), source_file=None))
    )
    assert "There is no failure." in read.sections["failures"]
    assert "waivers" not in read.sections
    assert "not-judged" not in read.sections


def test_the_same_report_gives_the_same_page():
    assert page_of(make_audit()) == page_of(make_audit())


def test_values_that_are_no_texts_are_shown_as_json():
    report = make_audit()
    calls = make_transcript().calls
    assert re.search(r"<pre[^>]*>3</pre>", page_of(report))
    assert calls[1].arguments["number"] == 3
