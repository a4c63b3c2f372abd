"""The pages of the audit: each flawed example fails as its page shows, and each mended one passes.

An ordinary run audits all flawed ones and every fourth mended one; `make stress` audits all of both.
"""

import json
import re
from pathlib import Path

import pytest

from ors_server.audit.auditing import AuditOptions, audit
from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.judgement import AuditVerdict
from tests.fixtures.ordinary_cases import every

ROOT = Path(__file__).parents[2]
OVERVIEW = ROOT / "docs/reference/audit-classes.md"
BLOCK = re.compile(r"^```python file=(\w+)\.py\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
CLASS = re.compile(r"^class (\w+)\(Environment\):", re.MULTILINE)
HEADINGS = ["A flawed environment", "What the audit reports", "A mended environment", "How to close it"]
PLACE = re.compile(r"\(\S*/(\w+\.py:\d+)\)")
"""The file and line of an author's error, without its folder."""
SHOWN_CALLS = 3
LONGEST = 100
"""Characters of a line of a transcript; the rest of a call is cut."""
VARYING = {
    "H15": "how long the pattern takes depends on the machine",
    "H17": "the rewards are random, which is the flaw",
}
"""Classes whose messages differ from run to run, to the reason."""


def page_of(identity):
    return ROOT / "docs/reference/audit" / f"{identity.lower()}.md"


def examples(identity):
    """Returns the flawed and the mended program of a page."""
    found = dict(BLOCK.findall(page_of(identity).read_text()))
    assert set(found) == {"flawed", "mended"}
    return found


def shown(report):
    """Returns the text in which a page shows a class's report."""
    lines = [f"{report.verdict.value}  {report.id}  {report.title}"]
    finding = report.findings[0]
    message = PLACE.sub(r"(\1)", finding.message)
    lines.append(f"      {message}")
    if finding.transcript is not None:
        told = finding.transcript
        lines.append(f"      task {told.index} of split {told.split}, seed {told.seed}:")
        calls = [f"        {one.tool} {json.dumps(one.arguments)}" for one in told.calls]
        lines += [call if len(call) <= LONGEST else f"{call[:LONGEST]}..." for call in calls[:SHOWN_CALLS]]
        if not calls:
            lines.append("        (no call is needed)")
        if len(calls) > SHOWN_CALLS:
            lines.append(f"        ... and {len(calls) - SHOWN_CALLS} more calls like these")
        if told.earned is not None and told.gold_return is not None:
            lines.append(f"      earned {told.earned:.3g}; to compare with: {told.gold_return:.3g}")
    return "\n".join(lines) + "\n"


async def report_on(folder, identity, kind, tasks=None):
    """Audits an example in its own class only."""
    text = examples(identity)[kind]
    (file := folder / f"{kind}.py").write_text(text)
    (name,) = CLASS.findall(text)
    report = await audit(f"{file}:{name}", AuditOptions(only=frozenset({identity}), tasks=tasks))
    (judged,) = report.classes
    return judged


@pytest.mark.timeout(600)
@pytest.mark.parametrize("identity", HACK_CLASSES)
async def test_the_flawed_example_fails_in_its_class_as_its_page_shows(identity, tmp_path):
    judged = await report_on(tmp_path, identity, "flawed")
    assert judged.verdict is AuditVerdict.FAIL, judged
    if identity not in VARYING:
        assert shown(judged) in SHOWN.findall(page_of(identity).read_text())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("identity", every(4, HACK_CLASSES))
async def test_the_mended_example_passes_in_its_class(identity, tmp_path):
    judged = await report_on(tmp_path, identity, "mended", tasks=12)
    assert judged.verdict is AuditVerdict.PASS, judged


@pytest.mark.parametrize("identity", HACK_CLASSES)
def test_every_page_has_its_class_s_title_and_the_same_parts(identity):
    text = page_of(identity).read_text()
    assert text.startswith(f"# {identity}: {HACK_CLASSES[identity].title}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert "In published work: " in text
    assert len(re.findall(r"^- ", text.partition("## How to close it")[2], re.MULTILINE)) >= 2


@pytest.mark.parametrize("identity", HACK_CLASSES)
def test_the_examples_of_a_page_are_short_and_differ(identity):
    found = examples(identity)
    assert found["flawed"] != found["mended"]
    for text in found.values():
        assert sum(bool(line.strip()) for line in text.splitlines()) <= 40
        assert all(len(line) <= 110 for line in text.splitlines())


def test_the_overview_has_an_anchor_and_a_link_for_every_class():
    text = OVERVIEW.read_text()
    rows = re.findall(r'<a id="(h\d+)"></a>\[(H\d+)\]\(audit/(h\d+)\.md\)', text)
    assert rows == [(identity.lower(), identity, identity.lower()) for identity in HACK_CLASSES]
    for one in HACK_CLASSES.values():
        assert f"| {one.title} | " in text
