"""Which questions can be asked about a world, and all forms of their answers.

What decides the shapes of questions is what token F1 would pay for without any reading:

* no gold has a word that names its kind ("river", "km"), for that word alone would earn two thirds;
* a comparison asks for something about the one that wins, so that both names of the question are wrong;
* yes and no are right equally often, and seldom asked for; they count only as the whole answer;
* numbers are whole, positive and without units, for punctuation and signs are dropped before comparing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias, TypeVar

from ors_server_tasks.qa.draw import Draw
from ors_server_tasks.qa.english import date_forms, number_forms
from ors_server_tasks.qa.world import Person, World

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answers."""

    text: str
    answers: tuple[str, ...]
    """Gold forms, at least one; the first is the articles'."""
    evidence: tuple[str, ...]
    """Titles of the articles that together give the answer, in the order of the reasoning."""


Ask: TypeAlias = Callable[[World, Draw], Iterator[Question]]


@dataclass(frozen=True, slots=True)
class Family:
    """Questions of one shape."""

    name: str
    kind: str
    """single_hop, two_hop, comparison, yes_no, date or number."""
    ask: Ask
    """Gives every question of a world; yes and no come in turn."""


def _person(world: World, name: str) -> tuple[str, ...]:
    return name, world.people[name].full_name


def _town(world: World, name: str) -> tuple[str, ...]:
    return name, world.towns[name].alias


def _river(world: World, name: str) -> tuple[str, ...]:
    return name, world.rivers[name].alias


def book_author(world: World, draw: Draw) -> Iterator[Question]:
    """Asks who wrote a book."""
    for book in world.books.values():
        text = draw.pick(("Who wrote {0}?", "Who is the author of {0}?")).format(book.name)
        yield Question(text, _person(world, book.author), (book.name,))


def company_founder(world: World, draw: Draw) -> Iterator[Question]:
    """Asks who founded a company."""
    for company in world.companies.values():
        text = draw.pick(("Who founded {0}?", "Who was the founder of the company {0}?")).format(company.name)
        yield Question(text, _person(world, company.founder), (company.name,))


def town_river(world: World, draw: Draw) -> Iterator[Question]:
    """Asks on which river a town is."""
    for town in world.towns.values():
        text = draw.pick(("Which river flows through {0}?", "On which river does {0} stand?"))
        yield Question(text.format(town.name), _river(world, town.river), (town.name, town.river))


def person_teacher(world: World, draw: Draw) -> Iterator[Question]:
    """Asks by whom a person was taught."""
    for person in world.people.values():
        if person.teacher:
            text = draw.pick(("Who taught {0}?", "Whose pupil was {0}?")).format(person.name)
            yield Question(text, _person(world, person.teacher), (person.name,))


def mountain_climber(world: World, draw: Draw) -> Iterator[Question]:
    """Asks who climbed a mountain first."""
    for mountain in world.mountains.values():
        text = draw.pick(("Who made the first ascent of {0}?", "Who was the first to climb {0}?"))
        yield Question(text.format(mountain.name), _person(world, mountain.climber), (mountain.name,))


def company_town(world: World, draw: Draw) -> Iterator[Question]:
    """Asks where a company is."""
    for company in world.companies.values():
        text = draw.pick(("In which town is {0} based?", "Where does {0} have its head office?"))
        yield Question(text.format(company.name), _town(world, company.seat), (company.name, company.seat))


def author_birthplace(world: World, draw: Draw) -> Iterator[Question]:
    """Asks where a book's author was born."""
    for book in world.books.values():
        birthplace = world.people[book.author].birthplace
        text = draw.pick(("Where was the author of {0} born?", "In which town was the writer of {0} born?"))
        yield Question(text.format(book.name), _town(world, birthplace), (book.name, book.author, birthplace))


def founder_teacher(world: World, draw: Draw) -> Iterator[Question]:
    """Asks who taught a company's founder."""
    for company in world.companies.values():
        teacher = world.people[company.founder].teacher
        if teacher:
            text = draw.pick(("Who taught the founder of {0}?", "Whose pupil was the founder of {0}?"))
            yield Question(
                text.format(company.name), _person(world, teacher), (company.name, company.founder)
            )


def company_river(world: World, draw: Draw) -> Iterator[Question]:
    """Asks on which river a company's town is."""
    for company in world.companies.values():
        river = world.towns[company.seat].river
        text = draw.pick(
            (
                "On which river stands the town where {0} has its head office?",
                "Which river flows through the town in which {0} is based?",
            )
        )
        evidence = (company.name, company.seat, river)
        yield Question(text.format(company.name), _river(world, river), evidence)


