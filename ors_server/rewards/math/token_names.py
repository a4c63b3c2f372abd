"""The closed tables of names that the lexer knows. A command that is in none of them is refused.

The names themselves are in `vocabulary.toml`.
"""

import tomllib
from pathlib import Path
from typing import Any, Final

VOCABULARY: Final[dict[str, dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("vocabulary.toml").read_text(encoding="utf-8")
)


def names_by_word(table: str) -> dict[str, str]:
    """Return each word of a table of the vocabulary with its name."""
    return {word: name for name, words in VOCABULARY[table].items() for word in words.split()}


def _same(key: str) -> dict[str, str]:
    return {name: name for name in VOCABULARY["plain"][key].split()}


def _all(key: str) -> frozenset[str]:
    return frozenset(VOCABULARY["plain"][key].split())


def _tokens(table: str) -> dict[str, tuple[str, str]]:
    return {sign: (kind, value) for sign, (kind, value) in VOCABULARY[table].items()}


FUNCTIONS: Final = _same("functions") | names_by_word("functions")
SET_FUNCTIONS: Final = _all("set_functions")
"""Functions whose names may be set as text."""
CONSTANTS: Final = _same("constants") | names_by_word("constants")
GREEK: Final = _same("greek") | names_by_word("greek")
COMMANDS: Final = names_by_word("commands")
RELATIONS: Final = names_by_word("relations")
BINDERS: Final = _same("binders")
ACCENTS: Final = _same("accents")
SEPARATORS: Final = names_by_word("separators")
LAYOUT: Final = _all("layout")
ENVIRONMENTS: Final = names_by_word("environments")
"""Environments with a meaning; all others (align, gather, equation, …) are only layout."""
TEXT_COMMANDS: Final = _all("text_commands")
SHORT_WORDS: Final = _all("short_words")
"""Words of two or three letters that are never a product of letters."""
DOUBLES: Final = _tokens("doubles")
ESCAPED: Final[dict[str, str]] = VOCABULARY["escaped"]
FOREIGN: Final = _tokens("foreign")
OPERATOR_WORDS: Final = {"mod": "mod", "times": "*", "degree": "°", "degrees": "°"}
