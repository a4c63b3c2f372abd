"""The encyclopaedias and the questions: the same for ever, well written, answered by reading, searchable."""

import hashlib
import json
import re
import subprocess
import sys
from datetime import datetime
from typing import Any

import pytest

from ors_server_tasks.qa import QuestionAnswering
from ors_server_tasks.qa.english import date_forms, number_forms
from ors_server_tasks.qa.generator import Encyclopaedia, open_encyclopaedia
from ors_server_tasks.qa.names import Names, quarter
from ors_server_tasks.qa.questions import FAMILIES
from ors_server_tasks.qa.search import SNIPPET_LENGTH

SPLITS = {"train": 600, "validation": 100, "test": 200}
DIGESTS = {
    "train": "3aaf54984b81d2415b20f89c23c6baa9750e76775c9a628c2f5d7ab3771b4fe4",
    "validation": "de0522cf3343b855935c235540f4ca44cb29f3aec610b969f7957c804a7c94cc",
    "test": "92c575fd2c28dc8c99f85e5c5b6b6604560d60720078e5130fc87b9bbae633f3",
}
"""SHA-256 of each split's tasks and articles. Changing one means a new edition."""

DIGEST_PROGRAM = """
import hashlib, json, sys
from ors_server_tasks.qa import QuestionAnswering
from ors_server_tasks.qa.generator import open_encyclopaedia
split = sys.argv[1]
book = open_encyclopaedia(QuestionAnswering.seed, split)
articles = [(title, article.text) for title, article in book.articles.items()]
text = json.dumps([QuestionAnswering.list_tasks(split), articles])
print(hashlib.sha256(text.encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def tasks() -> dict[str, list[dict[str, Any]]]:
    return {split: QuestionAnswering.list_tasks(split) for split in SPLITS}


def book(split: str) -> Encyclopaedia:
    return open_encyclopaedia(QuestionAnswering.seed, split)


# The data.


@pytest.mark.parametrize("split", SPLITS)
def test_a_split_is_what_it_was_when_it_was_published(split, tasks):
    articles = [(title, article.text) for title, article in book(split).articles.items()]
    text = json.dumps([tasks[split], articles])
    assert hashlib.sha256(text.encode()).hexdigest() == DIGESTS[split]


@pytest.mark.parametrize("hash_seed", ["0", "1", "4711"])
def test_a_fresh_process_makes_the_same_data_whatever_its_hash_seed(hash_seed):
    ran = subprocess.run(
        [sys.executable, "-c", DIGEST_PROGRAM, "validation"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert ran.stdout.strip() == DIGESTS["validation"]


def test_the_splits_have_their_sizes_and_every_stretch_has_every_family_once(tasks):
    assert {split: len(listed) for split, listed in tasks.items()} == SPLITS
    names = {family.name for family in FAMILIES}
    for listed in tasks.values():
        for start in range(0, len(listed), len(FAMILIES)):
            assert {task["family"] for task in listed[start : start + len(FAMILIES)]} == names


def test_no_two_tasks_of_all_splits_have_the_same_question(tasks):
    questions = [task["question"] for listed in tasks.values() for task in listed]
    assert len(set(questions)) == len(questions) == 900


def test_no_name_stands_in_two_splits():
    names = {split: set(book(split).titles) for split in SPLITS}
    assert all(len(book(split).articles) == 406 for split in SPLITS)
    assert not names["train"] & names["validation"]
    assert not names["train"] & names["test"]
    assert not names["validation"] & names["test"]
    assert quarter("Brelotte") in range(4)


@pytest.mark.parametrize("split", SPLITS)
def test_every_other_name_leads_to_one_article(split):
    opened = book(split)
    aliases = set(opened.titles) - {title.casefold() for title in opened.articles}
    assert len(aliases) == 60 + 30 + 120  # former names of towns, names of rivers, full names of people
    assert set(opened.titles.values()) == set(opened.articles)


def test_another_seed_gives_another_encyclopaedia():
    class Other(QuestionAnswering):
        seed = "another"

    others = {task["question"]: task["answer"] for task in Other.list_tasks("test")}
    ours = {task["question"]: task["answer"] for task in QuestionAnswering.list_tasks("test")}
    assert (
        len(others.keys() & ours.keys()) < len(ours) / 20
    )  # the names are the same, what is said of them is not


def test_articles_are_written_properly():
    mistakes = re.compile(r"[{}_]|  | [.,?]|\.\.|\b[Aa] [aeiou]|\b[Aa]n [^aeiou]|None|words\(")
    for split in SPLITS:
        for article in book(split).articles.values():
            assert not mistakes.search(article.text), article.text
            assert all(
                sentence[0].isupper() and sentence.endswith(".")
                for sentence in article.sentences
                if sentence[0].isalpha()
            )
            assert len(article.sentences) >= 4


def test_names_run_out_loudly():
    names = Names("seed", "test")
    given = [names.next("sea") for _ in range(6)]
    assert len(set(given)) == 6
    with pytest.raises(RuntimeError, match="no more names for a sea; add pieces"):
        _ = [names.next("sea") for _ in range(100)]


@pytest.mark.parametrize(
    ("number", "forms"),
    [
        (7, ("7", "seven")),
        (13, ("13", "thirteen")),
        (40, ("40", "forty")),
        (42, ("42", "forty-two")),
        (99, ("99", "ninety-nine")),
        (100, ("100",)),
        (12480, ("12,480",)),
    ],
)
def test_numbers_are_gold_in_digits_and_small_ones_in_words(number, forms):
    assert number_forms(number) == forms


@pytest.mark.parametrize(
    ("day", "ordinal"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (22, "22nd"), (28, "28th")]
)
def test_dates_are_gold_in_four_forms(day, ordinal):
    assert date_forms(day, 3, 1823) == (
        f"{day} March 1823",
        f"March {ordinal}, 1823",
        f"{ordinal} of March 1823",
        f"1823-03-{day:02}",
    )


def test_tasks_are_addressed_as_slices_and_from_either_end(tasks):
    for start, stop in [(None, None), (3, 7), (-3, None), (195, 999), (7, 3)]:
        assert QuestionAnswering.get_task_range("test", start, stop) == tasks["test"][start:stop]
    assert QuestionAnswering.get_task("test", -1) == tasks["test"][199]
    for index in (200, -201):
        with pytest.raises(IndexError, match="has 200 tasks"):
            QuestionAnswering.get_task("test", index)
    assert [split.name for split in QuestionAnswering.list_splits()] == list(SPLITS)
    assert {split: QuestionAnswering.num_tasks(split) for split in SPLITS} == SPLITS


@pytest.mark.parametrize("split", ["nonsense", None, ["train"]])
def test_a_task_of_another_environment_is_refused(split):
    with pytest.raises(ValueError, match="names one of the splits train, validation, test"):
        QuestionAnswering({"split": split, "question": "?"})


def test_an_episode_remembers_nothing_beyond_its_task(tasks):
    environment = QuestionAnswering(tasks["test"][0])
    assert environment.save_state() == {}
    environment.load_state({})


# The answers stand in the articles that are named, and nowhere does the text say otherwise.


@pytest.mark.parametrize("split", SPLITS)
def test_every_gold_answer_stands_in_the_evidence(split, tasks):
    for task in tasks[split]:
        text = " ".join(book(split).articles[title].text for title in task["evidence"])
        if task["kind"] != "yes_no" and task["family"] != "years_between":
            assert task["answer"][0] in text, task
        if task["family"].endswith(("birthplace", "river", "seat")):
            assert task["answer"][1] in text, task


def found(split: str, title: str, pattern: str) -> str:
    """What a reader finds in an article: the one group of a pattern."""
    match = re.search(pattern, book(split).articles[title].text)
    assert match, (title, pattern)
    return next(group for group in match.groups() if group)


def born(split: str, person: str) -> datetime:
    return datetime.strptime(found(split, person, r"on (\d+ [A-Z][a-z]+ \d{4})"), "%d %B %Y")  # noqa: DTZ007  (a day in history)


def number(split: str, title: str, pattern: str) -> int:
    return int(found(split, title, pattern).replace(",", ""))


POPULATION = r"had ([\d,]+) inhabitants|population is ([\d,]+)|counted ([\d,]+) people"
FOUNDED = r"founded it in (\d+)|founded by .*? in (\d+)|opened in (\d+)"
LENGTH = r"([\d,]+) kilometres"
OPENED = r"opened in (\d+)"
REGION = r"town in (?:the region of )?(\w+)\.|belongs to (\w+)\."
RIVER = r"stands on the (\w+)|The (\w+) flows through|banks of the (\w+)"
PLACE = r"in (\w+)\.|Born in (\w+)|in (\w+) on"


def solve(split: str, task: dict[str, Any]) -> str:
    """Answers a question that compares, from the articles' text alone."""
    one, other, *_ = task["evidence"]
    if task["family"] == "years_between":
        return str(abs(number(split, one, FOUNDED) - number(split, other, OPENED)))
    if task["family"] == "born_before":
        return "yes" if born(split, one) < born(split, other) else "no"
    if task["family"] == "same_region":
        return "yes" if found(split, one, REGION) == found(split, other, REGION) else "no"
    return compare(split, task["family"], one, other)


