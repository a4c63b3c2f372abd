"""Loading a class: everything is computed once, every broken rule is named with its place."""
# mypy: disable-error-code="empty-body, name-defined"
# The broken classes are the subject.

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from ors_server import CallContext, Environment, Split, ToolOutput, Toolset, terminal, tool
from ors_server.environments.loading import check_names, define
from ors_server.model.errors import EnvironmentDefinitionError


class Base(Environment):
    """Describes itself."""

    @classmethod
    def list_splits(cls):
        return ["train", "odd"]

    def get_prompt(self):
        return "go"


def make(name="Made", base=Base, **members):
    return type(name, (base,), members)


class Point(BaseModel):
    x: int
    y: int | None = None
    tags: list[str] = Field(default_factory=list)


class Full(Base):
    """Has a tool of every form."""

    version = "3"

    @tool
    async def plain(self, a: int, b: str = "x", *, c: Literal["p", "q"] = "p") -> str:
        """Takes plain parameters.

        More of the description.

        Args:
            a: The first,
                over two lines.
            b (str): The second.
            c: The third.

        Returns:
            Text.
        """
        return f"{a}{b}{c}"

    @tool
    def point(self, args: Point, context: CallContext) -> ToolOutput:
        """Takes a model and the context."""
        return ToolOutput.ongoing(str(args.x), metadata={"id": context.call_id})

    @tool
    async def bare(self) -> ToolOutput:
        """Takes nothing."""
        return ToolOutput()

    @tool(name="re-named", concurrent=True, time_limit=5.0)
    async def original(self, value: Annotated[float, Field(gt=0)]) -> str:
        """Is called otherwise."""
        return str(value)

    @tool(shared=False)
    async def hidden(self) -> str:
        """Is there in some tasks."""
        return ""

    @tool(exclusive=True)
    async def alone(self) -> str:
        """Runs alone."""
        return ""

    @tool
    @terminal
    async def submit(self, answer: str) -> ToolOutput:
        """Grades."""
        return ToolOutput.final(reward=1.0)


def test_an_environment_is_defined_by_its_class():
    definition = define(Full)
    assert (definition.name, definition.version, definition.source) == ("full", "3", Full)
    assert definition.description == "Has a tool of every form."
    assert [(each.name, each.type) for each in definition.splits] == [
        ("train", "train"),
        ("odd", "validation"),
    ]
    assert definition.split_type("odd") == "validation"
    assert definition.split_type("nosuch") is None
    assert list(definition.tools) == ["plain", "point", "bare", "re-named", "hidden", "alone", "submit"]


def test_the_listing_has_the_shared_tools_and_the_terminal_one_apart():
    listing = define(Full).listing
    assert [spec.name for spec in listing.tools] == ["plain", "point", "bare", "re-named", "alone"]
    assert (listing.terminal_tool.name, listing.terminal_tool.arg) == ("submit", "answer")
    assert not listing.supports_score_group


def test_a_tool_is_described_by_its_docstring_and_its_parameters_by_their_lines():
    spec = define(Full).tools["plain"].spec
    assert spec.description == "Takes plain parameters.\n\nMore of the description."
    properties = spec.input_schema["properties"]
    assert properties["a"]["description"] == "The first, over two lines."
    assert properties["b"] == {"default": "x", "description": "The second.", "title": "B", "type": "string"}
    assert properties["c"]["enum"] == ["p", "q"]
    assert spec.input_schema["required"] == ["a"]


def test_marks_are_kept():
    tools = define(Full).tools
    assert (tools["re-named"].concurrent, tools["re-named"].time_limit) == (True, 5.0)
    assert {tools["alone"].exclusive, tools["submit"].exclusive, tools["submit"].terminal} == {True}
    assert (tools["plain"].is_async, tools["point"].is_async) == (True, False)
    assert tools["bare"].spec.input_schema is None


async def test_a_bound_tool_takes_parsed_arguments_and_the_context():
    tools = define(Full).tools
    env = Full({})
    context = CallContext("s", "c", 1, {}, [])
    plain = tools["plain"]
    assert await plain.bind(env)(plain.parse({"a": "1", "c": "q"}), context) == "1xq"
    point = tools["point"]
    assert point.bind(env)(point.parse({"x": 2}), context).metadata == {"id": "c"}
    bare = tools["bare"]
    assert (await bare.bind(env)(bare.parse({"whatever": 1}), context)).blocks == []


def test_a_null_for_an_optional_parameter_that_admits_none_counts_as_absent():
    parse = define(Full).tools["point"].parse
    assert parse({"x": 1, "tags": None, "y": None}) == Point(x=1)
    with pytest.raises(ValidationError):
        parse({"x": None})


@pytest.mark.parametrize(
    ("annotation", "admits_null"),
    [
        (int, False),
        (int | None, True),
        (Any, True),
        (list[int], False),
        (Literal["a", None], True),  # noqa: PYI061  (this spelling gives another schema)
        (Annotated[int | None, Field(gt=0)], True),
    ],
    ids=repr,
)
def test_which_parameters_admit_null_is_read_from_the_schema(annotation, admits_null):
    async def take(self, value=None) -> str:
        """Takes."""
        return repr(value)

    take.__annotations__["value"] = annotation
    take.__defaults__ = ("default",)
    parse = define(make(take=tool(take))).tools["take"].parse
    assert parse({"value": None}).value == (None if admits_null else "default")


