"""Each recipe at a running server: `ors-server call ... submit` pays right responses, and no others."""

import csv
import json
import sqlite3
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from ors_server.cli.main import main
from ors_server.environments.declared.declaration_file import recipe_names
from tests.unit.cli.conftest import LIMIT, start_command

CASES: dict[str, Any] = tomllib.loads(
    (Path(__file__).parents[1] / "data/cases/recipe_responses.toml").read_text()
)
PROGRAMS = ("humaneval_plus", "mbpp_plus")
"""Recipes whose responses are programs."""
SAMPLE = 5
"""Of programs, each of which runs in a sandbox, an ordinary run submits every fifth one."""
DATABASES = {"spider": "database", "bird": "dev_databases"}
"""Folders of the recipes that have databases."""
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


def make_folder(parent: Path, recipe: str) -> Path:
    """Makes a folder with a declaration of the recipe and its data, and nothing else."""
    folder = parent / recipe
    folder.mkdir()
    case = CASES[recipe]
    write_rows(folder / case["file"], case["rows"])
    if recipe in DATABASES:
        write_database(folder / DATABASES[recipe] / "fleet/fleet.sqlite")
    (folder / "environment.toml").write_text(
        f'name = "{recipe}"\nrecipe = "{recipe}"\n[splits]\ntest = "{case["file"]}"\n'
    )
    return folder


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    """The address of a server of all recipes."""
    parent = tmp_path_factory.mktemp("recipes")
    folders = [str(make_folder(parent, recipe)) for recipe in CASES]
    process = start_command("serve", *folders, "--port", "0", "--json", cwd=parent)
    try:
        line = process.stdout.readline()
        assert line, process.communicate(timeout=LIMIT)[1]
        yield json.loads(line)["url"]
    finally:
        process.terminate()
        process.communicate(timeout=LIMIT)


@pytest.fixture
def call(url, tmp_path, monkeypatch, capsys) -> Callable[..., Any]:
    """Makes a call with `ors-server call`, from an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(tool: str, arguments: dict[str, Any], *options: str) -> Any:
        capsys.readouterr()
        assert main(["call", url, tool, json.dumps(arguments), "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)["output"]

    return call


@pytest.fixture
def submit(url, call) -> Callable[[str, str], Any]:
    """Submits a response to a recipe's task; a program is written to its file before."""

    def submit(recipe: str, response: str) -> Any:
        if recipe not in PROGRAMS:
            return call("submit", {"answer": response}, "--environment", recipe)
        body = json.dumps({"environment": recipe, "split": "test", "index": 0}).encode()
        request = Request(f"{url}/_ors/sessions", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=LIMIT) as answer:
            session = json.load(answer)["session_id"]
        program = {"path": "solution.py", "content": CASES[recipe]["head"] + response}
        call("create", program, "--session", session)
        return call("submit", {}, "--session", session)

    return submit


def test_every_recipe_has_ten_responses_that_are_paid_and_ten_that_are_not():
    assert set(CASES) == set(recipe_names())
    for recipe, case in CASES.items():
        assert min(len(set(case["paid"])), len(set(case["unpaid"]))) >= 10, recipe


@pytest.mark.parametrize(
    ("recipe", "step"),
    [
        *((recipe, SAMPLE if recipe in PROGRAMS else 1) for recipe in CASES),
        *(pytest.param(recipe, 1, marks=pytest.mark.stress, id=f"{recipe}-all") for recipe in PROGRAMS),
    ],
)
def test_right_responses_are_paid_and_wrong_ones_are_not(recipe, step, submit):
    paid, unpaid = (CASES[recipe][kind][::step] for kind in ("paid", "unpaid"))
    outputs = {text: submit(recipe, text) for text in (*paid, *unpaid)}
    assert {output["finished"] for output in outputs.values()} == {True}
    assert [text for text, output in outputs.items() if output["reward"] is None] == []
    assert [text for text in paid if outputs[text]["reward"] <= 0] == []
    assert [text for text in unpaid if outputs[text]["reward"] != 0] == []
