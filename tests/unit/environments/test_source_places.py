"""An author's exception names its type, message, file and line wherever an author or a trainer reads it."""

import io
import json
import logging
from fractions import Fraction

import pytest

from ors_server.cli.main import main
from ors_server.environments.source_places import location_of, location_of_error

QUIZ = """\
from ors_server import ToolOutput, tool
from tests.fixtures.single_task import SingleTask


class Quiz(SingleTask):
    @tool
    def say(self) -> ToolOutput:
        \"\"\"Answers.\"\"\"
        return deep(self.task_spec)


def deep(task):
    return task["gold"]
"""
SAID = "KeyError: 'gold' (quiz.py:13)"


@pytest.fixture(autouse=True)
def quiz(tmp_path, monkeypatch):
    (tmp_path / "quiz.py").write_text(QUIZ)
    monkeypatch.chdir(tmp_path)


def test_every_command_and_the_log_name_it(capsys, caplog, monkeypatch, tmp_path):
    with caplog.at_level(logging.WARNING, logger="ors_server"):
        main(["call", "quiz.py", "say"])
    assert f"failed: {SAID}" in capsys.readouterr().out
    assert "quiz.py:13" in caplog.text
    monkeypatch.setattr("sys.stdin", io.StringIO("say\n"))
    main(["play", "quiz.py"])
    assert SAID in capsys.readouterr().out
    main(["eval", "quiz.py", "--agent", "random", "--output", str(tmp_path / "out")])
    shown = capsys.readouterr()
    attempts = "".join(path.read_text() for path in (tmp_path / "out").rglob("*.jsonl"))
    assert SAID in shown.err
    assert SAID in attempts


def test_the_line_is_the_innermost_of_the_author_s_own():
    def outer():
        return json.loads("{")

    try:
        outer()
    except ValueError as error:
        place = location_of_error(error)
    line = outer.__code__.co_firstlineno + 1
    assert place.endswith(f"test_source_places.py:{line}")
    assert location_of(outer).endswith(f"test_source_places.py:{line - 1}")


def test_what_has_no_place_is_said_to_have_none():
    assert location_of(5) == location_of(len) == location_of_error(ValueError("never raised")) == ""
    assert location_of(Fraction).endswith("fractions.py:" + location_of(Fraction).rpartition(":")[2])
