"""What the bridges refuse without their packages, and how they read calls from text."""

import json
from importlib import metadata

import pytest

from ors_server.adapters import bridges, to_openenv, to_skyrl_gym, to_trl, to_verifiers
from ors_server.adapters.bridges.text_calls import TextCallError, describe_tools, read_moves
from ors_server.installation import package_hint
from ors_server.model.errors import InvalidRequestError
from ors_server.model.wire import TerminalToolSpec, ToolListing, ToolSpec

ECHO = ToolSpec(name="echo", description="Echoes.", input_schema={"type": "object"})
LISTING = ToolListing(tools=[ECHO])
BRIDGES = {
    to_verifiers: ("verifiers", "0.1.14", "0.4", "0.1.13"),
    to_skyrl_gym: ("skyrl-gym", "0.4", "0.5", "0.3.9"),
    to_trl: ("trl", "1.8", "2", "1.7.1"),
    to_openenv: ("openenv", "0.4", "0.11", "0.3.1"),
}


@pytest.mark.parametrize("bridge", BRIDGES)
def test_a_bridge_names_the_package_that_is_not_installed_and_the_command(bridge):
    package, low, high, _ = BRIDGES[bridge]
    with pytest.raises(InvalidRequestError) as raised:
        bridge("http://127.0.0.1:1")
    assert str(raised.value) == (
        f"{bridge.__name__} expected {package} from {low} up to, not including, {high}, but {package} "
        f"is not installed: {package_hint(f'{package}>={low},<{high}')}"
    )


@pytest.mark.parametrize("bridge", BRIDGES)
def test_a_bridge_names_the_wrong_version(bridge, monkeypatch):
    package, low, high, found = BRIDGES[bridge]
    monkeypatch.setattr(bridges, "version", {package: found}.__getitem__)
    with pytest.raises(
        InvalidRequestError, match=f"got version {found}: .*pip install '{package}>={low},<{high}'"
    ):
        bridge("http://127.0.0.1:1")


def test_a_verifiers_without_the_class_of_the_bridge_is_sent_to_the_taskset(monkeypatch):
    monkeypatch.setattr(bridges, "version", {"verifiers": "0.4.0"}.__getitem__)
    with pytest.raises(InvalidRequestError, match=r"got version 0\.4\.0: use its taskset ors-taskset"):
        to_verifiers("http://127.0.0.1:1")


def test_the_packages_are_not_installed_here():
    for package, *_ in BRIDGES.values():
        with pytest.raises(metadata.PackageNotFoundError):
            metadata.version(package)


def written(**call):
    return f"<tool_call>{json.dumps(call)}</tool_call>"


def test_reads_every_call_of_a_text_in_order():
    text = "First " + written(name="echo", arguments={"a": 1}) + " then\n" + written(name="stop") + " done."
    moves = read_moves(text, LISTING)
    assert [(move.tool, move.arguments) for move in moves] == [("echo", {"a": 1}), ("stop", {})]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a call of a tool (echo)"),
        ("echo a=1", "and found none"),
        ("<tool_call>", "ends without it"),
        ('<tool_call>{"name": "echo"}', "ends without it"),
        ("<tool_call></tool_call>", "got ''"),
        ("<tool_call>echo</tool_call>", "got 'echo'"),
        ("<tool_call>[1]</tool_call>", "the name as a string"),
        ("<tool_call>null</tool_call>", "the name as a string"),
        (written(name=3), "the name as a string"),
        (written(name="echo", arguments=[1]), "the arguments as an object"),
        (written(name="echo", arguments="{}"), "the arguments as an object"),
        (written(arguments={}), "the name as a string"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "got '[["),
        (written(name="echo") + "<tool_call>{", "ends without it"),
    ],
)
def test_tells_the_model_what_is_wrong_with_a_text(text, problem):
    with pytest.raises(TextCallError) as raised:
        read_moves(text, LISTING)
    assert problem in str(raised.value)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(("arg", "arguments"), [("answer", {"answer": "42."}), (None, {})])
def test_gives_text_without_a_call_to_the_terminal_tool(arg, arguments):
    last = TerminalToolSpec(name="finish", arg=arg, description="Ends.")
    moves = read_moves(" 42.\n", LISTING.model_copy(update={"terminal_tool": last}))
    assert [(move.tool, move.arguments) for move in moves] == [("finish", arguments)]


def test_announces_tools_with_their_schemas():
    text = describe_tools([ECHO, ToolSpec(name="stop", description="Überall.", input_schema=None)])
    first, second = (json.loads(line) for line in text.splitlines()[1:])
    assert first == {"name": "echo", "description": "Echoes.", "parameters": {"type": "object"}}
    assert second == {"name": "stop", "description": "Überall.", "parameters": {}}
