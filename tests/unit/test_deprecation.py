"""Old names go on working for one minor version."""

import ast
import re
import types
import warnings
from pathlib import Path

import pytest

import ors_server
from ors_server.deprecation import deprecated, deprecated_names

ROOT = Path(__file__).parents[2]


@pytest.fixture
def module():
    made = types.ModuleType("shop")
    find = deprecated_names("shop", {"Shelf": "ors_server.model.policy:EpisodePolicy"}, removed_in="99.0")

    def __getattr__(name):  # noqa: N807 - what a module defines
        return find(name)

    vars(made)["__getattr__"] = __getattr__
    return made


def test_an_old_name_gives_the_new_value_with_a_warning_and_another_name_is_no_attribute(module):
    message = r"shop\.Shelf is deprecated, use shop\.EpisodePolicy: version 99\.0 removes it"
    with pytest.warns(DeprecationWarning, match=message) as caught:
        assert module.Shelf is ors_server.EpisodePolicy
    assert caught[0].filename == __file__
    with pytest.raises(AttributeError, match="module 'shop' has no attribute 'Chair'"):
        _ = module.Chair


def test_a_deprecated_function_warns_and_works_and_others_do_not_warn():
    @deprecated("use new(); version 99.0 removes old()")
    def old() -> int:
        return 1

    with pytest.warns(DeprecationWarning, match=r"use new\(\)"):
        assert old() == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(hasattr(ors_server, name) for name in ors_server.__all__)


def removals():
    """The version that removes each deprecated name, by the place that says so."""
    for path in (ROOT / "ors_server").rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "deprecated" in text else ():
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                if name == "deprecated_names":
                    (version,) = [each.value for each in node.keywords if each.arg == "removed_in"]
                    yield place, ast.literal_eval(version)
                elif name == "deprecated":
                    found = re.search(r"version (\d+\.\d+) removes", ast.literal_eval(node.args[0]))
                    assert found, f"{place}: the message lacks 'version X.Y removes ...'"
                    yield place, found[1]


def test_no_deprecated_name_outlives_its_version():
    now = tuple(map(int, ors_server.__version__.split(".")[:2]))
    overdue = [place for place, version in removals() if tuple(map(int, version.split("."))) <= now]
    assert overdue == [], "remove these names: their version is here"
