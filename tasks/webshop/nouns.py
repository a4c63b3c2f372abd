"""The nouns of a product's name: found by spaCy's model if it is installed, else by a rule.

WebShop uses `en_core_web_sm`. The rule takes every word that has a letter and is not a function word; the
reward of a purchase seldom differs.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ors_server_tasks.webshop.word_lists import read_words

MODEL = "en_core_web_sm"
"""The model of spaCy."""
RULE = "rule"

_PARTS = frozenset({"PNOUN", "NOUN", "PROPN"})
_MARKS = ".,;:!?()[]{}\"'&/|"
_FUNCTION_WORDS = frozenset(read_words("function_words"))


def noun_finder() -> str:
    """Return what finds nouns here: the name of spaCy's model, or `rule`."""
    return MODEL if find_spec("spacy") is not None and find_spec(MODEL) is not None else RULE


@lru_cache(maxsize=4096)
def find_nouns(name: str) -> tuple[str, ...]:
    """Return the nouns of a name, in lower case, in order, with repeats."""
    return _finder()(name)


@cache
def _finder() -> Callable[[str], tuple[str, ...]]:
    if noun_finder() == RULE:
        return find_by_rule
    model: Any = import_module("spacy").load(MODEL)
    return lambda name: tuple(token.text.lower() for token in model(name) if token.pos_ in _PARTS)


def find_by_rule(name: str) -> tuple[str, ...]:
    """Return the words of a name that have a letter and are not function words."""
    words = (word.strip(_MARKS).lower() for word in name.split())
    return tuple(word for word in words if word not in _FUNCTION_WORDS and any(map(str.isalpha, word)))
