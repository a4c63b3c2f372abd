"""What the documents say is so: links lead somewhere, targets exist, examples run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
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


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_the_python_examples_run_in_order(document, tmp_path):
    program = "\n".join(blocks(document, "python"))
    if not program:
        return
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
