"""Made-up arguments are ones that their schema allows."""

from typing import Annotated, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from ors_server.testing.schema_examples import example_arguments


class Point(BaseModel):
    x: float
    y: Annotated[float, Field(gt=1)]


class Everything(BaseModel):
    """One field of every kind that tools have."""

    text: str
    long: Annotated[str, Field(min_length=5)]
    whole: int
    far: Annotated[int, Field(ge=7)]
    past: Annotated[int, Field(gt=7)]
    below: Annotated[int, Field(lt=1)]
    least: Annotated[float, Field(le=-2.5)]
    real: float
    flag: bool
    nothing: None
    choice: Literal["b", "a"]
    fixed: Literal["only"]
    maybe: int | None
    point: Point
    points: Annotated[list[Point], Field(min_length=2)]
    words: list[str]
    preset: int = 4


def test_every_kind_of_field_gets_a_value_that_its_schema_allows():
    schema = Everything.model_json_schema()
    made = example_arguments(schema)
    Draft202012Validator(schema).validate(made)
    Everything.model_validate(made)
    assert "preset" not in made


@pytest.mark.parametrize("schema", [None, {"type": "object"}])
def test_a_tool_without_parameters_gets_none(schema):
    assert not example_arguments(schema)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ({"type": ["integer", "null"]}, 1),
        ({"default": 9}, 9),
        ({"allOf": [{"enum": [3]}]}, 3),
        ({"type": "odd"}, None),
    ],
)
def test_rarer_words_are_understood(part, value):
    schema = {"type": "object", "properties": {"p": part}, "required": ["p"]}
    assert example_arguments(schema) == {"p": value}
