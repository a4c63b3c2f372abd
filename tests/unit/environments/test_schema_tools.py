"""Tools of a JSON Schema: announced as written, validated with bounded work, for a class or for one task."""

import functools
import socket
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from ors_server import CallContext, tool, tool_from_schema
from ors_server.environments.loading import define
from ors_server.model.errors import EnvironmentDefinitionError, EnvironmentFailedError
from ors_server.testing import CallRefusedError, play
from tests.fixtures.single_task import SingleTask

MAX_LINES = 3_000_000
"""Of Python, for 100,000 steps of a check."""

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "pattern": "^[A-Z]"},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"enum": ["C", "F"]},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def forecast(self, arguments, context: CallContext):
    return f"{sorted(arguments.items())} {self.task_spec['id']} {context.step}"


class Base(SingleTask):
    @classmethod
    def list_tasks(cls, split):
        return [{"id": 0}, {"id": 1}]


def make(**wishes):
    options = {"name": "get-weather", "description": "Tells.", "schema": SCHEMA, **wishes}
    made = tool_from_schema(forecast, **options)
    return type("Weather", (Base,), {"weather": made})


def test_a_tool_of_a_class_is_announced_and_played():
    (spec,) = define(make()).listing.tools
    assert (spec.name, spec.description, spec.input_schema) == ("get-weather", "Tells.", SCHEMA)
    with play(make()) as episode:
        output = episode.call("get-weather", city="Oslo", days=2)
    assert output.blocks[0].text == "[('city', 'Oslo'), ('days', 2)] 0 1"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "'city' is a required property"),
        ({"city": 5}, r"\$.city: 5 is not of type 'string'"),
        ({"city": "oslo"}, "'oslo' does not match '\\^\\[A-Z\\]'"),
        ({"city": "Oslo", "days": 0}, "less than the minimum"),
        ({"city": "Oslo", "unit": "K"}, "is not one of"),
        ({"city": "Oslo", "town": 1}, "'town' was unexpected"),
    ],
    ids=str,
)
def test_arguments_that_do_not_fit_are_refused(arguments, words):
    with play(make()) as episode, pytest.raises(CallRefusedError, match=words):
        episode.call("get-weather", **arguments)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "objec"}, "schema is invalid"),
        ({"type": "string"}, 'of the type "object"'),
        ({}, 'of the type "object"'),
        ({"type": "object", "properties": {"a": {"pattern": "(?=a)b"}}}, "look-around"),
        ({"type": "object", "patternProperties": {"(?=a)b": {}}}, "look-around"),
        ({"type": "object", "$schema": "https://example.org/mine"}, "not known: expected one of http"),
        ({"type": "object", "enum": [{"a": float("nan")}]}, "not JSON"),
        ({"type": "object", "$defs": {str(number): {} for number in range(20_000)}}, "at most 10000 values"),
    ],
    ids=str,
)
def test_a_schema_that_cannot_work_is_refused_when_the_class_is_loaded(schema, words):
    with pytest.raises(EnvironmentDefinitionError, match=words):
        define(make(schema=schema))


def nested(levels) -> dict[str, Any]:
    start: dict[str, Any] = {}
    return functools.reduce(lambda inner, _: {"next": inner}, range(levels), start)


def either(word):
    return {"properties": {"next": {"$ref": "#/$defs/node"}}, "required": [word]}


