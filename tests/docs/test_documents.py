"""What the documents say is so: links lead somewhere, targets exist, examples run.

An ordinary run leaves out the examples of pages whose commands other pages and tests run too; `make docs` and
`make stress` run those of all pages.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.fixtures.ordinary_cases import leave_to_stress

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("tasks/*.md"),
        *ROOT.glob("tasks/*/*.md"),
        *ROOT.glob("ors_server/**/README.md"),
    ]
)
DEAR = {"docs/adapters.md", "docs/audit.md", "tasks/alfworld/README.md"}
"""Pages whose examples take the processor for ten seconds and more."""
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def blocks(document, *languages):
    return [text for language, text in BLOCK.findall(document.read_text()) if language in languages]


def name_of(document):
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_relative_link_leads_to_a_file(document):
    links = [
        link
        for link in LINK.findall(document.read_text())
        if "://" not in link and not link.startswith("mailto:")
    ]
    missing = [link for link in links if not (document.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_picture_exists(document):
    pictures = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", document.read_text())
    assert [picture for picture in pictures if not (document.parent / picture).is_file()] == []


def test_the_first_page_shows_a_picture():
    assert "](docs/assets/report.png)" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_make_target_that_is_named_exists(document):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = document.read_text()
    spans = [
        *re.findall(r"`([^`\n]+)`", text),
        *"\n".join(blocks(document, "", "sh", "bash", "console")).splitlines(),
    ]
    words = [shlex.split(span, comments=True) for span in spans if re.match(r"(\$ )?make [a-z]", span)]
    named = {word for line in words for word in line if re.fullmatch(r"[a-z][a-z-]*", word)} - {"make"}
    assert named <= targets


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "document", leave_to_stress(DOCUMENTS, lambda document: name_of(document) not in DEAR), ids=name_of
)
def test_every_example_runs_and_says_what_the_document_shows(document, reader):
    reader.read(document.read_text())
    if reader.missing:
        pytest.fail(f"the examples of {', '.join(reader.missing)} did not run; run `make clients`")
