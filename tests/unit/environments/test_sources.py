"""Environments of other packages, by `SOURCE/NAME`: how they are found, and every way in which that fails."""

import sys
from dataclasses import replace

import pytest

from ors_server.cli.main import main
from ors_server.cli.shell_completion import installed_names
from ors_server.environments.environment_names import ENVIRONMENT_NAME
from ors_server.environments.loading import find_classes, load_environments
from ors_server.environments.sources import (
    Source,
    find_sourced,
    load_source,
    nearest,
    served_name,
    source_names,
)
from ors_server.installation import install_hint, package_hint
from ors_server.model.errors import EnvironmentDefinitionError, UnknownEnvironmentError

MODULE = """
from ors_server import Environment, tool
from ors_server.environments.sources import Source, served_name

NAMES = ("Alpha-v1", "beta", "broken_one", "raises", "refuses")


def make(name):
    if name == "raises":
        raise ValueError("no such level")
    if name == "refuses":
        from ors_server.model.errors import EnvironmentDefinitionError
        raise EnvironmentDefinitionError("games/refuses: unknown option 'colour'; expected size")

    class Made(Environment):
        @classmethod
        def list_splits(cls):
            return ["train"]

        @classmethod
        def list_tasks(cls, split):
            return [{"task": 1}]

        def get_prompt(self):
            return "Play."

        @tool
        def move(self) -> str:
            '''Move.'''
            return "moved"

    Made.name = served_name("games", name)
    return Made


GAMES = Source(
    name="games",
    requires=("pytest",),
    licence="MIT",
    homepage="https://example.org/games",
    list_names=lambda: NAMES,
    make=make,
    broken={"broken_one": "it refuses its own answers"},
)
NOT_ONE = 7
OTHERWISE = Source("other", (), "MIT", "", lambda: (), make)
"""

ENTRIES = {
    "games": "made_up_games:GAMES",
    "not_one": "made_up_games:NOT_ONE",
    "otherwise": "made_up_games:OTHERWISE",
    "absent": "made_up_games_without:GAMES",
}


