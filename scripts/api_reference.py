"""Writes docs/reference/python: every public class and function with its signature and docstring.

The text is read from the source, so that nothing is imported. A page is for one kind of reader; a public name
that no page lists is an error.

Usage: `python scripts/api_reference.py` writes the pages; with `--check` it only says whether they are up to
date. `scripts/docs.py` runs it.
"""

import re
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference" / "python"
NOTE = "<!-- Written by scripts/api_reference.py from the docstrings; change these and run it again. -->"
MODULES = (
    "ors_server",
    "ors_server.rewards",
    "ors_server.rewards.math",
    "ors_server.rewards.judges",
    "ors_server.resources",
    "ors_server.testing",
    "ors_server.client",
    "ors_server.adapters",
)
"""Modules whose `__all__` is for users."""
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
MAX_WIDTH = 100
"""Characters of a signature on one line; a longer one has a line for each parameter."""
DOCUMENT = re.compile(r"`{0,2}\bdocs/([\w/-]+\.md)\b`{0,2}")
REFERENCE = re.compile(r"\[`([^`\]]+)`\]\[[\w.]+\]")
"""A reference between docstrings, which is shown as the name alone."""
QUOTED = re.compile(r"'([^'\"\\]*)'")
LITERAL = re.compile(r"[\d'\"(\[{-]")
CODE = re.compile(r"(``.+?``|`[^`\n]+`)", re.DOTALL)


@dataclass(frozen=True)
class ApiPage:
    """One page: for whom it is, and which names it has in which order."""

    title: str
    purpose: str
    sections: dict[str, str]
    """Public names, separated by spaces, by the heading above them. `module:Name` is a class of a result or
    an argument that no public module exports."""

    def names(self) -> list[str]:
        """List the names in order."""
        return [name for listed in self.sections.values() for name in listed.split()]


def read_pages() -> dict[str, ApiPage]:
    """Read the pages, by the names of their files."""
    with Path(__file__).with_suffix(".toml").open("rb") as file:
        return {address: ApiPage(**about) for address, about in tomllib.load(file).items()}


PAGES = read_pages()


@dataclass(frozen=True)
class PublicName:
    """A public class, function or value."""

    name: str
    modules: tuple[str, ...]
    """From which it may be imported; the first is the one to use."""
    member: Any


@cache
def public_names(root: Path = ROOT) -> dict[str, PublicName]:
    """Read the public names from the source, by what a page calls them."""
    loader = griffe.GriffeLoader(search_paths=[str(root)], extensions=griffe.load_extensions())
    loader.load("ors_server", try_relative_path=False)
    loader.resolve_aliases(implicit=False, external=False)
    homes: dict[tuple[str, str], list[str]] = {}
    members: dict[tuple[str, str], Any] = {}
    for module in MODULES:
        loaded = loader.modules_collection[module]
        for name in sorted({str(export) for export in loaded.exports or ()} - {"__version__"}):
            member = loaded.members[name]
            key = (name, member.canonical_path if member.is_alias else f"{module}.{name}")
            homes.setdefault(key, []).append(module)
            members[key] = member
    names = [name for name, _ in homes]
    found: dict[str, PublicName] = {}
    for (name, path), modules in homes.items():
        label = name if names.count(name) == 1 else f"{modules[0].rpartition('.')[2]}.{name}"
        found[label] = PublicName(name, tuple(modules), members[name, path])
    for about in PAGES.values():
        for listed in filter(is_type, about.names()):
            module, _, name = listed.partition(":")
            found[listed] = PublicName(name, (f"ors_server.{module}",), loaded_type(loader, module, name))
    return found


def is_type(label: str) -> bool:
    """Tell whether a page lists a class that no public module exports, such as `sandboxes.base:Output`."""
    return ":" in label


def loaded_type(loader: griffe.GriffeLoader, module: str, name: str) -> Any:
    """Find a class that no public module exports."""
    members = loader.modules_collection[f"ors_server.{module}"].members
    if name not in members:
        raise ValueError(f"scripts/api_reference.toml lists {module}:{name}, which does not exist")
    return members[name]


