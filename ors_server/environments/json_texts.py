"""Reads arguments that some clients send as JSON text, such as `"[1, 2]"` for a list.

Claude Desktop behind a proxy and Qwen Code write lists and objects in this way. A text is replaced by its
value only where the schema allows no string, so that an argument that may be one never changes its meaning.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast

from pydantic import ValidationError

from ors_server.model.json_bounds import MAX_VALUES, read_json_text
from ors_server.model.wire import JSONObject

MAX_VISITED = 2_000
"""Values of one call that are compared with the schema; the rest of a larger call stays as it is."""

_Schema: TypeAlias = dict[str, Any]

_ALL_TYPES = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})


def read_json_texts(
    validate: Callable[[JSONObject], Any], schema: JSONObject | None
) -> Callable[[JSONObject], Any]:
    """Wrap a validator of arguments: it takes JSON texts for values where only their values are allowed.

    The arguments are validated as they are first: the usual call pays nothing, and a validator of the author
    that reads texts itself keeps its meaning.

    Args:
        validate: Raises pydantic's `ValidationError`.
        schema: Of the arguments.
    """
    if schema is None:
        return validate
    if not schema.keys() & {"$ref", "anyOf", "oneOf", "allOf", "patternProperties"}:
        parts: list[Any] = [*schema.get("properties", {}).values(), schema.get("additionalProperties", True)]
        # Every argument may be a string, so that no text has to be read as JSON.
        if all(part is False or "string" in admitted_types(part, schema) for part in parts):
            return validate

    def read(arguments: JSONObject) -> Any:
        try:
            return validate(arguments)
        except ValidationError:
            values = read_json_values(arguments, schema)
            if values == arguments:
                raise
        return validate(values)

    return read


def read_json_values(arguments: JSONObject, schema: JSONObject) -> JSONObject:
    """Return a copy of arguments with the values of JSON texts, where the schema allows only those."""
    return _TextReader(schema).read(arguments)


def admitted_types(part: Any, schema: JSONObject) -> frozenset[str]:
    """Return the JSON types that a part of a schema admits, or more where that is hard to tell.

    Args:
        part: The part, an object or a boolean.
        schema: The whole, in which references are looked up.
    """
    return _admitted_types(part, schema, {})


def _admitted_types(part: Any, schema: JSONObject, by_reference: dict[str, frozenset[str]]) -> frozenset[str]:
    # A reference is followed once. Until its types are known it counts as admitting all types: then a text
    # stays a text, which is the safe side.
    if part is False:
        return frozenset()
    if not isinstance(part, dict):
        return _ALL_TYPES
    keywords = cast("_Schema", part)
    types = _ALL_TYPES
    named = keywords.get("type")
    if named is not None:
        names: set[Any] = {named} if isinstance(named, str) else set(named)
        types &= names | ({"integer"} if "number" in names else set())
    if "enum" in keywords:
        types &= frozenset[str]().union(*map(_types_of, keywords["enum"]))
    if "const" in keywords:
        types &= _types_of(keywords["const"])
    reference = keywords.get("$ref")
    if isinstance(reference, str):
        if reference not in by_reference:
            by_reference[reference] = _ALL_TYPES
            by_reference[reference] = _admitted_types(_find(schema, reference), schema, by_reference)
        types &= by_reference[reference]
    for keyword in ("anyOf", "oneOf"):
        if keyword in keywords:
            choices = (_admitted_types(choice, schema, by_reference) for choice in keywords[keyword])
            types &= frozenset[str]().union(*choices)
    for demand in keywords.get("allOf", ()):
        types &= _admitted_types(demand, schema, by_reference)
    return types


class _TextReader:
    """Replaces the JSON texts in the arguments of one call."""

    def __init__(self, schema: JSONObject) -> None:
        self._schema = schema
        self._remaining = MAX_VISITED
        self._remaining_values = MAX_VALUES

    def read(self, arguments: JSONObject) -> JSONObject:
        """Return the arguments with values for texts; the arguments themselves are not changed."""
        return cast("JSONObject", self._read_value(arguments, self._schema))

    def _read_value(self, value: Any, part: Any) -> Any:
        self._remaining -= 1
        if self._remaining < 0:
            return value
        if isinstance(value, str):
            value = self._read_text(value, part)
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return {
                name: self._read_value(member, self._part_of(part, "object", name))
                for name, member in members.items()
            }
        if isinstance(value, list):
            items = cast("Sequence[Any]", value)
            return [
                self._read_value(item, self._part_of(part, "array", index))
                for index, item in enumerate(items)
            ]
        return value

    def _read_text(self, text: str, part: Any) -> Any:
        types = admitted_types(part, self._schema)
        if "string" in types:
            return text
        try:
            value, count = read_json_text(text, self._remaining_values)
        except ValueError:
            return text
        self._remaining_values -= count
        # A value that the schema does not admit either stays text, so that the error shows what was sent.
        return value if types & _types_of(value) else text

    def _part_of(self, part: Any, kind: str, key: str | int) -> Any:
        """Return the schema of a member or an item; of several alternatives, any."""
        parts: list[Any] = []
        for choice in self._alternatives(part, set()):
            if kind not in admitted_types(choice, self._schema):
                continue
            if isinstance(key, str):
                properties: _Schema = choice.get("properties", {})
                parts.append(properties.get(key, choice.get("additionalProperties", True)))
            else:
                first: list[Any] = choice.get("prefixItems", [])
                parts.append(first[key] if key < len(first) else choice.get("items", True))
        return parts[0] if len(parts) == 1 else {"anyOf": parts}

    def _alternatives(self, part: Any, references: set[str]) -> Iterator[_Schema]:
        """Yield a part and what it refers to, as far as it may describe members or items."""
        if not isinstance(part, dict):
            return
        keywords = cast("_Schema", part)
        nested = [choice for keyword in ("anyOf", "oneOf", "allOf") for choice in keywords.get(keyword, ())]
        reference = keywords.get("$ref")
        if isinstance(reference, str) and reference not in references:
            references.add(reference)
            nested.append(_find(self._schema, reference))
        # A part that only refers to others describes no members itself.
        if not nested or "properties" in keywords or "items" in keywords:
            yield keywords
        for choice in nested:
            yield from self._alternatives(choice, references)


def _find(schema: JSONObject, reference: str) -> Any:
    """Return the part that a reference within the schema names; `True`, which admits all, for any other."""
    start, _, path = reference.partition("#/")
    part: Any = schema
    if start:
        return True
    for name in path.replace("~1", "/").replace("~0", "~").split("/"):
        if not isinstance(part, dict) or name not in part:
            return True
        part = cast("_Schema", part)[name]
    return part


_NAMES: dict[type, frozenset[str]] = {
    type(None): frozenset({"null"}),
    bool: frozenset({"boolean"}),
    str: frozenset({"string"}),
    int: frozenset({"integer", "number"}),
    float: frozenset({"number"}),
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
}


def _types_of(value: Any) -> frozenset[str]:
    """Return the JSON types of a JSON value: 1.0 is an integer too."""
    if isinstance(value, float) and value.is_integer():
        return _NAMES[int]
    return _NAMES[type(value)]
