"""Numbers that JSON does not have never stand in what a tool announces."""

import json
from typing import Annotated

from pydantic import BaseModel, Field

from ors_server.environments.schema import read_signature

INFINITY = float("inf")


class Limits(BaseModel):
    """Limits within limits."""

    most: float = INFINITY


class Tools:
    def bounded(
        self,
        most: float = INFINITY,
        least: Annotated[float, Field(ge=-INFINITY, le=3.5)] = 0.5,
        default: float = INFINITY,
        limits: Limits | None = None,
    ) -> str:
        return ""


def test_infinite_defaults_and_limits_are_left_out_and_everything_else_stays():
    schema = read_signature(Tools.bounded, "bounded").input_schema()
    assert schema is not None
    assert json.dumps(schema, allow_nan=False)
    properties = schema["properties"]
    assert "default" not in properties["most"]
    assert (properties["least"]["default"], properties["least"]["maximum"]) == (0.5, 3.5)
    assert "minimum" not in properties["least"]
    assert properties["default"] == {"title": "Default", "type": "number"}
    assert "default" not in schema["$defs"]["Limits"]["properties"]["most"]
    assert "required" not in schema


def test_an_infinite_default_still_holds_for_the_tool():
    model = read_signature(Tools.bounded, "bounded").model
    assert model is not None
    assert model().model_dump()["most"] == INFINITY
