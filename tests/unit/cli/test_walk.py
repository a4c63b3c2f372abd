"""What a newcomer types at a terminal, and what they see."""

import os
import sys
from pathlib import Path

import pytest

from tests.fixtures.terminal import CTRL_D, LEFT, TAB, UP, Terminal

ROOT = Path(__file__).parents[3]
AGENT = """
async def crash(seat):
    answer = {}
    return answer["number"]
"""
SLOW = """
import time
from ors_server import EpisodePolicy, tool
from tests.fixtures.single_task import SingleTask


class Slow(SingleTask):
    policy = EpisodePolicy(invalid_call_penalty=0.5)

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
        screen = Terminal(*words, cwd=tmp_path, environ={**environ, **variables})
        started.append(screen)
        return screen

    yield start
    for each in started:
        each.close()


def play(terminal, tmp_path, **variables):
    (tmp_path / "slow.py").write_text(SLOW)
    screen = terminal("play", "slow.py", **variables)
    screen.expect("cost nothing.")
    screen.expect("> ")
    return screen


def test_lines_are_edited_and_the_history_outlives_the_program(terminal, tmp_path):
    screen = play(terminal, tmp_path)
    screen.enter('add {"left": 41, "right: 1}' + LEFT * 4 + '"', "\n42\n", "> ")
    screen.enter(UP + LEFT + "0", "\n51\n", "> ")
    screen.enter("ad" + TAB + '{"left": 1}', "\n2\n", "> ")
    screen.type(CTRL_D)
    screen.ends("playing: 3 steps, return 0")
    again = play(terminal, tmp_path)
    again.enter(UP, "\n2\n", "> ")
    again.enter(":quit")
    again.ends()


def test_typing_mistakes_cost_a_person_nothing(terminal, tmp_path):
    screen = play(terminal, tmp_path)
    for line, answer in (
        ("ad 3", "unknown tool 'ad'; did you mean 'add'? Nothing was called."),
        ("fly", "unknown tool 'fly'; expected one of add. Nothing was called."),
        ("add {", "the arguments are not JSON"),
        ("add [1]", "the arguments must be a JSON object, got [1]. Nothing was called."),
        ('add {"left": "x"}', "left: 'x' is not of type 'integer'. Nothing was called."),
        ('add {"right": 1}', "'left' is a required property. Nothing was called."),
    ):
        screen.enter(line, f"! {answer}", "> ")
    screen.enter("add", "left (The first.): ")
    screen.enter("x", "right (The second., optional): ")
    screen.enter("", "Nothing was called.", "> ")
    screen.enter(":quit")
    screen.ends("ready: 0 steps, return 0\n")


def test_ctrl_c_drops_the_line_and_a_second_one_ends_the_episode(terminal, tmp_path):
    screen = play(terminal, tmp_path)
    screen.type("add {")
    screen.expect("add {")
    screen.interrupt("(line dropped; Ctrl-C again, Ctrl-D or :quit ends the episode)\n> ")
    screen.enter("add", "left (The first.): ")
    screen.type("4")
    screen.expect("4")
    screen.interrupt("(line dropped")
    screen.expect("> ")
    screen.enter('add {"left": 1}', "\n2\n", "> ")
    screen.interrupt("(line dropped")
    screen.expect("> ")
    screen.interrupt("playing: 1 steps, return 0")
    assert screen.wait() == 130
    assert "Traceback" not in screen.shown


def test_words_wrap_at_the_width_of_the_terminal_and_nothing_obeys_the_author(terminal, tmp_path):
    screen = play(terminal, tmp_path, ORS_TEST_PREPARED="0")  # once in an interpreter that has just started
    prompt = screen.shown.partition("add(left")[0].rstrip().splitlines()
    assert max(map(len, prompt)) <= 80
    whole = "Words that stand in a row, one after the other, " * 4
    assert " ".join(line.strip() for line in prompt[:-1]).split() == whole.split()
    assert "line" in prompt[-1]
    assert r"\x1b[31m" in prompt[-1]


def test_a_newcomer_walks_from_the_doctor_to_a_crashing_agent(terminal, tmp_path):
    terminal("doctor").ends("ok   python ", "optional missing, 0 problems")
    terminal("new", "sums").ends("made sums\nNext:\n  ors-server check ./sums\n")
    terminal("check", "./sums", "--quiet").ends(" 0 failed")

    screen = terminal("play", "./sums", "--split", "test")
    screen.expect("What is 10000 + 10000?")
    screen.expect("> ")
    screen.enter("sumbit", "did you mean 'submit'? Nothing was called.", "> ")
    screen.type("sub" + TAB + '{"answer": 2000}' + LEFT + "0")
    screen.expect('submit {"answer": 2000}')
    screen.expect("0}")
    screen.interrupt("(line dropped")
    screen.expect("> ")
    screen.enter("submit", "answer (A whole number.): ")
    screen.enter("2000")
    screen.ends("finished, completed: 1 steps, return 0")
    again = terminal("play", "./sums", "--split", "test")
    again.expect("> ")
    again.enter(UP + UP, "answer (A whole number.): ")
    again.type(UP * 3 + LEFT * 9 + "z")
    again.expect("z")  # a Ctrl-C in the middle of an arrow key's bytes would wait for the next key
    again.interrupt("(line dropped")
    again.expect("> ")
    again.enter('submit {"answer": 2000}' + LEFT + "0")
    again.ends("finished, completed: 1 steps, return 1")

    (tmp_path / "ors.toml").write_text('environments = ["./sums"]\nprot = 9000\n')
    said = "ors-server: ors.toml, line 2: unknown setting 'prot', did you mean 'port'?\n"
    terminal("serve", "--config", "ors.toml").ends(said, status=2)

    (tmp_path / "agent.py").write_text(AGENT)
    screen = terminal("eval", "./sums", "--agent", "agent.py:crash", "--limit", "2", "--output", "run")
    screen.ends(
        "2 attempts errored and are in no mean",
        "2 of 2 attempts failed: KeyError: 'number' (agent.py:4); first at test/0, attempt 1\n",
        "details: run/attempts.jsonl, tracebacks and logs in run/logs\n",
        status=1,
    )
    terminal("episodes", "list").ends("agent=agent.py:crash")
