"""From a seed and a split to an encyclopaedia, and with an index to a task.

Each split has its own world, and no name is in two of them, so that knowledge of one split does not help in
another. A world is made once, in about a tenth of a second, and shared by all sessions.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TypedDict

from ors_server_tasks.qa.articles import Article, write_articles
from ors_server_tasks.qa.draw import Draw
from ors_server_tasks.qa.questions import FAMILIES, Family, Question
from ors_server_tasks.qa.search import SearchIndex
from ors_server_tasks.qa.world import World, make_world

EDITION = "1"
"""Names what the words and shapes are; changes whenever a change to them changes a task or an article."""

SPLIT_SIZES = {"train": 600, "validation": 100, "test": 200}
"""Tasks in each split; splits in the order in which they are listed."""

_MAX_KEPT = 9
"""Encyclopaedias that are kept: those of three seeds."""


class Task(TypedDict):
    """A task's specification."""

    id: str
    """Environment, split and index, such as "qa/train/17"."""
    split: str
    """Whose encyclopaedia is open."""
    question: str
    answer: list[str]
    """Every form of the answer that is gold."""
    kind: str
    """single_hop, two_hop, comparison, yes_no, date or number."""
    family: str
    evidence: list[str]
    """Titles of the articles that together give the answer."""


@dataclass(frozen=True, slots=True)
class Encyclopaedia:
    """The articles of one world, and what can be asked about them."""

    articles: dict[str, Article]
    """By title."""
    titles: dict[str, str]
    """Title by its folded form and by that of every other name of the thing."""
    index: SearchIndex
    questions: tuple[tuple[Question, ...], ...]
    """For each family as many as the split has tasks of it."""


@lru_cache(maxsize=_MAX_KEPT)
def open_encyclopaedia(seed: str, split: str) -> Encyclopaedia:
    """Makes an encyclopaedia, or returns the one that was made.

    Args:
        seed: Any text; another seed gives another one.
        split: A key of `SPLIT_SIZES`.
    """
    full_seed = f"{EDITION}/{seed}/{split}"
    world = make_world(full_seed, split)
    articles = write_articles(world, full_seed)
    names = {
        **{town.alias: town.name for town in world.towns.values()},
        **{river.alias: river.name for river in world.rivers.values()},
        **{person.full_name: person.name for person in world.people.values()},
        **{title: title for title in articles},
    }
    per_family = SPLIT_SIZES[split] // len(FAMILIES)
    return Encyclopaedia(
        articles=articles,
        titles={name.casefold(): title for name, title in names.items()},
        index=SearchIndex(articles.values()),
        questions=tuple(_questions(world, family, full_seed)[:per_family] for family in FAMILIES),
    )


def _questions(world: World, family: Family, seed: str) -> tuple[Question, ...]:
    """All questions of a family in a random order; yes and no stay in turn."""
    draw = Draw(f"{seed}/questions/{family.name}")
    questions = list(family.ask(world, draw))
    return tuple(questions if family.kind == "yes_no" else draw.shuffle(questions))


def generate(seed: str, split: str, index: int) -> Task:
    """Gives one task.

    Args:
        seed: Any text; another seed gives other tasks.
        split: A key of `SPLIT_SIZES`.
        index: From 0 to the split's size, exclusive.
    """
    turn, family_index = divmod(index, len(FAMILIES))
    question = open_encyclopaedia(seed, split).questions[family_index][turn]
    return Task(
        id=f"qa/{split}/{index}",
        split=split,
        question=question.text,
        answer=list(question.answers),
        kind=FAMILIES[family_index].kind,
        family=FAMILIES[family_index].name,
        evidence=list(question.evidence),
    )
