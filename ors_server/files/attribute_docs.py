"""The texts below the fields of models, read from the source when a schema or a help text needs them.

Pydantic's `use_attribute_docstrings` reads them whenever a module is imported, which took a fifth of a
command's start (0.14 of 0.68 s).
"""

import ast
import inspect
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import override


@cache
def attribute_docs(cls: type) -> Mapping[str, str]:
    """Return the texts below the fields of a class and of its bases in the same package, by name."""
    package = cls.__module__.partition(".")[0]
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == package:
            docs |= _docs_of_module(base.__module__).get(base.__qualname__, {})
    return docs


class DocumentedJsonSchema(GenerateJsonSchema):
    """Describes a field that has no other description by the text below it."""

    @override
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return self._described(super().model_schema(schema), schema)

    @override
    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return self._described(super().dataclass_schema(schema), schema)

    def _described(self, value: JsonSchemaValue, schema: Mapping[str, Any]) -> JsonSchemaValue:
        docs, properties = attribute_docs(schema["cls"]), value.get("properties", {})
        alias = "serialization_alias" if self.mode == "serialization" else "validation_alias"
        own: Mapping[str, Any] = getattr(schema["cls"], "model_fields", {})  # may state descriptions itself
        for name, field in _fields(schema["schema"]):
            place = field.get(alias, name) if self.by_alias else name
            is_described = name in own and own[name].description is not None
            if name in docs and place in properties and not is_described:
                properties[place]["description"] = docs[name]
        return value


def _fields(schema: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the fields of a model's or a dataclass's core schema; validators may be around them."""
    while "schema" in schema and "fields" not in schema:
        schema = schema["schema"]
    fields: Any = schema.get("fields", ())
    named: Iterable[tuple[str, Mapping[str, Any]]] = (
        fields.items() if hasattr(fields, "items") else ((field["name"], field) for field in fields)
    )
    return list(named)


@cache
def _docs_of_module(name: str) -> Mapping[str, Mapping[str, str]]:
    """Return the texts of every class of a module, by its qualified name."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except (KeyError, OSError, TypeError):  # no module any more, or none with a source
        return {}
    docs: dict[str, Mapping[str, str]] = {}
    _read_classes(tree.body, "", docs)
    return docs


def _read_classes(body: list[ast.stmt], prefix: str, docs: dict[str, Mapping[str, str]]) -> None:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            name = f"{prefix}{statement.name}"
            docs[name] = dict(_texts(statement.body))
            _read_classes(statement.body, f"{name}.", docs)


def _texts(body: list[ast.stmt]) -> list[tuple[str, str]]:
    texts: list[tuple[str, str]] = []
    for statement, following in pairwise(body):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                texts.append((name, inspect.cleandoc(text)))
            case _:
                pass
    return texts
