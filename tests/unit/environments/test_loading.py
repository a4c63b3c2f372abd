"""Finding environments: by path, by module, by installed name; a broken offer of a package stops nobody."""

import json
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from ors_server.cli.main import main
from ors_server.environments import loading
from ors_server.environments.loading import (
    UnusableEnvironment,
    find_classes,
    installed_environments,
    load_environments,
    usable_environments,
)
from ors_server.installation import install_hint
from ors_server.model.errors import EnvironmentDefinitionError, UnknownEnvironmentError


def test_references_lead_to_classes_by_path_module_and_name(tmp_path, monkeypatch):
    code = (
        "from ors_server import Environment, tool\n"
        "class Here(Environment):\n"
        "    @classmethod\n    def list_splits(cls): return ['train']\n"
        "    def get_prompt(self): return 'x'\n"
        "    @tool\n    async def t(self) -> str:\n        '''T.'''\n        return ''\n"
        "class There(Here): pass\n"
    )
    file = tmp_path / "somewhere_here.py"
    file.write_text(code)
    package = tmp_path / "somewhere_package"
    package.mkdir()
    (package / "__init__.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [cls.__name__ for cls in find_classes(str(file))] == ["Here", "There"]
    assert [cls.__name__ for cls in find_classes(f"{file}:There")] == ["There"]
    assert [cls.__name__ for cls in find_classes(str(package))] == ["Here", "There"]
    assert [cls.__name__ for cls in find_classes("somewhere_here:Here")] == ["Here"]
    assert find_classes(str(file))[0] is find_classes(str(file))[0]
    with pytest.raises(EnvironmentDefinitionError, match="two environments"):
        load_environments([str(file), str(package)])
    assert [definition.name for definition in load_environments([str(file)])] == ["here", "there"]


@pytest.mark.parametrize(
    ("code", "reference", "error", "words"),
    [
        (None, "no_such_environment", UnknownEnvironmentError, "unknown environment"),
        (None, "{tmp}/missing.py", UnknownEnvironmentError, "there is no such file or folder"),
        ("x = 1", "{file}", UnknownEnvironmentError, "defines no Environment class"),
        ("x = 1", "{file}:Nope", UnknownEnvironmentError, "has no class 'Nope'"),
        ("1 / 0", "{file}", EnvironmentDefinitionError, "ZeroDivisionError"),
        ("import sys; sys.exit(3)", "{file}", EnvironmentDefinitionError, "SystemExit"),
        ("import no_such_module_at_all", "{file}", EnvironmentDefinitionError, "no_such_module_at_all"),
    ],
    ids=str,
)
def test_a_reference_that_leads_nowhere_says_so(tmp_path, code, reference, error, words):
    file = tmp_path / "broken_environment.py"
    if code is not None:
        file.write_text(code)
    with pytest.raises(error, match=words):
        find_classes(reference.format(tmp=tmp_path, file=file))


def test_installed_environments_are_listed_by_name():
    assert list(installed_environments()) == sorted(installed_environments())


BUNDLED = "ors_server_tasks.math_word_problems:MathWordProblems"


@dataclass
class Offered:
    """An entry point of a package that is not really there."""

    package: str
    name: str
    value: str

    @property
    def dist(self):
        return SimpleNamespace(name=self.package)


@pytest.fixture
def offer(monkeypatch):
    def offer(*rows):
        points = [Offered(*row) for row in rows]
        monkeypatch.setattr(loading, "entry_points", lambda group: points)

    return offer


def test_a_bundled_name_is_not_replaced_and_the_other_package_is_named(offer):
    offer(
        ("aaa", "math_word_problems", "aaa.thing:Thing"),
        ("ors-mcp-server", "math_word_problems", BUNDLED),
        ("zzz", "math_word_problems", "zzz.thing:Thing"),
    )
    assert installed_environments() == {"math_word_problems": BUNDLED}
    unusable: list[UnusableEnvironment] = []
    assert list(usable_environments(unusable.append)) == ["math_word_problems"]
    told = list(map(str, unusable))
    assert [f"aaa.thing:Thing of {name}" in " ".join(told) for name in ("aaa", "zzz")] == [True, False]
    assert all("has the name" in text for text in told)
    assert len(told) == 2


@pytest.mark.parametrize(
    "value",
    ["no_such_module_at_all:Thing", "ors_server.model.wire:NoSuchClass", "ors_server.model.wire:TextBlock"],
)
def test_a_broken_entry_point_does_not_stop_list(offer, capsys, value):
    offer(("broken", "broken", value), ("ors-mcp-server", "math_word_problems", BUNDLED))
    assert main(["list"]) == 0
    shown = capsys.readouterr()
    assert "math_word_problems" in shown.out
    assert f"left out broken ({value} of broken)" in shown.err


def test_another_name_for_a_class_with_a_bundled_name_is_left_out(offer):
    offer(("other", "arithmetic", BUNDLED), ("ors-mcp-server", "math_word_problems", BUNDLED))
    unusable: list[UnusableEnvironment] = []
    assert list(usable_environments(unusable.append)) == ["math_word_problems"]
    assert unusable[0].name == "arithmetic"
    assert "has its name 'math_word_problems' already" in str(unusable[0])


def test_environments_whose_requirements_are_not_installed_are_one_line(offer, capsys, monkeypatch):
    monkeypatch.setattr("ors_server_tasks.scienceworld.game.find_spec", lambda name: None)
    monkeypatch.setattr("ors_server_tasks.alfworld.installation.MODULES", ("no_such_module",))
    monkeypatch.delenv("ORS_ALFWORLD_PYTHON", raising=False)
    offer(
        ("ors-mcp-server", "math_word_problems", BUNDLED),
        ("ors-mcp-server", "alfworld", "ors_server_tasks.alfworld:AlfworldTasks"),
        ("ors-mcp-server", "scienceworld", "ors_server_tasks.scienceworld:ScienceWorld"),
    )
    assert main(["list"]) == 0
    said = capsys.readouterr().err
    assert said == (
        "ors-server: not installed: alfworld, scienceworld (optional); ors-server doctor shows how\n"
    )
    assert main(["doctor", "--json"]) == 0
    findings = {found["name"]: found for found in json.loads(capsys.readouterr().out)}
    assert findings["scienceworld"]["outcome"] == findings["alfworld"]["outcome"] == "missing"
    assert install_hint("scienceworld") in findings["scienceworld"]["remedy"]
    assert install_hint("alfworld") in findings["alfworld"]["remedy"]
