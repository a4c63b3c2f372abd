"""The tasks: which there are, that they stay the same for ever, and that they are written properly."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from fractions import Fraction

import pytest

from ors_server_tasks.math_word_problems.draw import Draw
from ors_server_tasks.math_word_problems.english import clock, decimal, listing, mixed, money, noun
from ors_server_tasks.math_word_problems.families import FAMILIES
from ors_server_tasks.math_word_problems.generator import SPLIT_SIZES, Task, draw_problem, generate, quarter
from ors_server_tasks.math_word_problems.problem import Problem, UnsuitableDrawError

SEED = "math-word-problems-1"
DIGESTS = {
    "train": "1ef63933ee4b55cce465b9bcae60657539986061a779fde91be40f4bb04a03c4",
    "validation": "4b631b83a03841b23e172e32fdb7a157c85b2ed202593e3dac2cc36e5c6da492",
    "test": "b282f4eab1790efd3bddb1929364ad4c1415c0e76a01b5c7ee25b6a18d2228af",
}
"""SHA-256 of each split's tasks as JSON lines. Changing one means a new edition of the tasks."""


def split_tasks(split: str, seed: str = SEED) -> list[Task]:
    return [generate(seed, split, index) for index in range(SPLIT_SIZES[split])]


@pytest.fixture(scope="module")
def tasks() -> dict[str, list[Task]]:
    return {split: split_tasks(split) for split in SPLIT_SIZES}


@pytest.mark.parametrize("split", SPLIT_SIZES)
def test_a_split_holds_exactly_the_tasks_that_it_held_when_it_was_published(split, tasks):
    lines = "\n".join(json.dumps(task, sort_keys=True) for task in tasks[split])
    assert hashlib.sha256(lines.encode()).hexdigest() == DIGESTS[split]


def test_a_task_does_not_depend_on_which_tasks_were_generated_before_it(tasks):
    assert generate(SEED, "test", 123) == tasks["test"][123]
    assert generate(SEED, "test", 7) == tasks["test"][7]


def test_no_two_tasks_of_all_splits_have_the_same_question(tasks):
    questions = [task["question"] for split in tasks.values() for task in split]
    assert len(set(questions)) == len(questions) == 2400


@pytest.mark.parametrize("seed", ["another seed", ""])
def test_with_any_seed_no_story_has_the_same_numbers_in_two_splits(seed):
    found = {
        split: {numbers_and_words(task["question"]) for task in split_tasks(split, seed)}
        for split in tuple(SPLIT_SIZES)
    }
    assert not found["train"] & found["validation"]
    assert not found["train"] & found["test"]
    assert not found["validation"] & found["test"]


def numbers_and_words(question: str) -> tuple[str, ...]:
    """The numbers, and the rest of the text without what may differ: capitalised words."""
    return (*re.findall(r"\d+", question), re.sub(r"\b[A-Z]\w*|\d+", "", question))


def test_another_seed_gives_other_tasks(tasks):
    assert not {task["question"] for task in split_tasks("test", "another seed")} & {
        task["question"] for task in tasks["test"]
    }


@pytest.mark.parametrize("split", SPLIT_SIZES)
def test_every_split_has_every_family_at_every_difficulty_about_equally_often(split, tasks):
    counts = Counter((task["family"], task["difficulty"]) for task in tasks[split])
    assert len(counts) == len(FAMILIES) * 3 == 39
    assert max(counts.values()) - min(counts.values()) <= 1


