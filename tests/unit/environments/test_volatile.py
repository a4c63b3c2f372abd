"""What a class declares volatile is read once, and what cannot work is refused when it is loaded."""

import pytest
from pydantic import BaseModel

from ors_server import Environment, tool
from ors_server.environments.loading import define
from ors_server.environments.volatile import check_patterns, read_volatile
from ors_server.model.errors import EnvironmentDefinitionError
from tests.fixtures.single_task import SingleTask


class Clock(SingleTask):
    """Tells the time."""

    volatile = (r"\d\d:\d\d", "0x[0-9a-f]+")

    @tool
    def look(self) -> str:
        """Looks."""
        return "12:00"


def test_patterns_that_work_are_kept_in_order_and_a_class_that_declares_nothing_has_none():
    assert define(Clock).volatile == (r"\d\d:\d\d", "0x[0-9a-f]+")
    assert read_volatile(Environment) == ()
    assert check_patterns([r"\s+at \d+"]) == (r"\s+at \d+",)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (r"\d+", "a list of regular expressions"),
        (7, "a list of regular expressions"),
        ([r"("], "not a regular expression"),
        ([7], "a pattern must be text, got 7"),
        (["a*"], "matches the empty text"),
    ],
    ids=["text", "number", "unreadable", "no text", "empty"],
)
def test_what_cannot_work_is_refused_when_the_class_is_loaded(given, complaint):
    broken = type("Broken", (Clock,), {"volatile": given})
    with pytest.raises(EnvironmentDefinitionError, match=f"Broken.volatile.*{complaint}"):
        define(broken)


class ToolOutput(BaseModel):
    """As another package has it."""


class ForeignBase:
    """As another package has it."""

    def list_tasks(self):
        return [{}]

    num_tasks = get_task = get_task_range = setup = teardown = get_prompt = get_messages = list_task_tools = (
        list_tasks
    )


def look(self) -> ToolOutput:
    """Looks."""
    return ToolOutput()


vars(look)["_env_tool"] = True


@pytest.mark.parametrize(
    ("given", "read"), [([r"\d+"], (r"\d+",)), (True, ())], ids=["patterns", "something else"]
)
def test_a_foreign_class_declares_patterns_in_a_list(given, read):
    base = type("Environment", (ForeignBase,), {"__module__": "openreward.environments"})
    attributes = {"list_splits": classmethod(lambda cls: ["train"]), "look": look, "volatile": given}
    assert define(type("Foreign", (base,), attributes)).volatile == read
