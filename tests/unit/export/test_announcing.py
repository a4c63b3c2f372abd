"""Tools for the rows."""

import json

import pytest

from ors_server.authoring.loading import load_environments
from ors_server.errors import RecordError
from ors_server.export.announcing import announced_by, as_text, read_listing, tools_of


def test_an_environment_announces_its_tools_and_the_one_for_a_final_message(refenv):
    announced = announced_by(load_environments([f"{refenv}:RefEnv", f"{refenv}:TermEnv"]))
    names = {name: {tool.name for tool in tools} for name, tools in announced.items()}
    assert "echo" in names["refenv"]
    (terminal,) = [tool for tool in announced["termenv"] if tool.name == "submit"]
    assert terminal.input_schema == {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
    }


def test_what_a_server_answers_to_tools_can_be_read(tmp_path):
    path = tmp_path / "tools.json"
    tool = {"name": "go", "description": "Goes.", "input_schema": {"type": "object"}}
    end = {"name": "end", "arg": None, "description": "Ends."}
    path.write_text(json.dumps({"tools": [tool], "terminal_tool": end}))
    go, last = read_listing(path)
    assert (go.input_schema, last.name, last.input_schema) == ({"type": "object"}, "end", None)


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text("[]")
    with pytest.raises(RecordError, match="not what /tools answers"):
        read_listing(path)


def test_tools_that_are_not_known_are_null():
    assert tools_of({}, "sums") is None
    assert as_text(None) is None
