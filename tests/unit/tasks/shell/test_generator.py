"""The tasks: which there are, that they stay the same for ever, and that no two are the same exercise."""

import hashlib
import inspect
import itertools
import json
from collections import Counter
from math import prod
from pathlib import Path

import pytest

from ors_server_tasks.shell import ShellTasks
from ors_server_tasks.shell.draw import Draw, UnsuitableDrawError
from ors_server_tasks.shell.exercise import LEVELS, Archive, Exercise, File, Folder, Json, Link
from ors_server_tasks.shell.families import FAMILIES
from ors_server_tasks.shell.generator import (
    SPLIT_SIZES,
    choices_at,
    describe,
    divide_choices,
    generate,
    is_sound,
    place_of,
)

SEED = "shell-1"
DIGESTS = {
    "train": "37c503a5274caeb27e610f18e81070ba639eda5b2b68cc57035de3e39783bb2d",
    "validation": "0e2938797943f48ab2cda4a2b01bac7851dfe408790b2d2339b01ae1a4864dc4",
    "test": "b6e19a921ed0541d0a5abd6fbf833508db9224578dba31bdc2c0f459d5e1bc6f",
}
"""SHA-256 of each split's exercises. Changing one means a new edition of the tasks."""


@pytest.fixture(scope="module")
def exercises() -> dict[str, list[Exercise]]:
    return {
        split: [generate(SEED, split, index) for index in range(size)] for split, size in SPLIT_SIZES.items()
    }


@pytest.mark.parametrize("split", SPLIT_SIZES)
def test_a_split_holds_exactly_the_exercises_that_it_held_when_it_was_published(split, exercises):
    digest = hashlib.sha256()
    for found in exercises[split]:
        wanted = (found.ask, found.before, found.after, found.gold, found.whole, found.repositories)
        digest.update(repr(wanted).encode())
    assert digest.hexdigest() == DIGESTS[split]


def test_an_exercise_does_not_depend_on_which_were_generated_before_it(exercises):
    assert generate(SEED, "test", 71) == exercises["test"][71]
    assert generate(SEED, "test", 7) == exercises["test"][7]


def test_another_seed_gives_other_exercises_of_the_same_kinds(exercises):
    other = generate("another", "test", 5)
    assert given_by(other) != given_by(exercises["test"][5])
    assert describe("another", "test", 5)["kind"] == describe(SEED, "test", 5)["kind"]


def given_by(exercise: Exercise) -> tuple[str, str]:
    return exercise.ask, repr(sorted(exercise.before.items()))


def test_there_are_six_families_and_at_least_sixty_test_tasks():
    assert [family.name for family in FAMILIES] == [
        "text_processing",
        "file_organisation",
        "log_analysis",
        "git_repair",
        "data_conversion",
        "permissions",
    ]
    assert SPLIT_SIZES == {"train": 600, "validation": 72, "test": 72}


def test_no_two_tasks_of_validation_or_test_are_the_same_exercise_with_other_data():
    for split in ("validation", "test"):
        places = [place_of(split, index) for index in range(SPLIT_SIZES[split])]
        assert len({(place.family, place.kind.name, place.choices) for place in places}) == len(places)


def test_train_repeats_an_exercise_with_other_data_only_where_its_kind_has_no_more():
    places = [place_of("train", index) for index in range(SPLIT_SIZES["train"])]
    counts = Counter((place.kind.name, place.choices) for place in places)
    for kind in (kind for family in FAMILIES for kind in family.kinds):
        repeats = [count for (name, _), count in counts.items() if name == kind.name]
        held_out = [place_of(split, index) for split in ("validation", "test") for index in range(72)]
        solutions = {kind.solution(place.choices) for place in held_out if place.kind is kind}
        every = itertools.product(*map(range, kind.ways))
        offered = sum(1 for choices in every if kind.solution(choices) not in solutions)
        assert max(repeats) - min(repeats) <= 1
        assert len(repeats) == min(offered, sum(repeats))


def test_every_exercise_of_all_splits_is_another_one(exercises):
    prints = [given_by(found) for split in exercises.values() for found in split]
    assert len(set(prints)) == len(prints) == sum(SPLIT_SIZES.values())


def shared_with_training(drawn: dict[str, list[Exercise]], split: str, what: str) -> int:
    """Counts the tasks of a split whose text, or gold command, stands in a training task."""
    trained = {getattr(exercise, what) for exercise in drawn["train"]}
    return sum(getattr(exercise, what) in trained for exercise in drawn[split])


@pytest.mark.parametrize("what", ["ask", "gold"])
def test_no_two_splits_share_a_text_or_a_gold_command(what, exercises):
    assert shared_with_training(exercises, "validation", what) == 0
    assert shared_with_training(exercises, "test", what) == 0
    validation, test = (
        {getattr(each, what) for each in exercises[split]} for split in ("validation", "test")
    )
    assert not validation & test
    assert len(validation) == len(test) == 72


def test_another_seed_keeps_its_splits_apart_too():
    drawn = {
        split: [generate("another", split, index) for index in range(size)]
        for split, size in SPLIT_SIZES.items()
    }
    for split, what in itertools.product(("validation", "test"), ("ask", "gold")):
        assert shared_with_training(drawn, split, what) == 0