def compare(split: str, family: str, one: str, other: str) -> str:
    match family:
        case "older_birthplace":
            older = min(one, other, key=lambda name: born(split, name))
            return found(split, older, r"born on .*? in (\w+)\.|Born in (\w+) on|world in (\w+) on")
        case "larger_river":
            return found(split, max(one, other, key=lambda name: number(split, name, POPULATION)), RIVER)
        case "longer_source_climber":
            river = max(one, other, key=lambda name: number(split, name, LENGTH))
            mountain = found(split, river, r"rises on (\w+)|high on (\w+)|down from (\w+)")
            return found(split, mountain, r"made by (\w+ \w+)|before (\w+ \w+),|In \d+ (\w+ \w+) became")
        case _:
            older = min(one, other, key=lambda name: number(split, name, FOUNDED))
            return found(split, older, r"founded by (\w+ \w+)|(\w+ \w+) founded it|that (\w+ \w+) opened")


@pytest.mark.parametrize("split", SPLITS)
def test_whoever_reads_the_articles_comes_to_the_same_comparisons(split, tasks):
    compared = [task for task in tasks[split] if task["kind"] in {"comparison", "yes_no"}]
    compared += [task for task in tasks[split] if task["family"] == "years_between"]
    assert len(compared) == 7 * SPLITS[split] // 25
    assert [solve(split, task) for task in compared] == [task["answer"][0] for task in compared]


# The search.


def test_the_best_hit_for_a_title_is_its_article():
    for split in SPLITS:
        for title in book(split).articles:
            assert book(split).index.find(title, 1)[0].title == title


def test_a_search_returns_at_most_so_many_and_a_sentence_of_each():
    index = book("test").index
    hits = index.find("river that rises high in the mountains", 7)
    assert len(hits) == 7
    assert all(0 < len(hit.snippet) <= SNIPPET_LENGTH for hit in hits)
    assert [hit.title for hit in index.find("river that rises high in the mountains", 3)] == [
        hit.title for hit in hits[:3]
    ]


def test_a_rare_word_outweighs_common_ones():
    task = QuestionAnswering.get_task("test", 5)
    assert (
        book("test").index.find(f"inhabitants people town {task['evidence'][0]}", 1)[0].title
        == task["evidence"][0]
    )


def test_a_search_for_nothing_finds_nothing():
    assert book("test").index.find("", 5) == []
    assert book("test").index.find("the of and", 5) == []
    assert book("test").index.find("zzz", 5) == []
