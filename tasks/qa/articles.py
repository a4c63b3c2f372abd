"""Tells what is the case as articles of an encyclopaedia, varied in wording and in order."""

from collections import defaultdict
from dataclasses import dataclass, fields
from typing import Any

from ors_server_tasks.qa.draw import Draw
from ors_server_tasks.qa.english import article_for, date, listing
from ors_server_tasks.qa.phrases import PHRASES
from ors_server_tasks.qa.world import Entity, Person, World

_ASIDES = 2


@dataclass(frozen=True, slots=True)
class Article:
    """One article."""

    title: str
    sentences: tuple[str, ...]
    """In order; the first says what the thing is."""

    @property
    def text(self) -> str:
        """The sentences in one paragraph."""
        return " ".join(self.sentences)


def write_articles(world: World, seed: str) -> dict[str, Article]:
    """Writes an article about every thing in a world.

    Args:
        world: What is the case.
        seed: Decides wordings and the order of sentences.

    Returns:
        The articles by title, in a random order.
    """
    mentions = _mentions(world)
    draw = Draw(f"{seed}/articles")
    written = [_write(entity, mentions[entity.name], draw) for entity in world.entities]
    return {article.title: article for article in draw.shuffle(written)}


def _write(entity: Entity, mentions: list[str], draw: Draw) -> Article:
    phrases = PHRASES[type(entity)]
    shown = _shown(entity)
    wordings = [draw.pick(fact) for fact in phrases.facts]
    told = [wording for wording in wordings if "{teacher}" not in wording or shown["teacher"]]
    body = draw.shuffle([*told, *draw.pick_some(phrases.asides, _ASIDES)])
    sentences = [sentence.format_map(shown) for sentence in [draw.pick(phrases.opening), *body]]
    return Article(entity.name, (*(sentence[0].upper() + sentence[1:] for sentence in sentences), *mentions))


def _shown(entity: Entity) -> dict[str, Any]:
    shown: dict[str, Any] = {item.name: getattr(entity, item.name) for item in fields(entity)}
    if isinstance(entity, Person):
        shown["full_name"] = entity.full_name
        shown["birthday"] = date(entity.day, entity.month, entity.born)
        shown["an_profession"] = f"{article_for(entity.profession)} {entity.profession}"
    return shown


def _mentions(world: World) -> dict[str, list[str]]:
    """Sentences in which a thing's article names others that name it: links back, some of which mislead."""
    born, companies, shown = (
        defaultdict[str, list[str]](list),
        defaultdict[str, list[str]](list),
        defaultdict[str, list[str]](list),
    )
    for person in world.people.values():
        born[person.birthplace].append(person.name)
    for company in world.companies.values():
        companies[company.seat].append(company.name)
    for book in world.books.values():
        shown[book.author].append(book.name)
    sentences = defaultdict[str, list[str]](list)
    for town, names in born.items():
        sentences[town].append(f"People from the town: {listing(names)}.")
    for town, names in companies.items():
        sentences[town].append(f"Companies in the town: {listing(names)}.")
    for person_name, names in shown.items():
        sentences[person_name].append(f"Books: {listing(names)}.")
    return sentences
