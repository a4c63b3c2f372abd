"""Reads a submitted answer as an exact number, strictly: every character must have a meaning."""

from __future__ import annotations

import re
from fractions import Fraction

from ors_server_tasks.math_word_problems.units import unit_words

LENGTH_LIMIT = 100
"""Longest answer that is read, in characters."""

ACCEPTED = (
    "Accepted are whole numbers (12 or 1,234), decimals (3.5), fractions (7/2) and mixed numbers (3 1/2), "
    "with an optional minus sign before and the unit after the number."
)
"""The forms of an answer, for agents whose answer cannot be read."""

_MINUS_SIGN = "\u2212"
_NUMBER = re.compile(
    r"""
    (?P<sign>[-+])?\s*
    (?:
        (?P<whole>[0-9]+)\s+(?P<above>[0-9]+)\s*/\s*(?P<below>[0-9]+)
        | (?P<numerator>[0-9]+)\s*/\s*(?P<denominator>[0-9]+)
        | (?P<decimal>(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)
    )
    """,
    re.VERBOSE,
)


class AnswerError(ValueError):
    """A submission that is not a number; the message explains why."""


def parse_answer(text: str, unit: str = "") -> Fraction:
    """Read a number; white space around it, a full stop at its end and the unit (once) are ignored.

    Args:
        text: Any text.
        unit: The unit that the question asks for: "$", "%", a plural noun or "".

    Raises:
        AnswerError: The text is not exactly one number.
    """
    if len(text) > LENGTH_LIMIT:
        raise AnswerError(f"The answer has {len(text):,} characters; at most {LENGTH_LIMIT} are allowed.")
    bare = _without_unit(text.strip().replace(_MINUS_SIGN, "-"), unit)
    match = _NUMBER.fullmatch(bare)
    if match is None:
        raise AnswerError(f"The answer {text!a} is not a single number.")
    size = _size(match)
    return -size if match["sign"] == "-" else size


def _without_unit(text: str, unit: str) -> str:
    """Return the text without the unit and without a full stop after a word or a number."""
    text = text.removesuffix(".").rstrip()
    if unit == "$" and (match := re.fullmatch(r"([-+]?)\s*\$\s*(.*)", text)):
        sign, rest = match[1], match[2]
        return f"{sign}{rest}"
    for word in unit_words(unit):
        if text.lower().endswith(word.lower()):
            rest = text[: -len(word)]
            if rest.endswith((" ", *"0123456789.")):
                return rest.rstrip()
    return text


def _size(match: re.Match[str]) -> Fraction:
    if match["decimal"] is not None:
        return Fraction(match["decimal"].replace(",", ""))
    below = int(match["below"] or match["denominator"])
    if below == 0:
        raise AnswerError("A denominator must not be zero.")
    if match["whole"] is None:
        return Fraction(int(match["numerator"]), below)
    part = Fraction(int(match["above"]), below)
    if part >= 1:
        raise AnswerError("The fraction of a mixed number must be less than one, as in 3 1/2.")
    return int(match["whole"]) + part
