"""The rules over an environment's source: flaws in several forms, and honest code that looks like them."""

import ast
import textwrap
from pathlib import Path

import pytest

from ors_server.audit.static_rules import find_suspicious
from ors_server.audit.static_rules.answer_rules import is_exponential

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests/data/static_rules"
HONEST = (
    "Exact",
    "Choices",
    "Tolerant",
    "FirstUse",
    "Shaped",
    "StepCosts",
    "NoAnswer",
    "SmallFormatBonus",
    "OpenBook",
    "SafeSums",
)
HEAD = """
import math, pickle, random, re, secrets, subprocess, time, uuid
from collections import defaultdict
from datetime import datetime
from typing import Any, ClassVar, Literal
import jinja2, requests, sympy, yaml
from string import Template
from ors_server import Environment, ToolOutput, tool
"""
SUBMIT = "return ToolOutput.final('Submitted.', reward=float(self.judge(answer)))"


def judging(body, *, members=""):
    """An environment whose judge has this body."""
    return (
        f"{HEAD}\nclass Made(Environment):\n{textwrap.indent(members, '    ')}\n"
        f"    @tool\n    def submit(self, answer: str) -> ToolOutput:\n        {SUBMIT}\n"
        f"    def judge(self, answer: str) -> float:\n{textwrap.indent(body, '        ')}\n"
    )


def playing(members):
    """An environment with these members."""
    return f"{HEAD}\nclass Made(Environment):\n{textwrap.indent(members, '    ')}\n"


def found_in(source, folder):
    file = folder / "made.py"
    file.write_text(source, encoding="utf-8")
    return {one.rule for one in find_suspicious(file, "Made")}


def cases(name, *, flawed):
    """The pieces of code of a file, each with the rule that finds it; `honest` ones are found by none."""
    blocks = (DATA / name).read_text(encoding="utf-8").split("### ")[1:]
    read = [(rule, code.rstrip()) for rule, _, code in (block.partition("\n") for block in blocks)]
    return [(rule, code) for rule, code in read if (rule != "honest") == flawed]


@pytest.mark.parametrize(("rule", "body"), cases("judges.txt", flawed=True))
def test_a_flawed_judge_is_found_in_every_form(rule, body, tmp_path):
    assert rule in found_in(judging(body), tmp_path)


@pytest.mark.parametrize("body", [code for _, code in cases("judges.txt", flawed=False)])
def test_an_honest_judge_is_not_suspicious(body, tmp_path):
    assert found_in(judging(body), tmp_path) == set()


@pytest.mark.parametrize(("rule", "members"), cases("environments.txt", flawed=True))
def test_a_flawed_environment_is_found_in_every_form(rule, members, tmp_path):
    assert rule in found_in(playing(members), tmp_path)


@pytest.mark.parametrize("members", [code for _, code in cases("environments.txt", flawed=False)])
def test_an_honest_environment_is_not_suspicious(members, tmp_path):
    assert found_in(playing(members), tmp_path) == set()


@pytest.mark.parametrize("body", [code for _, code in cases("judges.txt", flawed=True)])
def test_a_judge_outside_the_class_is_found_as_one_inside(body, tmp_path):
    outside = textwrap.indent(body.replace("self.", "task."), "    ")
    source = (
        f"{HEAD}\ndef judge(task, answer):\n{outside}\n\nclass Made(Environment):\n    @tool\n"
        "    def submit(self, answer: str) -> ToolOutput:\n"
        "        return ToolOutput.final('Submitted.', reward=float(judge(self, answer.strip())))\n"
    )
    inside = found_in(judging(body), tmp_path)
    assert found_in(source, tmp_path) >= inside - {"gold_in_answer", "sentinel"}


def test_a_judge_whose_tool_is_in_another_file_is_read(tmp_path):
    source = (
        "from elsewhere import Questions\nclass Made(Questions):\n"
        "    def judge(self, answer):\n        return float(self.answer in answer)\n"
    )
    assert found_in(source, tmp_path) == {"gold_in_answer"}


