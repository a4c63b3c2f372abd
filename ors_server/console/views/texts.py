"""Texts of others as spans with classes: terminal colours, code, and long texts folded in the middle.

A page shows a bounded number of lines, of characters of a line, and of spans. The whole text is always one
link away.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, cast

from pygments import lexers
from pygments.lexer import Lexer
from pygments.token import STANDARD_TYPES, Token
from rich.ansi import AnsiDecoder
from rich.color import ColorSystem, ColorType
from rich.style import Style

from ors_server.console.views import formats
from ors_server.model import printable

FOLD_LINES, END_LINES = 40, 20
"""Texts of more lines are folded; as many lines of either end stay in sight."""
INLINE_CHARACTERS = 32 * 1024
"""Characters of the folded middle that are part of the page; of more, only the link is."""
LINE_CHARACTERS = 2_000
"""Characters of one line that are shown."""
MAX_SPANS = 4_000
"""Coloured pieces of one text; beyond it the text has one colour."""
CODE_CHARACTERS = 16 * 1024
"""Characters that are highlighted as code: some lexers take quadratic time."""
ESCAPE = "\x1b"
_LANGUAGES = {
    **{ending: ending for ending in ("bash", "c", "cpp", "css", "diff", "go", "html", "java", "js", "json")},
    **{ending: ending for ending in ("py", "rs", "sh", "sql", "toml", "ts", "yaml")},
    "h": "c",
    "yml": "yaml",
}
"""Names of Pygments' lexers by the ending of a file's name."""


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A piece of text of one look."""

    text: str
    style: str = ""
    """Classes, separated by spaces."""


Spans: TypeAlias = tuple[TextSpan, ...]


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A text whose middle may be folded away."""

    head: Spans
    middle: Spans = ()
    """Empty if the text is short, or if its middle is too long for the page."""
    tail: Spans = ()
    lines: int = 0
    hidden_lines: int = 0
    """Lines between head and tail."""
    size: str = ""
    """Of the whole text."""
    is_cut: bool = False
    """Whether a part of the text is not on the page at all."""


def fold(text: str, language: str | None = None) -> FoldedText:
    """Return a text as it is shown.

    Args:
        language: Ending of a file's name, by which code is highlighted; `None` for the output of a program.
    """
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    is_cut = any(len(line) > LINE_CHARACTERS for line in lines)
    size = formats.size(len(text.encode(errors="replace") if len(text) < 1 << 22 else text))
    end = END_LINES if len(lines) > FOLD_LINES else len(lines)
    middle = lines[end:-end]
    is_inline = sum(map(len, middle)) <= INLINE_CHARACTERS
    return FoldedText(
        head=_spans(lines[:end], language),
        middle=_spans(middle, language) if is_inline else (),
        tail=_spans(lines[end:][-end:], language),
        lines=len(lines),
        hidden_lines=len(middle),
        size=size,
        is_cut=is_cut or not is_inline,
    )


def language_of(file_name: str) -> str | None:
    """Return the ending of a file's name if its code can be highlighted."""
    ending = file_name.rpartition(".")[2].lower()
    return ending if ending in _LANGUAGES else None


def _spans(lines: Sequence[str], language: str | None) -> Spans:
    if not lines:
        return ()
    shown = [_shorten(line) for line in lines]
    text = "\n".join(shown)
    if language in _LANGUAGES and len(text) <= CODE_CHARACTERS:
        spans = _merge(_code(printable.clean(text), _LANGUAGES[language or ""]))
    elif ESCAPE in text:
        spans = _merge(_terminal(shown))
    else:
        return (TextSpan(printable.clean(text)),)
    return spans if len(spans) <= MAX_SPANS else (TextSpan("".join(span.text for span in spans)),)


def _shorten(line: str) -> str:
    if len(line) <= LINE_CHARACTERS:
        return line.removesuffix("\r")
    return f"{line[:LINE_CHARACTERS]} … {len(line) - LINE_CHARACTERS:,} more characters"


def _merge(spans: Iterator[TextSpan]) -> Spans:
    """Join neighbours of the same look."""
    merged: list[TextSpan] = []
    for span in spans:
        if merged and merged[-1].style == span.style:
            merged[-1] = TextSpan(merged[-1].text + span.text, span.style)
        elif span.text:
            merged.append(span)
    return tuple(merged)


def _terminal(lines: Sequence[str]) -> Iterator[TextSpan]:
    """Read a terminal's colours; what it would not show, such as moves of the cursor, is left out."""
    decoder = AnsiDecoder()
    for number, line in enumerate(lines):
        decoded = decoder.decode_line(line)
        text, position = decoded.plain, 0
        if number:
            yield TextSpan("\n")
        for piece in decoded.spans:
            yield TextSpan(printable.clean(text[position : piece.start]))
            look = _look_of(piece.style) if isinstance(piece.style, Style) else ""
            yield TextSpan(printable.clean(text[piece.start : piece.end]), look)
            position = piece.end
        yield TextSpan(printable.clean(text[position:]))


def _look_of(style: Style) -> str:
    flags = ((style.bold, "a-b"), (style.dim, "a-d"), (style.italic, "a-i"))
    names = [name for is_set, name in flags if is_set]
    # A background would need 256 pairs of colours that can be read: it becomes an underline.
    if style.underline or (style.bgcolor is not None and not style.bgcolor.is_default):
        names.append("a-u")
    color = style.color
    if color is not None and color.type is not ColorType.DEFAULT:
        number = color.downgrade(ColorSystem.STANDARD).number or 0
        names.append(f"a-{30 + number if number < 8 else 82 + number}")  # noqa: PLR2004  (ECMA-48: 30 to 37, 90 to 97)
    return " ".join(names)


@cache
def _lexer(name: str) -> Lexer:
    found: Any = lexers
    return cast("Lexer", found.get_lexer_by_name(name, stripnl=False, ensurenl=False))


def _code(text: str, lexer: str) -> Iterator[TextSpan]:
    for kind, piece in _lexer(lexer).get_tokens(text):
        while kind not in STANDARD_TYPES and kind is not Token:
            kind = kind.parent or Token  # noqa: PLW2901  (the nearest kind that has a short name)
        short = STANDARD_TYPES.get(kind, "")
        yield TextSpan(piece, f"h-{short}" if short and short not in {"p", "n", "w", "o"} else "")
