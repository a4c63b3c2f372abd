"""Writes TOML and YAML: flat tables of plain values, in which strings are written as JSON writes them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast


def toml_value(value: object) -> str:
    """Write a value; a table becomes an inline table."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return "{ " + ", ".join(f"{json.dumps(name)} = {toml_value(part)}" for name, part in pairs) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(toml_value, cast("Sequence[object]", value))) + "]"
    # TOML takes every escape that JSON writes; only DEL, which JSON leaves as it is, must be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_table(name: str, values: Mapping[str, object]) -> str:
    """Write a table with its header, if it has a name, and a line per key."""
    header = f"[{name}]\n" if name else ""
    return header + "".join(f"{key} = {toml_value(value)}\n" for key, value in values.items())


def yaml_document(values: Mapping[str, Any], indent: int = 0) -> str:
    """Write mappings as YAML's blocks, and everything in them as JSON, which YAML reads."""
    lines: list[str] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines.append(f"{' ' * indent}{key}:\n")
            lines.append(yaml_document(cast("Mapping[str, Any]", value), indent + 2))
        else:
            lines.append(f"{' ' * indent}{key}: {json.dumps(value, ensure_ascii=False)}\n")
    return "".join(lines)
