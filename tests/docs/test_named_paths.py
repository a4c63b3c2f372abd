"""The documents for contributors name files that exist, and the file for each common kind of change."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"]
FOLDERS = ("bench", "docs", "ors_server", "requirements", "scripts", "tasks", "tests")
CHANGES = {
    "a tool argument check": "ors_server/sessions/tool_arguments.py",
    "a reward": "ors_server/rewards/catalogue.py",
    "a sandbox limit": "ors_server/sandboxes/base.py",
    "a control route": "ors_server/doors/control/app.py",
    "an MCP method": "ors_server/doors/mcp/extension.py",
    "an export form": "ors_server/export/formats.py",
    "a figure of the summary": "ors_server/model/trajectory.py",
    "the generated reference in `docs/reference/`": "scripts/docs.py",
}


def spans(document):
    prose = re.sub(r"^```.*?^```", "", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", prose)


def paths(document):
    """Returns what looks like a path from the project's folder, without patterns such as `tasks/<name>/`."""
    return [span for span in spans(document) if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./-]*", span)]


def rows():
    """Returns the cells of "Where to change what" by the name of the change."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition("## Where to change what\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {cells[0].strip(" *"): " ".join(cells[1:]) for cells in lines[1:]}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_that_a_document_names_exists(document):
    named = paths(document)
    assert len(named) >= 10
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(("change", "file"), CHANGES.items())
def test_the_architecture_names_the_file_to_change(change, file):
    assert f"`{file}`" in rows()[change]


def test_every_change_names_a_file_of_the_project():
    found = rows()
    assert len(found) >= 30
    unnamed = [
        change for change, text in found.items() if not re.search(r"`(ors_server|tasks)/[\w./]*`", text)
    ]
    assert unnamed == []


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("ors_server/sessions/tool_arguments.py", "def parse_arguments"),
        ("ors_server/sandboxes/base.py", "class Limits"),
        ("ors_server/doors/control/app.py", "def make_table"),
        ("ors_server/doors/mcp/extension.py", "def methods"),
        ("ors_server/doors/ors/app.py", "def _make_table"),
        ("ors_server/export/formats.py", "_MAKERS"),
        ("ors_server/store/episode_filter.py", "CONDITIONS"),
        ("ors_server/sandboxes/hosted.py", "class HostedBackend"),
    ],
)
def test_the_names_beside_the_paths_are_in_the_files(file, name):
    assert name in (ROOT / file).read_text()
    assert name.rpartition(" ")[2] in (ROOT / "ARCHITECTURE.md").read_text()
