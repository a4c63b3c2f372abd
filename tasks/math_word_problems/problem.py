"""What a word problem is, and what a template and a family of templates are.

This module knows neither the stories nor how tasks are numbered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from ors_server_tasks.math_word_problems.draw import Draw

LEVELS = (1, 2, 3)
"""Difficulty levels: 1 one or two steps, 2 two or three steps or a reversed one, 3 several steps."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One word problem with its exact answer."""

    question: str
    """English text that ends with the question; it holds every quantity that is needed."""
    answer: Fraction
    """The exact answer, in the unit that the question asks for."""
    unit: str
    """"$", "%", a plural noun such as "hours", or "" for a pure number."""


class UnsuitableDrawError(Exception):
    """The drawn quantities make no sensible story; the generator draws again."""


Story: TypeAlias = Callable[[Draw], Problem]
"""Draws the people, things and quantities of one kind of story. May raise `UnsuitableDrawError`."""


@dataclass(frozen=True, slots=True)
class Family:
    """Templates that ask for the same kind of reasoning."""

    name: str
    levels: tuple[tuple[Story, ...], tuple[Story, ...], tuple[Story, ...]]
    """The stories of difficulty 1, 2 and 3; none of the three is empty."""


def problem(question: str, answer: Fraction | int, unit: str = "") -> Problem:
    """Makes a problem from an exact answer."""
    return Problem(question, Fraction(answer), unit)


def require(suitable: bool) -> None:  # noqa: FBT001 - a condition reads best as the only argument
    """Raises `UnsuitableDrawError` unless the drawn quantities are suitable."""
    if not suitable:
        raise UnsuitableDrawError


def require_within(value: Fraction | int, low: int, high: int) -> None:
    """Raises `UnsuitableDrawError` unless the value lies in [low, high]."""
    require(low <= value <= high)
