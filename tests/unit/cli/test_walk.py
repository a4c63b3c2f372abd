"""What a newcomer types at a terminal, and what they see."""

import os
import sys
from pathlib import Path

import pytest

from tests.fixtures.terminal import CTRL_D, ENTER, LEFT, TAB, UP, Terminal

BIN = str(Path(sys.executable).parent / "ors-server")
ROOT = Path(__file__).parents[3]
AGENT = """
async def crash(seat):
    answer = {}
    return answer["number"]
"""
SLOW = """
import time
from ors_server import Environment, EpisodePolicy, Split, tool


class Slow(Environment):
    policy = EpisodePolicy(invalid_call_penalty=0.5)

    @classmethod
    def list_splits(cls):
        return [Split(name="train", type="train")]

    @classmethod
    def list_tasks(cls, split):
        return [{}]

    def get_prompt(self):
        return "Words that stand in a row, one after the other, " * 4 + "\\n\\tan indented \\x1b[31mline"

    @tool
    async def add(self, left: int, right: int = 1) -> str:
        \"\"\"Adds two numbers.

        Args:
            left: The first.
            right: The second.
        \"\"\"
        return str(left + right)
"""


@pytest.fixture
def terminal(tmp_path):
    """Starts commands at terminals of their own."""
    started = []
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ORS_")},
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "TERM": "xterm",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }

    def start(*words, **variables):
        found = Terminal(sys.executable, BIN, *words, cwd=tmp_path, environ={**environ, **variables})
        started.append(found)
        return found

    yield start
    for each in started:
        each.close()


