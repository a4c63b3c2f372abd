"""Fails where a name or a sentence uses a word that docs/reference/glossary.md has retired.

scripts/retired_words.toml holds the words, what to write instead, and the paths that are not checked yet.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_name("retired_words.toml")

_CHECKED = ("ors_server/*.py", "tasks/*.py", "scripts/*.py", "*.md")
_EXCLUDED = ("docs/decisions/", "docs/reference/", "tests/", "CHANGELOG.md")
"""What is history, generated, or text that a reader does not meet."""
_NAME_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_FENCE = re.compile(r"^ *(`{3,}|~{3,})")
_QUOTED = re.compile(r"(`+).+?\1|\"[^\"\n]*\"|“[^”\n]*”|\]\([^)\n]*\)|<!--.*?-->", re.DOTALL)
"""Code, quotations and link targets: their words are another's, or a format's."""


@dataclass(frozen=True)
class Words:
    """The table of retired words; each maps to what to write instead."""

    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Words of names: of classes, functions, parameters and files. Several words are separated by spaces."""
    class_names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Last words of class names."""
    prose: Mapping[str, str] = field(default_factory=dict[str, str])
    """Words and phrases of docstrings, comments, messages, help texts and documents."""
    kept: Mapping[str, str] = field(default_factory=dict[str, str])
    """`path: word` to the reason why the word stays there."""
    fine: tuple[str, ...] = ()
    """Phrases that are fine although a word of theirs is retired."""
    unchecked: tuple[str, ...] = ()
    """Files and folders that are not checked yet."""


@dataclass(frozen=True)
class Finding:
    """A retired word in a file."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        """Render the finding as one line."""
        return f"{self.path}:{self.line}: {self.word!r} is retired; write: {self.instead}"


def read_words(path: Path = TABLE) -> Words:
    """Returns the table of a file."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    lists = {name: tuple(table.get(name, ())) for name in ("fine", "unchecked")}
    return Words(**{**table, **lists})


def check(files: Mapping[str, str], words: Words) -> list[str]:
    """Returns every problem of the files (text by path), as lines to print."""
    findings = {path: list(find(path, text, words)) for path, text in sorted(files.items())}
    used = {f"{found.path}: {found.word}" for group in findings.values() for found in group}
    problems = [
        str(found)
        for path, group in findings.items()
        if not any(_covers(listed, path) for listed in words.unchecked)
        for found in group
        if f"{path}: {found.word}" not in words.kept
    ]
    for listed in words.unchecked:
        below = [path for path in files if _covers(listed, path)]
        if not below:
            problems.append(f"{TABLE.name}: no file is at {listed!r}: remove it from `unchecked`")
        elif not any(findings[path] for path in below):
            problems.append(f"{TABLE.name}: {listed!r} is clean: remove it from `unchecked`")
    problems += [
        f"{TABLE.name}: {key!r} does not occur: remove it from `kept`"
        for key in words.kept
        if key not in used
    ]
    return problems


def find(path: str, text: str, words: Words) -> Iterator[Finding]:
    """Yields the retired words of one file, in no particular order."""
    if path.endswith(".md"):
        prose: Iterable[tuple[int, str]] = markdown_prose(text)
    else:
        nodes = list(ast.walk(ast.parse(text)))
        yield from _check_names(path, nodes, words)
        prose = python_prose(text, nodes)
    for first_line, piece in prose:
        yield from _check_prose(path, first_line, piece, words)


def markdown_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yields the paragraphs of a document with their first lines; code blocks are left out."""
    fence: str | None = None
    start, lines = 1, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        opened = _FENCE.match(line)
        if opened and (fence is None or opened[1].startswith(fence)):
            fence = opened[1] if fence is None else None
            line = ""  # noqa: PLW2901  (a fence ends a paragraph as an empty line does)
        elif fence is not None:
            continue
        if line.strip():
            lines.append(line)
            continue
        if lines:
            yield start, "\n".join(lines)
        start, lines = number + 1, []


def python_prose(text: str, nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yields comments, docstrings, messages of raised errors and help texts, with their first lines."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield from _strings(node)
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield from _strings(node.exc)
        elif isinstance(node, ast.keyword) and node.arg == "help":
            yield from _strings(node.value)


def _strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.lineno, child.value


def _check_names(path: str, nodes: Sequence[ast.AST], words: Words) -> Iterator[Finding]:
    for line, name in [(1, Path(path).stem), *_names(nodes)]:
        parts = [part.lower() for part in _NAME_WORD.findall(name)]
        joined = f" {' '.join(parts)} "
        yield from (
            Finding(path, line, word, instead)
            for word, instead in words.names.items()
            if f" {word} " in joined
        )
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            last = _NAME_WORD.findall(node.name)[-1:]
            yield from (
                Finding(path, node.lineno, word, words.class_names[word])
                for word in last
                if word in words.class_names
            )


def _names(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def _check_prose(path: str, first_line: int, text: str, words: Words) -> Iterator[Finding]:
    plain = _QUOTED.sub(_blank, text)
    for phrase in words.fine:
        plain = _pattern(phrase).sub(_blank, plain)
    for word, instead in words.prose.items():
        for found in _pattern(word).finditer(plain):
            yield Finding(path, first_line + plain[: found.start()].count("\n"), word, instead)


@cache
def _pattern(phrase: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, phrase.split()))
    return re.compile(rf"(?<![\w-]){words}(?![\w-])", re.IGNORECASE)


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def _covers(listed: str, path: str) -> bool:
    return path == listed or path.startswith(f"{listed.rstrip('/')}/")


def added_to_unchecked(words: Words) -> list[str]:
    """Returns the paths that `unchecked` has and the last commit's table has not, as problems."""
    command = ["git", "show", f"HEAD:{TABLE.relative_to(ROOT)}"]
    shown = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    before = tomllib.loads(shown.stdout).get("unchecked") if shown.returncode == 0 else None
    return [
        f"{TABLE.name}: {listed!r} is new in `unchecked`, which may only become shorter"
        for listed in words.unchecked
        if before is not None and listed not in before
    ]


def read_files() -> dict[str, str]:
    """Returns the text of each file that is checked, by its path."""
    command: list[Any] = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *_CHECKED]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = sorted({name for name in listed.split("\0") if name and not name.startswith(_EXCLUDED)})
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in paths if (ROOT / name).is_file()}


def main() -> int:
    """Prints each problem and returns the exit status."""
    words = read_words()
    problems = check(read_files(), words) + added_to_unchecked(words)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