def leader_birthplace(world: World, draw: Draw) -> Iterator[Question]:
    """Asks where an expedition's leader was born."""
    for journey in world.expeditions.values():
        birthplace = world.people[journey.leader].birthplace
        text = draw.pick(
            ("Where was the leader of the {0} born?", "In which town was the {0}'s leader born?")
        )
        yield Question(
            text.format(journey.name), _town(world, birthplace), (journey.name, journey.leader, birthplace)
        )


def source_climber(world: World, draw: Draw) -> Iterator[Question]:
    """Asks who first climbed the mountain where a river rises."""
    for river in world.rivers.values():
        climber = world.mountains[river.source].climber
        text = draw.pick(
            (
                "Who was the first to climb the mountain on which the {0} rises?",
                "The {0} rises on a mountain. Who made its first ascent?",
            )
        )
        yield Question(text.format(river.name), _person(world, climber), (river.name, river.source))


def architect_teacher(world: World, draw: Draw) -> Iterator[Question]:
    """Asks who taught a museum's architect."""
    for museum in world.museums.values():
        teacher = world.people[museum.architect].teacher
        if teacher:
            text = draw.pick(("Who taught the architect of the {0}?", "Who taught the designer of the {0}?"))
            yield Question(text.format(museum.name), _person(world, teacher), (museum.name, museum.architect))


def publisher_town(world: World, draw: Draw) -> Iterator[Question]:
    """Asks where a book's publisher is."""
    for book in world.books.values():
        seat = world.companies[book.publisher].seat
        text = draw.pick(("In which town is the publisher of {0} based?", "Where is {0}'s publisher based?"))
        yield Question(text.format(book.name), _town(world, seat), (book.name, book.publisher, seat))


def older_birthplace(world: World, draw: Draw) -> Iterator[Question]:
    """Asks where the older of two people was born."""
    for first, other in _pairs(draw, list(world.people.values())):
        if first.birthday == other.birthday or first.birthplace == other.birthplace:
            continue
        older = min(first, other, key=lambda person: person.birthday)
        evidence = (first.name, other.name, older.birthplace)
        text = f"Where was the one born who is older, {first.name} or {other.name}?"
        yield Question(text, _town(world, older.birthplace), evidence)


def larger_river(world: World, draw: Draw) -> Iterator[Question]:
    """Asks on which river the larger of two towns is."""
    for first, other in _pairs(draw, list(world.towns.values())):
        if first.river != other.river:
            larger = max(first, other, key=lambda town: town.population)
            text = f"Which river flows through the larger of the towns {first.name} and {other.name}?"
            yield Question(text, _river(world, larger.river), (first.name, other.name, larger.river))


def longer_source_climber(world: World, draw: Draw) -> Iterator[Question]:
    """Asks who first climbed the mountain where the longer of two rivers rises."""
    for first, other in _pairs(draw, list(world.rivers.values())):
        longer = max(first, other, key=lambda river: river.length)
        shorter = other if longer is first else first
        climber = world.mountains[longer.source].climber
        if climber != world.mountains[shorter.source].climber:
            text = (
                f"Which is longer, the {first.name} or the {other.name}? "
                "Name the first person to climb the mountain where it rises."
            )
            yield Question(text, _person(world, climber), (first.name, other.name, longer.source))


def older_company_founder(world: World, draw: Draw) -> Iterator[Question]:
    """Asks who founded the older of two companies."""
    for first, other in _pairs(draw, list(world.companies.values())):
        if first.founded != other.founded and first.founder != other.founder:
            older = min(first, other, key=lambda company: company.founded)
            text = f"Who founded the older of the companies {first.name} and {other.name}?"
            yield Question(text, _person(world, older.founder), (first.name, other.name))


def born_before(world: World, draw: Draw) -> Iterator[Question]:
    """Asks whether one was born before the other: yes and no in turn."""
    is_yes = True
    for pair in _pairs(draw, list(world.people.values())):
        first, second = sorted(pair, key=lambda person: person.birthday)
        if first.birthday == second.birthday:
            continue
        subject, other = (first, second) if is_yes else (second, first)
        text = f"Was {subject.name} born before {other.name}?"
        yield Question(text, ("yes" if is_yes else "no",), (subject.name, other.name))
        is_yes = not is_yes


