"""Turns a seed, a split and an index into a task.

Every task is generated alone, in about a tenth of a millisecond, from nothing but these three; no list of
tasks is kept anywhere. Two properties hold for every seed, because of how tasks are drawn:

* task `i` belongs to family `i % 13` and has difficulty `1 + (i // 13) % 3`, so every stretch of 39 tasks of
  any split has every family at every difficulty;
* splits share no problem: which split may use a story is decided by the story's kind and its numbers,
  regardless of the names of the people in it.
"""

from __future__ import annotations

import hashlib
import re
from typing import TypedDict

from ors_server_tasks.math_word_problems.draw import Draw
from ors_server_tasks.math_word_problems.families import FAMILIES
from ors_server_tasks.math_word_problems.problem import LEVELS, Problem, Story, UnsuitableDrawError

EDITION = "1"
"""Names what the stories and words are; changes whenever a change to them changes a task."""

SPLIT_SIZES = {"train": 2000, "validation": 200, "test": 200}
"""Tasks in each split; splits in the order in which they are listed."""

_QUARTERS = {"train": (0, 1), "validation": (2,), "test": (3,)}
"""Which quarters of all possible problems each split draws from."""

_DRAWS_AT_MOST = 10_000
"""Bound on the draws for one task; no sound story comes near it."""

_NUMBER = re.compile(r"\d+")


class Task(TypedDict):
    """A task's specification; all values are text or whole numbers, the same for every task."""

    id: str
    """Environment, split and index, such as "math_word_problems/train/17"."""
    question: str
    answer: str
    """The exact value in lowest terms: "12" or "7/2"."""
    unit: str
    """Unit of the answer: "$", "%", a plural noun, or "" for a pure number."""
    family: str
    difficulty: int
    """1, 2 or 3."""


def generate(seed: str, split: str, index: int) -> Task:
    """Generates one task.

    Args:
        seed: Any text; another seed gives other tasks.
        split: A key of `SPLIT_SIZES`.
        index: From 0 to the split's size, exclusive.
    """
    family = FAMILIES[index % len(FAMILIES)]
    difficulty = LEVELS[index // len(FAMILIES) % len(LEVELS)]
    _, problem = draw_problem(f"{EDITION}/{seed}/{split}/{index}", family.levels[difficulty - 1], split)
    return Task(
        id=f"math_word_problems/{split}/{index}",
        question=problem.question,
        answer=str(problem.answer),
        unit=problem.unit,
        family=family.name,
        difficulty=difficulty,
    )


def draw_problem(seed: str, stories: tuple[Story, ...], split: str) -> tuple[Story, Problem]:
    """Draws a story and then problems of it until one suits the story and the split.

    Args:
        seed: Any text.
        stories: Stories to choose from.
        split: A key of `SPLIT_SIZES`.

    Raises:
        RuntimeError: No suitable problem was found: the story is unsound.
    """
    story = Draw(seed).pick(stories)
    for attempt in range(_DRAWS_AT_MOST):
        try:
            problem = story(Draw(f"{seed}/{attempt}"))
        except UnsuitableDrawError:
            continue
        if quarter(story, problem) in _QUARTERS[split]:
            return story, problem
    raise RuntimeError(
        f"story {story.__name__!r} gave no suitable problem in {_DRAWS_AT_MOST} draws; loosen its conditions"
    )


def quarter(story: Story, problem: Problem) -> int:
    """The quarter in [0, 4) of all problems to which this one belongs, by its story and its numbers."""
    numbers = ",".join(_NUMBER.findall(problem.question))
    digest = hashlib.sha256(
        f"{story.__module__.rpartition('.')[2]}.{story.__name__}:{numbers}".encode()
    ).digest()
    return digest[0] % 4
