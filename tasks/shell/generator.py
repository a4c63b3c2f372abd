"""Turns a seed, a split and an index into an exercise.

Every exercise is generated alone, from nothing but these three; no list of exercises is kept anywhere. Two
properties hold for every seed, because of how they are drawn:

* task `i` belongs to family `i % 6`, and the tasks of a family go through its kinds in turn, and the tasks of
  a kind through its choices in turn: tasks of a split repeat a kind with the same choices only when all other
  choices are used up;
* splits share no exercise: which split may use one is decided by its text and its files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd, prod
from typing import TypedDict

from ors_server_tasks.shell.draw import Draw, UnsuitableDrawError
from ors_server_tasks.shell.exercise import Archive, Choices, Exercise, File, Folder, Json, Kind, Node
from ors_server_tasks.shell.families import FAMILIES

EDITION = "1"
"""Names what the exercises and words are; changes whenever a change to them changes a task."""

SPLIT_SIZES = {"train": 600, "validation": 72, "test": 72}
"""Tasks in each split; splits in the order in which they are listed."""

_QUARTERS = {"train": (0, 1), "validation": (2,), "test": (3,)}
"""Which quarters of all possible exercises each split draws from."""

_STARTS = {"train": 0, "validation": 5, "test": 3}
"""Where the splits begin in the sequence of a kind's choices, so that they do not begin alike."""

_DRAWS_AT_MOST = 1000
"""Bound on the draws for one task; a sound kind needs four on average."""


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
    place = place_of(split, index)
    return Task(
        id=f"shell/{split}/{index}",
        seed=seed,
        split=split,
        index=index,
        family=place.family,
        kind=place.kind.name,
        difficulty=place.kind.level,
    )


def place_of(split: str, index: int) -> Place:
    """Return which kind of exercise a task is, with which choices."""
    family = FAMILIES[index % len(FAMILIES)]
    round_, turn = divmod(index // len(FAMILIES), len(family.kinds))
    kind = family.kinds[turn]
    return Place(family.name, kind, choices_at(kind.ways, round_ + _STARTS[split]))


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
        RuntimeError: No exercise of the kind fits the split: the kind is unsound.
    """
    place = place_of(split, index)
    for attempt in range(_DRAWS_AT_MOST):
        draw = Draw(f"{EDITION}/{seed}/{split}/{index}/{attempt}")
        try:
            exercise = place.kind.make(draw, place.choices)
        except UnsuitableDrawError:
            continue
        if is_sound(exercise) and quarter(exercise) in _QUARTERS[split]:
            return exercise
    raise RuntimeError(
        f"kind {place.kind.name!r} gave no exercise for split {split!r} in {_DRAWS_AT_MOST} draws"
    )


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
        for at in (place for place, sign in enumerate(path) if sign == "/")
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


def quarter(exercise: Exercise) -> int:
    """The quarter in [0, 4) of all exercises to which this one belongs, by its text and its files."""
    return hashlib.sha256(fingerprint(exercise)).digest()[0] % 4


def fingerprint(exercise: Exercise) -> bytes:
    """Everything that an agent is given, as bytes; equal exercises have equal ones."""
    return repr((exercise.ask, _rows(exercise.before))).encode()


def _rows(tree: Mapping[str, Node]) -> list[tuple[str, str]]:
    return sorted((path, repr(node)) for path, node in tree.items())