def page(address: str) -> str:
    """Render one page.

    Args:
        address: The name of its file, a key of `PAGES`.
    """
    about = PAGES[address]
    lines = [f"# {about.title}", "", NOTE, "", about.purpose, ""]
    for heading, listed in about.sections.items():
        lines += [f"## {heading}", ""]
        for label in listed.split():
            lines += [*name_lines(label), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def index() -> str:
    """Render the page that lists the others."""
    lines = ["# Python API", "", NOTE, "", "Every public class and function, by what it is for:", ""]
    lines += ["| page | names |", "|---|---|"]
    for address, about in PAGES.items():
        links = [f"[`{heading_of(label)}`]({address}#{anchor(label)})" for label in about.names()]
        lines.append(f"| [{about.title}]({address}) | {' · '.join(links)} |")
    lines += ["", "[public_api.txt](../public_api.txt) lists the signatures of the newest release.", ""]
    return "\n".join(lines)


def heading_of(label: str) -> str:
    """Return the heading of a name."""
    return label.rpartition(":")[2]


def anchor(label: str) -> str:
    """Make the anchor of a name's heading as the site and code hosts do."""
    heading = heading_of(label)
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def name_lines(label: str) -> list[str]:
    """Render one public name."""
    public = public_names()[label]
    member = public.member
    modules = " or ".join(f"`from {module} import {public.name}`" for module in public.modules)
    lines = [f"### {heading_of(label)}", "", modules, "", *code(signature(public.name, member)), ""]
    if member.is_class:
        return lines + class_lines(label, member)
    return lines + docstring_lines(member)


def class_lines(label: str, member: Any) -> list[str]:
    """Render what a class is, its fields and its methods."""
    lines = [*docstring_lines(member), ""]
    own, inherited = members_of(member)
    constructor = own.pop("__init__", None)
    if constructor is not None and constructor.docstring is not None:
        first, *others = docstring_lines(constructor)
        lines += [f"**Constructor:** {first}", *others, ""]
    described = attributes_of(member)
    lines += [*field_lines([x for x in own.values() if x.is_attribute and x.name not in described]), ""]
    for base, names in inherited.items():
        listed = ", ".join(f"`{name}`" for name in names)
        lines += [f"From {base_link(base)}: {listed}.", ""]
    for name, each in own.items():
        if each.is_function:
            lines += [
                f"#### {heading_of(label)}.{name}",
                "",
                *code(signature(name, each)),
                "",
                *docstring_lines(each),
                "",
            ]
    return lines


def attributes_of(member: Any) -> set[str]:
    """Name the fields that a class's docstring describes in its section `Attributes`."""
    if member.docstring is None:
        return set()
    sections = member.docstring.parse("google", warnings=False)
    return {each.name for section in sections if section.kind.value == "attributes" for each in section.value}


def base_link(label: str) -> str:
    """Link a class from which members come."""
    address = next(address for address, about in PAGES.items() if label in about.names())
    return f"[`{heading_of(label)}`]({address}#{anchor(label)})"


def members_of(member: Any) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the members to document below a class, and those that a public base has, by its label.

    A member of a base that is not public is documented with the class.
    """
    labels = {public.member.canonical_path: label for label, public in public_names().items()}
    own: dict[str, Any] = {}
    inherited: dict[str, list[str]] = {}
    for name, each in sorted(member.all_members.items(), key=lambda item: line_of(item[1])):
        is_public = name in ("__init__", *DUNDERS) or not name.startswith("_")
        if not is_public or each.is_class or each.is_module or name == "model_config":
            continue
        base = each.canonical_path.rpartition(".")[0] if each.is_alias else member.canonical_path
        if base != member.canonical_path and base in labels:
            if name != "__init__":
                inherited.setdefault(labels[base], []).append(name)
        else:
            own[name] = each
    return own, inherited


def line_of(member: Any) -> tuple[bool, int]:
    """Order members as they are written, those of bases last."""
    return member.is_alias, member.lineno or 0


def field_lines(fields: list[Any]) -> list[str]:
    """Render the fields and properties of a class."""
    lines = []
    for each in fields:
        text = " ".join(plain(each.docstring.value).split()) if each.docstring is not None else ""
        lines.append(f"- `{declared(each.name, each)}`{f': {text}' if text else ''}")
    return ["**Fields:**", "", *lines] if lines else []


def declared(name: str, member: Any) -> str:
    """Spell a field or a value with its type and its default."""
    annotation = f": {one_line(member.annotation)}" if member.annotation is not None else ""
    value = one_line(member.value) if member.value is not None and "property" not in member.labels else ""
    if not annotation and not LITERAL.match(value) and member.docstring is not None:
        value = ""  # how the class makes it says less than its docstring
    return f"{name}{annotation}{f' = {value}' if value and len(value) <= MAX_WIDTH else ''}"


def one_line(expression: Any) -> str:
    """Spell an expression on one line, with the quotes that the formatter wants."""
    return QUOTED.sub(r'"\1"', " ".join(str(expression).split()))


def signature(name: str, member: Any) -> str:
    """Spell a class, a function or a value as Python does."""
    if member.is_attribute:
        return declared(name, member)
    if member.is_class:
        init = member.all_members.get("__init__")
        bases = [one_line(base) for base in member.bases]
        given = parameters(init.parameters) if init is not None and init.is_function else []
        head, tail = f"class {name}", "" if given or not bases else f"({', '.join(bases)})"
        return f"{head}{tail}" if not given else bracketed(head, given, "")
    returns = f" -> {one_line(member.returns)}" if member.returns is not None else ""
    prefix = "async def" if "async" in member.labels else "def"
    decorators = [f"@{label}\n" for label in ("classmethod", "staticmethod") if label in member.labels]
    return "".join(decorators) + bracketed(f"{prefix} {name}", parameters(member.parameters), returns)


def bracketed(head: str, given: list[str], tail: str) -> str:
    """Put parameters in brackets, on lines of their own if they are long."""
    line = f"{head}({', '.join(given)}){tail}"
    if len(line) <= MAX_WIDTH:
        return line
    return "\n".join([f"{head}(", *(f"    {each}," for each in given), f"){tail}"])


def parameters(given: Any) -> list[str]:
    """Spell parameters with their types and defaults."""
    spelled: list[str] = []
    for each in given:
        if each.name in ("self", "cls"):
            continue
        kind = each.kind.value
        if kind == "keyword-only" and not any(text.startswith("*") for text in spelled):
            spelled.append("*")
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        annotation = f": {one_line(each.annotation)}" if each.annotation is not None else ""
        default = "" if each.default is None or stars else f" = {one_line(each.default)}"
        spelled.append(f"{stars}{each.name}{annotation}{default}")
    return spelled


def code(text: str) -> list[str]:
    """Show code that is only read: `py`, because the examples of documents in `python` are run."""
    return ["```py", text, "```"]


def docstring_of(member: Any) -> Any:
    """Return a member's docstring, or that of the method which it overrides."""
    parent = member.parent
    if member.docstring is None and member.is_function and parent is not None and parent.is_class:
        for base in parent.mro():
            overridden = base.members.get(member.name)
            if overridden is not None and overridden.docstring is not None:
                return overridden.docstring
    return member.docstring


def docstring_lines(member: Any) -> list[str]:
    """Render a docstring's text and sections."""
    docstring = docstring_of(member)
    if docstring is None:
        return []
    lines: list[str] = []
    for section in docstring.parse("google", warnings=False, warn_unknown_params=False):
        lines += [*section_lines(section), ""]
    return lines


def section_lines(section: Any) -> list[str]:
    """Render one section of a docstring."""
    kind = section.kind.value
    if kind == "text":
        return [plain(section.value)]
    if kind == "examples":
        return [line for _, text in section.value for line in ("", *code(text))]
    if kind == "admonition":
        return [f"**{section.title or section.value.kind}:** {plain(section.value.contents)}"]
    title = {"parameters": "Args", "returns": "Returns", "yields": "Yields", "raises": "Raises"}.get(kind)
    if title is None:
        title = kind.capitalize()
    if kind in ("returns", "yields"):
        texts = [plain(each.description) for each in section.value]
        return [f"**{title}:** {' '.join(texts)}"]
    rows = []
    for each in section.value:
        name = one_line(each.annotation) if kind in ("raises", "warns") else each.name
        rows.append(f"- `{name}`: {' '.join(plain(each.description).split())}")
    return [f"**{title}:**", "", *rows]


def plain(text: str) -> str:
    """Make a docstring's text Markdown: no HTML, and pages of the documents as links."""
    linked = DOCUMENT.sub(r"[\1](../../\1)", REFERENCE.sub(r"`\1`", text))
    parts = CODE.split(linked)
    return "".join(part if place % 2 else part.replace("<", "\\<") for place, part in enumerate(parts))


def rendered() -> dict[str, str]:
    """Render every page, by its address below docs/reference/python."""
    listed = [label for about in PAGES.values() for label in about.names()]
    unlisted, unknown = set(public_names()) - set(listed), set(listed) - set(public_names())
    repeated = {label for label in listed if listed.count(label) > 1}
    if unlisted or unknown or repeated:
        raise ValueError(
            f"scripts/api_reference.toml must have every public name once: missing {sorted(unlisted)}, "
            f"unknown {sorted(unknown)}, repeated {sorted(repeated)}"
        )
    return {"index.md": index(), **{address: page(address) for address in PAGES}}


def main() -> int:
    """Write the pages, or say which are out of date."""
    pages = rendered()
    stale = [name for name, text in pages.items() if not is_fresh(name, text)]
    if "--check" in sys.argv[1:]:
        print(
            "\n".join(f"docs/reference/python/{name} is out of date; run scripts/docs.py" for name in stale)
        )
        return len(stale)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(pages[name], encoding="utf-8")
    return 0


def is_fresh(name: str, text: str) -> bool:
    """Tell whether a page has this text already."""
    path = FOLDER / name
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
