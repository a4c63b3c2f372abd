"""Makes up arguments that a JSON Schema allows: simple, and always the same."""

from collections.abc import Mapping
from typing import Any

from ors_server.model.wire import JSONObject

_PLAIN: Mapping[str, Any] = {"string": "1", "integer": 1, "number": 1.0, "boolean": True, "null": None}


def example_arguments(schema: JSONObject | None) -> JSONObject:
    """Make up the required arguments of a tool; its schema is `None` without parameters."""
    if schema is None:
        return {}
    arguments: JSONObject = _example(schema, schema.get("$defs", {}))
    return arguments


def _example(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return _example(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    for word in ("const", "default"):
        if word in schema:
            return schema[word]
    if "enum" in schema:
        return schema["enum"][0]
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return _example(schema[word][0], definitions)
    return _typed(schema, definitions)


def _typed(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    named: Any = schema.get("type", "string")
    kind: str = named if isinstance(named, str) else named[0]
    if kind == "object":
        parts = schema.get("properties", {})
        return {name: _example(parts.get(name, {}), definitions) for name in schema.get("required", ())}
    if kind == "array":
        # The least number of items: nothing is known about what more of them would mean.
        return [_example(schema.get("items", {}), definitions)] * int(schema.get("minItems", 0))
    if kind in {"integer", "number"}:
        return _number(schema, kind)
    if kind == "string":
        return "1".ljust(int(schema.get("minLength", 0)), "1")
    return _PLAIN.get(kind)


def _number(schema: Mapping[str, Any], kind: str) -> Any:
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    greatest = schema.get("maximum", schema.get("exclusiveMaximum"))
    step = 1 if kind == "integer" else 0.5
    if least is not None and least >= 1:
        return least if "minimum" in schema else least + step
    if greatest is not None and greatest <= 1:
        return greatest if "maximum" in schema else greatest - step
    return _PLAIN[kind]
