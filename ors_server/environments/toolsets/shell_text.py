r"""Finds the simple commands in a shell script, at any depth. Knows no rules.

The grammar is tree-sitter's (`tree-sitter-bash`). Words are resolved here: quotes and backslashes go, and
variables and substitutions, which only the shell knows, become one `UNKNOWN`. If the grammar finds an
error, bash may still run the text before it, so such a text is also split roughly, word by word.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from ors_server.environments.toolsets.wrappers import Words

if TYPE_CHECKING:
    from tree_sitter import Language, Node

UNKNOWN = "\ufffc"
"""Part of a word that only the shell knows."""

_PIECE = re.compile(
    r"""\\(?P<escaped>.|\Z)
    | '(?P<single>[^']*)(?:'|\Z)
    | \$'(?P<ansi>(?:[^'\\]|\\.)*)(?:'|\Z)
    | \$?"(?P<double>(?:[^"\\]|\\.)*)(?:"|\Z)
    | (?P<unknown>`(?:[^`\\]|\\.)*(?:`|\Z) | \$\{ | [$<>]\( | \$(?:[A-Za-z_]\w*|[\d@*\#?$!-]))
    | (?P<plain>[^\\'"`$<>]+ | .)""",
    re.VERBOSE | re.DOTALL,
)
_IN_DOUBLE = re.compile(
    r"""\\(?P<escaped>[$`"\\])
    | (?P<joined>\\\n)
    | (?P<unknown>`(?:[^`\\]|\\.)*(?:`|\Z) | \$\{ | \$\( | \$(?:[A-Za-z_]\w*|[\d@*\#?$!-]))
    | (?P<plain>[^\\`$]+ | .)""",
    re.VERBOSE | re.DOTALL,
)
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)
_ANSI_NAMES = dict(zip("ntrabeEfv", "\n\t\r\a\b\x1b\x1b\f\v", strict=True))
_MAX_CODE = 0x10FFFF

_BRACED = re.compile(
    r"""(?<![^\s;|&(])[^\s;|&()'"`$]*\{[^\s;|&()'"`$]*(?:,|\.\.)[^\s;|&()'"`$]*\}[^\s;|&()'"`$]*"""
)
"""A word with braces; at the start of a command, the grammar mistakes the brace for a group's."""
_BROKEN_WORD = re.compile(r"(?<=[^\s\\])((?:\\\\)*)\\\n(?=\S)")
_OPERATORS = frozenset(";|&()<>{}\n`")
_LEADING = frozenset({"!", "{", "do", "elif", "else", "if", "then", "until", "while"})
_ARGUMENTS = frozenset({"name", "argument"})
_STATEMENTS = frozenset({"pipeline", "redirected_statement", "heredoc_redirect", "command"})


MAX_EXPANDED = 64
"""Words that braces in one word may make; of more, only the first are looked at."""

_BRACE_PIECE = re.compile(
    r"""\\. | '[^']*' | "(?:[^"\\]|\\.)*" | \$\{[^}]*\} | \$?\([^)]*\) | `[^`]*` | .""",
    re.VERBOSE | re.DOTALL,
)
_BRACE_RANGE = re.compile(
    r"(?:([+-]?\d+)\.\.([+-]?\d+)|([a-zA-Z])\.\.([a-zA-Z]))(?:\.\.([+-]?\d+))?", re.ASCII
)
_MAX_RANGE = 64

_Pieces: TypeAlias = Sequence[str]
_Waiting: TypeAlias = "tuple[_Pieces, _Waiting] | None"
"""The rest of a word that is still to be expanded, from left to right."""


@dataclass(frozen=True, slots=True)
class ShellStatement:
    """One pipeline with its redirections: the input of its commands."""

    input_texts: tuple[str, ...] = ()
    """Its here-documents and here-strings."""
    commands: tuple[Words, ...] = ()
    """All of its commands."""
    substituted: tuple[Words, ...] = ()
    """The commands of its `<(...)`, whose output it reads as files."""


@dataclass(frozen=True, slots=True)
class Found:
    """One simple command of a script."""

    words: Words
    statement: ShellStatement = ShellStatement()
    """The pipeline that contains it."""


def find_commands(script: str) -> Iterator[Found]:
    """Yield every simple command of a script: of pipes, lists, loops, functions and substitutions too.

    The grammar's time can grow with the square of the length, and a text may crash it: call this in a worker
    process only.
    """
    yield from _parsed(script)
    joined = _BROKEN_WORD.sub(r"\1", script)
    if joined != script:  # the grammar ends a word where a backslash ends the line; bash joins the lines
        yield from _parsed(joined)


def _parsed(script: str) -> Iterator[Found]:
    from tree_sitter import Parser  # noqa: PLC0415  (it takes long to load, and few need it)

    source = script.encode(errors="replace")
    root = Parser(_language()).parse(source).root_node
    for top, commands in _statements(root, source):
        statement = ShellStatement(_input_texts(top, source), tuple(commands), _substituted(top, source))
        for words in commands:
            yield Found(words, statement)
    # bash runs the commands before a syntax error, which the grammar may not find.
    if root.has_error:
        for words in cut_roughly(script):
            yield Found(words)


def _statements(root: "Node", source: bytes) -> Iterator[tuple["Node", list[Words]]]:
    """Yield each statement's topmost node and commands, without those of substitutions in it."""
    pending = [root]
    while pending:
        top = pending.pop()
        wordses: list[Words] = []
        inside = [top]
        while inside:
            node = inside.pop()
            words = _words(node, source)
            if words:
                wordses.append(words)
            for child in reversed(node.named_children):
                # Commands of one pipeline share their input; what is nested in a word or a body is a separate
                # statement.
                (inside if node.type in _STATEMENTS and child.type in _STATEMENTS else pending).append(child)
        if wordses:
            yield top, wordses


@cache
def _language() -> "Language":
    import tree_sitter_bash  # noqa: PLC0415  (only the process that searches pays for the grammar)
    from tree_sitter import Language  # noqa: PLC0415  (it takes long to load, and few need it)

    return Language(tree_sitter_bash.language())


def _words(node: "Node", source: bytes) -> Words:
    # `export`, `declare`, `unset` and the like have their own kinds of node.
    if node.type in {"declaration_command", "unset_command"}:
        return tuple(resolve(_text(child, source)) for child in node.children)
    if node.type != "command":
        return ()
    children = enumerate(node.children)
    return tuple(
        resolve(word)
        for index, child in children
        if node.field_name_for_child(index) in _ARGUMENTS
        for word in expand_braces(_text(child, source))
    )


def _input_texts(top: "Node", source: bytes) -> tuple[str, ...]:
    texts: list[str] = []
    pending = [top]
    while pending:
        node = pending.pop()
        if node.type == "heredoc_body":
            texts.append(_text(node, source))
        elif node.type == "herestring_redirect":
            texts += [resolve(_text(child, source)) for child in node.named_children]
        if node.type in _STATEMENTS:
            pending += node.named_children
    return tuple(texts)


def _substituted(top: "Node", source: bytes) -> tuple[Words, ...]:
    wordses: list[Words] = []
    pending = [(top, False)]
    while pending:
        node, is_inside = pending.pop()
        words = _words(node, source) if is_inside else ()
        wordses += [words] if words else []
        is_inside = is_inside or node.type == "process_substitution"
        pending += [(child, is_inside) for child in node.named_children]
    return tuple(wordses)


def _text(node: "Node", source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode(errors="replace")


def resolve(word: str) -> str:
    """Return a word as the shell would pass it to a program, with `UNKNOWN` for expansions."""
    pieces: list[str] = []
    at = 0
    while at < len(word) and (match := _PIECE.match(word, at)):
        at = match.end()
        kind, text = match.lastgroup, match.group(match.lastgroup or 0)
        if kind == "escaped":
            pieces.append("" if text == "\n" else text)
        elif kind == "double":
            pieces.append(_resolve_double(text))
        elif kind == "ansi":
            pieces.append(_ANSI.sub(_decode_ansi, text))
        elif kind == "unknown":
            pieces.append(UNKNOWN)
            # The pattern matches only the opening, because brackets nest.
            at = _after_expansion(word, at)
        else:
            pieces.append(text)
    return "".join(pieces)


def _resolve_double(text: str) -> str:
    pieces: list[str] = []
    at = 0
    while at < len(text) and (match := _IN_DOUBLE.match(text, at)):
        at = match.end()
        if match.lastgroup == "unknown":
            pieces.append(UNKNOWN)
            at = _after_expansion(text, at)
        elif match.lastgroup != "joined":
            pieces.append(match.group(match.lastgroup or 0))
    return "".join(pieces)


def _after_expansion(text: str, at: int) -> int:
    """Return the end of the expansion whose bracket opens just before `at`."""
    opening = text[at - 1]
    closing = {"{": "}", "(": ")"}.get(opening)
    depth = 0 if closing is None else 1
    while at < len(text) and depth:
        depth += (text[at] == opening) - (text[at] == closing)
        at += 1
    return at


def _decode_ansi(match: re.Match[str]) -> str:
    hexadecimal = match[1] or match[2] or match[3]
    if hexadecimal or match[4]:
        code = int(hexadecimal, 16) if hexadecimal else int(match[4], 8) % 256
        return chr(code) if code <= _MAX_CODE else UNKNOWN
    return _ANSI_NAMES.get(match[5], match[5])


def cut_roughly(script: str) -> Iterator[Words]:
    """Yield the commands of a script that the grammar does not understand, split at operators."""
    plain = _BRACED.sub(lambda match: " ".join(expand_braces(match[0])), script.replace("\\\n", ""))
    lexer = shlex.shlex(plain, posix=True, punctuation_chars="();<>|&{}\n`")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    # shlex would also begin a comment in the middle of a word; comments are skipped below.
    lexer.commenters = ""
    words: list[str] = []
    in_comment = False
    try:
        for token in lexer:
            if set(token) <= _OPERATORS:
                yield from _without_keywords(words)
                words = []
                in_comment = in_comment and "\n" not in token
            elif token.startswith("#") or in_comment:
                in_comment = True
            else:
                words.append(token)
    except ValueError:
        pass  # an unclosed quote: bash runs nothing of it
    yield from _without_keywords(words)


def _without_keywords(words: list[str]) -> Iterator[Words]:
    at = 0
    while at < len(words) and (words[at] in _LEADING or re.fullmatch(r"\w+=\S*", words[at])):
        at += 1
    if words[at:]:
        yield tuple(words[at:])


def expand_braces(word: str) -> list[str]:
    """Return the words that bash makes of one with braces, at most `MAX_EXPANDED`; quoted braces stay."""
    done: list[str] = []
    unfinished: list[tuple[str, _Waiting]] = [("", (_BRACE_PIECE.findall(word), None))]
    while unfinished:
        prefix, waiting = unfinished.pop()
        if waiting is None:
            done.append(prefix)
            continue
        pieces, rest = waiting
        # Groups multiply: no more words are begun than may be returned.
        free = MAX_EXPANDED - len(unfinished) - len(done)
        group = _first_group(pieces) if free > 0 else None
        if group is None:
            unfinished.append((prefix + "".join(pieces), rest))
            continue
        start, end = group
        prefix += "".join(pieces[:start])
        after = (pieces[end + 1 :], rest)
        choices = _choices(pieces[start + 1 : end])[:free]
        unfinished += [(prefix, (choice, after)) for choice in reversed(choices)]
    return done


@dataclass
class _Level:
    """The open braces that one closing brace would close."""

    ready: list[int] = field(default_factory=list[int])
    """Those that have a comma or dots of their own."""
    bare: list[int] = field(default_factory=list[int])


def _first_group(pieces: _Pieces) -> tuple[int, int] | None:
    """Find the first brace that begins an expansion, and the one that ends it.

    To bash, a closing brace that comes before any comma is text to the brace that it would close, and closes
    nothing of it; the braces around that one count it.
    """
    levels = [_Level()]
    closed: list[tuple[int, int]] = []
    for index, piece in enumerate(pieces):
        # As in {1..3}; the two dots of {a..} are text.
        is_range = "".join(pieces[index : index + 2]) == ".." and pieces[index + 2 : index + 3] != ["}"]
        if piece == "{":
            levels.append(_Level(bare=[] if index == 0 and pieces[1:2] == ["}"] else [index]))
        elif piece == "," or is_range:
            levels[-1].ready += levels[-1].bare
            levels[-1].bare.clear()
        elif piece == "}":
            closed += [(opened, index) for opened in levels[-1].ready]
            levels[-1].ready.clear()
            if len(levels) > 1:
                _merge(levels)
    return min(closed, default=None)


def _merge(levels: list[_Level]) -> None:
    inner = levels.pop().bare
    outer = levels[-1]
    if len(inner) > len(outer.bare):
        outer.bare, inner = inner, outer.bare
    outer.bare += inner


def _choices(pieces: _Pieces) -> list[_Pieces]:
    """Return what may stand for a group, given what is between its braces."""
    if not any("," in piece for piece in pieces):
        text = "".join(pieces)
        # Without a comma or a range, the braces are text.
        return [[member] for member in _range(text)] or [["{" + text + "}"]]
    choices: list[_Pieces] = []
    level = start = 0
    for index, piece in enumerate(pieces):
        if piece == "," and level == 0:
            choices.append(pieces[start:index])
            start = index + 1
        level = max(0, level + {"{": 1, "}": -1}.get(piece, 0))
    return [*choices, pieces[start:]]


def _range(text: str) -> list[str]:
    """Return the first members of `1..9`, `01..09`, `a..e` or `9..1..2`; none if the text is not a range."""
    match = _BRACE_RANGE.fullmatch(text)
    if match is None or len(text) > _MAX_RANGE:
        return []
    first_number, last_number, first_letter, last_letter, step_text = match.groups()
    step = max(1, abs(int(step_text or 1)))
    if first_letter:
        letters = _members(ord(first_letter), ord(last_letter), step)
        # Between `Z` and `a` are signs such as the backquote, which must not be read as syntax again.
        return [letter if letter.isalnum() else f"\\{letter}" for letter in map(chr, letters)]
    is_padded = any(re.match(r"[+-]?0\d", number) for number in (first_number, last_number))
    width = max(len(first_number), len(last_number)) if is_padded else 0
    return [f"{number:0{width}d}" for number in _members(int(first_number), int(last_number), step)]


def _members(first: int, last: int, step: int) -> range:
    direction = 1 if first <= last else -1
    return range(first, last + direction, direction * step)[:MAX_EXPANDED]
