"""What stands in an environment's source: texts that its grader may accept, and whether it asks a judge."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
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
    files = {Path(reference, "environment.toml"), Path(reference)}
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] not in _OTHERS:
            file = inspect.getsourcefile(base) if base.__module__ in sys.modules else None
            files |= set() if file is None else {Path(file)}
    return any(
        _JUDGE.search(file.read_text(encoding="utf-8", errors="replace")) for file in files if file.is_file()
    )


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
