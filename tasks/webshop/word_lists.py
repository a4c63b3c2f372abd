"""The lists of words in the file next to this module."""

import tomllib
from functools import cache
from pathlib import Path


@cache
def read_words(name: str) -> tuple[str, ...]:
    """Return a list: `stop_words`, `function_words` or `colours`."""
    lists = tomllib.loads(Path(__file__).with_name("word_lists.toml").read_text(encoding="utf-8"))
    return tuple(lists[name])
