"""Draws random arguments that a JSON Schema allows; simple and bounded, not for every schema."""

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, cast

from ors_server.wire import JSONObject

DEEPEST = 8
"""Levels of nesting below which only required parts are drawn, and the shortest lists."""
MAX_ITEMS = 3
LONGEST = 12
"""Characters of a text, if the schema does not require more."""
REACH = 100
"""Numbers are drawn from [-100, 100], as far as the schema allows."""
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789 .,-"

Schema = Mapping[str, Any]


def draw_arguments(schema: JSONObject | None, rng: Random) -> JSONObject:
    """Draw a tool's arguments: all required ones, and each optional one every other time."""
    if schema is None:
        return {}
    drawn = _ArgumentSource(rng, schema.get("$defs", {})).value({"type": "object", **schema}, 0)
    return cast("JSONObject", drawn) if isinstance(drawn, dict) else {}


class _ArgumentSource:
    def __init__(self, rng: Random, definitions: Schema) -> None:
        self._rng = rng
        self._definitions = definitions

    def value(self, schema: Schema, depth: int) -> Any:
        if "$ref" in schema:
            return self.value(self._definitions.get(schema["$ref"].rpartition("/")[2], {}), depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._rng.choice(schema["enum"])
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return self.value(self._one_of(schema[word], depth), depth + 1)
        if "allOf" in schema:
            return self.value(
                {name: part for one in schema["allOf"] for name, part in one.items()}, depth + 1
            )
        return self._of_type(schema, depth)

    def _one_of(self, choices: Sequence[Schema], depth: int) -> Schema:
        plain = [choice for choice in choices if "$ref" not in choice]
        return self._rng.choice(plain or choices) if depth > DEEPEST else self._rng.choice(choices)

    def _of_type(self, schema: Schema, depth: int) -> Any:
        named: Any = schema.get("type", "object" if "properties" in schema else "string")
        kind: str = named if isinstance(named, str) else self._rng.choice(list(named))
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "integer" | "number":
                return self._number(schema, whole=kind == "integer")
            case "boolean":
                return self._rng.random() < 1 / 2
            case "null":
                return None
            case _:
                return self._text(schema)

    def _object(self, schema: Schema, depth: int) -> JSONObject:
        parts: Schema = schema.get("properties", {})
        required = set(schema.get("required", ()))
        names = [name for name in parts if name in required or self._wants(depth)]
        names += sorted(required - set(parts))
        return {name: self.value(parts.get(name, {}), depth + 1) for name in names}

    def _wants(self, depth: int) -> bool:
        return depth <= DEEPEST and self._rng.random() < 1 / 2

    def _array(self, schema: Schema, depth: int) -> list[Any]:
        least = int(schema.get("minItems", 0))
        most = least if depth > DEEPEST else int(schema.get("maxItems", max(least, MAX_ITEMS)))
        count = self._rng.randint(least, max(least, min(most, least + MAX_ITEMS)))
        return [self.value(schema.get("items", {}), depth + 1) for _ in range(count)]

    def _number(self, schema: Schema, *, whole: bool) -> int | float:
        low, high = _bounds(schema, whole=whole)
        if not whole:
            return low + (high - low) * self._rng.random()
        step = max(1, int(schema.get("multipleOf", 1)))
        first, last = math.ceil(low / step), math.floor(high / step)
        return self._rng.randint(first, max(first, last)) * step

    def _text(self, schema: Schema) -> str:
        least = int(schema.get("minLength", 0))
        most = int(schema.get("maxLength", max(least, LONGEST)))
        length = self._rng.randint(least, max(least, min(most, least + LONGEST)))
        return "".join(self._rng.choices(LETTERS, k=length))


def _bounds(schema: Schema, *, whole: bool) -> tuple[float, float]:
    margin = 1 if whole else 1e-9
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + margin
    if high is None and "exclusiveMaximum" in schema:
        high = schema["exclusiveMaximum"] - margin
    if low is None:
        low = -REACH if high is None else min(-REACH, high - REACH)
    if high is None:
        high = max(REACH, low + REACH)
    return low, high