def test_a_local_name_is_not_the_module_that_has_it(tmp_path):
    source = (
        judging("return random.random()").replace("random, ", "").replace("answer: str", "answer, random")
    )
    assert found_in(source, tmp_path) == set()


def test_a_generator_that_is_seeded_is_fine(tmp_path):
    seeded = judging("return random.random()", members="def setup(self):\n    random.seed(3)")
    assert found_in(seeded, tmp_path) == set()


def test_what_is_not_python_has_no_findings(tmp_path):
    file = tmp_path / "made.py"
    file.write_text("class Made(:\n")
    assert find_suspicious(file, "Made") == []
    assert find_suspicious(tmp_path / "missing.py", "Made") == []
    file.write_text("x = 1\n")
    assert find_suspicious(file, "Made") == []


def test_names_that_are_made_of_each_other_take_no_time(tmp_path):
    lines = "\n".join(
        f"{one} = {other} + {number}" for number in range(9) for one in "abcd" for other in "abcd"
    )
    assert found_in(judging(f"a = b = c = d = float(answer)\n{lines}\nreturn a"), tmp_path) == {
        "unchecked_float"
    }


def test_an_expression_that_is_too_deep_has_no_findings(tmp_path):
    assert found_in(judging(f"return float(answer == {'-' * 3000}1)"), tmp_path) == set()


def test_a_finding_names_its_line_and_its_class(tmp_path):
    file = tmp_path / "made.py"
    file.write_text(judging("return float(self.answer in answer)"))
    (finding,) = find_suspicious(file, "Made")
    assert (finding.hack_class, finding.rule) == ("H3", "gold_in_answer")
    assert "self.answer in answer" in file.read_text().splitlines()[finding.line - 1]


@pytest.mark.parametrize("name", HONEST)
def test_honest_look_alikes_are_not_suspicious(name):
    assert find_suspicious(ROOT / "tests/fixtures/audited/honest.py", name) == []


def bundled():
    for file in sorted(ROOT.glob("tasks/*/environment.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef):
                yield pytest.param(file, node.name, id=f"{file.parent.name}.{node.name}")


@pytest.mark.parametrize(("file", "name"), list(bundled()))
def test_bundled_environments_are_not_suspicious(file, name):
    assert find_suspicious(file, name) == []


@pytest.mark.parametrize(
    ("module", "name", "hack_class"),
    [
        ("development_answers", "Mentions", "H3"),
        ("development_answers", "HiddenInThePrompt", "H9"),
        ("development_answers", "Trusting", "H11"),
        ("development_answers", "Closeness", "H12"),
        ("development_answers", "Backtracking", "H15"),
        ("development_answers", "Calculating", "H16"),
        ("development_answers", "Moody", "H17"),
        ("development_answers", "BackDoor", "H21"),
        ("development_episodes", "Berries", "H5"),
        ("development_episodes", "SharedScore", "H22"),
        ("sandboxed", "OwnTests", "H8"),
    ],
)
def test_planted_flaws_are_found_and_nothing_else(module, name, hack_class):
    found = find_suspicious(ROOT / f"tests/fixtures/audited/{module}.py", name)
    assert [one.hack_class for one in found] == [hack_class]


@pytest.mark.parametrize("pattern", [r"(\w+\s?)*$", r"(a*)*b", r"(?:a+)+b", r"(x|a+)*b", r"(\s*\w+\s*)*!"])
def test_nested_repetitions_that_share_characters_are_exponential(pattern):
    assert is_exponential(pattern, is_whole=False)


@pytest.mark.parametrize(
    "pattern",
    [r"(\w+\s?)*", r"(\w+\s)*$", r"(a+)?b", r"(a+){2}b", r"a+b+$", r"(\w+\b\s?)*$", r"(a++)*b", "(", ""],
)
def test_other_patterns_are_not_exponential(pattern):
    assert not is_exponential(pattern, is_whole=False)
