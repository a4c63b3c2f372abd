"""The environment: its tasks by index, its prompt, and what each tool pays."""

import json
from collections.abc import Iterable

import anyio
import pytest

from ors_server import TextBlock, ToolOutput
from ors_server_tasks.math_word_problems import MathWordProblems

SPLITS = {"train": 2000, "validation": 200, "test": 200}


Actions = Iterable[tuple[str, dict[str, str]]]


async def calls(environment: MathWordProblems, actions: Actions) -> list[ToolOutput]:
    """Calls tools one after another on one instance."""
    return [await getattr(environment, name)(**arguments) for name, arguments in actions]


def play(environment: MathWordProblems, *actions: tuple[str, dict[str, str]]) -> list[ToolOutput]:
    """Calls tools one after another on one instance, on an event loop of their own."""
    return anyio.run(calls, environment, actions)


def text_of(output: ToolOutput) -> str:
    (block,) = output.blocks
    assert isinstance(block, TextBlock)
    return block.text


@pytest.fixture
def environment() -> MathWordProblems:
    task = {
        "id": "x",
        "question": "How much?",
        "answer": "7/2",
        "unit": "$",
        "family": "money",
        "difficulty": 1,
    }
    return MathWordProblems(task)


def test_it_has_three_splits_of_their_types():
    assert {split.name: split.type for split in MathWordProblems.list_splits()} == {
        "train": "train",
        "validation": "validation",
        "test": "test",
    }
    assert {split: MathWordProblems.num_tasks(split) for split in SPLITS} == SPLITS


@pytest.mark.parametrize("split", SPLITS)
async def test_the_gold_actions_of_every_task_earn_the_most_and_the_blank_ones_the_least(split):
    for task in MathWordProblems.list_tasks(split):
        gold = await calls(MathWordProblems(task), MathWordProblems.gold_actions(task))
        blank = await calls(MathWordProblems(task), MathWordProblems.blank_actions(task))
        assert (gold[-1].reward, gold[-1].finished) == (1.0, True)
        assert (blank[-1].reward, blank[-1].finished) == (0.0, True)


def test_tasks_are_addressed_by_index_from_either_end():
    listed = MathWordProblems.list_tasks("test")
    assert MathWordProblems.get_task("test", 0) == listed[0] == MathWordProblems.get_task("test", -200)
    assert MathWordProblems.get_task("test", -1) == listed[-1] == MathWordProblems.get_task("test", 199)


@pytest.mark.parametrize("index", [200, -201, 10**9])
def test_an_index_out_of_range_is_refused(index):
    with pytest.raises(IndexError, match="has 200 tasks"):
        MathWordProblems.get_task("test", index)


def test_a_range_of_tasks_follows_the_rules_of_slices():
    listed = MathWordProblems.list_tasks("test")
    for start, stop in [(None, None), (3, 7), (-3, None), (195, 999), (7, 3), (None, -190), (500, 600)]:
        assert MathWordProblems.get_task_range("test", start, stop) == listed[start:stop]


def test_a_subclass_with_another_seed_has_other_tasks():
    class Other(MathWordProblems):
        seed = "another"

    assert Other.get_task("test", 0) != MathWordProblems.get_task("test", 0)
    assert Other.get_task("test", 0)["id"] == "math_word_problems/test/0"


def test_tasks_are_json():
    task = MathWordProblems.get_task("train", 17)
    assert json.loads(json.dumps(task)) == task
    assert not {"prompt", "task_index", "task_spec"} & set(task)


def test_the_prompt_has_the_question_and_the_unit_but_not_the_answer(environment):
    prompt = environment.get_prompt()
    assert prompt.startswith("How much?\n")
    assert "one number (dollars):" in prompt
    environment.task_spec["answer"] = "98765"
    assert "98765" not in environment.get_prompt()


def test_the_prompt_of_a_pure_number_names_no_unit(environment):
    environment.task_spec["unit"] = ""
    assert "one number: a whole number" in environment.get_prompt()


@pytest.mark.parametrize(
    ("answer", "reward"),
    [("7/2", 1.0), ("3.5", 1.0), ("$3.50", 1.0), ("3 1/2", 1.0), ("3.49", 0.0), ("-3.5", 0.0), ("$350", 0.0)],
)
def test_a_number_ends_the_episode_and_pays_only_if_it_is_exact(environment, answer, reward):
    (output,) = play(environment, ("submit", {"answer": answer}))
    assert (output.reward, output.finished) == (reward, True)


def test_a_rounded_decimal_of_a_repeating_fraction_is_wrong(environment):
    environment.task_spec["answer"] = "10/3"
    for answer in ("3.33", "3.3333333333333333333333333333333333333333"):
        (output,) = play(environment, ("submit", {"answer": answer}))
        assert (output.reward, output.finished) == (0.0, True)


def test_what_the_agent_reads_after_a_submission_does_not_tell_whether_it_was_right(environment):
    right, wrong = play(environment, ("submit", {"answer": "3.5"}), ("submit", {"answer": "4"}))
    assert text_of(right) == "Submitted: 7/2."
    assert text_of(wrong) == "Submitted: 4."


def test_three_unreadable_submissions_are_forgiven_and_the_fourth_ends_the_episode(environment):
    *forgiven, last = play(environment, *[("submit", {"answer": "about three"})] * 4)
    assert [(output.reward, output.finished) for output in forgiven] == [(None, False)] * 3
    assert "Accepted are whole numbers" in text_of(forgiven[0])
    assert "The answer is in dollars." in text_of(forgiven[0])
    assert (last.reward, last.finished) == (0.0, True)
    assert last.metadata is not None
    assert last.metadata["reward_status"] == "unparsed_answer"


def test_a_task_whose_own_answer_cannot_be_read_pays_nothing_and_says_so(environment):
    environment.task_spec["answer"] = ""
    (output,) = play(environment, ("submit", {"answer": "3.5"}))
    assert (output.reward, output.finished) == (None, True)
    assert output.metadata is not None
    assert output.metadata["reward_status"] == "bad_gold"


def test_a_number_after_unreadable_submissions_still_pays(environment):
    outputs = play(environment, *[("submit", {"answer": "?"})] * 3, ("submit", {"answer": "3.5"}))
    assert outputs[-1].reward == 1.0


def test_each_session_counts_its_own_unreadable_submissions(environment):
    play(environment, *[("submit", {"answer": "?"})] * 3)
    (output,) = play(MathWordProblems(environment.task_spec), ("submit", {"answer": "?"}))
    assert not output.finished


def test_the_calculator_pays_nothing_and_ends_nothing(environment):
    (output,) = play(environment, ("calculator", {"expression": "7 / 2"}))
    assert (text_of(output), output.reward, output.finished) == ("3.5", None, False)


def test_a_mistake_in_an_expression_is_told_in_words(environment):
    (output,) = play(environment, ("calculator", {"expression": "1 / 0"}))
    assert text_of(output) == "Cannot compute this: division by zero (at position 3)."
    assert (output.reward, output.finished) == (None, False)
