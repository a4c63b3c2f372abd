"""What is the case in an invented world: its people, places and things, and how they hang together.

It knows no English and no questions; `articles` tells the facts and `questions` asks for them.
"""

from dataclasses import dataclass
from typing import TypeAlias

from ors_server_tasks.qa.draw import Draw
from ors_server_tasks.qa.english import words
from ors_server_tasks.qa.names import Names, surnames

COUNTS = {
    "region": 12,
    "sea": 6,
    "mountain": 24,
    "river": 30,
    "town": 60,
    "person": 120,
    "company": 50,
    "book": 50,
    "expedition": 30,
    "museum": 30,
}
"""How many there are of each; every one but the seas has an article."""

PROFESSIONS = words(
    "architect astronomer botanist cartographer chemist composer engineer geologist historian inventor "
    "mathematician painter philosopher physician poet sculptor surveyor zoologist"
)
PRODUCTS = words(
    "barometers bicycles candles carpets clocks compasses glassware lamps locks microscopes organs paper "
    "pianos porcelain printing-presses saddles ships telescopes umbrellas varnish"
)
TRADES = words(
    "amber-carving basket-weaving bell-founding boat-building cheese-making cider lace leather linen "
    "map-engraving pottery rope-making salt silverwork tin-mining violin-making"
)

