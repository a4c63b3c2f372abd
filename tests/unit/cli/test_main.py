"""What every command has in common: help, one line for an error, an exit status."""

import re
import subprocess
import sys

import pytest
import typer
from pydantic import BaseModel, ValidationError

from ors_server import __version__
from ors_server.cli.main import COMMANDS, explain, main
from ors_server.errors import SettingsError


def test_the_program_s_name_alone_shows_the_help(run):
    bare, asked = run(), run("--help")
    assert bare.status == asked.status == 0
    for name in COMMANDS:
        assert re.search(rf"^│ {name} ", bare.out, re.MULTILINE)
        assert name in asked.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(run, command):
    ran = run(command, "--help")
    assert ran.status == 0
    assert "Usage: ors-server" in ran.out


def test_the_version_is_an_option_and_a_command(run):
    assert run("--version").out == f"{__version__}\n"
    assert run("version").out.startswith(f"ors-server {__version__}\n")
    assert run("version", "--json").json["ors-server"] == __version__


@pytest.mark.parametrize(
    "words",
    [("fly",), ("serve", "--port", "high"), ("play",), ("check", "x", "--tasks", "0"), ("list", "--what")],
)
def test_a_command_line_that_makes_no_sense_has_status_2_and_one_line(run, words):
    ran = run(*words)
    assert ran.status == 2
    assert ran.out == ""
    assert re.fullmatch(r"ors-server: .+ Try --help\.\n", ran.err)


@pytest.mark.parametrize("command", ["list", "play", "check", "serve"])
def test_an_unknown_environment_has_status_1_and_one_line(run, command):
    ran = run(command, "no_such_environment")
    assert ran.status == 1
    assert re.fullmatch(r"ors-server: 'no_such_environment' is no installed environment .*\n", ran.err)


def test_debug_shows_the_traceback_wherever_it_stands(run):
    for words in (("--debug", "list", "nope"), ("list", "nope", "--debug")):
        ran = run(*words)
        assert ran.status == 1
        assert "Traceback (most recent call last)" in ran.err
        assert ran.err.splitlines()[-1].startswith("ors-server: 'nope'")


class Port(BaseModel):
    """Something to be invalid."""

    port: int


def test_an_invalid_setting_is_named_without_its_value(run, monkeypatch):
    with pytest.raises(ValidationError) as caught:
        Port.model_validate({"port": "hunter2hunter2"})
    assert explain(caught.value).startswith("port: ")
    assert "hunter2" not in explain(caught.value)
    monkeypatch.setenv("ORS_IDLE_SECONDS", "never")
    ran = run("serve")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("ors-server: idle_seconds: ")
    assert "never" not in ran.err


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (SettingsError("no keys"), "no keys"),
        (BaseExceptionGroup("several", [SettingsError("inner")]), "inner"),
        (FileNotFoundError(2, "No such file", "a.toml"), "No such file: a.toml"),
        (typer.Abort(), "aborted"),
        (ZeroDivisionError("oops"), "ZeroDivisionError: oops (this is a defect; --debug shows where)"),
    ],
)
def test_every_error_becomes_one_line(error, line):
    assert explain(error) == line


def test_ctrl_c_has_the_status_that_shells_know(monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(typer.main, "get_command", interrupt)
    assert main(["list"]) == 130


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from ors_server.cli.main import main; main(['--help']);"
        "print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy = {"anyio", "jsonschema", "mcp", "pydantic", "pydantic_settings", "starlette", "structlog", "sympy"}
    assert heavy & set(ran.stderr.split()) == set()


def test_importing_the_package_imports_nothing_heavy_and_prints_nothing():
    program = "import sys, ors_server; print(len(sys.modules), 'pydantic' in sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == ""
    assert ran.stderr.split()[1] == "False"