def play(terminal, tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    screen = terminal("play", "slow.py")
    screen.expect("cost nothing.")
    screen.expect("> ")
    return screen


def test_lines_are_edited_and_the_history_outlives_the_program(terminal, tmp_path):
    screen = play(terminal, tmp_path)
    screen.type('add {"left": 41, "right: 1}' + LEFT * 4 + '"' + ENTER)
    screen.expect("\n42\n")
    screen.expect("> ")
    screen.type(UP + LEFT + "0" + ENTER)
    screen.expect("\n51\n")
    screen.expect("> ")
    screen.type("ad" + TAB + '{"left": 1}' + ENTER)
    screen.expect("\n2\n")
    screen.expect("> ")
    screen.type(CTRL_D)
    screen.expect("playing: 3 steps, return 0")
    assert screen.wait() == 0
    again = play(terminal, tmp_path)
    again.type(UP + ENTER)
    again.expect("\n2\n")
    again.expect("> ")
    again.type(":quit" + ENTER)
    assert again.wait() == 0


def test_typing_mistakes_cost_a_person_nothing(terminal, tmp_path):
    screen = play(terminal, tmp_path)
    for line, answer in (
        ("ad 3", "there is no tool 'ad'; did you mean 'add'? Nothing was called."),
        ("fly", "there is no tool 'fly'; the tools are add. Nothing was called."),
        ("add {", "the arguments are not JSON"),
        ("add [1]", "the arguments are a JSON object, not [1]. Nothing was called."),
        ('add {"left": "x"}', "left: 'x' is not of type 'integer'. Nothing was called."),
        ('add {"right": 1}', "'left' is a required property. Nothing was called."),
    ):
        screen.type(line + ENTER)
        screen.expect(f"! {answer}")
        screen.expect("> ")
    screen.type("add" + ENTER)
    screen.expect("left (The first.): ")
    screen.type("x" + ENTER)
    screen.expect("right (The second., optional): ")
    screen.type(ENTER)
    screen.expect("Nothing was called.")
    screen.expect("> ")
    screen.type(":quit" + ENTER)
    screen.expect("ready: 0 steps, return 0\n")
    assert screen.wait() == 0


def test_ctrl_c_drops_the_line_and_a_second_one_ends_the_episode(terminal, tmp_path):
    screen = play(terminal, tmp_path)
    screen.type("add {")
    screen.expect("add {")
    screen.interrupt("(line dropped; Ctrl-C again, Ctrl-D or :quit ends the episode)\n> ")
    screen.type("add" + ENTER)
    screen.expect("left (The first.): ")
    screen.type("4")
    screen.expect("4")
    screen.interrupt("(line dropped")
    screen.expect("> ")
    screen.type('add {"left": 1}' + ENTER)
    screen.expect("\n2\n")
    screen.expect("> ")
    screen.interrupt("(line dropped")
    screen.expect("> ")
    screen.interrupt("playing: 1 steps, return 0")
    assert screen.wait() == 130
    assert "Traceback" not in screen.shown


def test_words_wrap_at_the_width_of_the_terminal_and_nothing_obeys_the_author(terminal, tmp_path):
    screen = play(terminal, tmp_path)
    prompt = screen.shown.partition("add(left")[0].rstrip().splitlines()
    assert max(map(len, prompt)) <= 80
    whole = "Words that stand in a row, one after the other, " * 4
    assert " ".join(line.strip() for line in prompt[:-1]).split() == whole.split()
    assert "line" in prompt[-1]
    assert r"\x1b[31m" in prompt[-1]


def test_a_newcomer_walks_from_the_doctor_to_a_crashing_agent(terminal, tmp_path):  # noqa: PLR0915  (one walk)
    screen = terminal("doctor")
    screen.expect("ok   python ")
    screen.expect("optional missing, 0 problems")
    assert screen.wait() == 0

    screen = terminal("new", "sums")
    screen.expect("made sums\nNext:\n  ors-server check ./sums\n")
    assert screen.wait() == 0
    screen = terminal("check", "./sums", "--quiet")
    screen.expect(" 0 failed")
    assert screen.wait() == 0

    screen = terminal("play", "./sums", "--split", "test")
    screen.expect("What is 10000 + 10000?")
    screen.expect("> ")
    screen.type("sumbit" + ENTER)
    screen.expect("did you mean 'submit'? Nothing was called.")
    screen.expect("> ")
    screen.type("sub" + TAB + '{"answer": 2000}' + LEFT + "0")
    screen.expect('submit {"answer": 2000}')
    screen.expect("0}")
    screen.interrupt("(line dropped")
    screen.expect("> ")
    screen.type("submit" + ENTER)
    screen.expect("answer (A whole number.): ")
    screen.type("2000" + ENTER)
    screen.expect("finished, completed: 1 steps, return 0")
    assert screen.wait() == 0
    again = terminal("play", "./sums", "--split", "test")
    again.expect("> ")
    again.type(UP + UP + ENTER)
    again.expect("answer (A whole number.): ")
    again.type(UP * 3 + LEFT * 9 + "z")
    again.expect("z")  # a Ctrl-C in the middle of an arrow key's bytes would wait for the next key
    again.interrupt("(line dropped")
    again.expect("> ")
    again.type('submit {"answer": 2000}' + LEFT + "0" + ENTER)
    again.expect("finished, completed: 1 steps, return 1")
    assert again.wait() == 0

    (tmp_path / "ors.toml").write_text('environments = ["./sums"]\nprot = 9000\n')
    screen = terminal("serve", "--config", "ors.toml")
    screen.expect("ors-server: ors.toml, line 2: unknown setting 'prot', did you mean 'port'?\n")
    assert screen.wait() == 2

    (tmp_path / "agent.py").write_text(AGENT)
    screen = terminal("eval", "./sums", "--agent", "agent.py:crash", "--limit", "2", "--output", "run")
    screen.expect("2 attempts errored: in no mean")
    screen.expect("2 of 2 attempts failed: KeyError: 'number' (agent.py:4); first at test/0, attempt 1\n")
    screen.expect("details: run/attempts.jsonl, tracebacks and logs in run/logs\n")
    assert screen.wait() == 1

    screen = terminal("episodes", "list")
    screen.expect("agent=agent.py:crash")
    assert screen.wait() == 0
