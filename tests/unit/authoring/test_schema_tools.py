"""Tools of a JSON Schema: announced as written, validated, for a class or for one task."""

import functools

import pytest

from ors_server import CallContext, tool, tool_from_schema
from ors_server.authoring.loading import define
from ors_server.errors import EnvironmentDefinitionError, EnvironmentFailedError
from ors_server.testing import CallRefusedError, play
from tests.fixtures.single_task import SingleTask

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
    ],
    ids=str,
)
def test_a_schema_that_cannot_work_is_refused_when_the_class_is_loaded(schema, words):
    with pytest.raises(EnvironmentDefinitionError, match=words):
        define(make(schema=schema))


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
        (lambda: 5, "not int"),
        (lambda: functools.partial(forecast), "not partial"),
        (lambda: tool_from_schema(empty, name="always", description="", schema=SCHEMA), "already"),
        (lambda: tool_from_schema(empty, name="a", description="", schema={}), "object"),
    ],
)
def test_what_is_not_a_tool_of_the_task_is_the_authors_failure(given, words):
    cls = type("Wrong", (PerTask,), {"list_task_tools": lambda self: [given()]})
    with play(cls) as episode, pytest.raises(EnvironmentFailedError, match=words):
        _ = episode.tools
