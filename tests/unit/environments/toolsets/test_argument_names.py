"""Arguments as models send them that were trained on other tools."""

import pytest
from pydantic import ValidationError

from ors_server import tool
from ors_server.environments.argument_names import only_these_arguments
from ors_server.environments.loading import define
from ors_server.environments.native_tools import read_tools
from ors_server.environments.toolset_names import TOOLSETS, find_toolset
from ors_server.testing import CallRefusedError, play
from tests.fixtures.single_task import SingleTask


class Closed(SingleTask):
    @tool
    @only_these_arguments(file_path="path", lines="view_range")
    def view(
        self, path: str, view_range: list[int] | None = None, options: dict[str, int] | None = None
    ) -> str:
        """Looks."""
        return repr((path, view_range, options))


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ({"path": "a"}, ("a", None, None)),
        ({"file_path": "a", "lines": [1, 2]}, ("a", [1, 2], None)),
        ({"path": "[1]", "view_range": "[1, 2]"}, ("[1]", [1, 2], None)),
        ({"path": "a", "options": '{"x": 1}'}, ("a", None, {"x": 1})),
        ({"path": "a", "view_range": None, "options": None}, ("a", None, None)),
    ],
    ids=str,
)
def test_other_names_and_json_in_text_are_read(arguments, read):
    with play(Closed) as episode:
        assert episode.call("view", **arguments).blocks[0].text == repr(read)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"path": "a", "colour": 1}, "view has no parameter 'colour'; it takes path, view_range, options"),
        ({"pathe": "a"}, "no parameter 'pathe'; did you mean 'path'\\?"),
        ({"file_pat": "a"}, "did you mean 'path'\\?"),
        ({"path": "a", "file_path": "b"}, "'file_path' is another name of 'path'; give one of them"),
        ({"path": "a", "view_range": "1, 2"}, "view_range"),
        ({"path": "a", "view_range": '{"x": 1}'}, "view_range"),
        ({"path": "a", "view_range": "[" * 100_000}, "view_range"),
        ({}, "path"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_no_parameter_is_named_and_not_ignored(arguments, words):
    with play(Closed) as episode, pytest.raises(CallRefusedError, match=words):
        episode.call("view", **arguments)


@pytest.mark.parametrize(
    "arguments", [{"command": ["ls", 5]}, {"cmd": {}}, {"command": "ls", "timeout_ms": "soon"}]
)
def test_what_cannot_be_read_in_another_way_is_refused(arguments):
    with pytest.raises(ValidationError, match=r"command|time_limit"):
        read_tools(find_toolset("bash", "here"))["bash"].parse(arguments)


def test_the_schema_says_that_there_are_no_others():
    assert define(Closed).tools["view"].spec.input_schema["additionalProperties"] is False


@pytest.mark.parametrize("name", TOOLSETS)
def test_every_tool_of_the_toolsets_is_closed(name):
    tools = read_tools(find_toolset(name, "here"))
    schemas = {tool: definition.spec.input_schema for tool, definition in tools.items()}
    assert schemas
    assert [tool for tool, schema in schemas.items() if schema["additionalProperties"] is not False] == []


@pytest.mark.parametrize(
    ("toolset", "called", "arguments", "meant"),
    [
        ("bash", "bash", {"cmd": "ls", "timeout": 5}, {"command": "ls", "time_limit": 5.0}),
        (
            "bash",
            "bash",
            {"command": ["bash", "-lc", "ls | wc"], "timeout_ms": 1500},
            {"command": "ls | wc", "time_limit": 1.5},
        ),
        ("bash", "bash", {"cmd": ["echo", "a b"]}, {"command": "echo 'a b'"}),
        ("bash", "bash", {"cmd": ["/bin/sh", "-c", "x", "y"]}, {"command": "/bin/sh -c x y"}),
        ("python", "python", {"source": "1"}, {"code": "1"}),
        ("python", "python", {"code": "1", "timeout_ms": 2000}, {"time_limit": 2.0}),
        ("files", "create", {"path": "a", "file_text": "x"}, {"path": "a", "content": "x"}),
        (
            "files",
            "insert",
            {"path": "a", "insert_line": 1, "insert_text": "x"},
            {"path": "a", "insert_line": 1, "text": "x"},
        ),
        (
            "files",
            "str_replace",
            {"file_path": "a", "old_string": "x", "new_string": "y"},
            {"path": "a", "old_str": "x", "new_str": "y"},
        ),
        ("patch", "apply_patch", {"input": "x"}, {"patch": "x"}),
        ("files", "undo_edit", {"file_path": "a"}, {"path": "a"}),
        ("files", "view", {"path": "a", "view_range": "[1, 2]"}, {"path": "a", "view_range": [1, 2]}),
    ],
)
def test_the_names_that_models_were_trained_on_are_understood(toolset, called, arguments, meant):
    parsed = read_tools(find_toolset(toolset, "here"))[called].parse(arguments)
    assert {name: value for name, value in parsed.model_dump().items() if name in meant} == meant
