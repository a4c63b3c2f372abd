"""Measures how readable the package is, and fails where a figure is worse than its limit.

A limit is the figure of the last change that touched it and may only become smaller, until it is the goal.
`--table` prints all figures with their limits and goals.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "ors_server"

PRONOUNS = frozenset(
    [
        "one",
        "found",
        "place",
        "each",
        "given",
        "made",
        "mine",
        "theirs",
        "most",
        "others",
        "known",
        "asked",
        "kept",
    ]
)
"""Names that say nothing about what they hold."""
SUPERLATIVE = re.compile(r"_?(?:MOST|LEAST|FEWEST)_")
IDIOMS = re.compile(
    r"\b(?:go(?:es)? on|beside|came|anew|whatever|(?:is|has) none|there is none|of its own)\b", re.IGNORECASE
)
SHORT_HELPER = 5
"""Lines of a helper's body that are short."""
SMALL_FILE = 130
"""Lines of a small file."""
TOOL_COMMENT = re.compile(r"#\s*(?:noqa|type:|pyright:|pragma|fmt:|mypy:|!)")

GOALS = {
    "pronoun names per 1,000 bindings": 5.0,
    "constants named MOST_, LEAST_ or FEWEST_": 0.0,
    "idioms per 1,000 lines": 0.8,
    "helpers of five lines or fewer with one use": 150.0,
    "small files with one importer in their folder": 30.0,
    "loose modules": 6.0,
}
LIMITS = {
    "pronoun names per 1,000 bindings": 2.9,
    "constants named MOST_, LEAST_ or FEWEST_": 0.0,
    "idioms per 1,000 lines": 0.2,
    "helpers of five lines or fewer with one use": 153.0,
    "small files with one importer in their folder": 29.0,
    "loose modules": 6.0,
}
MIN_COMMENTS = 15.0
"""Explaining comments per 1,000 lines: this figure may only grow, until it is 15."""


@dataclass(slots=True)
class Counts:
    """What was counted in the modules so far."""

    lines: int = 0
    bindings: int = 0
    pronouns: int = 0
    idioms: int = 0
    comments: int = 0
    superlatives: set[str] = field(default_factory=set[str])
    helpers: dict[str, int] = field(default_factory=dict[str, int])
    """Lines of the body of each private function, by module and name."""
    uses: Counter[str] = field(default_factory=Counter[str])
    """How often each name is read, in the whole package."""
    importers: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Modules that import a module."""
    sizes: dict[str, int] = field(default_factory=dict[str, int])


def main() -> int:
    """Print what is over its limit, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--table", action="store_true", help="print all figures")
    wanted = parser.parse_args()
    figures, comments = measure(ROOT / PACKAGE)
    if wanted.table:
        for name, value in figures.items():
            print(f"{name:48} {value:8.1f}   limit {LIMITS[name]:8.1f}   goal {GOALS[name]:8.1f}")
        print(f"{'explaining comments per 1,000 lines':48} {comments:8.1f}   limit {MIN_COMMENTS:8.1f}")
    over = {name: value for name, value in figures.items() if round(value, 1) > LIMITS[name]}
    for name, value in over.items():
        print(f"{name}: {value:.1f}, at most {LIMITS[name]:.1f} are allowed (scripts/check_house.py)")
    if round(comments, 1) < MIN_COMMENTS:
        print(f"explaining comments per 1,000 lines: {comments:.1f}, at least {MIN_COMMENTS:.1f} are wanted")
    return 1 if over or round(comments, 1) < MIN_COMMENTS else 0


def measure(package: Path) -> tuple[dict[str, float], float]:
    """Return the figures by name, and the explaining comments per 1,000 lines."""
    counts = Counts()
    for path in tracked(package):
        count_module(path, counts)
    short = sum(
        lines <= SHORT_HELPER and counts.uses[name.rpartition(":")[2]] == 1
        for name, lines in counts.helpers.items()
    )
    small = sum(
        size <= SMALL_FILE and is_used_by_a_neighbour(module, counts.importers.get(module, set()))
        for module, size in counts.sizes.items()
    )
    loose = [path for path in package.glob("*.py") if not path.name.startswith("_")]
    figures = {
        "pronoun names per 1,000 bindings": 1000 * counts.pronouns / counts.bindings,
        "constants named MOST_, LEAST_ or FEWEST_": float(len(counts.superlatives)),
        "idioms per 1,000 lines": 1000 * counts.idioms / counts.lines,
        "helpers of five lines or fewer with one use": float(short),
        "small files with one importer in their folder": float(small),
        "loose modules": float(len(loose)),
    }
    return figures, 1000 * counts.comments / counts.lines


def tracked(package: Path) -> list[Path]:
    """Return the modules of the package."""
    command = ["git", "ls-files", "-z", f"{package.name}/*.py"]
    listed = subprocess.run(command, cwd=package.parent, check=True, capture_output=True, text=True).stdout
    paths = [package.parent / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()]


def count_module(path: Path, counts: Counts) -> None:
    """Count in one module."""
    text = path.read_text()
    tree = ast.parse(text)
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    counts.sizes[module] = len(text.splitlines())
    counts.lines += counts.sizes[module]
    for name in bound_names(tree):
        counts.bindings += 1
        counts.pronouns += name in PRONOUNS
        if SUPERLATIVE.match(name):
            counts.superlatives.add(f"{module}:{name}")
    count_names(tree, module, counts)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not TOOL_COMMENT.match(token.string):
            counts.comments += 1
        if token.type in {tokenize.COMMENT, tokenize.STRING}:
            counts.idioms += len(IDIOMS.findall(token.string))


def count_names(tree: ast.Module, module: str, counts: Counts) -> None:
    """Count helpers, uses and imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("_") and not node.name.endswith("__") and not node.decorator_list:
                body = node.body[1:] if ast.get_docstring(node) else node.body
                counts.helpers[f"{module}:{node.name}"] = sum(map(length_of, body))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            counts.uses[node.id] += 1
        elif isinstance(node, ast.Attribute):
            counts.uses[node.attr] += 1
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGE):
            for alias in node.names:
                counts.importers.setdefault(node.module, set()).add(module)
                counts.importers.setdefault(f"{node.module}.{alias.name}", set()).add(module)


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield each name that is bound: variables and parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def length_of(statement: ast.stmt) -> int:
    """Return the lines of a statement."""
    return (statement.end_lineno or statement.lineno) - statement.lineno + 1


def is_used_by_a_neighbour(module: str, importers: set[str]) -> bool:
    """Whether a module's one importer is in the same folder."""
    return len(importers) == 1 and next(iter(importers)).rpartition(".")[0] == module.rpartition(".")[0]


if __name__ == "__main__":
    sys.exit(main())
