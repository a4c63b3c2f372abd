"""Tools in every form in which authors write them: fields, static methods, overrides."""

from typing import Annotated

import pytest
from pydantic import Field

from ors_server import ToolOutput, prompt, resource, terminal, tool
from ors_server.environments.loading import define
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.testing import play
from tests.fixtures.single_task import SingleTask


class Base(SingleTask):
    """Describes itself."""

    @tool(name="say", concurrent=True)
    async def speak(self, word: str) -> str:
        """Says a word."""
        return word

    @prompt
    def ask(self) -> str:
        """Asks."""
        return "base"

    @resource("notes://today")
    def note(self) -> str:
        """Notes."""
        return "base"

    @tool
    @terminal
    def submit(self, answer: str) -> ToolOutput:
        """Ends."""
        return ToolOutput.final(reward=1.0)


class Fields(Base):
    @tool
    def count(
        self,
        many: int = Field(3, description="How many.", ge=1),
        kind: Annotated[str, Field(description="Which kind.")] = "a",
        plain: Annotated[int, Field(le=9)] = 1,
        needed: str = Field(description="Needed.", default=...),
        listed: list[int] = Field(default_factory=lambda: [7]),  # noqa: B008
        schema: str = "",
        copy: str = "",
    ) -> str:
        """Counts.

        Args:
            many: From the docstring.
            kind: From the docstring.
            plain: From the docstring.
        """
        return repr((many, kind, plain, needed, listed, schema, copy))


def test_a_field_is_a_default_a_description_and_a_rule():
    schema = define(Fields).tools["count"].spec.input_schema
    properties = schema["properties"]
    assert {name: part.get("description") for name, part in properties.items()} == {
        "many": "How many.",
        "kind": "Which kind.",
        "plain": "From the docstring.",
        "needed": "Needed.",
        "listed": None,
        "schema": None,
        "copy": None,
    }
    assert (properties["many"]["default"], properties["many"]["minimum"]) == (3, 1)
    assert properties["plain"]["maximum"] == 9
    assert schema["required"] == ["needed"]
    with play(Fields) as episode:
        output = episode.call("count", needed="x", schema="s")
    assert output.blocks[0].text == "(3, 'a', 1, 'x', [7], 's', '')"


class Static(Base):
    @tool
    @staticmethod
    def outside(word: str) -> str:
        """Is static."""
        return f"outside {word}"

    @staticmethod
    @tool
    async def inside(word: str) -> str:
        """Is static."""
        return f"inside {word}"

    @classmethod
    @tool
    def of_class(cls, word: str) -> str:
        """Is of the class."""
        return f"{cls.__name__} {word}"

    @tool
    @classmethod
    def of_class_too(cls, word: str) -> str:
        """Is of the class."""
        return f"{cls.__name__} {word}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("outside", "outside x"),
        ("inside", "inside x"),
        ("of_class", "Static x"),
        ("of_class_too", "Static x"),
    ],
)
def test_a_tool_may_be_static_in_either_order(name, said):
    with play(Static) as episode:
        assert episode.call(name, word="x").blocks[0].text == said


class Overriding(Base):
    async def speak(self, word: str, times: int = 1) -> str:
        """Says it louder."""
        return word.upper() * times

    def ask(self) -> str:
        return "own"

    def note(self) -> str:
        return "own"

    def submit(self, answer: str) -> ToolOutput:
        """Ends otherwise."""
        return ToolOutput.final(reward=0.5)


def test_an_override_keeps_the_marks_of_what_it_overrides():
    definition = define(Overriding)
    say = definition.tools["say"]
    assert (say.concurrent, say.spec.description) == (True, "Says it louder.")
    assert set(say.spec.input_schema["properties"]) == {"word", "times"}
    assert definition.listing.terminal_tool.name == "submit"
    assert (list(definition.offers.prompts), [one.uri for one in definition.offers.resources]) == (
        ["ask"],
        ["notes://today"],
    )
    with play(Overriding) as episode:
        assert episode.call("say", word="x", times=2).blocks[0].text == "XX"


def test_none_takes_a_tool_away_and_anything_else_is_refused():
    assert "say" not in define(type("Silenced", (Base,), {"speak": None})).tools
    with pytest.raises(EnvironmentDefinitionError, match="speak hides a tool"):
        define(type("Hiding", (Base,), {"speak": 5}))


def test_a_tool_may_return_either():
    class Either(Base):
        @tool
        def either(self, *, text: bool) -> ToolOutput | str:
            """Returns one of two."""
            return "text" if text else ToolOutput.ongoing("output")

    with play(Either) as episode:
        said = [episode.call("either", text=text).blocks[0].text for text in (True, False)]
    assert said == ["text", "output"]
