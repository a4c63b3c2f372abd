"""What a terminal is sent of texts that strangers wrote."""

import io
import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server import ToolError, tool
from ors_server.cli.command_output import complain, say, say_json
from ors_server.cli.main import main
from ors_server.cli.play_command import say_wrapped
from ors_server.cli.terminal import MAX_CHARACTERS, MAX_LINES, cut, make_console, make_table
from ors_server.model.printable import clean, clean_line
from tests.fixtures.single_task import SingleTask


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u00e9 \u4e2d \U0001f600", "plain \u00e9 \u4e2d \U0001f600"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb", "a\nb"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b2J", "\\u009b2J"),
        ("\x00\x07\x08\x7f", "\\x00\\x07\\x08\\u007f"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("\u2066\u2069\u200f", "\\u2066\\u2069\\u200f"),
        ("\u2028\x85", "\\u2028\\u0085"),
        ("\ud800", "\\ud800"),
    ],
    ids=ascii,
)
def test_what_a_terminal_would_obey_is_spelled_out(text, shown):
    assert clean(text) == shown


@given(st.text())
def test_no_text_keeps_what_a_terminal_obeys(text):
    shown = clean_line(text)
    assert re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown) is None
    shown.encode()


RAW = "\x1b]0;title\x07\x1b[31mred\x9b2J\x7f\u202egpj.exe\u2066"
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_nothing_that_a_command_prints_is_obeyed(capsys):
    say(f"first {RAW}\nsecond")
    complain(f"failed: {RAW}\nfor good")
    table = make_table(f"heading {RAW}", "count")
    table.add_row(f"cell {RAW}", f"{RAW}")
    make_console(piped_width=400).print(table, f"text {RAW}")
    output = capsys.readouterr()
    assert OBEYED.search(output.out) is None
    assert OBEYED.search(output.err) is None
    assert output.out.count("\\u009b2J") == 5
    assert output.err.count("\n") == 1
    assert output.out.startswith("first \\x1b]0;title")
    assert "\nsecond\n" in output.out


def test_json_stays_the_same_json(capsys):
    value = {"text": f"{RAW}\n\t\ud800", RAW: ["\u2028\u200f"]}
    say_json(value)
    say(json.dumps(value, indent=2, ensure_ascii=False))
    output = capsys.readouterr().out
    assert OBEYED.search(output) is None
    first, rest = output.split("\n", 1)
    assert json.loads(first) == json.loads(rest) == value


class Hostile(SingleTask):
    """Prints what a terminal obeys."""

    name = "hostile"

    @tool
    async def shout(self) -> str:
        """Shouts."""
        return f"loud {RAW}"

    @tool
    async def fail(self) -> str:
        """Fails."""
        raise ToolError(f"no {RAW}")


@pytest.mark.parametrize("tool_name", ["shout", "fail"])
def test_the_command_call_prints_nothing_that_is_obeyed(run, tool_name):
    ran = run("call", f"{__name__}:Hostile", tool_name)
    assert OBEYED.search(ran.out + ran.err) is None
    assert "\\u009b2J" in ran.out + ran.err


def test_one_line_stays_one_line():
    assert clean_line("a\nb\tc\r\n") == "a\\nb c\\n"


def test_a_short_text_is_not_cut():
    assert cut("a\nb\n", whole=False) == (["a", "b"], None)
    assert cut("", whole=False) == ([""], None)
    assert cut("x" * MAX_CHARACTERS, whole=False) == (["x" * MAX_CHARACTERS], None)
    assert cut("\n" * MAX_LINES, whole=False) == ([""] * MAX_LINES, None)


@pytest.mark.parametrize(
    ("text", "lines", "notice"),
    [
        ("\n".join("ab" for _ in range(25)), 20, "... 5 more lines, 10 more characters; --full shows them"),
        ("x" * 2001, 1, "... 1 more characters; --full shows them"),
        (f"{'x' * 2000}\nyy", 1, "... 1 more lines, 2 more characters; --full shows them"),
        ("\n" * 21, 20, "... 1 more lines, 0 more characters; --full shows them"),
    ],
    ids=["lines", "characters", "both", "empty lines"],
)
def test_a_long_text_is_cut_with_a_notice(text, lines, notice):
    shown, told = cut(text, whole=False)
    assert (len(shown), told) == (lines, notice)
    whole, told = cut(text, whole=True)
    assert told is None
    assert len("".join(whole)) == len(text.replace("\n", ""))


PAYING = """
from tests.fixtures.single_task import SingleTask
from ors_server import ToolOutput, tool

class Paying(SingleTask):
    name = "paying"

    @tool
    async def submit(self, answer: str) -> ToolOutput:
        \"\"\"Ends the episode.\"\"\"
        return ToolOutput.final("noted", reward=1.0)
"""
GREEN, PLAIN = "\x1b[32m", "\x1b[0m"


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("variables", "stream", "has"),
    [
        ({}, Screen, True),
        ({"NO_COLOR": "1"}, Screen, False),
        ({"NO_COLOR": ""}, Screen, True),
        ({"TERM": "dumb"}, Screen, False),
        ({}, io.StringIO, False),
    ],
)
def test_the_line_of_a_verdict_has_a_colour_for_terminals_that_have_them_and_people_who_want_them(
    variables, stream, has, monkeypatch, tmp_path
):
    for name, value in {"TERM": "xterm", "NO_COLOR": "", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paying.py").write_text(PAYING)
    monkeypatch.setattr("sys.stdout", stream())
    assert main(("call", "paying.py", "submit", '{"answer": "x"}')) == 0
    line = "reward 1, finished"
    assert sys.stdout.getvalue() == f"noted\n{f'{GREEN}{line}{PLAIN}' if has else line}\n"


def test_a_text_cannot_end_its_colour(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    complain("failed: \x1b[0m", style="dim")
    assert screen.getvalue() == "\x1b[2mors-server: failed: \\x1b[0m\x1b[0m\n"


def test_a_message_keeps_the_spaces_of_a_path(capsys):
    complain("failed: /tmp/my  folder/a.toml\n  line 2\t!\n")
    assert capsys.readouterr().err == "ors-server: failed: /tmp/my  folder/a.toml line 2 !\n"


def test_no_line_is_broken_inside_a_path(monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("COLUMNS", "40")
    path = f"/work/{'folder-of-a-long-name/' * 4}file.py"
    say_wrapped(f"The file that was left out of it is {path} and nothing else")
    assert path in screen.getvalue().split()
