"""Environments in worker processes, served by the command with the variables that the documents name."""

from functools import cache
from typing import Any

import pytest

from ors_server.adapters import bfcl, inspect_task, textarena_games, verifiers_taskset
from ors_server.client import Client
from ors_server.model.settings_sources import OTHER_VARIABLES
from tests.clients.conftest import ROOT, client_python
from tests.fixtures.ordinary_cases import leave_to_stress

FIXTURES = ROOT / "tests" / "fixtures"
PACKAGES = {
    "bfcl": bfcl.PACKAGE,
    "inspect": inspect_task.PACKAGE,
    "textarena": textarena_games.PACKAGE,
    "verifiers": verifiers_taskset.PACKAGE,
}
PLAYED = {
    "bfcl/multi_turn_base": ("test", "bfcl_multi_turn_base"),
    f"inspect/{FIXTURES}/inspect_tasks.py:sums": ("test", "inspect_inspect_tasks_sums"),
    "textarena/FrozenLake-v0": ("train", "textarena_frozenlake-v0"),
    f"verifiers/{FIXTURES}/verifiers_tasksets.py:Sums": ("test", "verifiers_verifiers_tasksets_sums"),
}
GREATEST = {"verifiers_verifiers_tasksets_sums": 1.5}

pytestmark = [pytest.mark.external, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def variables():
    return {package.variable: str(client_python(name)) for name, package in PACKAGES.items()}


@pytest.fixture(scope="module")
def url_of(serve_with, variables):
    """Gives the server of an environment: one for those that an ordinary run plays, one for all."""

    @cache
    def start(*places):
        return serve_with(None, *places, **variables)

    ordinary = [reference for reference, case in PLAYED.items() if is_ordinary(case)]
    return lambda case: start(*ordinary) if is_ordinary(case) else start(*PLAYED)


def is_ordinary(case):
    """Importing verifiers takes as long as the other three packages together."""
    return not case[1].startswith("verifiers")


def test_the_server_takes_the_variables(variables):
    assert set(variables) <= OTHER_VARIABLES


@pytest.mark.parametrize(("split", "name"), leave_to_stress(PLAYED.values(), is_ordinary))
def test_right_answers_over_http_earn_the_most(url_of, variables, monkeypatch, split, name):
    for variable, python in variables.items():
        monkeypatch.setenv(variable, python)
    with Client(url_of((split, name))) as client:
        task = client.task(split, 1, name)
        with client.episode(name, split=split, index=1) as episode:
            for tool, arguments in _gold(name, task):
                result = episode.call(tool, arguments)
            assert result.finished
            assert episode.summary().episode_return == GREATEST.get(name, 1.0)


def _gold(name, task):
    """Gives the calls that are right: from the task, whose answers trainers see, or from the game."""
    if name == "textarena_frozenlake-v0":
        lake: Any = textarena_games.from_textarena("FrozenLake-v0")
        return lake.gold_actions(task)
    if name == "bfcl_multi_turn_base":
        turns = [[*turn, ("reply", {"message": "Done."})] for turn in task["solution"]]
        return [(tool, arguments) for turn in turns for tool, arguments in turn]
    return [("submit", {"answer": task["answer"]})]