def install(folder, package, entries):
    """Write what an installed package with entry points looks like."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
    (info / "entry_points.txt").write_text(f"[ors_server.sources]\n{lines}")


@pytest.fixture
def games(tmp_path, monkeypatch) -> Source:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "made_up_games.py").write_text(MODULE)
    install(tmp_path, "made_up_games", ENTRIES)
    yield load_source("games")
    sys.modules.pop("made_up_games", None)


def test_a_reference_leads_to_the_environment_of_its_source(games):
    assert {"games", "not_one"} <= set(source_names())
    (definition,) = load_environments(["games/Alpha-v1"])
    assert definition.name == "games_alpha-v1"
    assert find_sourced("games/beta").name == "games_beta"
    assert find_sourced("no_source/beta") is None
    assert find_sourced("games") is None


def test_a_file_of_that_path_comes_before_a_source(games, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "games" / "beta").mkdir(parents=True)
    (tmp_path / "games" / "beta" / "__init__.py").write_text("x = 1")
    with pytest.raises(UnknownEnvironmentError, match="defines no Environment class"):
        find_classes("games/beta")


def test_a_broken_environment_is_made_on_request_only(games):
    with pytest.raises(EnvironmentDefinitionError) as caught:
        find_classes("games/broken_one")
    assert str(caught.value) == (
        "games/broken_one is listed as broken: it refuses its own answers; games/broken_one! serves it all "
        "the same"
    )
    assert load_environments(["games/broken_one!"])[0].name == "games_broken_one"


LIST = "; ors-server list --available lists all"
MISTAKES = {
    "games/alpha-v2": f"expected one of 5 names, got 'alpha-v2'; the nearest are Alpha-v1{LIST}",
    "games/": f"expected one of 5 names, got none; the first are Alpha-v1, beta, broken_one{LIST}",
    "games/raises": "making it failed: ValueError: no such level (made_up_games.py:10)",
    "games/refuses": "unknown option 'colour'; expected size",
    "not_one/x": "source not_one: expected a Source at made_up_games:NOT_ONE, got int",
    "otherwise/x": "made_up_games:OTHERWISE is named 'other'; name its entry point so",
    "absent/x": "importing made_up_games_without:GAMES failed: ModuleNotFoundError: No module named",
}


@pytest.mark.parametrize("reference", MISTAKES)
def test_what_cannot_be_made_is_refused_in_one_line(games, reference, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # so that places in files are short
    is_unknown = "expected one of" in MISTAKES[reference]
    with pytest.raises(UnknownEnvironmentError if is_unknown else EnvironmentDefinitionError) as caught:
        find_classes(reference)
    text = str(caught.value)
    assert text.removeprefix("source ").startswith(reference.partition("/")[0])
    assert MISTAKES[reference] in text
    assert main(["check", reference]) == (2 if is_unknown else 1)
    assert capsys.readouterr().err.rstrip().splitlines() == [f"ors-server: {text}"]


def test_an_unknown_source_is_refused_with_the_nearest(games):
    with pytest.raises(UnknownEnvironmentError) as caught:
        load_source("gams")
    assert str(caught.value) == (
        "unknown source 'gams'; expected games; ors-server list --available lists all"
    )
    with pytest.raises(UnknownEnvironmentError, match=r"SOURCE/NAME of the sources .*games"):
        find_classes("gams/beta")


def test_a_missing_package_is_refused_with_the_command_that_installs_it(games):
    absent = replace(games, requires=("pytest", "no-such-package-at-all==1.2"), broken={})
    assert games.missing() == []
    with pytest.raises(EnvironmentDefinitionError) as caught:
        absent.load("beta")
    assert str(caught.value) == (
        f"games: expected no-such-package-at-all==1.2, and it is not installed; run {install_hint('games')}"
    )


def test_a_package_of_another_version_is_refused(games):
    pinned = replace(games, requires=("made_up_games==2.0",), install="pip install made_up_games==2.0")
    with pytest.raises(EnvironmentDefinitionError) as caught:
        pinned.load("beta")
    assert str(caught.value) == (
        f"games: expected made_up_games==2.0, got version 1.0; run {package_hint('made_up_games==2.0')}"
    )
    elsewhere = replace(pinned, find_version=lambda _: "2.0")
    assert elsewhere.load("beta").name == "games_beta"


def test_two_environments_of_one_name_are_refused_with_both_places(games):
    with pytest.raises(EnvironmentDefinitionError, match=r"named 'games_beta': Made \(.*\) and Made \("):
        load_environments(["games/beta", "games/beta"])


def test_of_two_sources_of_one_name_one_is_kept(games, tmp_path):
    install(tmp_path, "second_package", {"games": "zz_other:GAMES"})
    assert source_names().count("games") == 1
    assert load_source("games") is games


def test_an_open_source_takes_names_that_it_does_not_list(games):
    assert replace(games, is_open=True).load("http://127.0.0.1/x").name == "games_http___127_0_0_1_x"


@pytest.mark.parametrize(
    ("source", "name", "served"),
    [
        ("reasoning_gym", "leg_counting", "reasoning_gym_leg_counting"),
        ("gymnasium", "FrozenLake-v1", "gymnasium_frozenlake-v1"),
        ("bfcl", "x" * 59, f"bfcl_{'x' * 59}"),
        ("bfcl", "x" * 60, f"bfcl_{'x' * 50}_90a27eb5"),
    ],
)
def test_served_names_are_predictable_and_legal(source, name, served):
    assert ENVIRONMENT_NAME.fullmatch(served_name(source, name))
    assert served_name(source, name)[:55] == served[:55]
    assert len(served_name(source, name)) == len(served)


def test_the_nearest_names_do_not_depend_on_case():
    assert nearest("frozenlake-v1", ["FrozenLake-v1", "Taxi-v4"]) == ["FrozenLake-v1"]


def test_the_shell_completes_names_of_sources(games):
    assert "games/" in installed_names("gam")
    assert installed_names("games/be") == ["games/beta"]
    assert installed_names("absent/") == []
