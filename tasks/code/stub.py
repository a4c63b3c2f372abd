"""Makes the file that an agent starts from: the solution without its bodies, or with a bug."""

import ast
import re

_HUNK = re.compile(r"(?:^-.*\n)*(?:^\+.*\n)+|(?:^-.*\n)+", re.MULTILINE)


class BugError(ValueError):
    """A bug does not fit its solution."""


def make_stub(solution: str) -> str:
    """Return the public signatures and docstrings of a solution; every body raises NotImplementedError.

    Private names (with a leading underscore) and imports that no signature needs are left out.
    """
    public = [node for node in ast.parse(solution).body if _is_public(node)]
    for node in public:
        _empty(node)
    used = {name.id for node in public for name in ast.walk(node) if isinstance(name, ast.Name)}
    imports = [node for node in ast.parse(solution).body if _imports_any(node, used)]
    head = "\n".join(ast.unparse(node) for node in imports)
    return "\n\n\n".join(part for part in (head, *map(ast.unparse, public)) if part) + "\n"


def public_classes(source: str) -> list[str]:
    """Return the names of the public classes of a Python source."""
    return [
        node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and _is_public(node)
    ]


def _is_public(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef) and (
        not node.name.startswith("_") or node.name.startswith("__")
    )


def _imports_any(node: ast.stmt, names: set[str]) -> bool:
    return isinstance(node, ast.ImportFrom) and any(alias.name in names for alias in node.names)


def _empty(node: ast.stmt) -> None:
    """Remove the body of a function, or of every public method of a class."""
    if isinstance(node, ast.ClassDef):
        node.body = [part for part in node.body if _is_public(part) or _is_docstring(part)]
        for part in node.body:
            _empty(part)
    elif isinstance(node, ast.FunctionDef):
        docstring = [part for part in node.body[:1] if _is_docstring(part)]
        node.body = [*docstring, ast.parse("raise NotImplementedError").body[0]]


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def put_in_bug(solution: str, bug: str) -> str:
    """Return a solution with a bug in it.

    Args:
        solution: Python source.
        bug: Hunks: lines of the solution, each with `-` in front, then their replacement, each with `+`.

    Raises:
        BugError: The lines of a hunk are not exactly once in the solution.
    """
    for hunk in _HUNK.findall(bug):
        lines = hunk.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
        if not old or len(re.findall(f"^(?={re.escape(old)})", solution, re.MULTILINE)) != 1:
            raise BugError(f"expected these lines exactly once in the solution:\n{old}")
        solution = f"\n{solution}".replace(f"\n{old}", f"\n{new}")[1:]
    return solution
