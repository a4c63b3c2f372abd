"""The survey of tasks: what is equal across and within splits, in declared files and in classes."""

import json

import anyio
import pytest

from ors_server import Environment, Split, ToolOutput, tool
from ors_server.environments.loading import define, definitions_of
from ors_server.resources.resource_pool import ResourcePool
from ors_server.testing import check_environment, task_survey
from ors_server.testing.task_survey import digest, normalise, share_out, survey_tasks

CHECKS = ("splits-are-disjoint", "golds-agree", "tasks-are-distinct")


@pytest.fixture
def declared(tmp_path):
    """Makes a declared environment of (question, answer) rows by split, and returns its folder."""

    def make(reward="exact_match_reward", extra="", **splits):
        declaration = (
            f'name = "quiz"\nprompt = "question"\nanswer = "answer"\nreward = "{reward}"\n{extra}[splits]\n'
        )
        for split, rows in splits.items():
            lines = [json.dumps({"question": question, "answer": answer}) for question, answer in rows]
            (tmp_path / f"{split}.jsonl").write_text("".join(f"{line}\n" for line in lines))
            declaration += f'{split} = "{split}.jsonl"\n'
        (tmp_path / "environment.toml").write_text(declaration)
        return str(tmp_path)

    return make


def verdicts_of(environment):
    report = check_environment(environment, only=CHECKS)
    return report, {verdict.check.id: (verdict.outcome, verdict.reason) for verdict in report.verdicts}


def survey(environment):
    async def run():
        (definition,) = definitions_of(environment) if isinstance(environment, str) else [define(environment)]
        async with ResourcePool() as resources:
            return await survey_tasks(definition, resources)

    return anyio.run(run)


def test_a_declared_row_in_train_and_test_is_a_failure_with_its_places(declared):
    folder = declared(train=[("2+2", "4"), ("3+3", "6")], test=[("5+5", "10"), ("3+3", "6")])
    report, verdicts = verdicts_of(folder)
    outcome, reason = verdicts["splits-are-disjoint"]
    assert outcome == "fail"
    assert "1 of 2 tasks of split 'test'" in reason
    assert "train and test indices 1 and 1" in reason
    assert not report.is_conformant
    assert verdicts["golds-agree"] == verdicts["tasks-are-distinct"] == ("pass", "")


def test_rows_that_differ_in_case_spaces_and_zeros_of_the_gold_have_the_same_gold(declared):
    folder = declared(
        train=[("2+2", "4"), ("capital", "Paris")], validation=[("2+2", "4.0"), ("capital", " paris")]
    )
    _, verdicts = verdicts_of(folder)
    assert "2 of 2 tasks of split 'validation'" in verdicts["splits-are-disjoint"][1]
    assert verdicts["golds-agree"][0] == "pass"


def test_a_prompt_with_two_golds_is_a_failure_across_and_within_splits(declared):
    folder = declared(train=[("2+2", "4"), ("2+2", "5"), ("1+1", "2")], test=[("1+1", "3")])
    report, verdicts = verdicts_of(folder)
    outcome, reason = verdicts["golds-agree"]
    assert outcome == "fail"
    assert (
        "1 of 3 tasks of split 'train' have the prompt, but not the gold, of an earlier one (indices 0 and 1)"
        in reason
    )
    assert "1 of 1 tasks of split 'test'" in reason
    assert not report.is_conformant
    assert verdicts["splits-are-disjoint"][0] == "pass"


def test_lists_of_golds_that_share_one_do_not_contradict(declared):
    folder = declared(train=[("capital", ["Paris", "Paname"]), ("capital", ["Lutetia", "paris"])])
    _, verdicts = verdicts_of(folder)
    assert verdicts["golds-agree"][0] == "pass"
    assert verdicts["tasks-are-distinct"][0] == "fail"


def test_a_row_twice_in_a_split_is_a_warning_with_counts_and_the_first_pairs(declared):
    folder = declared(train=[("2+2", "4")] * 9 + [("1+1", "2")])
    report, verdicts = verdicts_of(folder)
    outcome, reason = verdicts["tasks-are-distinct"]
    assert outcome == "fail"
    assert "8 of 10 tasks of split 'train'" in reason
    assert "(indices 0 and 1, 0 and 2, 0 and 3, ...)" in reason
    assert report.is_conformant


def test_different_files_make_different_tasks_of_the_same_prompt(declared):
    files = 'toolsets = ["files"]\nfiles = { "data.txt" = "answer" }\n'
    folder = declared(extra=files, train=[("Repeat data.txt", "a"), ("Repeat data.txt", "b")])
    found = survey(folder)
    assert found.prompts == 2
    assert found.leak_text == found.contradiction_text == found.repeat_text == ""


