"""The texts below fields reach schemas, of models and of dataclasses, by the names that the schema uses."""

from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, ClassVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, TypeAdapter, model_validator

from ors_server.files.attribute_docs import DocumentedJsonSchema, attribute_docs
from ors_server.model.trajectory import RECORD_CONFIG


class Base(BaseModel):
    """A base."""

    first: int
    """The first."""
    plain: int = 0


class Model(Base):
    """A model."""

    model_config = ConfigDict(frozen=True)
    kind: ClassVar[str] = "model"
    """No field."""
    second: Annotated[int, Field(alias="two")] = 2
    """Several
    lines.

    And a part."""
    own: int = Field(default=3, description="its own")
    """Not this."""
    inner: "Row | None" = None
    """Another model's."""

    @model_validator(mode="before")
    @classmethod
    def keep(cls, values):
        return values


@dataclass
class Row:
    """A row of a dataclass."""

    text: str
    """What it says."""


class Root(RootModel[list[Row]]):
    """Rows."""


def described(properties):
    return {name: part["description"] for name, part in properties.items() if "description" in part}


@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_every_field_with_a_text_is_described(mode):
    schema = Model.model_json_schema(mode=mode, schema_generator=DocumentedJsonSchema)
    assert described(schema["properties"]) == {
        "first": "The first.",
        "two": "Several\nlines.\n\nAnd a part.",
        "own": "its own",
        "inner": "Another model's.",
    }
    assert described(schema["$defs"]["Row"]["properties"]) == {"text": "What it says."}


def test_names_stay_if_aliases_are_not_wanted():
    schema = Model.model_json_schema(by_alias=False, schema_generator=DocumentedJsonSchema)
    assert described(schema["properties"])["second"] == "Several\nlines.\n\nAnd a part."


@pytest.mark.parametrize("cls", [Root, list[Row], Row])
def test_a_dataclass_inside_something_is_described(cls):
    schema = TypeAdapter(cls).json_schema(schema_generator=DocumentedJsonSchema)
    row = schema["$defs"]["Row"] if "$defs" in schema else schema
    assert described(row["properties"]) == {"text": "What it says."}


def test_a_class_without_a_source_has_no_texts():
    made = type("Made", (Base,), {"__module__": __name__, "__annotations__": {"third": int}})
    assert attribute_docs(made) == attribute_docs(Base) == {"first": "The first."}
    assert attribute_docs(int) == {}


def subclasses(cls):
    for each in cls.__subclasses__():
        yield each
        yield from subclasses(each)


def test_no_model_reads_its_source_when_it_is_imported():
    for name in (
        "app",
        "audit.report",
        "audit.recorded.recorded_report",
        "environments.declared.declaration",
    ):
        import_module(f"ors_server.{name}")
    models = [each for each in subclasses(BaseModel) if each.__module__.startswith("ors_server.")]
    assert len(models) > 50
    configs = {each.__name__: each.model_config for each in models} | {"dataclasses": RECORD_CONFIG}
    assert [name for name, config in configs.items() if config.get("use_attribute_docstrings")] == []