def test_every_story_is_told_in_the_train_split():
    told = {
        draw_problem(f"1/{SEED}/train/{index}", FAMILIES[index % 13].levels[index // 13 % 3], "train")[0]
        for index in range(SPLIT_SIZES["train"])
    }
    assert told == {story for family in FAMILIES for level in family.levels for story in level}


@pytest.mark.parametrize("split", SPLIT_SIZES)
def test_every_task_has_the_same_keys_and_types_and_an_exact_positive_answer(split, tasks):
    for index, task in enumerate(tasks[split]):
        assert {key: type(value) for key, value in task.items()} == {
            "id": str,
            "question": str,
            "answer": str,
            "unit": str,
            "family": str,
            "difficulty": int,
        }
        assert task["id"] == f"math_word_problems/{split}/{index}"
        assert task["answer"] == str(Fraction(task["answer"]))
        assert Fraction(task["answer"]) > 0


WRITING_MISTAKES = {
    "singular number before a plural": r"(?<![\d/.,:$] )(?<![\d/.,:$])\b1 (?!remains)[a-z]+s\b",
    "a before a vowel": r"\b[Aa] [aeiou]",
    "an before a consonant": r"\b[Aa]n (?!hour\b)[^aeiou]",
    "two blanks": r"  ",
    "blank before punctuation": r" [.,?!;:]",
    "two full stops": r"\.\.",
    "one decimal place of a dollar": r"\$[\d,]+\.\d(?!\d)",
    "leading zero": r"(?<![\d.,:])0\d",
    "replacement left in": r"[{}_]",
    "Python value": r"None|True|False|Fraction|Noun",
}


@pytest.mark.parametrize("pattern", WRITING_MISTAKES.values(), ids=WRITING_MISTAKES)
def test_no_question_has_a_mistake_of_writing(pattern, tasks):
    found = [
        task["question"] for split in tasks.values() for task in split if re.search(pattern, task["question"])
    ]
    assert not found


def test_every_question_is_whole_sentences_with_one_question(tasks):
    for split in tasks.values():
        for task in split:
            assert re.match(r"[A-Z0-9]", task["question"])
            assert task["question"].count("?") == 1
            assert task["question"][-1] in "?."


def test_answers_that_count_things_are_whole(tasks):
    whole = {
        "people",
        "children",
        "members",
        "passengers",
        "votes",
        "boxes",
        "coins",
        "buses",
        "tickets",
        "stamps",
    }
    counted = [task for split in tasks.values() for task in split if task["unit"] in whole]
    assert counted
    assert not [task for task in counted if "/" in task["answer"]]


def test_amounts_of_dollars_are_whole_cents(tasks):
    for split in tasks.values():
        for task in split:
            assert task["unit"] != "$" or (Fraction(task["answer"]) * 100).denominator == 1, task


def test_the_stream_of_a_seed_stays_the_same():
    draw = Draw("seed")
    assert [draw.below(1000) for _ in range(10)] == [226, 965, 873, 557, 271, 286, 297, 475, 308, 715]
    assert draw.pick_some("abcdef", 6) != list("abcdef")


def test_a_draw_keeps_to_its_range_and_reaches_both_ends():
    draw = Draw("range")
    assert {draw.between(3, 9, 2) for _ in range(200)} == {3, 5, 7, 9}
    assert {draw.between(3, 8, 2) for _ in range(200)} == {3, 5, 7}
    assert {draw.below(1) for _ in range(10)} == {0}


def test_picking_some_never_picks_a_position_twice():
    draw = Draw("some")
    assert all(len(set(draw.pick_some(range(10), 10))) == 10 for _ in range(50))


def test_a_story_that_never_fits_is_reported_by_name():
    def unlucky(_: Draw) -> Problem:
        raise UnsuitableDrawError

    with pytest.raises(RuntimeError, match="'unlucky' gave no suitable problem"):
        draw_problem("seed", (unlucky,), "train")


def test_names_do_not_move_a_problem_to_another_split():
    def story(_: Draw) -> Problem:
        raise AssertionError

    one = Problem("Ada has 12 apples and eats 5. How many are left?", Fraction(7), "apples")
    other = Problem("Ben has 12 figs and eats 5. How many are left?", Fraction(7), "figs")
    assert quarter(story, one) == quarter(story, other)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (money(5), "$0.05"),
        (money(1200), "$12"),
        (money(101250), "$1,012.50"),
        (clock(0), "12:00 AM"),
        (clock(65), "1:05 AM"),
        (clock(12 * 60 + 5), "12:05 PM"),
        (clock(25 * 60), "1:00 AM"),
        (mixed(Fraction(5)), "5"),
        (mixed(Fraction(3, 4)), "3/4"),
        (mixed(Fraction(5, 2)), "2 1/2"),
        (decimal(Fraction(5, 2)), "2.5"),
        (decimal(Fraction(12500, 10)), "1,250"),
        (decimal(Fraction(1, 20)), "0.05"),
        (listing(["a", "b"]), "a and b"),
        (listing(["a", "b", "c"]), "a, b, and c"),
        (noun("apple").one, "an apple"),
        (noun("peach", "peaches").count(1), "1 peach"),
        (noun("peach", "peaches").count(1250), "1,250 peaches"),
    ],
)
def test_numbers_and_things_are_written_as_people_write_them(written, expected):
    assert written == expected


def test_a_number_without_a_short_decimal_is_not_written_as_one():
    with pytest.raises(ValueError, match="at most three decimal places, got 1/3"):
        decimal(Fraction(1, 3))
