"""`ors-server new`: creates a new environment, with tests that pass."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ors_server.cli.command_output import CommandError, MisuseError, say

INIT = '''"""The environment `{name}`."""

from .environment import {title}

__all__ = ["{title}"]
'''

ENVIRONMENT = '''"""Sums of two numbers: an example to write your own environment over."""

from typing import Any

from ors_server import Environment, EpisodePolicy, Split, ToolOutput, tool

SIZES = {{"train": 100, "test": 20}}


class {title}(Environment):
    """Asks for the sum of two whole numbers; reward 1.0 for the right answer and 0.0 for a wrong one."""

    name = "{name}"
    version = "1"
    policy = EpisodePolicy(step_limit=5, reward_range=(0.0, 1.0), invalid_call_penalty=0.1)
    answer_fields = ("answer",)

    @classmethod
    def list_splits(cls) -> list[Split]:
        return [Split(name="train", type="train"), Split(name="test", type="test")]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        start = 10 if split == "train" else 10_000
        return [
            {{"id": f"{{split}}-{{i}}", "a": start + 3 * i, "b": start + 7 * i, "answer": 2 * start + 10 * i}}
            for i in range(SIZES[split])
        ]

    @classmethod
    def gold_actions(cls, task_spec: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """Tool calls that earn the most; `ors-server check` makes them."""
        return [("submit", {{"answer": task_spec["answer"]}})]

    @classmethod
    def blank_actions(cls, task_spec: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """Tool calls that earn the least; `ors-server check` makes them."""
        return [("submit", {{"answer": -1}})]

    def get_prompt(self) -> str:
        return f"What is {{self.task_spec['a']}} + {{self.task_spec['b']}}? Call submit with the number."

    @tool
    async def submit(self, answer: int) -> ToolOutput:
        """Submits the answer, which ends the episode.

        Args:
            answer: A whole number.
        """
        is_right = answer == self.task_spec["answer"]
        return ToolOutput.final("Right." if is_right else "Wrong.", reward=1.0 if is_right else 0.0)
'''

TESTS = '''"""Tests of `{name}`: it keeps the rules of every environment, and its own."""

from pathlib import Path

import pytest

from ors_server.testing import CallRefusedError, check_environment, play

HERE = str(Path(__file__).parent)


def test_it_keeps_the_rules_of_every_environment():
    report = check_environment(HERE)
    assert not list(report.failed()), report


def test_the_right_answer_pays_one_and_ends_the_episode():
    with play(HERE, split="train", index=3) as episode:
        assert "19 + 31" in episode.prompt
        output = episode.call("submit", answer=50)
        assert (output.reward, output.finished) == (1.0, True)
        assert episode.summary.episode_return == 1.0
        with pytest.raises(CallRefusedError):
            episode.call("submit", answer=50)


def test_a_wrong_answer_pays_nothing():
    with play(HERE) as episode:
        assert episode.call("submit", answer=0).reward == 0.0
'''


@dataclass(frozen=True)
class NewOptions:
    """Options of `new`."""

    name: Annotated[
        str, typer.Argument(help="Name of the environment: lower-case letters, digits, underscores.")
    ]
    directory: Annotated[
        Path,
        typer.Option(
            "--in", help="Folder to make it in.", exists=True, file_okay=False, show_default="this one"
        ),
    ] = Path()


def new(options: NewOptions) -> None:
    """Make the folder of a new environment: a class to write over, and tests that pass."""
    from ors_server.authoring.loading import ENVIRONMENT_NAME, RESERVED_NAMES

    name = options.name
    if not name.isidentifier() or not ENVIRONMENT_NAME.fullmatch(name) or name in RESERVED_NAMES:
        raise MisuseError(
            f"a name is lower-case letters, digits and underscores and not a path's, not {name!r}"
        )
    folder = options.directory / name
    title = "".join(word.title() for word in name.split("_"))
    try:
        folder.mkdir()
    except FileExistsError:
        raise CommandError(f"{folder} exists already; nothing was changed") from None
    for file, text in (("__init__", INIT), ("environment", ENVIRONMENT), (f"test_{name}", TESTS)):
        (folder / f"{file}.py").write_text(text.format(name=name, title=title), encoding="utf-8")
    say(f"made {folder}")
    place = shlex.quote(str(folder) if folder.is_absolute() else f"./{folder}")
    say("Next:")
    for command in (f"ors-server check {place}", f"ors-server play {place}", f"ors-server serve {place}"):
        say(f"  {command}")
    say(f"  pytest {place}")