KINDS = [kind for family in FAMILIES for kind in family.kinds]


# The command of wrong_branch names a commit and a branch of its task: no other task's command does its work.
@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.name != "wrong_branch"], ids=lambda kind: kind.name
)
def test_choices_with_different_solutions_share_no_text_and_no_gold_command(kind):
    solutions: dict[str, set[tuple[int, ...]]] = {}
    for choices in itertools.product(*map(range, kind.ways)):
        for found in filter(None, (make(kind, choices, attempt) for attempt in range(4))):
            for text in (found.ask, found.gold):
                solutions.setdefault(text, set()).add(kind.solution(choices))
    assert solutions
    assert not {text: several for text, several in solutions.items() if len(several) > 1}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("held_out", [1, 2])
def test_the_splits_of_a_kind_share_no_solution_and_leave_none_out(kind, held_out):
    shares = divide_choices(kind, held_out)
    solutions = {split: {kind.solution(choices) for choices in shares[split]} for split in shares}
    every = {kind.solution(choices) for choices in itertools.product(*map(range, kind.ways))}
    if len(every) > 2 * held_out:
        assert len(solutions["validation"]) == len(solutions["test"]) == held_out
    assert sum(map(len, solutions.values())) == len(every)
    assert set.union(*solutions.values()) == every


def test_every_family_has_kinds_of_every_difficulty():
    for family in FAMILIES:
        assert {kind.level for kind in family.kinds} == set(LEVELS)
        assert len({kind.name for kind in family.kinds}) == len(family.kinds) >= 10


def test_choices_go_through_all_that_there_are():
    for ways in ((2, 3, 3), (2, 2, 2), (4, 2), (1,), (3, 2)):
        count = prod(ways)
        seen = [choices_at(ways, position) for position in range(count)]
        assert sorted(seen) == sorted(itertools.product(*map(range, ways)))
        assert choices_at(ways, count) == seen[0]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_gives_sound_and_different_exercises_for_all_its_choices(kind):
    asks = []
    for choices in itertools.product(*map(range, kind.ways)):
        made = (make(kind, choices, attempt) for attempt in range(20))
        found = next(exercise for exercise in made if exercise is not None and is_sound(exercise))
        assert found.ask.endswith(".")
        assert "  " not in found.ask
        assert found.gold
        asks.append((found.ask, found.gold))
    assert len(set(asks)) == len(asks)


def make(kind, choices, attempt):
    try:
        return kind.make(Draw(f"{kind.name}/{attempt}"), choices)
    except UnsuitableDrawError:
        return None


def test_a_task_says_where_it_stands_and_nothing_of_its_answer():
    task = ShellTasks.get_task("test", 13)
    assert task == {
        "id": "shell/test/13",
        "seed": SEED,
        "split": "test",
        "index": 13,
        "family": "file_organisation",
        "kind": "duplicates",
        "difficulty": 3,
    }
    assert ShellTasks.get_task("test", -1) == ShellTasks.get_task("test", 71)
    assert json.loads(json.dumps(task)) == task


@pytest.mark.parametrize("index", [72, -73])
def test_there_is_no_task_past_the_last_one(index):
    with pytest.raises(IndexError, match="72 tasks"):
        ShellTasks.get_task("test", index)


def test_ranges_follow_the_rules_of_slices():
    assert ShellTasks.get_task_range("test", -2) == ShellTasks.list_tasks("test")[-2:]
    assert ShellTasks.get_task_range("test", 3, 5) == [
        ShellTasks.get_task("test", 3),
        ShellTasks.get_task("test", 4),
    ]


def test_the_names_of_the_kinds_stand_in_the_readme():
    readme = (Path(inspect.getfile(ShellTasks)).parent / "README.md").read_text()
    for family in FAMILIES:
        assert f"| `{family.name}` | {', '.join(kind.name for kind in family.kinds)} |" in readme
    assert f"{sum(prod(kind.ways) for family in FAMILIES for kind in family.kinds)} in all" in readme


def test_a_draw_refuses_more_than_there_is():
    with pytest.raises(UnsuitableDrawError):
        Draw("a").pick_some((1, 2), 3)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ({"a": File(b"1")}, {"a": File(b"2")}, True),
        ({"a": File(b"1")}, {}, True),
        ({"a": File(b"1")}, {"a": File(b"1")}, False),
        ({"a": File(b"1")}, {"a": File(b"1"), "b": File(b"")}, False),
        ({"a": File(b"1")}, {"a": File(b"1"), "b/.gitkeep": File(b"")}, True),
        ({"a": File(b"1")}, {"a": File(b"1"), "b": Json({})}, False),
        ({"a": File(b"1")}, {"a": File(b"1"), "b": Archive({})}, False),
        ({"a": File(b"1"), "a/b": File(b"2")}, {"a": File(b"1")}, False),
        ({"a": File(b"1")}, {"b/c": File(b"1"), "b": Link("a")}, False),
        ({"a": File(b"1")}, {"b/c": File(b"1"), "b": Folder()}, True),
    ],
)
def test_an_exercise_without_work_or_with_hollow_or_clashing_files_is_drawn_again(before, after, verdict):
    assert is_sound(Exercise("Do it.", before, after, "true")) is verdict
