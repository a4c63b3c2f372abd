"""Nearly equal tasks and tasks of other sets, over generated texts that are labelled by construction."""

import random
import sys

import pytest

from ors_server.model.errors import InvalidRequestError
from ors_server.testing import check_environment
from ors_server.testing.task_likeness import MAX_TASKS, TaskTexts, describe_overlap, words_of
from ors_server.testing.task_survey import TaskPosition

WORDS = [f"{first}{last}" for first in ("ba", "ce", "di", "fo", "gu", "ha") for last in "nrstlmkp"]
FRAME = "You are a careful solver. Think step by step and end with one line that has the final answer: "
DEVELOPMENT, TEST = 1, 2


def text_of(chance, length=60):
    return " ".join(chance.choices(WORDS, k=length))


def retyped(text, chance):
    """Case, punctuation, line ends and one word of sixty."""
    words = text.split()
    words[chance.randrange(len(words))] = "other"
    return ".  ".join(" ".join(words[start : start + 9]).capitalize() for start in range(0, len(words), 9))


def with_remark(text, chance):
    return f"{text} Please answer in {chance.choice(['metres', 'litres', 'hours'])}."


def of_another_template(text, chance):
    """Every seventh word differs, as the numbers and names of a template do."""
    return " ".join(
        f"{chance.randrange(10**6)}" if place % 7 == 3 else word for place, word in enumerate(text.split())
    )


def with_other_numbers(text, chance):
    return f"{text} {chance.randrange(100, 200)} apples."


def shuffled(text, chance):
    words = text.split()
    chance.shuffle(words)
    return " ".join(words)


SAME = {"retyped": retyped, "with a remark": with_remark}
DIFFERENT = {
    "of another template": of_another_template,
    "shuffled": shuffled,
    "with other numbers": with_other_numbers,
}


def nearly_equal(first, second, frame=""):
    """Whether the second text, a test task, is nearly equal to the first, a training task, among others."""
    texts, chance = TaskTexts(), random.Random(9)  # noqa: S311  (no secret)
    for index in range(20):
        texts.add(TaskPosition("train", index), {"prompt": frame + text_of(chance), "images": []})
    texts.add(TaskPosition("train", 20), {"prompt": frame + first, "images": []})
    texts.add(TaskPosition("test", 0), {"prompt": frame + second, "images": []})
    return texts.nearly_equal().counts[("train", "test")] == 1


@pytest.mark.parametrize("exact", [0, 2_000], ids=["by MinHash", "exactly"])
@pytest.mark.parametrize("seed", [DEVELOPMENT, TEST])
@pytest.mark.parametrize("frame", ["", FRAME])
@pytest.mark.parametrize("how", [*SAME, *DIFFERENT])
def test_texts_are_nearly_equal_if_few_words_differ_whatever_all_prompts_share(
    how, frame, seed, exact, monkeypatch
):
    monkeypatch.setattr("ors_server.testing.task_likeness.MAX_EXACT_TASKS", exact)
    chance = random.Random(f"{how} {seed}")  # noqa: S311  (no secret)
    make = (SAME | DIFFERENT)[how]
    for _ in range(5):
        text = text_of(chance)
        assert nearly_equal(text, make(text, chance), frame) == (how in SAME), text


@pytest.mark.parametrize("seed", [DEVELOPMENT, TEST])
def test_a_task_is_in_a_set_if_thirteen_words_in_a_row_are(seed):
    chance = random.Random(seed)  # noqa: S311  (no secret)
    for _ in range(20):
        text = text_of(chance)
        words = text.split()
        texts = TaskTexts()
        for index in range(5):
            texts.add(TaskPosition("test", index), FRAME + text_of(chance))
        texts.add(TaskPosition("test", 5), FRAME + text)
        copied = {"question": f"Before it. {' '.join(words[20:33]).upper()}! After it.", "id": 7}
        near_miss = {"question": f"Before it. {' '.join(words[20:32])} other words."}
        other_question = {"question": FRAME + text_of(chance)}
        assert texts.within([near_miss, other_question, {"id": 3}]) == []
        assert texts.within([near_miss, copied]) == [TaskPosition("test", 5)]


def test_a_short_task_is_in_a_set_if_all_of_it_is():
    texts = TaskTexts()
    texts.add(TaskPosition("train", 0), "How many apples are in two full baskets?")
    texts.add(TaskPosition("train", 1), "Name a fruit.")
    row = ["how many apples are in TWO full baskets"]
    assert texts.within([["How many apples are in two full baskets, and why?"]]) == []
    assert texts.within([row, ["Name a fruit."]]) == [TaskPosition("train", 0)]


def test_scripts_without_spaces_have_a_word_for_each_character():
    assert words_of({"q": "答えは42です", "n": 3}) == ["答", "え", "は", "42", "で", "す"]


def test_texts_beyond_the_limit_are_not_kept(monkeypatch):
    monkeypatch.setattr("ors_server.testing.task_likeness.MAX_TASKS", 2)
    texts = TaskTexts()
    for index in range(4):
        texts.add(TaskPosition("train", index), "a text")
    assert (len(texts.tasks), MAX_TASKS) == (2, 20_000)


def test_many_tasks_are_compared_by_a_package_that_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setattr("ors_server.testing.task_likeness.MAX_EXACT_TASKS", 0)
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(InvalidRequestError, match=r"needs datasketch.*: .*pip install .*\[tasks\]"):
        nearly_equal("a b c", "a b c")


def test_a_sentence_names_splits_and_the_first_indices():
    positions = [TaskPosition("train", index) for index in range(12)] + [TaskPosition("test", 4)]
    assert describe_overlap("gsm8k", positions) == (
        "12 tasks of split 'train' are in 'gsm8k' (indices 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...); "
        "1 tasks of split 'test' are in 'gsm8k' (indices 4)"
    )
    assert describe_overlap("gsm8k", []) == ""


def test_the_bundled_environments_have_no_nearly_equal_tasks_across_splits():
    for name in ("math_word_problems", "qa"):
        (verdict,) = check_environment(name, only=["splits-are-unlike"]).verdicts
        assert (verdict.outcome, verdict.reason) == ("pass", "")