HARD_SCHEMAS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "uniqueItems": (
        {"properties": {"x": {"uniqueItems": True}}},
        {"x": [{"a": number, "b": [number]} for number in range(12_000)]},
    ),
    "nested uniqueItems": (
        {
            "$defs": {"x": {"uniqueItems": True, "items": {"$ref": "#/$defs/x"}}},
            "properties": {"x": {"$ref": "#/$defs/x"}},
        },
        {"x": functools.reduce(lambda inner, _: [inner], range(60), list(range(5_000)))},
    ),
    "equal hashes": (
        {"properties": {"x": {"uniqueItems": True, "minItems": 40_000}}},
        {"x": [(2**61 - 1) * number for number in range(30_000)]},
    ),
    "patternProperties": (
        {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
        {"a" * 27 + "!": 1},
    ),
    "unevaluatedProperties": (
        {"patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False},
        {"a" * 27 + "!": 1},
    ),
    "pattern": ({"properties": {"x": {"pattern": "([ab]{1,100}){1,100}c"}}}, {"x": "ab" * 100_000}),
    "recursive anyOf": (
        {
            "$defs": {"node": {"anyOf": [either("y"), either("z")]}},
            "$ref": "#/$defs/node",
            "minProperties": 2,
        },
        nested(24),
    ),
    "unevaluatedItems": (
        {"properties": {"x": {"prefixItems": [True] * 4_000, "unevaluatedItems": False}}},
        {"x": [1] * 40_000},
    ),
    "enum": (
        {"properties": {"x": {"items": {"enum": [{"a": number} for number in range(4_000)]}}}},
        {"x": [{"a": -1}] * 20_000},
    ),
    "anyOf with long words": (
        {"properties": {"x": {"items": {"anyOf": [{"type": "integer"}] * 1_000}}}},
        {"x": ["y" * 100_000] * 40},
    ),
    "multipleOf": ({"properties": {"x": {"items": {"multipleOf": 1e-300}}}}, {"x": [1e300] * 40_000}),
}


@pytest.mark.parametrize("name", HARD_SCHEMAS)
def test_arguments_that_would_take_long_are_refused_after_a_bounded_number_of_lines(name):
    """Lines that Python runs are counted, not seconds: the parser ends after so many on any machine."""
    schema, arguments = HARD_SCHEMAS[name]
    (tool_definition,) = define(make(schema={"type": "object", **schema})).tools.values()
    lines = 0

    def count(_frame, event, _argument):
        nonlocal lines
        lines += event == "line"
        if lines > MAX_LINES:
            raise AssertionError(f"more than {MAX_LINES} lines")
        return count

    def parse():
        sys.settrace(count)
        try:
            tool_definition.parse(arguments)
        finally:
            sys.settrace(None)

    with pytest.raises(ValidationError) as refused:
        parse()
    assert len(refused.value.errors()[0]["msg"]) < 2_000


def test_no_reference_is_fetched_or_read(tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text('{"const": "the secret"}')
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        port = server.getsockname()[1]
        for uri in (f"http://127.0.0.1:{port}/s.json", secret.as_uri(), "other.json", "#/nowhere"):
            for keyword in ("$ref", "$dynamicRef"):
                schema = {"type": "object", "properties": {"x": {keyword: uri}}}
                with pytest.raises(EnvironmentDefinitionError, match=r"leads out of the schema.*\$defs"):
                    define(make(schema=schema))
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("name", ["$defs", "definitions"])
def test_a_reference_within_the_schema_is_followed(name):
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": f"#/{name}/tree"}, "any": True},
        name: {"tree": {"type": "array", "items": {"$ref": f"#/{name}/tree"}}},
    }
    with play(make(schema=schema)) as episode:
        with pytest.raises(CallRefusedError, match=r"\$\.x\[0\]\[1\]: 5 is not of type 'array'"):
            episode.call("get-weather", x=[[[], 5]])
        with pytest.raises(CallRefusedError, match=r"\$\.x: 1 is not of type 'array'"):
            episode.call("get-weather", x=1, any=None)


def empty(self, arguments):
    return ""


class PerTask(Base):
    """Each task has tools of its own."""

    @tool(shared=False)
    def common(self) -> str:
        """Is there in every task."""
        return "common"

    @tool
    def always(self) -> str:
        """Is there always."""
        return "always"

    def list_task_tools(self):
        def answer(arguments):
            return f"{self.task_spec['id']} {arguments}"

        schema = {"type": "object"}
        own = tool_from_schema(
            staticmethod(answer), name=f"ask_{self.task_spec['id']}", description="", schema=schema
        )
        more = tool_from_schema(forecast, name="more", description="", schema=schema)
        return ["common", own, more]


def test_a_task_has_tools_that_no_other_task_has():
    with play(PerTask, index=1) as episode:
        assert [spec.name for spec in episode.tools.tools] == ["always", "common", "ask_1", "more"]
        assert episode.call("ask_1", x=1).blocks[0].text == "1 {'x': 1}"
        assert episode.call("more", x=1).blocks[0].text == "[('x', 1)] 1 2"
        with pytest.raises(CallRefusedError):
            episode.call("ask_0", x=1)
    with play(PerTask) as episode:
        assert episode.call("ask_0").blocks[0].text == "0 {}"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda: 5, "got int"),
        (lambda: functools.partial(forecast), "got partial"),
        (lambda: tool_from_schema(empty, name="always", description="", schema=SCHEMA), "already"),
        (lambda: tool_from_schema(empty, name="a", description="", schema={}), "object"),
    ],
)
def test_what_is_not_a_tool_of_the_task_is_the_authors_failure(given, words):
    cls = type("Wrong", (PerTask,), {"list_task_tools": lambda self: [given()]})
    with play(cls) as episode, pytest.raises(EnvironmentFailedError, match=words):
        _ = episode.tools