def same_region(world: World, draw: Draw) -> Iterator[Question]:
    """Asks whether two towns are in the same region: yes and no in turn."""
    towns = list(world.towns.values())
    pairs = [(town, other) for town in towns for other in towns if town.name < other.name]
    neighbours = draw.shuffle([pair for pair in pairs if pair[0].region == pair[1].region])
    strangers = draw.shuffle([pair for pair in pairs if pair[0].region != pair[1].region])
    for both in zip(neighbours, strangers, strict=False):
        for (subject, other), answer in zip(both, ("yes", "no"), strict=True):
            text = f"Are {subject.name} and {other.name} in the same region?"
            yield Question(text, (answer,), (subject.name, other.name))


def birthday(world: World, draw: Draw) -> Iterator[Question]:
    """Asks when a person was born."""
    for person in world.people.values():
        text = draw.pick(("When was {0} born?", "On what date was {0} born?")).format(person.name)
        yield Question(text, _date(person), (person.name,))


def founder_birthday(world: World, draw: Draw) -> Iterator[Question]:
    """Asks when a company's founder was born."""
    for company in world.companies.values():
        founder = world.people[company.founder]
        text = draw.pick(("When was the founder of {0} born?", "On what date was {0}'s founder born?"))
        yield Question(text.format(company.name), _date(founder), (company.name, founder.name))


def town_population(world: World, draw: Draw) -> Iterator[Question]:
    """Asks how many live in a town."""
    for town in world.towns.values():
        text = draw.pick(("How many inhabitants does {0} have?", "How many people live in {0}?"))
        yield Question(text.format(town.name), number_forms(town.population), (town.name,))


def river_length(world: World, draw: Draw) -> Iterator[Question]:
    """Asks how long a river is."""
    for river in world.rivers.values():
        text = draw.pick(
            ("How many kilometres long is the {0}?", "What is the length of the {0} in kilometres?")
        )
        yield Question(text.format(river.name), number_forms(river.length), (river.name,))


def expedition_members(world: World, draw: Draw) -> Iterator[Question]:
    """Asks how many took part in an expedition."""
    for journey in world.expeditions.values():
        text = draw.pick(("How many members did the {0} have?", "How many people took part in the {0}?"))
        yield Question(text.format(journey.name), number_forms(journey.members), (journey.name,))


def years_between(world: World, draw: Draw) -> Iterator[Question]:
    """Asks how many years lie between a company's founding and a museum's opening."""
    museums = draw.shuffle(list(world.museums.values()))
    for company, museum in zip(draw.shuffle(list(world.companies.values())), museums, strict=False):
        years = abs(company.founded - museum.opened)
        if years:
            names = f"the founding of {company.name} and the opening of the {museum.name}"
            text = f"How many years lie between {names}?"
            yield Question(text, number_forms(years), (company.name, museum.name))


def _pairs(draw: Draw, options: list[T]) -> Iterator[tuple[T, T]]:
    """Return neighbours in a random order, so that each option is used at most twice."""
    return pairwise(draw.shuffle(options))


def _date(person: Person) -> tuple[str, ...]:
    return date_forms(person.day, person.month, person.born)


FAMILIES = (
    Family("book_author", "single_hop", book_author),
    Family("author_birthplace", "two_hop", author_birthplace),
    Family("older_birthplace", "comparison", older_birthplace),
    Family("born_before", "yes_no", born_before),
    Family("birthday", "date", birthday),
    Family("town_population", "number", town_population),
    Family("company_founder", "single_hop", company_founder),
    Family("founder_teacher", "two_hop", founder_teacher),
    Family("larger_river", "comparison", larger_river),
    Family("town_river", "single_hop", town_river),
    Family("seat_river", "two_hop", company_river),
    Family("river_length", "number", river_length),
    Family("person_teacher", "single_hop", person_teacher),
    Family("leader_birthplace", "two_hop", leader_birthplace),
    Family("longer_source_climber", "comparison", longer_source_climber),
    Family("same_region", "yes_no", same_region),
    Family("founder_birthday", "date", founder_birthday),
    Family("expedition_members", "number", expedition_members),
    Family("mountain_climber", "single_hop", mountain_climber),
    Family("source_climber", "two_hop", source_climber),
    Family("older_company_founder", "comparison", older_company_founder),
    Family("company_seat", "single_hop", company_town),
    Family("architect_teacher", "two_hop", architect_teacher),
    Family("years_between", "number", years_between),
    Family("publisher_seat", "two_hop", publisher_town),
)
"""Every family once, in the order in which tasks go through them."""
