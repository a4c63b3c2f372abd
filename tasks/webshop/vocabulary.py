"""The words of the invented catalogue: kinds of products, with their attributes and options."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class ProductKind:
    """A kind of products."""

    category: str
    query: str
    path: str
    """The path of categories."""
    nouns: list[str]
    attributes: list[str]
    options: dict[str, list[str]]
    """Values by the name of the option."""
    prices: list[int]
    """Lowest and highest price, in dollars."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What names and descriptions are made of."""

    kinds: list[ProductKind]
    styles: list[str]
    purposes: list[str]
    syllables: list[str]
    endings: list[str]
    """Endings of the names of makers."""
    care: list[str]
    """Sentences with `{brand}` for the name of the maker."""


@cache
def read_vocabulary() -> Vocabulary:
    """Return the words of the file next to this module."""
    read: dict[str, Any] = tomllib.loads(
        Path(__file__).with_name("invented.toml").read_text(encoding="utf-8")
    )
    kinds = [ProductKind(**kind) for kind in read.pop("kinds")]
    return Vocabulary(kinds=kinds, **read)