_EARLIEST_BIRTH, _LATEST_BIRTH = 1780, 1900
_OF_AGE, _BUSY_YEARS = 22, 30
"""Years after a birth from which, and for how many, a person founds, writes, climbs and builds."""
_TEACHER_OLDER = 15
"""Years by which a teacher is older, at least."""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the country."""

    name: str
    capital: str
    area: int
    """Square kilometres."""
    founded: int
    """Year."""


@dataclass(frozen=True, slots=True)
class Mountain:
    """A mountain and who climbed it first."""

    name: str
    region: str
    height: int
    """Metres."""
    climber: str
    climbed: int
    """Year."""


@dataclass(frozen=True, slots=True)
class River:
    """A river."""

    name: str
    alias: str
    """What people who live by it call it."""
    region: str
    source: str
    """The mountain where it rises."""
    mouth: str
    """The sea that it reaches."""
    length: int
    """Kilometres."""


@dataclass(frozen=True, slots=True)
class Town:
    """A town."""

    name: str
    alias: str
    """Its former name."""
    region: str
    river: str
    trade: str
    founded: int
    population: int


@dataclass(frozen=True, slots=True)
class Person:
    """A person of the world."""

    name: str
    middle: str
    profession: str
    birthplace: str
    teacher: str
    """An older person; empty for the oldest."""
    day: int
    month: int
    born: int
    """Year."""

    @property
    def full_name(self) -> str:
        """First, middle and last name."""
        first, _, last = self.name.partition(" ")
        return f"{first} {self.middle} {last}"

    @property
    def birthday(self) -> tuple[int, int, int]:
        """Year, month and day."""
        return self.born, self.month, self.day


@dataclass(frozen=True, slots=True)
class Company:
    """A firm."""

    name: str
    founder: str
    seat: str
    product: str
    founded: int
    employees: int


@dataclass(frozen=True, slots=True)
class Book:
    """A book."""

    name: str
    author: str
    publisher: str
    year: int
    pages: int


@dataclass(frozen=True, slots=True)
class Expedition:
    """A journey to a mountain."""

    name: str
    leader: str
    mountain: str
    start: str
    year: int
    members: int
    days: int


@dataclass(frozen=True, slots=True)
class Museum:
    """A museum and who built it."""

    name: str
    town: str
    architect: str
    opened: int
    exhibits: int


Entity: TypeAlias = Region | Mountain | River | Town | Person | Company | Book | Expedition | Museum


@dataclass(frozen=True, slots=True)
class World:
    """Everything, by name, in the order in which it was made."""

    regions: dict[str, Region]
    mountains: dict[str, Mountain]
    rivers: dict[str, River]
    towns: dict[str, Town]
    people: dict[str, Person]
    companies: dict[str, Company]
    books: dict[str, Book]
    expeditions: dict[str, Expedition]
    museums: dict[str, Museum]

    @property
    def entities(self) -> list[Entity]:
        """All of them, each of which has an article."""
        return [
            *self.regions.values(),
            *self.mountains.values(),
            *self.rivers.values(),
            *self.towns.values(),
            *self.people.values(),
            *self.companies.values(),
            *self.books.values(),
            *self.expeditions.values(),
            *self.museums.values(),
        ]


def make_world(seed: str, split: str) -> World:
    """Makes the world of a seed and a split.

    Args:
        seed: Any text; another seed makes another world.
        split: Whose names are used; the worlds of two splits share no name.
    """
    return _Maker(seed, split).make()


class _Maker:
    """Makes one world, each kind from those before it."""

    def __init__(self, seed: str, split: str) -> None:
        self._draw = Draw(f"{seed}/world")
        self._names = Names(seed, split)

    def make(self) -> World:
        region_names, sea_names, mountain_names, town_names = (
            self._several(kind) for kind in ("region", "sea", "mountain", "town")
        )
        rivers = self._rivers(region_names, mountain_names, sea_names)
        towns = self._towns(town_names, region_names, list(rivers))
        people = self._people(town_names)
        crowd = list(people.values())
        companies = self._companies(crowd, town_names)
        return World(
            regions=self._regions(region_names, town_names),
            mountains=self._mountains(mountain_names, region_names, crowd),
            rivers=rivers,
            towns=towns,
            people=people,
            companies=companies,
            books=self._books(crowd, list(companies.values())),
            expeditions=self._expeditions(crowd, mountain_names, town_names),
            museums=self._museums(crowd, town_names),
        )

    def _several(self, kind: str) -> list[str]:
        return [self._names.next(kind) for _ in range(COUNTS[kind])]

    def _regions(self, names: list[str], towns: list[str]) -> dict[str, Region]:
        capitals = self._draw.pick_some(towns, len(names))
        return {
            name: Region(name, capital, self._draw.between(1200, 19000), self._draw.between(1310, 1790))
            for name, capital in zip(names, capitals, strict=True)
        }

    def _rivers(self, regions: list[str], mountains: list[str], seas: list[str]) -> dict[str, River]:
        lengths = self._draw.pick_some(range(41, 1490), COUNTS["river"])
        rivers = [
            River(
                name=self._names.next("river"),
                alias=self._names.next("river"),
                region=self._draw.pick(regions),
                source=self._draw.pick(mountains),
                mouth=self._draw.pick(seas),
                length=length,
            )
            for length in lengths
        ]
        return {river.name: river for river in rivers}

    def _towns(self, names: list[str], regions: list[str], rivers: list[str]) -> dict[str, Town]:
        populations = self._draw.pick_some(range(1_150, 98_000), len(names))
        return {
            name: Town(
                name=name,
                alias=self._names.next("town"),
                region=self._draw.pick(regions),
                river=self._draw.pick(rivers),
                trade=self._draw.pick(TRADES),
                founded=self._draw.between(1120, 1760),
                population=population,
            )
            for name, population in zip(names, populations, strict=True)
        }

    def _people(self, towns: list[str]) -> dict[str, Person]:
        years = sorted(self._draw.between(_EARLIEST_BIRTH, _LATEST_BIRTH) for _ in range(COUNTS["person"]))
        persons: list[Person] = []
        for year in years:
            older = [person.name for person in persons if person.born <= year - _TEACHER_OLDER]
            name = self._names.next("person")
            middles = [surname for surname in surnames() if not name.endswith(f" {surname}")]
            persons.append(
                Person(
                    name=name,
                    middle=self._draw.pick(middles),
                    profession=self._draw.pick(PROFESSIONS),
                    birthplace=self._draw.pick(towns),
                    teacher=self._draw.pick(older) if older else "",
                    day=self._draw.between(1, 28),
                    month=self._draw.between(1, 12),
                    born=year,
                )
            )
        return {person.name: person for person in self._draw.shuffle(persons)}

    def _mountains(self, names: list[str], regions: list[str], crowd: list[Person]) -> dict[str, Mountain]:
        mountains: list[Mountain] = []
        for name in names:
            climber, year = self._deed(crowd)
            region, height = self._draw.pick(regions), self._draw.between(1_450, 6_900)
            mountains.append(Mountain(name, region, height, climber, year))
        return {mountain.name: mountain for mountain in mountains}

    def _companies(self, crowd: list[Person], towns: list[str]) -> dict[str, Company]:
        companies: list[Company] = []
        for name in self._several("company"):
            founder, year = self._deed(crowd)
            seat, product = self._draw.pick(towns), self._draw.pick(PRODUCTS)
            companies.append(Company(name, founder, seat, product, year, self._draw.between(103, 9_400)))
        return {company.name: company for company in companies}

    def _books(self, crowd: list[Person], companies: list[Company]) -> dict[str, Book]:
        first = min(company.founded for company in companies)
        books: list[Book] = []
        for name in self._several("book"):
            author, year = self._deed(crowd)
            year = max(year, first)
            publisher = self._draw.pick([company.name for company in companies if company.founded <= year])
            books.append(Book(name, author, publisher, year, self._draw.between(101, 890)))
        return {book.name: book for book in books}

    def _expeditions(
        self, crowd: list[Person], mountains: list[str], towns: list[str]
    ) -> dict[str, Expedition]:
        expeditions: dict[str, Expedition] = {}
        while len(expeditions) < COUNTS["expedition"]:
            leader, year = self._deed(crowd)
            mountain, start = self._draw.pick(mountains), self._draw.pick(towns)
            members, days = self._draw.between(7, 96), self._draw.between(31, 420)
            name = f"{mountain} expedition of {year}"
            expeditions.setdefault(name, Expedition(name, leader, mountain, start, year, members, days))
        return expeditions

    def _museums(self, crowd: list[Person], towns: list[str]) -> dict[str, Museum]:
        museums: list[Museum] = []
        for _ in range(COUNTS["museum"]):
            architect, year = self._deed(crowd)
            name, town = f"{self._names.next('surname')} Museum", self._draw.pick(towns)
            museums.append(Museum(name, town, architect, year, self._draw.between(1_020, 88_000)))
        return {museum.name: museum for museum in museums}

    def _deed(self, crowd: list[Person]) -> tuple[str, int]:
        """A person, and a year in which they could have done something."""
        person = self._draw.pick(crowd)
        return person.name, person.born + _OF_AGE + self._draw.below(_BUSY_YEARS)