def untyped(self, a) -> str:
    """Untyped."""


def variadic(self, *args: int) -> str:
    """Variadic."""


def positional(self, a: int, /) -> str:
    """Positional."""


def unreturned(self):
    """Unreturned."""


def returns_int(self) -> int:
    """Returns int."""


def unreadable(self, a: "NoSuchName") -> str:  # noqa: F821  (the mistake is tested)
    """Unreadable."""


def two_answers(self, a: str, b: str) -> ToolOutput:
    """Two."""


def no_tool(self) -> ToolOutput:
    """No tool."""


def one(self) -> ToolOutput:
    """One."""


def two(self) -> ToolOutput:
    """Two."""


class Unschematic:
    pass


def unschematic(self, a: Unschematic) -> str:
    """No schema."""


def good(self) -> str:
    """Is good."""
    return "good"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({}, "has no tools"),
        ({"t": tool(untyped)}, "no type annotation"),
        ({"t": tool(variadic)}, "ordinary named"),
        ({"t": tool(positional)}, "ordinary named"),
        ({"t": tool(returns_int)}, "return ToolOutput or str"),
        ({"t": tool(unreturned)}, "return ToolOutput or str"),
        ({"t": tool(unreadable)}, "cannot be read"),
        ({"t": tool(unschematic)}, "no JSON Schema"),
        ({"t": terminal(no_tool)}, "add @tool"),
        ({"t": tool(terminal(two_answers))}, "one parameter"),
        ({"a b": tool(lambda self: "")}, "must match"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_broken_rule_is_named(members, words):
    with pytest.raises(EnvironmentDefinitionError, match=words):
        define(make(**members))


def test_a_name_and_a_terminal_tool_occur_once_and_a_terminal_tool_is_not_concurrent():
    with pytest.raises(EnvironmentDefinitionError, match="second tool named 'same'"):
        define(make(a=tool(name="same")(good), b=tool(name="same")(one)))
    with pytest.raises(EnvironmentDefinitionError, match="at most one"):
        define(make(one=terminal(tool(one)), two=terminal(tool(two))))
    with pytest.raises((EnvironmentDefinitionError, ValueError), match="concurrent"):
        define(make(end=terminal(tool(concurrent=True)(one))))


def test_a_tool_is_concurrent_or_exclusive_and_its_limit_positive():
    with pytest.raises(ValueError, match="not both"):
        tool(concurrent=True, exclusive=True)
    with pytest.raises(ValueError, match="positive"):
        tool(time_limit=0)


class Kit(Toolset):
    """Shared tools."""

    @tool
    async def hammer(self) -> str:
        """Hammers."""
        return str(self.environment.task_spec)


def test_toolsets_belong_to_the_environment_and_may_not_hide_its_tools():
    definition = define(make(good=tool(good), toolsets=(Kit,)))
    assert [spec.name for spec in definition.listing.tools] == ["good", "hammer"]
    with pytest.raises(EnvironmentDefinitionError, match="two tools are named 'hammer'"):
        define(make(hammer=tool(good), toolsets=(Kit,)))


def test_an_environment_needs_a_prompt_and_splits():
    mute = make("Mute", Environment, t=tool(good), list_splits=classmethod(lambda cls: ["train"]))
    with pytest.raises(EnvironmentDefinitionError, match="get_prompt or get_messages"):
        define(mute)


@pytest.mark.parametrize(
    ("splits", "words"),
    [
        ([], "at least one"),
        (["a", "a"], "each name once"),
        ([5], "not a split"),
        ([{"name": "a", "type": "b"}], "split"),
    ],
    ids=str,
)
def test_splits_of_another_form_are_refused(splits, words):
    with pytest.raises(EnvironmentDefinitionError, match=words):
        define(make(t=tool(good), list_splits=classmethod(lambda cls: splits)))


def test_splits_are_read_when_the_class_is_loaded():
    async def later(cls):
        return ["train"]

    def fail(cls):
        raise RuntimeError("no splits")

    with pytest.raises(EnvironmentDefinitionError, match="must not be async"):
        define(make(t=tool(good), list_splits=classmethod(later)))
    with pytest.raises(EnvironmentDefinitionError, match="no splits"):
        define(make(t=tool(good), list_splits=classmethod(fail)))
    given = [Split(name="a", type="test"), {"name": "b", "type": "train"}, "validation"]
    splits = define(make(t=tool(good), list_splits=classmethod(lambda cls: given))).splits
    assert [split.type for split in splits] == ["test", "train", "validation"]


@pytest.mark.parametrize(
    "name", ["tools", "health", "mcp", "Upper", "1st", "a/b", "_ors", "x" * 65, "sessions"]
)
def test_a_name_that_the_server_needs_or_cannot_route_is_refused(name):
    cls = make(t=tool(good))
    cls.name = name
    with pytest.raises(EnvironmentDefinitionError, match="environment name"):
        define(cls)


def test_a_class_that_is_no_environment_is_refused():
    with pytest.raises(EnvironmentDefinitionError, match="is not an Environment class"):
        define(dict)


def test_two_environments_of_one_name_are_refused():
    definitions = [define(make("Same", t=tool(good))), define(make("SAME", t=tool(good)))]
    with pytest.raises(EnvironmentDefinitionError, match="two environments are named 'same'"):
        check_names(definitions)