class Hidden(Environment):
    """Its tool tells what the prompt does not."""

    @classmethod
    def list_splits(cls):
        return [Split(name="train", type="train"), Split(name="dev", type="validation")]

    @classmethod
    def list_tasks(cls, split):
        return [{"id": f"{split}{number}", "word": f"{split}{number}"} for number in range(3)]

    @classmethod
    def gold_actions(cls, task_spec):
        return [("look", {}), ("guess", {"word": task_spec["word"]})]

    def get_prompt(self):
        return "Look, and guess."

    @tool
    def look(self) -> str:
        """Looks."""
        return str(self.task_spec["word"])

    @tool
    def guess(self, word: str) -> ToolOutput:
        """Guesses."""
        return ToolOutput.final("noted", reward=float(word == self.task_spec["word"]))


class Guessed(Hidden):
    """Its only tool answers a wrong guess, and the episode goes on."""

    @classmethod
    def gold_actions(cls, task_spec):
        return [("say", {"word": task_spec["word"]})]

    look = guess = None  # type: ignore[assignment]  # tools that this game does not have

    @tool
    def say(self, word: str) -> ToolOutput:
        """Names the word."""
        if word == self.task_spec["word"]:
            return ToolOutput.final("right", reward=1.0)
        return ToolOutput.ongoing("earlier" if self.task_spec["word"] < word else "later", reward=0.0)


@pytest.mark.parametrize("environment", [Hidden, Guessed])
def test_golds_contradict_only_where_the_prompt_decides_them(environment):
    found = survey(environment)
    assert found.contradiction_text == found.leak_text == ""
    assert "2 of 3 tasks of split 'train'" in found.repeat_text
    assert "3 of 3 tasks of split 'dev'" in found.repeat_text


def test_an_environment_may_say_that_its_prompts_repeat():
    found = survey(type("Said", (Hidden,), {"prompts_may_repeat": True}))
    assert (found.prompts, found.repeat_text) == (0, "")


def test_equal_tasks_are_found_where_no_gold_is_known():
    cls = type(
        "Unsolved", (Hidden,), {"gold_actions": None, "list_tasks": classmethod(lambda *_: [{"word": "x"}])}
    )
    assert "1 of 1 tasks of split 'dev'" in survey(cls).leak_text


def test_the_tasks_of_two_splits_of_one_type_may_overlap_with_a_warning():
    splits = classmethod(lambda _: [Split(name="all", type="train"), Split(name="easy", type="train")])
    cls = type(
        "Graded", (Hidden,), {"list_splits": splits, "list_tasks": classmethod(lambda *_: [{"word": "x"}])}
    )
    found = survey(cls)
    assert found.leak_text == ""
    assert "1 of 1 tasks of split 'easy'" in found.repeat_text


def test_a_large_environment_is_compared_in_part_and_the_report_says_so(declared, monkeypatch):
    monkeypatch.setattr(task_survey, "MAX_COMPARED", 30)
    rows = [("2+2", "4")] + [(f"{number}+1", str(number + 1)) for number in range(50)]
    found = survey(declared(train=rows, test=rows[:3]))
    assert found.compared == {"train": 27, "test": 3}
    assert found.leak_text.endswith("; 30 of 54 tasks were compared")


def test_only_so_many_prompts_are_read_in_sessions(monkeypatch):
    monkeypatch.setattr(task_survey, "MAX_PROMPTS", 3)
    assert survey(Hidden).prompts == 3


def test_prompts_are_not_read_when_the_time_is_over(monkeypatch):
    monkeypatch.setattr(task_survey, "MAX_SECONDS", -1.0)
    found = survey(Hidden)
    assert found.prompts == 0
    assert "0 prompts were read" in found.prompt_failure


def test_an_environment_without_a_prompt_is_compared_as_json():
    def fail(_):
        raise RuntimeError("no prompt")

    found = survey(type("Promptless", (Hidden,), {"get_prompt": fail}))
    assert found.prompts == 0
    assert "task 0 of split 'train' has no prompt" in found.prompt_failure


@pytest.mark.parametrize(
    ("sizes", "most", "shares"),
    [
        ({"train": 5, "test": 5}, 20, {"train": 5, "test": 5}),
        ({"train": 1000, "test": 10}, 100, {"train": 90, "test": 10}),
        ({"a": 100, "b": 100, "c": 1}, 11, {"a": 5, "b": 5, "c": 1}),
        ({}, 10, {}),
    ],
)
def test_what_a_small_split_does_not_need_goes_to_the_larger_ones(sizes, most, shares):
    assert share_out(sizes, most) == shares


def test_texts_that_are_read_alike_are_equal_and_others_are_not():
    assert normalise(" The  Cat ") == normalise("the cat")
    assert normalise("42") == normalise(42) == normalise("42.0")
    assert normalise(["1e3", {"a": True}]) == [1000.0, {"a": True}]
    assert normalise("42a") != normalise("42")
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 2, "b": 1})
