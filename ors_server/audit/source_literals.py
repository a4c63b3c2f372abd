"""Texts and numbers that stand in an environment's source, which may be answers that its grader accepts."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

LONGEST = 80
"""Characters of a text that may be tried as an answer."""
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
