"""What every command has in common: help, one line for an error, an exit status."""

import gc
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from typing import Any, get_type_hints

import pytest
import typer
from pydantic import BaseModel, ValidationError

from ors_server import __version__
from ors_server.cli.examples import EXAMPLES
from ors_server.cli.exit_status import MEANINGS, ExitStatus
from ors_server.cli.main import COMMANDS, GROUPS, PANELS, app, explain, main
from ors_server.cli.serve_command import ServeOptions
from ors_server.cli.setting_flags import options_with_flags
from ors_server.model.errors import SettingsError
from ors_server.model.settings import Settings, names_of
from ors_server.processes.garbage_collector import THRESHOLDS
from tests.unit.cli.conftest import run_python

COMMAND_LINES = [
    (),
    *((name,) for name in COMMANDS),
    *((name, each.name) for name, group in GROUPS.items() for each in group.registered_commands),
]


def test_the_program_s_name_alone_shows_the_help(run):
    bare, asked = run(), run("--help")
    assert bare.status == asked.status == 0
    for name in COMMANDS:
        assert re.search(rf"^│ {name} ", bare.out, re.MULTILINE)
        assert name in asked.out


def test_a_command_collects_garbage_more_rarely_than_python_does(run):
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        assert run("version").status == 0
        assert gc.get_threshold()[0] == THRESHOLDS[0]
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("words", COMMAND_LINES, ids=" ".join)
def test_every_command_has_help_with_flags_without_a_value_and_no_broken_line_of_prose(
    run, words, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "100")
    ran = run(*words, "--help")
    shown = ran.out
    assert ran.status == 0
    name = " ".join(words)
    for line in EXAMPLES.get(name, ()):
        assert f"\n {line} " in shown
        assert line.startswith(f"ors-server {name}")
    assert "Usage: ors-server" in shown
    assert "<bool>" not in shown
    assert "[[" not in shown
    assert re.search(r"^│ +--help +Show this message and exit\.", shown, re.MULTILINE)
    lines = [line.strip() for line in shown.splitlines() if line.startswith(" ") and len(line.strip()) > 1]
    prose = [line for line in lines if not line.startswith("ors-server ")]
    wrapped = [line for line, after in pairwise(prose) if after[:1].islower()]
    assert all(len(line) > 75 for line in wrapped)


def test_the_help_groups_every_command(run):
    assert sorted(name for names in PANELS.values() for name in names) == sorted({*COMMANDS, *GROUPS})
    shown = run("--help").out
    assert all(panel in shown for panel in PANELS)


def test_the_help_of_a_setting_of_names_shows_the_names(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("serve", "--help-all").out
    for field in Settings.model_fields.keys() & get_type_hints(options_with_flags(ServeOptions)).keys():
        names = names_of(Settings.model_fields[field].annotation)
        (about,) = re.findall(rf"^│ --{field.replace('_', '-')} (.+(?:\n│ {{20}}.+)*)", shown, re.MULTILINE)
        assert all(name in about for name in names), field


def test_every_exit_status_has_a_meaning_that_the_help_shows(run):
    assert set(MEANINGS) == set(ExitStatus)
    shown = " ".join(run("--help").out.split())
    assert all(f"{status.value} {words}" in shown for status, words in MEANINGS.items())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_a_script_that_completes(run, shell, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    command = [sys.executable, "-m", "ors_server", "--show-completion", shell]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "_ORS_SERVER_COMPLETE=complete_" + shell in shown


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ors-server ", {"serve", "doctor", "episodes", "store"}),
        ("ors-server do", {"doctor"}),
        ("ors-server serve ma", {"math_word_problems"}),
        ("ors-server serve --max-sess", {"--max-sessions", "--max-sessions-per-credential"}),
        ("ors-server serve --durability b", {"batch"}),
        ("ors-server eval qa --agent o", {"oracle", "openai:"}),
        ("ors-server episodes ", {"list", "show", "tail"}),
    ],
)
def test_what_is_typed_is_completed(monkeypatch, capsys, line, offered):
    words = line.split(" ")
    monkeypatch.setenv("_ORS_SERVER_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    assert main([]) == 0
    found = set(capsys.readouterr().out.split())
    assert offered <= found
    assert all(one.startswith(words[-1]) for one in found)


def test_the_version_is_an_option_and_a_command(run):
    assert run("--version").out == f"{__version__}\n"
    assert run("version").out.startswith(f"ors-server {__version__}\n")
    assert run("version", "--json").json["ors-server"] == __version__


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("fly",), "ors-server"),
        (("play",), "ors-server play"),
        (("list", "--what"), "ors-server list"),
        (("check", "x", "--tasks", "0"), "ors-server check"),
        (("store", "stat"), "ors-server store"),
    ],
)
def test_a_command_line_that_cannot_be_read_has_status_2_and_a_line_that_names_the_help(run, words, path):
    ran = run(*words)
    assert (ran.status, ran.out) == (2, "")
    message, hint = ran.err.splitlines()
    assert re.fullmatch(r"ors-server: .+", message)
    assert "--help" not in message
    assert hint == f"ors-server: Try {path} --help"


