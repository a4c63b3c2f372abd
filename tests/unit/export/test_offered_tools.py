"""Tools for the rows."""

import json
from dataclasses import replace

import pytest

from ors_server.environments.loading import load_environments
from ors_server.export.offered_tools import as_text, offered_tools, read_listing, tools_of
from ors_server.model.errors import RecordError
from tests.fixtures.recorded_episodes import Played

KITTED = '''
from ors_server import ToolOutput, Toolset, tool
from tests.fixtures.single_task import SingleTask


class Kit(Toolset):
    @tool
    def dig(self) -> ToolOutput:
        """Digs deeper."""
        return ToolOutput.ongoing()


class Kitted(SingleTask):
    name = "kitted"
    session_toolsets = {"kit": Kit}

    @tool
    def look(self) -> ToolOutput:
        """Looks."""
        return ToolOutput.ongoing()

    @tool
    def dig(self) -> ToolOutput:
        """Digs."""
        return ToolOutput.ongoing()
'''


def test_an_environment_announces_its_tools_and_the_one_for_a_final_message(refenv):
    offered = offered_tools(load_environments([f"{refenv}:RefEnv", f"{refenv}:TermEnv"]))
    names = {name: {tool.name for tool in tools} for name, tools in offered.items()}
    assert "echo" in names["refenv"]
    (terminal,) = [tool for tool in offered["termenv"] if tool.name == "submit"]
    answer = {"answer": {"type": "string"}}
    assert terminal.input_schema == {"type": "object", "properties": answer, "required": ["answer"]}


def test_a_session_that_asked_for_a_toolset_has_its_tools_too(tmp_path):
    path = tmp_path / "kitted.py"
    path.write_text(KITTED)
    offered = offered_tools(load_environments([f"{path}:Kitted"]))
    plain = Played("plain", environment="kitted").origin
    kitted = replace(plain, toolset="kit")
    assert [tool.name for tool in tools_of(offered, plain)] == ["look", "dig"]
    assert [tool.name for tool in tools_of(offered, kitted)] == ["look", "dig"]
    assert [tool.description for tool in tools_of(offered, kitted)] == ["Looks.", "Digs deeper."]
    assert tools_of(offered, replace(plain, toolset="other")) is None


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
    with pytest.raises(RecordError, match="expected the response of a server's /tools"):
        read_listing(path)


def test_tools_that_are_not_known_are_null():
    assert tools_of({}, Played("one").origin) is None
    assert as_text(None) is None
