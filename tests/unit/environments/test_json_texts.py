"""Arguments that arrive as JSON text, as some clients send lists and objects."""

import json
from typing import Any, Literal, Optional

import pytest
from pydantic import BaseModel, field_validator

from ors_server import Environment, tool, tool_from_schema
from ors_server.testing import CallRefusedError, play
from tests.fixtures.single_task import SingleTask


class Edit(BaseModel):
    old: str
    new: str
    lines: list[int] = []


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


class Desk(SingleTask):
    @tool
    def lists(self, names: list[str]) -> str:
        return repr(names)

    @tool
    def mixed(self, names: str | list[str]) -> str:
        return repr(names)

    @tool
    def optional(self, names: Optional[list[str]] = None, count: int | None = None) -> str:  # noqa: UP045
        return repr((names, count))

    @tool
    def edit(self, edits: list[Edit], options: dict[str, int]) -> str:
        return repr(([(edit.old, edit.new, edit.lines) for edit in edits], options))

    @tool
    def grow(self, tree: Tree) -> str:
        return tree.model_dump_json()

    @tool
    def choose(self, kind: Literal[1, 2], pair: tuple[int, list[str]]) -> str:
        return repr((kind, pair))

    @tool
    def anything(self, value: Any) -> str:
        return repr(value)


class Numbers(BaseModel):
    values: list[str]

    @field_validator("values", mode="before")
    @classmethod
    def split(cls, value: Any) -> Any:
        return value.split() if isinstance(value, str) else value


class Reader(SingleTask):
    @tool
    def numbers(self, params: Numbers) -> str:
        return repr(params.values)


def say(environment: type[Environment], tool_name: str, /, **arguments: Any) -> str:
    with play(environment) as episode:
        return episode.call(tool_name, **arguments).blocks[0].text


@pytest.mark.parametrize(
    ("name", "arguments", "received"),
    [
        ("lists", {"names": '["a", "b"]'}, "['a', 'b']"),
        ("lists", {"names": " [ ]\n"}, "[]"),
        ("optional", {"names": '["a"]', "count": "3"}, "(['a'], 3)"),
        ("optional", {"names": "null", "count": "null"}, "(None, None)"),
        (
            "edit",
            {"edits": '[{"old": "x", "new": "[1]", "lines": [1]}]', "options": '{"a": 1}'},
            "([('x', '[1]', [1])], {'a': 1})",
        ),
        (
            "edit",
            {"edits": ['{"old": "x", "new": "y"}', {"old": "1", "new": "2", "lines": "[3]"}], "options": {}},
            "([('x', 'y', []), ('1', '2', [3])], {})",
        ),
        (
            "grow",
            {"name": "1", "children": '["{\\"name\\": \\"[2]\\", \\"children\\": \\"[]\\"}"]'},
            '{"name":"1","children":[{"name":"[2]","children":[]}]}',
        ),
        ("choose", {"kind": "2", "pair": '[7, "[\\"a\\"]"]'}, "(2, (7, ['a']))"),
    ],
    ids=str,
)
def test_a_text_is_read_where_only_its_value_is_allowed(name, arguments, received):
    assert say(Desk, name, **arguments) == received


@pytest.mark.parametrize(
    ("name", "arguments", "received"),
    [
        ("mixed", {"names": '["a", "b"]'}, repr('["a", "b"]')),
        ("anything", {"value": '{"a": 1}'}, repr('{"a": 1}')),
    ],
    ids=str,
)
def test_a_text_stays_a_text_where_one_is_allowed(name, arguments, received):
    assert say(Desk, name, **arguments) == received


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("lists", {"names": "a, b"}, "'names' should be a valid list, got \"a, b\""),
        ("lists", {"names": '{"a": 1}'}, "'names' should be a valid list"),
        ("lists", {"names": '["a", 1]'}, r"'names\.1' should be a valid string, got 1"),
        ("lists", {"names": "[" * 300 + "]" * 300}, "'names' should be a valid list"),
        ("lists", {"names": "[NaN]"}, "'names' should be a valid list"),
        ("lists", {"names": f"[{'1,' * 60_000}1]"}, "'names' should be a valid list"),
        ("edit", {"edits": "[]"}, "'options' is missing"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_not_json_of_the_type_is_refused(name, arguments, words):
    with play(Desk) as episode, pytest.raises(CallRefusedError, match=words):
        episode.call(name, **arguments)


SCHEMA = {
    "type": "object",
    "$defs": {
        "point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "array"}]},
    },
    "properties": {
        "point": {"$ref": "#/$defs/point"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": ["boolean", "null"]},
        "words": {"allOf": [{"type": ["array", "string"]}, {"type": "array"}]},
        "one": {"oneOf": [{"$ref": "#/$defs/point"}, {"const": 4}]},
        "level": {"enum": [1, 2, [3]]},
        "name": {"enum": ["1", 2]},
        "loop": {"$ref": "#/$defs/loop"},
        "elsewhere": {"not": {"type": "string"}},
    },
    "additionalProperties": {"type": "array", "items": {"type": "integer"}},
}


def receive(self, arguments):
    return json.dumps(arguments, sort_keys=True)


class Schemas(SingleTask):
    receive = tool_from_schema(receive, name="receive", description="Receives.", schema=SCHEMA)


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ({"point": '{"x": "1.5"}'}, {"point": {"x": 1.5}}),
        ({"count": "3", "ratio": "2"}, {"count": 3, "ratio": 2}),
        ({"flag": "true"}, {"flag": True}),
        ({"flag": "null"}, {"flag": None}),
        ({"words": '["a"]'}, {"words": ["a"]}),
        ({"one": '{"x": 1}'}, {"one": {"x": 1}}),
        ({"one": "4", "level": "[3]"}, {"one": 4, "level": [3]}),
        ({"more": '["1", 2]'}, {"more": [1, 2]}),
        ({"name": "1", "count": "1"}, {"name": "1", "count": 1}),
    ],
    ids=str,
)
def test_a_schema_of_data_is_read_in_the_same_way(sent, received):
    assert json.loads(say(Schemas, "receive", **sent)) == received


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"name": "2"}, "'2' is not one of"),
        ({"elsewhere": "[1]"}, "should not be valid"),
        ({"flag": "1"}, "'1' is not of type"),
        ({"count": "1.5"}, "'1.5' is not of type"),
    ],
    ids=str,
)
def test_a_schema_of_data_refuses_the_rest(sent, words):
    with play(Schemas) as episode, pytest.raises(CallRefusedError, match=words):
        episode.call("receive", **sent)


def test_a_validator_of_the_author_reads_a_text_first():
    assert say(Reader, "numbers", values='["1", "2"]') == repr(['["1",', '"2"]'])


def test_the_record_keeps_what_the_agent_sent():
    with play(Desk) as episode:
        episode.call("lists", names='["a"]')
        (step,) = episode.steps
    assert step.arguments == {"names": '["a"]'}


def test_only_so_many_values_are_compared_with_the_schema():
    edits = ['{"old": "x", "new": "y"}'] * 1_000
    with play(Desk) as episode, pytest.raises(CallRefusedError, match=r"edits|problems"):
        episode.call("edit", edits=edits, options={})
