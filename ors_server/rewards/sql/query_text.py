"""What the text of an SQL query shows without running it: its order, and a bound on its copies. Pure.

SQLite copies a part of WITH wherever it is named, and a column's expression wherever the column is used.
Thirty short parts that each use the one before twice are a thousand million copies, made before a single row
is read and before anything can interrupt it. `unfolding` bounds that from the text.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<text>'[^']*(?:'|\Z))
    |(?P<name>"[^"]*(?:"|\Z)|`[^`]*(?:`|\Z)|\[[^\]]*(?:\]|\Z))
    |(?P<number>\.?[0-9][\w.]*)
    |(?P<word>[^\W\d]\w*)
    |(?P<mark>.)""",
    re.DOTALL | re.VERBOSE,
)
_OPENS = frozenset({"select", "with", "values"})
_KEYWORDS = """
    select distinct all case when then else end and or not in is null like glob between exists cast
    as over partition by order asc desc rows range filter where collate escape from integer real
    text numeric blob union except intersect group having limit on join using
"""
_NO_COLUMNS = frozenset(_KEYWORDS.split())
"""Words that are not columns in a query."""
MAX_COPIES = 10**9
"""Copies are counted up to here."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a name, a text, a number or a mark."""

    kind: str
    text: str
    """Words and names in lower case, names without their quotes."""


def read_tokens(query: str) -> list[Token]:
    """Return the tokens of a query, without white space and comments; text that is not SQL becomes marks."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(query):
        kind, text = match.lastgroup or "mark", match[0]
        if kind == "name":
            kind, text = "name", text[1:].rstrip('"`]').lower()
        if kind != "space":
            tokens.append(Token(kind, text.lower() if kind == "word" else text))
    return tokens


def is_ordered(query: str) -> bool:
    """Whether a query's result has an order: ORDER BY outside of all parentheses."""
    depth, before = 0, ""
    for token in read_tokens(query):
        depth += (token.text == "(") - (token.text == ")") if token.kind == "mark" else 0
        word = token.text if token.kind == "word" else ""
        if depth == 0 and before == "order" and word == "by":
            return True
        before = word
    return False


def unfolding(query: str) -> int:
    """Return a bound on the copies of an expression that SQLite makes, up to a thousand million."""
    return _UnfoldingReader(read_tokens(query)).read().weight({})


@dataclass(slots=True)
class _Part:
    """One SELECT with the contents of its parentheses, unless they are a SELECT themselves."""

    parts: "dict[str, list[_Part]]"
    """All parts of WITH, by name."""
    depth: int = 0
    in_columns: bool = False
    here: int = 0
    """Columns used in the result column that is being read."""
    max_columns: int = 1
    names: Counter[str] = field(default_factory=Counter[str])
    inner: "list[_Part]" = field(default_factory=list["_Part"])

    def weight(self, weights: dict[int, int]) -> int:
        if id(self) in weights:
            return weights[id(self)]
        weights[id(self)] = 1  # a part that names itself is not unfolded
        named = sum(
            count * part.weight(weights)
            for name, count in self.names.items()
            for part in self.parts.get(name, ())
            if part is not self
        )
        total = min(
            MAX_COPIES, max(1, named + sum(part.weight(weights) for part in self.inner)) * self.max_columns
        )
        weights[id(self)] = total
        return total


class _UnfoldingReader:
    """Reads the tokens once."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._parts: dict[str, list[_Part]] = {}
        self._whole = _Part(self._parts)
        self._stack: list[tuple[_Part, int]] = []
        """The part around each open parenthesis, and the number of its token."""
        self._closed: dict[int, int] = {}
        """Number of a closing parenthesis to that of its opening one."""

    def read(self) -> _Part:
        """Return the whole query as a part."""
        part = self._whole
        for index, token in enumerate(self._tokens):
            if token.kind == "mark":
                part = self._mark(part, index, token.text)
            elif token.kind in {"word", "name"}:
                self._word(part, index, token)
        return self._whole

    def _mark(self, part: _Part, index: int, mark: str) -> _Part:
        if mark == "(":
            self._stack.append((part, index))
            if self._word_at(index + 1) in _OPENS:
                return self._open(part, index)
            part.depth += 1
        elif mark == ")" and self._stack:
            outer, opened = self._stack.pop()
            self._closed[index] = opened
            outer.depth -= outer is part
            return outer
        elif mark == "," and part.depth == 0:
            part.here = 0
        return part

    def _open(self, part: _Part, index: int) -> _Part:
        opened = _Part(self._parts)
        name = self._name_before(index)
        if name is None:
            part.inner.append(opened)
        else:
            self._parts.setdefault(name, []).append(opened)
        return opened

    def _name_before(self, index: int) -> str | None:
        """Return the name of the part of WITH that begins at a parenthesis: `name (columns) AS (`."""
        at = index - 1
        while self._word_at(at) in {"materialized", "not"}:
            at -= 1
        if self._word_at(at) != "as":
            return None
        at = self._closed.get(at - 1, at) - 1
        before = self._tokens[at] if at >= 0 else Token("mark", "")
        return before.text if before.kind in {"word", "name"} else None

    def _word(self, part: _Part, index: int, token: Token) -> None:
        if token.kind == "word" and part.depth == 0 and token.text in {"select", "from"}:
            part.in_columns, part.here = token.text == "select", 0
        if token.kind == "word" and token.text in _NO_COLUMNS:
            return
        part.names[token.text] += 1
        follows = self._tokens[index + 1].text if index + 1 < len(self._tokens) else ""
        if part.in_columns and follows not in {"(", "."}:
            part.here += 1
            part.max_columns = max(part.max_columns, part.here)

    def _word_at(self, index: int) -> str:
        if not 0 <= index < len(self._tokens) or self._tokens[index].kind != "word":
            return ""
        return self._tokens[index].text
