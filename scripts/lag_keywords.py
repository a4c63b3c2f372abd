"""Hostile arguments for each keyword of JSON Schema, for `lag.py`."""

import json
from collections.abc import Callable, Mapping
from typing import Any

TOOLS = '''
from ors_server import Environment, TextBlock, tool_from_schema

SCHEMAS = __SCHEMAS__


def make_accept():
    def accept(self, arguments):
        return "accepted"

    return accept


class Lag(Environment):
    """Has a tool for each keyword."""

    name = "lag"

    @classmethod
    def list_splits(cls):
        return ["test"]

    @classmethod
    def list_tasks(cls, split):
        return [{"id": 0}]

    def get_prompt(self):
        return [TextBlock(text="Call.")]


for tool_name, schema in SCHEMAS.items():
    member = tool_from_schema(make_accept(), name=tool_name, description="Accepts.", schema=schema)
    setattr(Lag, tool_name, member)
'''

TREE = {"anyOf": [{"items": {"$ref": "#/$defs/tree"}, "minItems": 1}, {"items": {"$ref": "#/$defs/tree"}}]}
HARD = {
    "type": "integer",
    "enum": [*map(str, range(2_000)), {"a": [1]}],
    "const": {"a": [1, {"b": 2}]},
    "minimum": 10**60,
    "maximum": -1,
    "exclusiveMinimum": 1e300,
    "exclusiveMaximum": -1e300,
    "multipleOf": 1e-300,
    "minLength": 1 << 30,
    "maxLength": 0,
    "pattern": "([ab]{1,100}){1,100}c",
    "minItems": 1 << 30,
    "maxItems": 0,
    "uniqueItems": True,
    "prefixItems": [{"type": "null"}] * 2_000,
    "items": {"anyOf": [{"type": "null"}] * 100},
    "contains": {"const": {"a": [1]}},
    "minProperties": 1 << 30,
    "maxProperties": 0,
    "required": [f"r{number}" for number in range(2_000)],
    "properties": {f"n{number}": {"type": "null"} for number in range(2_000)},
    "patternProperties": {"^(a+)+$": {"type": "null"}, "([an]{1,50}){1,50}c": False},
    "additionalProperties": {"anyOf": [{"type": "null"}] * 100},
    "propertyNames": {"pattern": "^(a+)+$", "maxLength": 2},
    "dependentRequired": {f"n{number}": [f"r{number}"] for number in range(2_000)},
    "dependentSchemas": {f"n{number}": {"minProperties": 1 << 30} for number in range(500)},
    "allOf": [{"uniqueItems": True}] * 100,
    "anyOf": [{"uniqueItems": True, "minItems": 1 << 30}] * 100,
    "oneOf": [{"items": {"type": "string"}}, {"items": {"type": "number"}}] * 50,
    "not": {"items": {"not": {"items": {"not": {}}}}},
    "if": {"items": {"type": "string"}},
    "unevaluatedItems": {"type": "null"},
    "unevaluatedProperties": {"type": "null"},
    "$ref": "#/$defs/tree",
    "$dynamicRef": "#/$defs/tree",
    "$recursiveRef": "#",
    "additionalItems": {"anyOf": [{"type": "null"}] * 100},
    "dependencies": {f"n{number}": [f"r{number}"] for number in range(2_000)},
    "format": "regex",
}
"""A value for each keyword that makes its check dear."""
BESIDE: Mapping[str, dict[str, Any]] = {
    "if": {"then": {"uniqueItems": True}, "else": {"items": {"uniqueItems": True}}},
    "unevaluatedItems": {"prefixItems": [True] * 2_000, "contains": {"type": "array"}},
    "unevaluatedProperties": {
        "patternProperties": {"^(a+)+$": True},
        "anyOf": [{"properties": {"n1": True}}],
    },
    "contains": {"minContains": 2, "maxContains": 3},
    "additionalItems": {"items": [{"type": "null"}] * 100},
    "$recursiveRef": {"anyOf": [{"type": "object"}, {"items": {"$recursiveRef": "#"}}]},
}
"""Keywords that count beside another."""
DRAFTS: Mapping[str, str] = {
    "$recursiveRef": "https://json-schema.org/draft/2019-09/schema",
    "additionalItems": "https://json-schema.org/draft/2019-09/schema",
    "dependencies": "http://json-schema.org/draft-07/schema#",
}
"""The draft of keywords that the newest one does not have."""


def repeat(part: str, size: int, *, most: int = 20_000) -> list[str]:
    """Return texts that have so many bytes together."""
    count = max(1, min(most, size // (len(part) + 12)))
    return [f"{part}{number}".ljust(size // count - 3, "a") for number in range(count)]


def nest(depth: int, width: int) -> Any:
    """Return lists within lists."""
    value: Any = list(range(width))
    for _ in range(depth):
        value = [value]
    return value


SHAPES: Mapping[str, Callable[[int], Any]] = {
    "numbers": lambda size: [number * (2**61 - 1) for number in range(min(size // 20, 20_000))],
    "floats": lambda size: [number + 0.1 for number in range(min(size // 8, 24_000))],
    "texts": lambda size: repeat("a", size),
    "objects": lambda size: [{"a": [number], "n1": 1} for number in range(min(size // 24, 8_000))],
    "names": lambda size: dict.fromkeys(repeat("n", size), 1),
    "plain names": lambda size: {f"n{number}": 1 for number in range(min(size // 10, 20_000))},
    "text": lambda size: "ab" * (size // 2),
    "deep": lambda size: nest(60, min(size // 6, 20_000)),
}


def schema_of(keyword: str) -> dict[str, Any]:
    """Return a schema of arguments that uses a keyword."""
    part = {keyword: HARD[keyword], **BESIDE.get(keyword, {})}
    schema: dict[str, Any] = {"type": "object", "properties": {"x": part}, "$defs": {"tree": TREE}}
    return {"$schema": DRAFTS[keyword], **schema} if keyword in DRAFTS else schema


def encoded_shapes(size: int) -> dict[str, bytes]:
    """Return arguments of each shape as JSON."""
    return {shape: json.dumps({"x": make(size)}).encode() for shape, make in SHAPES.items()}
