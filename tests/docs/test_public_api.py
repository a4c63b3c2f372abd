"""What is public is listed, and a signature that changes is in the changelog."""

import importlib
import re
from pathlib import Path

import pytest

import ors_server
from tests.script_modules import load_script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    return load_script("public_api")


@pytest.fixture(scope="module")
def api(script):
    return script.public_api()


def unmentioned(changes, changelog):
    (unreleased,) = re.findall(r"^## \[Unreleased\]$(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", unreleased))))
    return {name: lines for name, lines in changes.items() if name.rpartition(".")[2] not in named}


def test_a_changed_signature_has_a_line_in_the_changelog(script, api):
    left = unmentioned(script.changes(script.released(), api), (ROOT / "CHANGELOG.md").read_text())
    lines = "\n".join(line for lines in left.values() for line in lines)
    assert left == {}, (
        f"These public names differ from the release, and CHANGELOG.md does not name them in backticks under "
        f"[Unreleased]: {', '.join(left)}. Write a line for each, or take the change back. At a release, "
        f"`.venv/bin/python scripts/public_api.py --release` accepts them.\n{lines}"
    )


def test_every_public_name_is_in_the_list(script, api):
    for module in script.MODULES:
        names = set(importlib.import_module(module).__all__) - {"__version__"}
        assert {name for name in api if name.rpartition(".")[0] == module} == {
            f"{module}.{name}" for name in names
        }


def test_the_list_is_that_of_the_newest_release(script):
    first = script.LIST.read_text().splitlines()[0]
    assert f" {ors_server.__version__}," in first, "run scripts/public_api.py --release"


def test_a_removed_a_new_and_a_changed_name_are_changes(script):
    before = {"m.a": ["m.a(x: int) -> int"], "m.b": ["m.b"], "m.c": ["m.c"]}
    after = {"m.a": ["m.a(x: str) -> int"], "m.b": ["m.b"], "m.d": ["m.d"]}
    changes = script.changes(before, after)
    assert changes == {
        "m.a": ["- m.a(x: int) -> int", "+ m.a(x: str) -> int"],
        "m.c": ["- m.c"],
        "m.d": ["+ m.d"],
    }
    changelog = "## [Unreleased]\n\n- `a(x)` takes text; b\n\n## [0.1.0]\n\n- `c`, `d`\n"
    assert set(unmentioned(changes, changelog)) == {"m.c", "m.d"}
    assert unmentioned(changes, changelog.replace("text; b", "text, `c` and `d` too")) == {}


def test_a_list_is_read_as_it_was_written(script):
    assert script.name_of("class ors_server.Split(name: str)") == "ors_server.Split"
    assert script.name_of("ors_server.rewards.score(x: int) -> int") == "ors_server.rewards.score"
    assert script.name_of("ors_server.Split.name: str") == "ors_server.Split"


def test_the_source_of_the_given_folder_is_read(script, tmp_path):
    for module in script.MODULES:
        folder = tmp_path.joinpath(*module.split("."))
        folder.mkdir(parents=True)
        folder.joinpath("__init__.py").write_text('__all__ = ["new"]\n\n\ndef new(x: int) -> int: ...\n')
    assert script.public_api(tmp_path)["ors_server.new"] == ["ors_server.new(x: int) -> int"]


def test_a_type_is_listed_without_what_is_added_to_it(script):
    assert script.plain_type("Annotated[str | None, Flag(Address)]") == "str | None"
    assert script.plain_type("Literal['a', 'b']") == "Literal['a', 'b']"
