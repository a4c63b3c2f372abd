r"""Texts that no grammar parses, as the tokens that carry their meaning.

Layout is left out: white space, `\left`, fences, the type of letters, quotation marks, closing punctuation,
braces around one token. All else is kept in order: braces, signs, indices, the case of letters and of
commands. Only whole words of English lose their case, their article and their plural.
"""

import re
from typing import Final

from ors_server.rewards.math.token_names import (
    BINDERS,
    COMMANDS,
    FUNCTIONS,
    GREEK,
    LAYOUT,
    RELATIONS,
    SEPARATORS,
    SHORT_WORDS,
    TEXT_COMMANDS,
)

_TOKEN: Final = re.compile(
    r"(?P<command>\\[A-Za-z]+)|(?P<space>\\[ ,;:!>()\[\]\n]|[\s~\"`]+)|(?P<escaped>\\.)|"
    r"(?P<number>\d+(?:\.\d+)?|\.\d+)|"
    r"(?P<word>[A-Za-z]+(?:'[a-z]+)*|(?:(?![A-Za-z])[^\W\d_])+)|(?P<sign>.)",
    re.DOTALL,
)
_STRONG: Final = re.compile(r"(?<![\w)}\]])\*\*([^*\n]+)\*\*(?![\w({\[])")
_CURRENCY: Final = "$"
_WORD: Final = 4
"""Letters of a run that is surely a word and not a product of letters."""
_NAME: Final = re.compile(r"[^aeiou][aeiou][^aeiou]|amy|ann|ava|eli|eve|ian|joe|leo|mia|sue|zoe|ali|abe|guy")
"""Runs of three letters that are first names, if they begin with a capital."""
_ARTICLES: Final = frozenset({"a", "an", "the"})
_CLOSING: Final = frozenset(".,;:?!'")
_ALIASES: Final = {"lnot": "\\neg"}
_TABLES: Final = (_ALIASES, FUNCTIONS, GREEK, COMMANDS, RELATIONS, BINDERS, SEPARATORS)


def stream(text: str) -> tuple[str, ...]:
    """Return the pieces of a text, already unified and without fences, that carry its meaning, in order."""
    text = _STRONG.sub(r"\1", text)
    is_currency_kept = text.replace("\\$", "").count(_CURRENCY) % 2 == 1
    pieces: list[str] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "space" or (match[0] == _CURRENCY and not is_currency_kept):
            continue
        _add(pieces, kind, match[0])
    return tuple(_without_articles(_without_edges(_without_braces(pieces))))


def fold_word(run: str) -> str:
    """Return a word of English without its case; a run that may be a product of letters is unchanged."""
    is_styled = run.islower() or run.isupper() or run.istitle()
    lower = run.casefold()
    if lower in GREEK:
        return run
    is_word = len(run) >= _WORD or lower in SHORT_WORDS or (run.istitle() and _NAME.fullmatch(lower))
    return lower if is_styled and is_word else run


def singular(word: str) -> str:
    """Return a word without the ending of its plural."""
    return word.rstrip("s") if len(word) >= _WORD and word.islower() else word


def _add(pieces: list[str], kind: str, lexeme: str) -> None:
    if kind == "command":
        name = lexeme[1:]
        if name in LAYOUT:
            return
        if name in TEXT_COMMANDS:
            pieces.append("text")
            return
        pieces.append(next((table[name] for table in _TABLES if name in table), lexeme))
    elif kind == "word":
        pieces.append(singular(fold_word(lexeme)))
    else:
        pieces.append(lexeme)


def _without_braces(pieces: list[str]) -> list[str]:
    """Drop braces around one token, around the whole, and after a command that sets text."""
    open_pieces: list[str] = []
    opened: list[tuple[int, bool]] = []
    for piece in pieces:
        if piece == "{":
            is_text = bool(open_pieces) and open_pieces[-1] == "text"
            if is_text:
                open_pieces.pop()
            opened.append((len(open_pieces), is_text))
            open_pieces.append(piece)
        elif piece == "}" and opened:
            start, is_text = opened.pop()
            if is_text or len(open_pieces) - start <= 2:  # noqa: PLR2004  (the brace itself, and one piece)
                del open_pieces[start]
            else:
                open_pieces.append(piece)
        else:
            open_pieces.append(piece)
    return [piece for piece in open_pieces if piece != "text"]


def _without_edges(pieces: list[str]) -> list[str]:
    start, end = 0, len(pieces)
    while end > start and pieces[end - 1] in _CLOSING:
        before = pieces[end - 2] if end > 1 else ""
        # A factorial or a prime: a sign after a value that is not a word.
        if pieces[end - 1] in "!'" and not (before.isalpha() and len(before) >= _WORD - 1):
            break
        end -= 1
    while start < end and pieces[start] in _CLOSING:
        start += 1
    return [
        piece
        for index, piece in enumerate(pieces[start:end], start)
        if piece != "." or pieces[index + 1].isdigit()
    ]


def _without_articles(pieces: list[str]) -> list[str]:
    def is_article(index: int) -> bool:
        following = pieces[index + 1] if index + 1 < len(pieces) else ""
        word = pieces[index]
        is_led = index == 0 or len(pieces[index - 1]) > 1
        return (
            word.lower() in _ARTICLES
            and (len(word) > 1 or is_led)
            and (following.isalpha() and len(following) > 1)
        )

    return [piece for index, piece in enumerate(pieces) if not is_article(index)]
