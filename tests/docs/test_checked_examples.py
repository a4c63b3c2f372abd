"""Every environment that a document shows keeps the rules that `ors-server check` knows."""

import re
from pathlib import Path

import pytest

from ors_server.testing import check_environment

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/reference/*.md")])
FILE = re.compile(r"^```python file=(\S+\.py)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
MISTAKEN = {"wrong.py"}
"""Examples of what authors get wrong."""


def environments():
    for document in DOCUMENTS:
        files = dict(FILE.findall(document.read_text()))
        for name, text in files.items():
            if re.search(r"^class \w+\(Environment\):", text, re.MULTILINE) and name not in MISTAKEN:
                yield pytest.param(files, name, id=f"{document.name}-{name}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("files", "name"), list(environments()))
def test_an_environment_of_a_document_passes_every_check_that_must_hold(files, name, tmp_path):
    for each, text in files.items():
        (tmp_path / each).write_text(text)
    report = check_environment(str(tmp_path / name), tasks_per_split=2)
    assert report.is_conformant, report


def test_there_are_examples():
    assert len(list(environments())) >= 10