@pytest.mark.parametrize("words", EXAMPLES, ids=str)
def test_every_example_of_the_help_can_be_read(words):
    for line in EXAMPLES[words]:
        assert len(line) <= 78
        command: Any = typer.main.get_command(app)
        name, rest = "ors-server", shlex.split(line)[1:]
        while hasattr(command, "commands"):
            context = command.make_context(name, [], resilient_parsing=True)
            name, command, rest = command.resolve_command(context, rest)
        command.make_context(name, rest)


def test_every_command_has_an_example():
    assert {" ".join(words) for words in COMMAND_LINES if words} == set(EXAMPLES)


@pytest.mark.parametrize(
    "words",
    [
        *(("serve", "--port", "high"), ("check",), ("check", "x", "--mcp"), ("check", "--sandbox", "jail")),
        *(("new", "No Name"), ("call", "qa", "search", "{"), ("call", "qa", "search", "[]")),
        *(("serve", "--port", "99999"), ("serve", "--log-level", "loud")),
        ("store", "stats", "--store", "memory"),
    ],
)
def test_a_command_line_that_makes_no_sense_has_status_2_and_one_line(run, words):
    ran = run(*words)
    assert (ran.status, ran.out) == (2, "")
    assert re.fullmatch(r"ors-server: .+\n", ran.err)


@pytest.mark.parametrize("command", ["list", "play", "check", "serve"])
def test_an_unknown_environment_has_status_2_and_one_line(run, command):
    ran = run(command, "no_such_environment")
    assert ran.status == 2
    assert re.fullmatch(r"ors-server: unknown environment 'no_such_environment': expected .*\n", ran.err)


def test_debug_shows_the_traceback_wherever_it_stands(run):
    for words in (("--debug", "list", "nope"), ("list", "nope", "--debug")):
        ran = run(*words)
        assert ran.status == 2
        assert "Traceback (most recent call last)" in ran.err
        assert ran.err.splitlines()[-1].startswith("ors-server: unknown environment 'nope'")


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
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("ors-server: ORS_IDLE_SECONDS: ")
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


HEAVY = {"anyio", "jsonschema", "mcp", "pydantic", "pydantic_settings", "starlette", "structlog", "sympy"}


@pytest.mark.parametrize(
    ("words", "left_out"),
    [
        (["--help"], HEAVY),
        (["export", "--help"], {"pyarrow", "sqlalchemy", "ors_server.export.formats"}),
        (["episodes", "list", "--help"], {"httpx2", "sqlalchemy", "anyio"}),
    ],
)
def test_help_imports_nothing_heavy(words, left_out):
    ran = run_python(
        f"import sys; from ors_server.cli.main import main; main({words});"
        f"print(sorted({left_out} & set(sys.modules)), file=sys.stderr)"
    )
    assert "Usage: ors-server" in ran.stdout
    assert ran.stderr == "[]\n"


def test_a_server_imports_no_reading_of_texts_until_a_reward_needs_it():
    reading = "ors_server.rewards.reading.statements"
    program = f"import sys, ors_server.app; print({reading!r} in sys.modules, file=sys.stderr)"
    assert run_python(program).stderr == "False\n"


def test_importing_the_package_imports_nothing_heavy_and_prints_nothing():
    program = "import sys, ors_server; print(len(sys.modules), 'pydantic' in sys.modules, file=sys.stderr)"
    ran = run_python(program)
    assert ran.stdout == ""
    assert ran.stderr.split()[1] == "False"


@pytest.mark.parametrize(
    "words", [["version"], ["rewards"], ["new", "x"], ["store", "stats"], ["episodes", "list"], ["list"]]
)
def test_every_command_refuses_unknown_variables(run, words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORS_PROT", "1")
    ran = run(*words)
    assert ran.status == 2
    assert "unknown environment variable ORS_PROT, did you mean 'ORS_PORT'?" in ran.err
    assert not ran.out
    assert not list(tmp_path.iterdir())


def test_doctor_lists_unknown_variables_and_the_help_is_shown_in_spite_of_them(run, monkeypatch):
    monkeypatch.setenv("ORS_PROT", "1")
    findings = {finding["name"]: finding for finding in run("doctor", "--json").json}
    assert "did you mean 'ORS_PORT'?" in findings["settings"]["text"]
    assert run("serve", "--help").status == 0


def test_a_file_that_another_project_of_the_name_replaced_is_explained(run, monkeypatch, tmp_path):
    info = tmp_path / "ors_server-0.2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ors-server\nVersion: 0.2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "ors_server.cli.doctor_checks", None)  # what makes an import fail
    ran = run("doctor")
    assert ran.status == 1
    assert "the distribution ors-server 0.2.0 is another project" in ran.err
    assert "pip uninstall -y ors-server" in ran.err
