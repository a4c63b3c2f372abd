"""Reads docstrings in the styles of Google, NumPy and Sphinx: the description, and each parameter's text."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

_PARAMETERS = "Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters"
_HEADING = re.compile(
    rf"^({_PARAMETERS}|Returns?|Raises|Yields?|Receives|Warns|Attributes|Examples?|Notes?|See Also"
    r"|References)(:?)\s*$"
)
_UNDERLINE = re.compile(r"^(-{3,}|={3,})\s*$")
_FIELD = re.compile(
    r"^[:@](param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises?|except|exception|var|yields?)"
    r"\b([^:]*):\s*(.*)$"
)
_GOOGLE_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?:\((?:[^()]|\([^()]*\))*\))?\s*:\s*(.*)$")
_NUMPY_ENTRY = re.compile(r"^(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring, parsed."""

    description: str
    """Everything before the first section or field."""
    parameters: Mapping[str, str]
    """Text by name of the parameter, on one line."""


def read_docstring(function: Callable[..., Any]) -> Docstring:
    """Read a function's docstring; without one, everything is empty."""
    lines = (inspect.getdoc(function) or "").splitlines()
    starts: list[int] = []
    for position, line in enumerate(lines):
        heading = _HEADING.match(line)
        is_heading = heading is not None and (bool(heading[2]) or _is_underlined(lines, position))
        if is_heading or _FIELD.match(line):
            starts.append(position)
    description = "\n".join(lines[: starts[0] if starts else len(lines)]).strip()
    texts: dict[str, str] = {}
    for start, end in pairwise([*starts, len(lines)]):
        for name, text in _read_section(lines[start:end]):
            texts.setdefault(name, " ".join(text.split()))
    return Docstring(description, texts)


def _is_underlined(lines: list[str], position: int) -> bool:
    return position + 1 < len(lines) and _UNDERLINE.match(lines[position + 1]) is not None


def _read_section(lines: list[str]) -> Iterator[tuple[str, str]]:
    field = _FIELD.match(lines[0])
    if field is not None:
        names = field[2].split()
        if field[1] in {"param", "parameter", "arg", "argument", "key", "keyword"} and names:
            rest = lines[1:]
            end = next((at for at, line in enumerate(rest) if not line.strip()), len(rest))
            yield names[-1].lstrip("*\\"), " ".join([field[3], *rest[:end]])
    elif not re.match(rf"^({_PARAMETERS}):?\s*$", lines[0]):
        return
    elif _is_underlined(lines, 0):
        yield from _read_entries(lines[2:], _NUMPY_ENTRY)
    else:
        yield from _read_entries(lines[1:], _GOOGLE_ENTRY)


def _read_entries(lines: list[str], entry: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    indent = next((_indent(line) for line in lines if line.strip()), 0)
    names: list[str] = []
    texts: list[str] = []
    for line in lines:
        if not line.strip():
            continue
        if _indent(line) < indent:  # text after the section
            break
        begun = entry.match(line.strip()) if _indent(line) == indent else None
        if begun is None:
            texts.append(line)
            continue
        yield from ((name, " ".join(texts)) for name in names)
        names = [name.strip().lstrip("*") for name in begun[1].split(",")]
        texts = [begun[2]] if entry is _GOOGLE_ENTRY else []
    yield from ((name, " ".join(texts)) for name in names)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
