"""Lists the public API: every name that may be imported, with its signature, one a line.

docs/reference/public_api.txt is the list of the newest release. tests/docs/test_public_api.py compares the
code with it: a name whose lines differ must stand in CHANGELOG.md under Unreleased.

Usage: `python scripts/public_api.py` prints what changed since the release; with `--release` it writes the
list of this version, when the changelog's Unreleased becomes a version.
"""

import ast
import re
import sys
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[1]
LIST = ROOT / "docs" / "reference" / "public_api.txt"
MODULES = ("ors_server", "ors_server.rewards", "ors_server.testing", "ors_server.client")
LONGEST_VALUE = 200
"""Characters of a value's source that are listed; of a longer one only the type is."""
DUNDERS = (
    "__call__",
    "__enter__",
    "__aenter__",
    "__iter__",
    "__aiter__",
    "__await__",
    "__getitem__",
    "__len__",
)
"""Methods of the language that a user sees."""


def public_api(root: Path = ROOT) -> dict[str, list[str]]:
    """Read the public names from the source.

    Args:
        root: The folder that has the package.

    Returns:
        The lines of each public name, by `module.Name`, in order.
    """
    loader = griffe.GriffeLoader(search_paths=[str(root)], extensions=griffe.load_extensions())
    loader.load("ors_server", try_relative_path=False)
    loader.resolve_aliases(implicit=False, external=False)
    names: dict[str, list[str]] = {}
    homes: dict[str, str] = {}
    for module in MODULES:
        loaded = loader.modules_collection[module]
        for name in sorted({str(export) for export in loaded.exports or ()} - {"__version__"}):
            own = f"{module}.{name}"
            if name not in loaded.members:
                names[own] = [own]  # loaded when it is used, by __getattr__
                continue
            member = loaded.members[name]
            home = homes.setdefault(member.canonical_path if member.is_alias else own, own)
            names[own] = lines_of(own, member) if home == own else [f"{own} is {home}"]
    return names


def lines_of(own: str, member: Any) -> list[str]:
    """List one public name, and below a class its public fields and methods, inherited ones too."""
    if not member.is_class:
        return [f"{own}{signature(member)}"]
    lines = [f"class {own}{constructor(member)}"]
    for name, each in sorted(member.all_members.items()):
        if (name in DUNDERS or not name.startswith("_")) and not (each.is_class or name == "model_config"):
            lines.append(f"{own}.{name}{signature(each)}")
    return lines


def signature(member: Any) -> str:
    """Spell parameters and result, or a value's type and what it is."""
    if member.is_function:
        return f"{parameters(member.parameters)} -> {member.returns}" + (
            " async" * ("async" in member.labels)
        )
    if not member.is_attribute:
        return ""
    value = "" if member.value is None or len(str(member.value)) > LONGEST_VALUE else f" = {member.value}"
    return f": {plain_type(member.annotation)}{value}" if member.annotation else value


def plain_type(annotation: Any) -> str:
    """Spell a type without what `Annotated` adds to it."""
    parsed = ast.parse(str(annotation), mode="eval").body
    if isinstance(parsed, ast.Subscript) and ast.unparse(parsed.value) == "Annotated":
        parsed = parsed.slice.elts[0] if isinstance(parsed.slice, ast.Tuple) else parsed.slice
        return ast.unparse(parsed)
    return str(annotation)


def constructor(member: Any) -> str:
    """Spell what a class is made with, if it says so itself, or a class that it derives from."""
    init = member.all_members.get("__init__")
    return parameters(init.parameters) if init is not None and init.is_function else ""


def parameters(given: Any) -> str:
    """Spell parameters with types and defaults, as in a definition."""
    spelled: list[str] = []
    for one in given:
        if one.name in ("self", "cls"):
            continue
        kind = one.kind.value
        if kind == "keyword-only" and not any(text.startswith("*") for text in spelled):
            spelled.append("*")
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        default = "" if one.default is None or stars else f" = {one.default}"
        spelled.append(f"{stars}{one.name}: {one.annotation}{default}")
    return f"({', '.join(spelled)})"


def released() -> dict[str, list[str]]:
    """Read the list of the newest release."""
    names: dict[str, list[str]] = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            names.setdefault(name_of(line), []).append(line)
    return names


def name_of(line: str) -> str:
    """Find the public name to which a line belongs: the first part that is none of the modules."""
    path = re.split(r"[( :]", line.removeprefix("class "))[0]
    module = max((each for each in MODULES if path.startswith(f"{each}.")), key=len)
    return f"{module}.{path.removeprefix(f'{module}.').partition('.')[0]}"


def changes(before: dict[str, list[str]], after: dict[str, list[str]]) -> dict[str, list[str]]:
    """Compare two lists: `-` and `+` lines of each name that differs."""
    differing = {name: (before.get(name, []), after.get(name, [])) for name in sorted({*before, *after})}
    return {
        name: [
            *(f"- {line}" for line in old if line not in new),
            *(f"+ {line}" for line in new if line not in old),
        ]
        for name, (old, new) in differing.items()
        if old != new
    }


def version() -> str:
    """Read the newest version of the changelog."""
    found = re.search(
        r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    if found is None:
        raise ValueError("CHANGELOG.md has no line like '## [1.2.3]'")
    return found[1]


def write() -> None:
    """Write the list of this version."""
    title = f"# The public API of ors-server {version()}, written by scripts/public_api.py --release.\n\n"
    blocks = ("\n".join(lines) for lines in public_api().values())
    LIST.write_text(title + "\n".join(blocks) + "\n", encoding="utf-8")


def main() -> int:
    """Print what changed, or write the list."""
    if "--release" in sys.argv[1:]:
        write()
    else:
        for lines in changes(released(), public_api()).values():
            print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
