"""What is played: the invented games, or those of a data folder; none of it needs alfworld."""

import collections
import hashlib
import json
import os
import re
import sys

import pytest

from ors_server import install_hint
from ors_server.environments.loading import load_environments
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server_tasks.alfworld import AlfworldTasks, installation
from ors_server_tasks.alfworld.catalogue import (
    KITCHENS,
    NoDataError,
    list_folder,
    list_kitchens,
    open_catalogue,
)

SIZES = {"train": 24, "valid_seen": 12, "valid_unseen": 12}
KITCHENS_DIGEST = "b70e5963ba9091f14d2fe2e181eb7fbfc0cc9e651beceb76de0f5e1b4d692874"


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data folder with two games, which ALFWORLD_DATA names."""
    for split, task, solvable in (
        ("train", "pick_and_place_simple-Apple-None-Fridge-1", True),
        ("train", "pick_and_place_simple-Apple-None-Fridge-2", False),
        ("train", "pick_and_place_with_movable_recep-Apple-Bowl-Fridge-1", True),
        ("train", "pick_two_obj_and_place-PotatoSliced-None-Fridge-1", True),
        ("valid_seen", "look_at_obj_in_light-Pen-None-DeskLamp-301", True),
    ):
        place = tmp_path / "json_2.1.1" / split / task / "trial_T1"
        place.mkdir(parents=True)
        game = {"walkthrough": ["look", f'\\"solvable": true in {task}'], "solvable": solvable}
        (place / "game.tw-pddl").write_text(json.dumps(game))
        (place / "traj_data.json").write_text("{}")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    list_folder.cache_clear()
    yield tmp_path
    list_folder.cache_clear()


def test_the_invented_games_have_every_type_of_task_in_every_split():
    games = list_kitchens().games
    assert {split: len(found) for split, found in games.items()} == SIZES
    for found in games.values():
        counts = collections.Counter(game.task_type for game in found)
        assert set(counts.values()) == {len(found) // 6}
        assert len(counts) == 6


def test_no_invented_game_is_in_two_splits_and_scenes_of_one_are_unseen():
    games = list_kitchens().games
    digests = [game.digest for found in games.values() for game in found]
    assert len(set(digests)) == len(digests)
    scenes = {
        split: {game.folder.split("/")[0].rpartition("-")[2] for game in found}
        for split, found in games.items()
    }
    assert not scenes["valid_unseen"] & (scenes["train"] | scenes["valid_seen"])


def test_the_invented_games_change_only_with_their_edition():
    assert hashlib.sha256(KITCHENS.read_bytes()).hexdigest() == KITCHENS_DIGEST
    assert list_kitchens().version == "1.1"
    assert KITCHENS.stat().st_size < 64 << 10


def test_a_data_folder_is_listed_as_alfworld_lists_it(data):
    catalogue = open_catalogue()
    assert {split: [game.task_type for game in found] for split, found in catalogue.games.items()} == {
        "train": ["pick_and_place_simple"],
        "valid_seen": ["look_at_obj_in_light"],
    }
    (game,) = catalogue.games["train"]
    assert game.task_id == "trial_T1"
    assert game.find_walkthrough()[0] == "look"


def test_the_version_is_that_of_the_files(data):
    before = open_catalogue().version
    list_folder.cache_clear()
    assert open_catalogue().version == before
    with (
        data / "json_2.1.1/valid_seen/look_at_obj_in_light-Pen-None-DeskLamp-301/trial_T1/traj_data.json"
    ).open("a") as file:
        file.write(" ")
    list_folder.cache_clear()
    assert open_catalogue().version != before
    assert before.startswith("1.1+")


def test_a_task_of_other_data_is_refused(data, monkeypatch):
    task = AlfworldTasks.get_task("train", 0)
    monkeypatch.delenv("ALFWORLD_DATA")
    with pytest.raises(ValueError, match="the digest of the game at that index"):
        AlfworldTasks(task)


@pytest.mark.parametrize("task", [{}, {"split": "train", "index": 99, "digest": "0"}, {"split": 3}])
def test_a_task_that_is_none_is_refused(task):
    with pytest.raises(ValueError, match="split \\(one of train, valid_seen, valid_unseen\\)"):
        AlfworldTasks(task)


def test_a_game_without_a_walkthrough_has_no_gold(data):
    file = next((data / "json_2.1.1/train").glob("*_simple-*-1/trial_T1/game.tw-pddl"))
    (game,) = open_catalogue().games["train"]
    file.write_text('{"solvable": true}')
    with pytest.raises(NoDataError, match=r"has no walkthrough: `alfworld-generate` makes one"):
        game.find_walkthrough()


def test_a_folder_without_games_is_refused_with_the_command_that_fetches_them(tmp_path, monkeypatch):
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setattr(installation, "MODULES", ("json",))
    monkeypatch.delenv("ORS_ALFWORLD_PYTHON")
    with pytest.raises(
        EnvironmentDefinitionError, match=r"has no games: .*`ALFWORLD_DATA=.*nowhere alfworld-download`"
    ):
        load_environments(["alfworld"])


def test_a_game_without_its_trajectory_is_refused_by_name(data):
    next((data / "json_2.1.1/train").glob("*_simple-*-1/*/traj_data.json")).unlink()
    with pytest.raises(NoDataError, match=r"traj_data\.json"):
        open_catalogue()


@pytest.mark.parametrize(
    ("python", "complaint"),
    [
        (None, f"alfworld not installed: run {re.escape(install_hint('alfworld'))} "),
        ("/no/such/python", "ORS_ALFWORLD_PYTHON=/no/such/python cannot be started"),
        (sys.executable, "has no alfworld: run `.* -m pip install alfworld=="),
    ],
)
def test_an_environment_without_alfworld_is_refused_when_it_is_loaded(python, complaint, monkeypatch):
    monkeypatch.setattr(installation, "MODULES", ("json", "no_such_module"))
    if python is None:
        monkeypatch.delenv("ORS_ALFWORLD_PYTHON")
    else:
        monkeypatch.setenv("ORS_ALFWORLD_PYTHON", python)
    with pytest.raises(EnvironmentDefinitionError, match=complaint) as refused:
        load_environments(["alfworld"])
    assert "\n" not in str(refused.value)


def test_the_version_is_that_of_the_data_when_the_environment_is_loaded(data, monkeypatch):
    monkeypatch.setattr(installation, "MODULES", ("json",))
    monkeypatch.setenv("ORS_ALFWORLD_PYTHON", os.path.realpath(sys.executable))
    (definition,) = load_environments(["alfworld"])
    assert definition.version == open_catalogue().version
    assert [split.name for split in definition.splits] == ["train", "valid_seen"]
