"""The reference of the Python API is current, and has every public name with its members."""

import re
from pathlib import Path

import pytest

from tests.script_modules import load_script

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/reference/python"


@pytest.fixture(scope="module")
def script():
    return load_script("api_reference")


@pytest.fixture(scope="module")
def api():
    return load_script("public_api")


@pytest.fixture(scope="module")
def public(api):
    """The lines of each public name of the source."""
    return api.public_api()


@pytest.fixture(scope="module")
def parts():
    """The text below the heading of each public name."""
    found: dict[str, str] = {}
    for page in FOLDER.glob("*.md"):
        pieces = re.split(r"^### (\S+)$", page.read_text(), flags=re.MULTILINE)
        found |= dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return found


def test_the_pages_are_up_to_date(script):
    pages = script.rendered()
    assert {path.name for path in FOLDER.glob("*.md")} == set(pages)
    stale = [name for name, text in pages.items() if (FOLDER / name).read_text() != text]
    assert stale == [], "run scripts/docs.py"


def part_of(parts, name):
    """Returns what the pages have below a name such as `ors_server.client.play`."""
    module, _, last = name.rpartition(".")
    text = parts.get(last) or parts[f"{module.rpartition('.')[2]}.{last}"]
    assert f"`from {module} import {last}`" in text
    return text


def test_every_public_name_is_on_a_page_with_every_member(public, parts):
    missing = []
    for name, lines in public.items():
        text = part_of(parts, name)
        for line in lines:
            member = re.match(rf"{re.escape(name)}\.(\w+)", line)
            if member and not re.search(rf"[` ]{member[1]}\b", text):
                missing.append(line)
    assert missing == []


def test_every_name_of_the_newest_release_is_there_unless_it_changed(api, public, parts):
    changed = set(api.changes(api.released(), public))
    kept = set(api.released()) - changed
    assert len(kept) > 100
    for name in kept:
        part_of(parts, name)


def test_exec_and_its_result_are_documented_in_full(parts):
    text = parts["Sandbox"].partition("#### Sandbox.exec\n")[2].partition("\n#### ")[0]
    assert "async def exec(command: str, *, time_limit: float | None = None) -> ExecResult" in text
    assert "A failing command is a result, not an error" in text
    assert "- `time_limit`: Seconds, above 0" in text
    assert "- `SandboxClosedError`: " in text
    assert "- `exit_code: int | None`" in parts["ExecResult"]


def test_a_missing_an_unknown_and_a_repeated_name_are_errors(script, monkeypatch):
    page = script.ApiPage("Title", "Purpose.", {"Section": "score score nothing"})
    monkeypatch.setattr(script, "PAGES", {"page.md": page})
    with pytest.raises(ValueError, match=r"unknown \['nothing'\], repeated \['score'\]") as raised:
        script.rendered()
    assert "'Sandbox'" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("At most `a < b` or <b>.", "At most `a < b` or \\<b>."),
        ("Blocking: [`AsyncClient`][ors_server.client.AsyncClient].", "Blocking: `AsyncClient`."),
        ("Seconds (docs/policy.md).", "Seconds ([policy.md](../../policy.md))."),
    ],
)
def test_texts_become_markdown(script, text, markdown):
    assert script.plain(text) == markdown
