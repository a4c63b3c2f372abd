"""Cuts the text of an expression into tokens; only ASCII letters and digits form words and numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ors_server_tasks.math_word_problems.calculator.limits import LENGTH_LIMIT, CalculatorError

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind: TypeAlias = Literal["number", "name", "operator", "end"]

_PIECE = re.compile(
    r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<operator>\*\*|//|[-+*/%(),^\u00d7\u00b7\u00f7\u2212])"
)
_SAME = {"^": "**", "\u00d7": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-"}
"""Other signs for operators: caret, multiplication sign, middle dot, division sign, minus sign."""
_ADVICE = {
    "$": "leave out the currency sign",
    "=": "write one expression without an equals sign",
    "[": "use round parentheses",
    "{": "use round parentheses",
    ".": "a number has one decimal point, with a digit beside it",
}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of an expression."""

    kind: Kind
    text: str
    """As written, but operators in their usual form; empty at the end."""
    position: int
    """Where it begins, counted from 1 in characters."""


def tokenize(text: str) -> list[Token]:
    """Cuts a text into tokens, the last of which is of the kind "end".

    Raises:
        CalculatorError: The text is too long or has a character that belongs to no token.
    """
    if len(text) > LENGTH_LIMIT:
        message = f"the expression has {len(text):,} characters, and at most {LENGTH_LIMIT} are read"
        raise CalculatorError(message, LENGTH_LIMIT + 1)
    return [*_pieces(text), Token("end", "", len(text) + 1)]


def _pieces(text: str) -> Iterator[Token]:
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        match = _PIECE.match(text, position)
        if match is None:
            raise CalculatorError(_refusal(text[position]), position + 1)
        piece = match.group()
        yield Token(_kind(match), _SAME.get(piece, piece), position + 1)
        position = match.end()


def _kind(match: re.Match[str]) -> Kind:
    if match["number"] is not None:
        return "number"
    return "operator" if match["name"] is None else "name"


def _refusal(character: str) -> str:
    advice = _ADVICE.get(character, "use digits, + - * / // % ** and parentheses")
    return f"{character!a} is not allowed here: {advice}"
