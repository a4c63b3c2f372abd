"""Each recipe at a running server, in an empty folder: `ors-server call ... submit` pays right responses only."""

import csv
import json
import sqlite3
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ors_server.authoring.declared.declaration_file import recipe_names
from ors_server.cli.main import main
from tests.unit.cli.conftest import serve as serve  # noqa: PLC0414  (a fixture)

CASES: dict[str, Any] = tomllib.loads(
    (Path(__file__).parents[1] / "data/cases/recipe_responses.toml").read_text()
)
PROGRAMS = ("humaneval_plus", "mbpp_plus")
"""Recipes whose responses are programs."""
SHIPS = [("Ost", 100), ("West", 250)]

pytestmark = pytest.mark.timeout(300)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Writes rows in the format of a file's name."""
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def write_database(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE ship (name TEXT, tons INTEGER)")
        connection.executemany("INSERT INTO ship VALUES (?, ?)", SHIPS)
    connection.close()


@pytest.fixture
def called(request, tmp_path, monkeypatch, serve, capsys) -> Iterator[Any]:
    """Serves a recipe from an empty folder; gives a function that makes a call with `ors-server call`."""
    recipe = request.param
    case = CASES[recipe]
    write_rows(tmp_path / case["file"], case["rows"])
    for folder in ("database", "dev_databases"):
        write_database(tmp_path / folder / "fleet/fleet.sqlite")
    server = serve(str(tmp_path / case["file"]), "--recipe", recipe)
    monkeypatch.chdir(tmp_path)

    def call(tool: str, arguments: dict[str, Any], *options: str) -> dict[str, Any]:
        capsys.readouterr()
        assert main(["call", server.url, tool, json.dumps(arguments), "--json", *options]) == 0
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert answer["output"]["finished"]
        return answer["output"]

    return recipe, call


def test_every_recipe_has_ten_responses_that_are_paid_and_ten_that_are_not():
    assert set(CASES) | set(PROGRAMS) == set(recipe_names())
    for recipe, case in CASES.items():
        assert min(len(set(case["paid"])), len(set(case["unpaid"]))) >= 10, recipe


@pytest.mark.parametrize("called", CASES, indirect=True)
def test_right_responses_are_paid_and_wrong_ones_are_not(called):
    recipe, call = called
    rewards = {
        kind: {text: call("submit", {"answer": text})["reward"] for text in CASES[recipe][kind]}
        for kind in ("paid", "unpaid")
    }
    assert None not in {**rewards["paid"], **rewards["unpaid"]}.values()
    assert [text for text, reward in rewards["paid"].items() if not reward] == []
    assert [text for text, reward in rewards["unpaid"].items() if reward] == []
