"""The game as the worker plays it, and the generator of invented games, in the Python that has alfworld."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
LIMIT = 400
"""Seconds for the program that plays everything; a quiet machine needs a twentieth."""
TASK_TYPES = {
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
}

pytestmark = [pytest.mark.external, pytest.mark.timeout(LIMIT + 30)]


def run_report(folder, *words):
    """What the program of tests/fixtures reports, which plays all games of these tests in one process."""
    python = os.environ["ORS_ALFWORLD_PYTHON"]
    if not Path(python).exists():
        pytest.fail(f"no alfworld at {python}; run `make worlds`")
    ran = subprocess.run(
        [python, ROOT / "tests/fixtures/alfworld_report.py", ROOT / "tasks/alfworld", folder, *words],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": ""},
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return run_report(tmp_path_factory.mktemp("data"))


def check_walks(walks):
    assert {walk["task_type"] for walk in walks} == TASK_TYPES
    for walk in walks:
        assert walk["done"] == [False] * (walk["commands"] - 1) + [True]
        assert walk["rewards"] == [0.0] * (walk["commands"] - 1) + [1.0]


def test_the_walkthroughs_of_every_type_of_task_and_of_every_split_win(report):
    assert len(report["walks"]) == len(TASK_TYPES)
    check_walks(report["walks"])


@pytest.mark.stress
def test_the_walkthrough_of_every_type_of_task_in_every_split_wins(tmp_path):
    walks = run_report(tmp_path, "every")["walks"]
    assert len(walks) == 18
    check_walks(walks)


def test_games_play_as_they_do_in_the_bare_package(report):
    assert report["transcripts"] == report["bare"]
    assert report["bare"][0][1][0] == "Nothing happens."


def test_a_text_that_was_seen_before_loads_and_resets_in_milliseconds(report):
    assert report["load"] < 0.06  # processor time: 10 ms where nothing else runs
    assert report["reset"] < 0.24  # 50 ms there


def test_a_game_that_is_over_stays_over(report):
    assert report["after_end"] == ["Nothing happens.", 1.0, True]


def test_a_game_starts_again(report):
    assert report["again"] == [False, False]  # won, lost


def test_an_empty_command_is_no_step(report):
    observation, reward, done, info = report["empty"]
    assert (observation, reward, done) == ("Nothing happens.", 0.0, False)
    assert info == report["info"]


def test_info_names_the_task_and_what_is_possible(report):
    info = report["info"]
    assert set(info) == {"admissible_commands", "won", "lost", "goal", "task_type", "reward"}
    assert info["goal"].startswith(("put two", "find two"))
    assert info["admissible_commands"] == report["commands"] == sorted(report["commands"])


def test_a_problem_that_cannot_be_read_is_an_error_and_no_game(report):
    kind, message = report["before"]
    assert kind == "ValueError"
    assert "cannot be read" in message


def test_the_translator_leaves_standard_output_alone(report):
    assert report["stdout"]


def test_the_generator_makes_the_games_of_the_package_again(report):
    assert report["same_text"]


def test_the_generator_s_folder_plays_here_and_in_alfworld_and_is_refused_once_it_has_changed(report):
    played = report["folder"]
    assert played["done"][-1] is True
    assert played["bare"] == played["done"]
    assert played["changed"][0] == played["gone"][0] == "DataChangedError"
    assert "have changed since the server listed them; start the server again" in played["changed"][1]
    assert "it was there when the server started" in played["gone"][1]
