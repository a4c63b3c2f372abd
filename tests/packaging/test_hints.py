"""Every command that a message tells somebody to type installs something that `pyproject.toml` has."""

import ast
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from ors_server.cli.doctor_checks import EXTRAS
from ors_server.environments.sources import load_source, source_names
from ors_server.installation import DISTRIBUTION, install_hint, openreward_hint, package_hint, reinstall_hint
from ors_server.model.settings import Settings
from ors_server.model.settings_sources import check_variables

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OWN_EXTRAS = PROJECT["optional-dependencies"]
REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[a-z,-]+\])?([<>=!~]=?[0-9][0-9a-z.*]*)?(,[<>=!~]+[0-9.]+)*"
)


@pytest.fixture(scope="module")
def calls(source_nodes: dict[str, list[ast.AST]]) -> dict[str, list[tuple[str, ast.Call]]]:
    """The place and the expression of every call in the package and the tasks, by the function's name."""
    by_name: dict[str, list[tuple[str, ast.Call]]] = {}
    for path, nodes in source_nodes.items():
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                by_name.setdefault(node.func.id, []).append((f"{path}:{node.lineno}", node))
    return by_name


def extras_named(calls) -> dict[str, str]:
    """Returns the place of each extra that a hint names, by the extra."""
    named: dict[str, str] = dict.fromkeys(EXTRAS, "the table of doctor")
    for place, call in calls["install_hint"]:
        for argument in call.args:
            if isinstance(argument, ast.Constant):
                named[argument.value] = place
    for place, call in calls["_load"]:
        if place.startswith("ors_server/export/trackers.py"):  # which hands its second argument on
            named[ast.literal_eval(call.args[1])] = place
    for name in source_names():
        source = load_source(name)
        if not source.install:
            named[source.extra_name] = f"the source {name}"
    return named


def test_every_extra_that_a_hint_names_exists(calls):
    named = extras_named(calls)
    assert {extra: place for extra, place in named.items() if extra not in OWN_EXTRAS} == {}
    assert set(OWN_EXTRAS) == set(named), "an extra that no message names helps nobody"


def test_hints_name_their_extras_by_words_or_by_a_table(calls):
    """So that the test above sees each of them."""
    computed = [place for place, call in calls["install_hint"] if not all(map(is_constant, call.args))]
    assert {place.partition(":")[0] for place in computed} <= {
        "ors_server/cli/doctor_checks.py",
        "ors_server/environments/sources.py",
        "ors_server/export/trackers.py",
    }


def is_constant(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Constant)


@pytest.mark.parametrize("extra", ["", *OWN_EXTRAS])
def test_a_hint_is_one_command_of_pip_for_this_distribution(extra):
    words = shlex.split(install_hint(extra))
    assert "install" in words
    target = words[-1]
    assert target.endswith(f"[{extra}]" if extra else target[-1])
    assert DISTRIBUTION in target or Path(target.partition("[")[0]).exists()


@pytest.mark.parametrize("name", source_names())
def test_a_source_s_command_installs_all_that_it_requires(name):
    source = load_source(name)
    command = source.install_command
    if source.install:
        assert all(requirement in shlex.split(command) for requirement in source.requires), command
    else:
        assert command == install_hint(source.extra_name)
        required = {re.split(r"[<>=!~\[]", line)[0] for line in OWN_EXTRAS[source.extra_name]}
        assert {requirement.partition("==")[0] for requirement in source.requires} <= required


@pytest.mark.parametrize("name", source_names())
def test_a_variable_that_a_command_sets_is_known_to_every_command(name):
    variables = re.findall(r"export (\w+)=", load_source(name).install_command)
    assert len(variables) == load_source(name).install_command.count("export")
    check_variables(variables, Settings.model_fields)


def test_packages_that_hints_name_are_requirements(calls):
    for place, call in calls["package_hint"]:
        words = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
        assert all(word.startswith("-") or REQUIREMENT.fullmatch(word) for word in words), place
    for hint in (
        package_hint("pytest"),
        reinstall_hint(),
        *openreward_hint().partition("run ")[2].split(" && "),
    ):
        assert "install" in shlex.split(hint)
