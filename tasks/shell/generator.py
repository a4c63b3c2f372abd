"""Turns a seed, a split and an index into an exercise.

Every exercise is generated alone, from nothing but these three; no list of exercises is kept anywhere. Two
properties hold for every seed, because of how they are drawn:

* task `i` belongs to family `i % 6`, and the tasks of a family go through its kinds in turn, and the tasks of
  a kind through its choices in turn: tasks of a split repeat a kind with the same choices only when all other
  choices of the split are used up;
* splits share no solution: each of a kind's gold commands, with all choices that lead to it, belongs to one
  split. Files that differ do not make another task of a command that was seen in training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import gcd, prod
from typing import TypedDict

from ors_server_tasks.shell.draw import Draw, UnsuitableDrawError
from ors_server_tasks.shell.exercise import Archive, Choices, Exercise, File, Folder, Json, Kind, Node
from ors_server_tasks.shell.families import FAMILIES

EDITION = "2"
"""Names what the exercises and words are; changes whenever a change to them changes a task."""

SPLIT_SIZES = {"train": 600, "validation": 72, "test": 72}
"""Tasks in each split; splits in the order in which they are listed."""

_DRAWS_AT_MOST = 1000
"""Bound on the draws for one task; a sound kind needs one or two."""


class Task(TypedDict):
    """A task's specification: its position and kind, nothing of its solution."""

    id: str
    """Environment, split and index, such as "shell/train/17"."""
    seed: str
    split: str
    index: int
    family: str
    kind: str
    difficulty: int
    """1, 2 or 3."""


@dataclass(frozen=True, slots=True)
class Place:
    """The kind of the exercise at an index."""

    family: str
    kind: Kind
    choices: Choices


def describe(seed: str, split: str, index: int) -> Task:
    """Return a task's specification without generating its exercise.

    Args:
        seed: Any text; another seed gives other tasks.
        split: A key of `SPLIT_SIZES`.
        index: From 0 to the split's size, exclusive.
    """
    position = place_of(split, index)
    return Task(
        id=f"shell/{split}/{index}",
        seed=seed,
        split=split,
        index=index,
        family=position.family,
        kind=position.kind.name,
        difficulty=position.kind.level,
    )


def place_of(split: str, index: int) -> Place:
    """Return which kind of exercise a task is, with which choices."""
    family = FAMILIES[index % len(FAMILIES)]
    round_, turn = divmod(index // len(FAMILIES), len(family.kinds))
    kind = family.kinds[turn]
    # Every kind has as many solutions in validation and in test as it has tasks there.
    held_out = len(range(turn, SPLIT_SIZES["test"] // len(FAMILIES), len(family.kinds)))
    sequence = divide_choices(kind, held_out)[split]
    return Place(family.name, kind, sequence[round_ % len(sequence)])


@cache
def divide_choices(kind: Kind, held_out: int) -> Mapping[str, tuple[Choices, ...]]:
    """Divide a kind's choices among the splits, so that no two splits share a solution.

    Args:
        held_out: Solutions that validation has for itself, and as many that test has.

    Returns:
        By split, its choices in the order in which its tasks take them: for validation and test, the first of
        each solution; for train, all of the remaining solutions.
    """
    sequence = [choices_at(kind.ways, position) for position in range(prod(kind.ways))]
    first = {kind.solution(choices): choices for choices in reversed(sequence)}
    solutions = list(dict.fromkeys(map(kind.solution, sequence)))
    seen_in_training = frozenset(solutions[2 * held_out :])
    return {
        "train": tuple(choices for choices in sequence if kind.solution(choices) in seen_in_training),
        "validation": tuple(first[solution] for solution in solutions[:held_out]),
        "test": tuple(first[solution] for solution in solutions[held_out : 2 * held_out]),
    }


def choices_at(ways: Choices, position: int) -> Choices:
    """Return the choices at a position of a sequence that goes through all of them.

    Neighbours in the sequence differ in most choices.
    """
    count = prod(ways)
    stride = next(step for step in range(max(1, count * 5 // 8), 2 * count + 1) if gcd(step, count) == 1)
    number = position * stride % count
    choices: list[int] = []
    for way in ways:
        number, choice = divmod(number, way)
        choices.append(choice)
    return tuple(choices)


def generate(seed: str, split: str, index: int) -> Exercise:
    """Generate one exercise; arguments as for `describe`.

    Raises:
        RuntimeError: No exercise of the kind is sound: the kind is not.
    """
    position = place_of(split, index)
    for attempt in range(_DRAWS_AT_MOST):
        draw = Draw(f"{EDITION}/{seed}/{split}/{index}/{attempt}")
        try:
            exercise = position.kind.make(draw, position.choices)
        except UnsuitableDrawError:
            continue
        if is_sound(exercise):
            return exercise
    raise RuntimeError(f"kind {position.kind.name!r} gave no sound exercise in {_DRAWS_AT_MOST} draws")


def is_sound(exercise: Exercise) -> bool:
    """Return whether there is something to do, no file is empty, and no paths conflict."""
    changes = {path: node for path, node in exercise.after.items() if exercise.before.get(path) != node}
    has_work = bool(changes or exercise.before.keys() - exercise.after.keys() or exercise.repositories)
    is_hollow = any(_is_hollow(path, node) for path, node in changes.items())
    return has_work and not is_hollow and _is_consistent(exercise.before) and _is_consistent(exercise.after)


def _is_consistent(tree: Mapping[str, Node]) -> bool:
    """Return whether every path is in a folder."""
    return all(
        isinstance(tree.get(path[:at], Folder()), Folder)
        for path in tree
        for at in (index for index, sign in enumerate(path) if sign == "/")
    )


def _is_hollow(path: str, node: Node) -> bool:
    match node:
        case File():
            return not node.content and not path.endswith("/.gitkeep")
        case Json():
            return not node.value
        case Archive():
            return not node.members
        case _:
            return False
