"""Parses the text of one answer into syntax trees: nearly always one, two if it is ambiguous."""

import re
from dataclasses import dataclass
from typing import Final

from ors_server.rewards.math.answer_parser import parse_answer
from ors_server.rewards.math.everyday import duration_of, readings_of
from ors_server.rewards.math.letter_runs import is_ambiguous
from ors_server.rewards.math.lexer import lex
from ors_server.rewards.math.limits import ANSWER_CHARS, LimitError, SyntaxUnknownError
from ors_server.rewards.math.normalise import plain, unfence
from ors_server.rewards.math.streams import stream
from ors_server.rewards.math.token_names import CONSTANTS, FUNCTIONS, GREEK
from ors_server.rewards.math.tree import (
    MINUS_ONE,
    Add,
    Listing,
    Multiply,
    Node,
    Number,
    Power,
    Words,
    contains,
)
from ors_server.rewards.math.written_numbers import to_number

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,14}(?:\.[0-9]{1,9})?")
"""A text that is a number in any reading: most answers are."""
_COMMA_GROUPS: Final = re.compile(r"\d,\d{3}(?!\d)")
_RUNS: Final = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{2,}")
_SIGN: Final = re.compile(r"[\d=<>^_+*/|()\[\]]")
"""Signs that no answer of nothing but words has."""
_LETTERS: Final = re.compile(r"[A-Za-z][A-Za-z .,'-]+")
_PRODUCT_LETTERS: Final = 3
_FORMULA_NAMES: Final = frozenset((*FUNCTIONS, *CONSTANTS, *GREEK))


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """A parsed answer.

    Attributes:
        text: The parsed text, without fences.
        trees: Its possible meanings, likeliest first.
        is_math: Whether it was parsed as mathematics (or else as words).
    """

    text: str
    trees: tuple[Node, ...]
    is_math: bool


def read(text: str) -> ParsedAnswer:
    """Parse one answer, already unified.

    Raises:
        LimitError: It is longer or deeper than the grader parses.
    """
    if len(text) > ANSWER_CHARS:
        raise LimitError(f"an answer of more than {ANSWER_CHARS} characters")
    text = unfence(text)
    if _NUMBER.fullmatch(text) is not None:
        return ParsedAnswer(text, (to_number(text),), is_math=True)
    if text.startswith("<") and text.endswith(">") and "," in text:
        text = f"({text[1:-1]})"
    trees = _readings(text)
    is_math = bool(trees) and not any(contains(tree, Words) for tree in trees)
    if not trees or _SIGN.search(text) is None:
        words = plain(text)
        # Few letters may be a product; what no grammar reads is words in any case.
        is_wordy = _LETTERS.fullmatch(words) is not None and (len(words) > _PRODUCT_LETTERS or not trees)
        if words and (not trees or is_wordy or _LETTERS.fullmatch(text) is not None):
            trees.append(Words(words, stream(text)))
    trees += [reading for reading in readings_of(text) if reading not in trees]
    trees += [merged for tree in trees if (merged := duration_of(tree)) is not None]
    trees += [mixed for tree in trees if (mixed := _as_mixed(tree)) is not None]
    return ParsedAnswer(text, tuple(trees), is_math)


def _readings(text: str) -> list[Node]:
    trees: list[Node] = []
    for is_comma_in_numbers in (True, False) if _COMMA_GROUPS.search(text) else (True,):
        for is_formula in (False, True) if is_ambiguous(text) else (False,):
            tree = _try(text, is_comma_in_numbers=is_comma_in_numbers, is_formula=is_formula)
            # Without another reading, a formula may have no words but names of functions and constants.
            is_guess = is_formula and not trees and not set(_RUNS.findall(text)) <= _FORMULA_NAMES
            trees += [] if tree is None or tree in trees or is_guess else [tree]
    return trees


def _try(text: str, *, is_comma_in_numbers: bool, is_formula: bool) -> Node | None:
    try:
        tokens = lex(text, is_comma_in_numbers=is_comma_in_numbers, is_formula=is_formula)
        return parse_answer(tokens, is_formula=is_formula)
    except SyntaxUnknownError:
        return None


def _as_mixed(tree: Node) -> Node | None:
    """Parse `2 and 1/4` as a mixed number too."""
    match tree:
        case Listing(
            (Number(int(whole)), Multiply((Number(int(top)), Power(Number(int(bottom)), exponent))) as part),
            "and",
        ):
            return Add((Number(whole), part)) if exponent == MINUS_ONE and 0 < top < bottom else None
        case _:
            return None
