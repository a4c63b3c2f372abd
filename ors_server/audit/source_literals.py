"""What is in an environment's source: texts that its grader may accept, judges, resources."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

LONGEST = 80
"""Characters of a text that may be tried as an answer."""
_JUDGE = re.compile(r"judge_|_judge|Judge\b|openai|chat[./]completions|litellm")
"""Names of this package's judges, and of the packages with which others ask models."""
_OTHERS = frozenset({"ors_server", "builtins", "abc", "typing"})
"""Packages whose classes are not the author's."""


def literals_of(cls: type) -> list[str]:
    """Return the short texts and the numbers in the source of a class and its bases, without docstrings."""
    found: dict[str, None] = {}
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] not in _OTHERS:
            for node in _class_nodes(base):
                found |= dict.fromkeys(_constants(node))
    return list(found)


def mentions_judge(cls: type, reference: str) -> bool:
    """Return whether an author's file, or the declaration at a reference, speaks of a model that judges."""
    declared = {file for file in (Path(reference, "environment.toml"), Path(reference)) if file.is_file()}
    own = (base for base in cls.__mro__ if base.__module__.partition(".")[0] not in _OTHERS)
    return any(_JUDGE.search(_text(file)) for file in declared | _files(own))


def mentions_resources(cls: type) -> bool:
    """Return whether the files of a class and its bases acquire resources, so that a session is costly."""
    return any("acquire_resource(" in _text(file) for file in _files(cls.__mro__))


def _files(classes: Iterable[type]) -> set[Path]:
    """Return the files of classes, where they have any."""
    found: set[Path] = set()
    for one in classes:
        try:
            file = inspect.getsourcefile(one)
        except (OSError, TypeError):
            continue
        found |= set() if file is None else {Path(file)}
    return found


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _class_nodes(cls: type) -> Iterator[ast.ClassDef]:
    try:
        file = inspect.getsourcefile(cls)
        tree = ast.parse(Path(file).read_text(encoding="utf-8")) if file else ast.Module([], [])
    except (OSError, TypeError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            yield node


def _constants(node: ast.ClassDef) -> Iterator[str]:
    docstrings = {
        id(one.body[0].value)
        for one in ast.walk(node)
        if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and isinstance(one.body[0], ast.Expr)
    }
    for one in ast.walk(node):
        if not isinstance(one, ast.Constant) or id(one) in docstrings or isinstance(one.value, bool):
            continue
        if isinstance(one.value, str | int | float) and 0 < len(str(one.value)) <= LONGEST:
            yield str(one.value)
