"""Commands where a requirement is missing: one line at the start, with what installs it."""

import json
import os
import sys
from importlib import util

import pytest

from ors_server.installation import install_hint


@pytest.fixture
def java(monkeypatch, tmp_path):
    """The path of a program java, which there is none of but this."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path / "java"


def test_java_that_is_missing_is_said_at_the_start(run, java):
    assert not java.exists()
    ran = run("serve", "scienceworld", "--port", "0")
    (line,) = ran.err.splitlines()
    assert ran.status == 1
    assert "Java not installed: run apt-get" in line
    assert "apt-get install -y --no-install-recommends openjdk-17-jre-headless" in line


@pytest.mark.parametrize("package", ["py4j", "scienceworld"])
def test_a_package_that_is_missing_is_said_at_the_start(run, java, monkeypatch, package):
    java.touch(0o755)
    installed = util.find_spec("ors_server")
    monkeypatch.setattr(
        "ors_server_tasks.scienceworld.game.find_spec", lambda name: None if name == package else installed
    )
    ran = run("serve", "scienceworld", "--port", "0")
    (line,) = ran.err.splitlines()
    assert ran.status == 1
    assert f"{package} not installed: run {install_hint('scienceworld')}" in line


def test_a_mistyped_name_is_answered_with_what_can_be_used_here(run, java):
    assert not java.exists()
    ran = run("list", "qaa")
    assert "did you mean 'qa'? Expected an installed one (" in ran.err
    assert "math_word_problems" in ran.err
    assert "scienceworld" not in ran.err
    ran = run("list", "scienceworlt")
    assert "did you mean 'scienceworld' (not installed: ors-server doctor shows how)?" in ran.err


def test_a_url_is_answered_with_the_commands_that_take_one(run):
    ran = run("play", "http://127.0.0.1:1")
    assert ran.status == 2
    assert "http://127.0.0.1:1 is a URL: expected an environment of this machine" in ran.err


ROUGED = """
from ors_server import Environment, Split, ToolOutput, tool
from ors_server.rewards import {reward}

class Rouged(Environment):
    name = "rouged"
    reward = {reward}

    @classmethod
    def list_splits(cls):
        return [Split(name="test", type="test")]

    @classmethod
    def list_tasks(cls, split):
        return [{{"question": "Which river?", "answer": "the Loire"}}] * 3

    @classmethod
    def gold_actions(cls, task_spec):
        return [("submit", {{"answer": task_spec["answer"]}})]

    def get_prompt(self):
        return self.task_spec["question"]

    @tool
    async def submit(self, answer: str) -> ToolOutput:
        '''Submits.'''
        return ToolOutput(blocks=[], finished=True)
"""
DATA = ("--prompt", "question", "--answer", "answer", "--reward")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three rows, an environment for each of two rewards, and no package rapidfuzz."""
    for name in [name for name in os.environ if name.startswith("ORS_")]:
        monkeypatch.delenv(name)
    row = json.dumps({"question": "Which river?", "answer": "the Loire", "final_response": "the Loire"})
    (tmp_path / "rows.jsonl").write_text(f"{row}\n" * 3)
    (tmp_path / "rouged.py").write_text(ROUGED.format(reward="rouge_l_reward"))
    (tmp_path / "judged.py").write_text(ROUGED.format(reward="llm_as_judge_reward"))
    absent = tmp_path / "absent/rapidfuzz"
    absent.mkdir(parents=True)
    (absent / "__init__.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(str(absent.parent))  # of worker processes too
    for name in ("rapidfuzz", "rapidfuzz.distance"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("score", "rows.jsonl", "--reward", "rouge_l_reward"), 2),
        (("regrade", "--all", "--reward", "rouge_l_reward"), 2),
        (("check", "rows.jsonl", *DATA, "rouge_l_reward"), 2),
        (("serve", "rows.jsonl", *DATA, "rouge_l_reward", "--port", "0"), 2),
        (("eval", "rows.jsonl", *DATA, "rouge_l_reward", "--agent", "oracle"), 2),
        (("check", "rouged.py"), 1),
        (("audit", "rouged.py"), 1),
        (("eval", "rouged.py", "--agent", "oracle"), 1),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_a_package_that_the_reward_needs_is_missed_once_and_before_any_work(run, folder, words, status):
    ran = run(*words)
    assert (ran.status, ran.out) == (status, "")
    assert ran.err.count("this reward needs the package rapidfuzz") == 1
    assert install_hint("text") in ran.err
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("score", "rows.jsonl", "--reward", "llm_as_judge_reward"),
        ("regrade", "--all", "--reward", "llm_judge_reward"),
        ("eval", "rows.jsonl", *DATA, "llm_as_judge_reward", "--agent", "oracle"),
        ("eval", "judged.py", "--agent", "oracle"),
    ],
    ids=" ".join,
)
def test_a_judge_that_is_not_configured_is_missed_once_and_before_any_work(run, folder, words):
    ran = run(*words)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.count("no judge is configured: set ORS_JUDGE_BASE_URL") == 1
    assert not (folder / "runs").exists()


def test_check_names_a_judge_that_is_not_configured_once(run, folder):
    ran = run("check", "judged.py", "--quiet")
    assert ran.status == 1
    assert ran.out.count("no judge is configured") == 1
