"""What gold and blank actions earn is compared as returns, under one seed, for a sample or for every task."""

import time
from typing import ClassVar

import pytest

from ors_server import Environment, EpisodePolicy, ToolOutput, tool
from ors_server.cli.main import main
from ors_server.environments.loading import define
from ors_server.testing import check_environment, environment_suite

KNOWN = ("gold-earns-the-most", "blank-earns-the-least")


class Dense(Environment):
    """Pays for each of three words, and charges for wrong ones."""

    policy = EpisodePolicy(reward_range=(-1.0, 1.0), tool_error_penalty=0.1)
    return_range: ClassVar[tuple[float, float] | None] = (0.0, 0.75)

    @classmethod
    def list_splits(cls):
        return ["train", "test"]

    @classmethod
    def list_tasks(cls, split):
        return [{"id": f"{split}-{i}", "words": [f"a{i}", f"b{i}", f"c{i}"]} for i in range(12)]

    @classmethod
    def gold_actions(cls, task_spec):
        return [("say", {"word": word}) for word in task_spec["words"]]

    @classmethod
    def blank_actions(cls, task_spec):
        return [("say", {"word": ""})]

    def setup(self):
        self.left = list(self.task_spec["words"])

    def get_prompt(self):
        return "Say the words."

    @tool
    def say(self, word: str) -> ToolOutput:
        """Says a word."""
        if word not in self.left:
            return ToolOutput.ongoing("no", reward=0.0)
        self.left.remove(word)
        return ToolOutput(reward=0.25, finished=not self.left)


class Undeclared(Dense):
    return_range = None


class Wrong(Dense):
    @classmethod
    def gold_actions(cls, task_spec):
        words = super().gold_actions(task_spec)
        return words[:2] if task_spec["id"].endswith(("-4", "-8", "-10")) else words


class WrongUndeclared(Undeclared):
    @classmethod
    def gold_actions(cls, task_spec):
        return [("say", {"word": "z"})]


class Generous(Dense):
    @classmethod
    def blank_actions(cls, task_spec):
        return cls.gold_actions(task_spec)[:1]


class GenerousUndeclared(Undeclared):
    @classmethod
    def blank_actions(cls, task_spec):
        return cls.gold_actions(task_spec)


class Dice(Dense):
    """Draws its chances from the session's source."""

    @tool
    def roll(self) -> str:
        """Rolls a die."""
        return str(self.rng.randrange(10**9))

    @classmethod
    def gold_actions(cls, task_spec):
        return [("roll", {}), *super().gold_actions(task_spec)]


class Clock(Dice):
    """Tells a time that it declares volatile."""

    volatile: ClassVar[tuple[str, ...]] = (r"at \d+",)

    @tool
    def roll(self) -> str:
        """Says when."""
        return f"at {time.perf_counter_ns()}"


class UndeclaredClock(Clock):
    volatile = ()


class Slow(Dense):
    """Takes its time."""

    @tool
    def say(self, word: str) -> ToolOutput:
        """Says a word, slowly."""
        time.sleep(0.4)
        return super().say(word)


def outcomes(environment, *only, **wishes):
    report = check_environment(environment, only=only or KNOWN, **wishes)
    return [verdict.outcome for verdict in report.verdicts], str(report)


@pytest.mark.parametrize("environment", [Dense, Undeclared])
def test_rewards_that_are_paid_in_parts_pass(environment):
    assert outcomes(environment)[0] == ["pass", "pass"]


def test_wrong_gold_is_found_among_all_tasks_and_named():
    assert outcomes(Wrong, KNOWN[0], tasks_per_split=1)[0] == ["pass"]
    (outcome,), text = outcomes(Wrong, KNOWN[0], all_tasks=True)
    assert outcome == "fail"
    assert "6 of 24 tasks (task 4 of split 'train', task 8 of split 'train', task 10 of split 'train'" in text
    assert "and 1 more" in text
    assert "gold_actions must return 0.75, the high end of return_range, got 0.5" in text


def test_without_a_range_gold_earns_more_than_anything_else():
    (outcome,), text = outcomes(WrongUndeclared, KNOWN[0])
    assert outcome == "fail"
    assert "gold_actions return 0 and blank_actions 0" in text
    assert "declare return_range" in text


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (Generous, "blank_actions must return at most 0, the low end of return_range, got 0.25"),
        (GenerousUndeclared, "blank_actions return 0.75 and gold_actions 0.75"),
    ],
)
def test_blank_actions_that_earn_something_are_found(environment, words):
    (outcome,), text = outcomes(environment, KNOWN[1])
    assert outcome == "fail"
    assert words in text


def test_an_environment_that_rolls_dice_repeats_itself_under_one_seed():
    only = ("calls-are-repeatable", "sessions-are-apart", *KNOWN)
    assert outcomes(Dice, *only, tasks_per_split=1)[0] == ["pass"] * 4


def test_what_is_declared_volatile_is_not_compared():
    only = ("calls-are-repeatable", "sessions-are-apart")
    assert outcomes(Clock, *only, tasks_per_split=1)[0] == ["pass"] * 2
    assert outcomes(UndeclaredClock, *only, tasks_per_split=1)[0] == ["fail", "skip"]


def test_the_limit_is_that_of_one_call_and_the_call_is_named(monkeypatch):
    monkeypatch.setattr(environment_suite, "TIME_LIMIT", 2.0)
    assert outcomes(Slow, KNOWN[0])[0] == ["pass"]
    monkeypatch.setattr(environment_suite, "TIME_LIMIT", 0.2)
    (outcome,), text = outcomes(Slow, KNOWN[0])
    assert outcome == "fail"
    assert "task 0 of split 'train': say took longer than" in text


def test_all_on_the_command_line_plays_every_task(monkeypatch, capsys):
    monkeypatch.setattr("ors_server.testing.environment_suite.definitions_of", lambda _: [define(Wrong)])
    assert main(["check", "any", "--only", KNOWN[0], "--tasks", "1"]) == 0
    assert main(["check", "any", "--only", KNOWN[0], "--tasks", "1", "--all"]) != 0
    assert "6 of 24 tasks" in capsys.readouterr().out


def test_a_terminal_is_shown_what_is_being_done(monkeypatch, capsys):
    monkeypatch.setattr("ors_server.testing.environment_suite.definitions_of", lambda _: [define(Wrong)])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["check", "any", "--only", KNOWN[0], "--tasks", "1"]) == 0
    shown = capsys.readouterr()
    assert "gold-earns-the-most" in shown.err
    assert "1 passed" in shown.out
