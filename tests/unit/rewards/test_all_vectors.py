"""Every recording is played by a module of tests, and every row of the table of deviations is needed."""

import ast
import importlib.util
from functools import cache
from pathlib import Path

import pytest

from ors_server.rewards.deviations import DEVIATIONS

HERE = Path(__file__).parent
DATA = Path(__file__).parents[2] / "data" / "rewards"
MODULES = sorted(path for path in HERE.rglob("test_*.py") if path != Path(__file__))
RECORDINGS = sorted(path.stem for path in DATA.glob("*.json"))


@cache
def words_of(module):
    """The texts that a module has as constants, its documentation apart."""
    tree = ast.parse(module.read_text())
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@cache
def players_of(module):
    if "PLAYERS" not in module.read_text():
        return {}
    spec = importlib.util.spec_from_file_location(f"played_{module.stem}", module)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded.PLAYERS


def played():
    return {name: player for module in MODULES for name, player in players_of(module).items()}


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_recording_is_played(name):
    assert any({name, f"{name}.json"} & words_of(module) for module in MODULES)


def test_every_row_is_about_a_recording_and_says_why():
    for row in DEVIATIONS:
        assert row.files
        assert set(row.files) <= set(RECORDINGS), row
        assert row.what.strip(), row
        assert row.why.strip(), row
    assert len({(row.vectors, row.what) for row in DEVIATIONS}) == len(DEVIATIONS)


@pytest.mark.parametrize("row", DEVIATIONS, ids=lambda row: f"{row.files[0]}-{row.becomes}-{row.what[:30]}")
def test_every_row_is_about_a_case_that_is_recorded(row, recorded):
    assert any(row.covers(name, case) for name in row.files for case in recorded(name))


def test_every_row_is_needed_by_a_case(recorded, compare):
    players = played()
    needed = {
        (row, name)
        for name, player in players.items()
        for case in recorded(name)
        for row in compare(name, case, player)
    }
    rows = [row for row in DEVIATIONS if set(row.files) <= set(players)]
    assert len(rows) >= 15  # the others are about files whose own modules count
    assert [row.what for row in rows if not any(row is one for one, _ in needed)] == []
