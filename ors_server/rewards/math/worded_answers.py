"""Answers in words with formulas between them: "center $(0,0)$, radius $3$", "12 ft by 9 ft", "March 15".

Conventions: such an answer is its words and formulas in order; words count without case, articles and
plurals, units by their meaning, punctuation not at all; formulas are compared as answers of their own. Only a
gold answer that is not a formula itself is compared so.
"""

import re
from collections.abc import Callable
from typing import Final

from ors_server.rewards.math.everyday import same_date
from ors_server.rewards.math.limits import LimitError, MathError
from ors_server.rewards.math.normalise import unfence
from ors_server.rewards.math.parsed_answer import ParsedAnswer, read
from ors_server.rewards.math.streams import fold_word, singular, stream
from ors_server.rewards.math.token_names import FUNCTIONS, GREEK
from ors_server.rewards.math.units import WORDS, name_unit

Same = Callable[[ParsedAnswer, ParsedAnswer], bool]
Piece = tuple[str, str]
_DRESS: Final = re.compile(
    r"\\(?:text(?:bf|it|rm)?|mathrm|mathbf|mbox|textnormal|emph|operatorname|boldsymbol|bm)\s*\{([^{}]*)\}"
)
_FENCE: Final = re.compile(r"\\[()\[\]]|(?<!\\)\$|\\left(?![A-Za-z])|\\right(?![A-Za-z])|\*\*|`|\\[ ,;:!]|~")
_WORD: Final = re.compile(
    r"(?<![\\A-Za-z_^{])(?:[A-Za-z]{2,}(?:[-'][A-Za-z]+)*|(?:(?![A-Za-z])[^\W\d_])+)(?![A-Za-z(^_])"
)
_EDGE: Final = " \t\n.,;:!?"
_ARTICLES: Final = frozenset({"a", "an", "the", "A"})
_MAX_PIECES: Final = 64
_MAX_CHARS: Final = 600
"""Characters of an answer in words with formulas."""


def cut(text: str) -> list[Piece] | None:
    """Cut a text into words and formulas; `None` if it has no words, or too many."""
    if len(text) > _MAX_CHARS:
        return None
    text = _FENCE.sub(" ", _DRESS.sub(r" \1 ", unfence(text)))
    pieces: list[Piece] = []
    position = 0
    for word in _WORD.finditer(text):
        if word[0] in FUNCTIONS or word[0] in GREEK:
            continue
        pieces += [("formula", text[position : word.start()]), ("word", _name(word[0]))]
        position = word.end()
    pieces.append(("formula", text[position:]))
    pieces = [
        (kind, stripped) for kind, piece in pieces if (stripped := piece.strip(_EDGE)) not in _ARTICLES | {""}
    ]
    has_words = any(kind == "word" for kind, _ in pieces)
    return pieces if has_words and len(pieces) <= _MAX_PIECES else None


def _name(word: str) -> str:
    if word.lower() in WORDS:
        return name_unit(word.lower())
    return singular(fold_word(word))


def same_wording(gold: str, answer: str, same: Same) -> bool:
    """Return whether two answers have the same words and formulas in order; `same` compares formulas.

    Raises:
        LimitError: A comparison of formulas would take more than the grader spends.
    """
    if same_date(gold, answer):
        return True
    gold_text, answer_text = cut(gold), cut(answer)
    if (
        gold_text is None
        or answer_text is None
        or [kind for kind, _ in gold_text] != [kind for kind, _ in answer_text]
    ):
        return False
    if any(
        kind == "word" and piece != other
        for (kind, piece), (_, other) in zip(gold_text, answer_text, strict=True)
    ):
        return False
    return all(
        _same_formula(piece, other, same)
        for (kind, piece), (_, other) in zip(gold_text, answer_text, strict=True)
        if kind == "formula"
    )


def _same_formula(gold: str, answer: str, same: Same) -> bool:
    if stream(gold) == stream(answer):
        return True
    try:
        gold_tree, answer_tree = read(gold), read(answer)
    except LimitError:
        raise
    except MathError:
        return False
    return gold_tree.is_math and answer_tree.is_math and same(gold_tree, answer_tree)
