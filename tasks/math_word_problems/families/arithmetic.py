"""Several steps of whole-number arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ors_server_tasks.math_word_problems.english import TIMES, cap
from ors_server_tasks.math_word_problems.problem import Family, problem, require
from ors_server_tasks.math_word_problems.vocabulary import (
    BAKED,
    CONTAINERS,
    DAYS,
    FRUIT,
    KEEPSAKES,
    SEATED_PLACES,
    SUPPLIES,
    people,
    person,
)

if TYPE_CHECKING:
    from ors_server_tasks.math_word_problems.draw import Draw
    from ors_server_tasks.math_word_problems.problem import Problem


def gave_and_bought(draw: Draw) -> Problem:
    """Asks for a - b + c."""
    owner, friend = people(draw, 2)
    item = draw.pick(KEEPSAKES)
    start, gave, bought = draw.between(40, 160), draw.between(8, 35), draw.between(3, 30)
    question = (
        f"{owner.name} has {item.count(start)}. {cap(owner.he)} gives {gave} of them to {friend.name} and "
        f"then buys {bought} more. How many {item.plural} does {owner.name} have now?"
    )
    return problem(question, start - gave + bought, item.plural)


def seats_taken(draw: Draw) -> Problem:
    """Asks for rows * seats - empty."""
    hall, day = draw.pick(SEATED_PLACES), draw.pick(DAYS)
    rows, seats = draw.between(12, 40), draw.between(14, 36)
    empty = draw.between(11, 120)
    question = (
        f"A {hall} has {rows} rows with {seats} seats in each row. On {day} evening, {empty} seats stay "
        "empty. How many seats are taken?"
    )
    return problem(question, rows * seats - empty, "seats")


def packed_and_loose(draw: Draw) -> Problem:
    """Asks for containers * size + loose."""
    owner = person(draw)
    item, container = draw.pick(FRUIT), draw.pick(CONTAINERS)
    containers, size = draw.between(4, 25), draw.between(6, 24)
    loose = draw.between(2, size - 1)
    question = (
        f"{owner.name} packs {item.plural} into {container.count(containers)}, {size} to a "
        f"{container.singular}, and has {loose} {item.plural} left over. How many {item.plural} did "
        f"{owner.name} have to pack?"
    )
    return problem(question, containers * size + loose, item.plural)


def packs_handed_out(draw: Draw) -> Problem:
    """Asks for packs * size - pupils * each."""
    teacher = person(draw)
    item = draw.pick(SUPPLIES)
    packs, size = draw.between(5, 14), draw.between(10, 24)
    pupils, share = draw.between(15, 30), draw.between(2, 6)
    left = packs * size - pupils * share
    require(left > 0)
    question = (
        f"{teacher.name}, a teacher, buys {packs} packs of {item.plural} with {size} {item.plural} in "
        f"each pack. {cap(teacher.he)} hands out {share} {item.plural} to each of {teacher.his} {pupils} "
        f"pupils. How many {item.plural} are left?"
    )
    return problem(question, left, item.plural)


def unsold_in_a_week(draw: Draw) -> Problem:
    """Asks for 5 * weekday + 2 * weekend - sold."""
    item = draw.pick(BAKED)
    weekday, weekend = draw.between(60, 140, 5), draw.between(150, 260, 5)
    unsold = draw.between(13, 95)
    sold = 5 * weekday + 2 * weekend - unsold
    question = (
        f"A bakery bakes {weekday} {item.plural} on each of the 5 days from Monday to Friday and {weekend} "
        f"{item.plural} on each of the 2 days of the weekend. In one week it sells {sold:,} {item.plural}. "
        f"How many {item.plural} from that week are unsold?"
    )
    return problem(question, unsold, item.plural)


def three_collectors(draw: Draw) -> Problem:
    """Asks for a + m a + (m a - d)."""
    first, second, third = people(draw, 3)
    item = draw.pick(KEEPSAKES)
    own, times = draw.between(12, 60), draw.between(2, 6)
    fewer = draw.between(3, own - 2)
    question = (
        f"{first.name} has {item.count(own)}. {second.name} has {TIMES[times]} as many {item.plural} as "
        f"{first.name}, and {third.name} has {fewer} fewer than {second.name}. How many {item.plural} do the "
        "three of them have altogether?"
    )
    return problem(question, own + 2 * own * times - fewer, item.plural)


def pooled_and_divided(draw: Draw) -> Problem:
    """Asks for (a + b - eaten) / baskets."""
    first, second = people(draw, 2)
    item = draw.pick(FRUIT)
    baskets, basket_size = draw.between(3, 12), draw.between(8, 25)
    eaten = draw.between(2, 9)
    total = baskets * basket_size + eaten
    own = draw.between(total // 4, 3 * total // 4)
    question = (
        f"{first.name} picks {item.count(own)} and {second.name} picks {total - own}. They put the "
        f"{item.plural} together, eat {eaten} of them, and divide the rest equally among {baskets} baskets. "
        f"How many {item.plural} go into each basket?"
    )
    return problem(question, basket_size, item.plural)


def reading_catch_up(draw: Draw) -> Problem:
    """Asks for (pages - done * slow) / days left."""
    reader = person(draw)
    slow, done = draw.between(9, 24), draw.between(4, 10)
    left, fast = draw.between(3, 9), draw.between(25, 48)
    pages = slow * done + left * fast
    question = (
        f"{reader.name} has {done + left} days to read a book of {pages} pages. {cap(reader.he)} reads "
        f"{slow} pages on each of the first {done} days. How many pages must {reader.he} read on each of the "
        f"remaining days, if {reader.he} reads the same number of pages on each of them?"
    )
    return problem(question, fast, "pages")


def library_books(draw: Draw) -> Problem:
    """Asks for start - days * (lent - returned) + boxes * size."""
    lent, days = draw.between(60, 120), draw.between(4, 12)
    returned = draw.between(20, lent - 9)
    boxes, size = draw.between(3, 9), draw.between(12, 40)
    start = draw.between(days * lent + 200, days * lent + 1400, 10)
    question = (
        f"On Monday morning {start:,} books stand on the shelves of a library. On each of the next {days} "
        f"days, {lent} books are lent and {returned} books are returned to the shelves. After that, {boxes} "
        f"boxes with {size} new books each arrive and are put on the shelves too. How many books stand on "
        "the shelves then?"
    )
    return problem(question, start - days * (lent - returned) + boxes * size, "books")


def train_stops(draw: Draw) -> Problem:
    """Asks for (a - b + c) / 2 + d."""
    halved = draw.between(20, 70)
    got_on, got_off = draw.between(6, 30), draw.between(5, 30)
    boarded = draw.between(4, 25)
    start = 2 * halved - got_on + got_off
    require(start > got_off)
    question = (
        f"A train leaves the first station with {start} passengers. At the second station {got_off} "
        f"passengers get off and {got_on} get on. At the third station half of the passengers get off and "
        f"{boarded} get on. How many passengers are on the train when it leaves the third station?"
    )
    return problem(question, halved + boarded, "passengers")


def working_backwards(draw: Draw) -> Problem:
    """Asks for 2 * (left + lost - found)."""
    owner, friend = people(draw, 2)
    item = draw.pick(KEEPSAKES)
    lost, new = draw.between(11, 25), draw.between(2, 10)
    left = draw.between(15, 80)
    question = (
        f"{owner.name} gives half of {owner.his} {item.plural} to {friend.name}. Later {owner.he} sells "
        f"{lost} of the {item.plural} that {owner.he} kept, and then buys {new} new ones. Now {owner.name} "
        f"has {item.count(left)}. How many {item.plural} did {owner.he} have at the beginning?"
    )
    return problem(question, 2 * (left + lost - new), item.plural)


def orchard_harvest(draw: Draw) -> Problem:
    """Asks for (rows * trees * yield - bad) / crate size."""
    farmer = person(draw)
    item = draw.pick(FRUIT[:6])
    rows, trees, yield_per_tree = draw.between(5, 12), draw.between(6, 15), draw.between(30, 80, 5)
    harvest = rows * trees * yield_per_tree
    size = draw.pick((20, 24, 25, 30, 36, 40))
    crates = (harvest - draw.between(20, 200)) // size
    bad = harvest - crates * size
    question = (
        f"{farmer.name}'s orchard has {rows} rows of {trees} trees, and each tree bears {yield_per_tree} "
        f"{item.plural}. {cap(farmer.he)} throws away {bad} bad {item.plural} and packs the rest into crates "
        f"of {size}, with none left over. How many crates are filled?"
    )
    return problem(question, crates, "crates")


FAMILY = Family(
    "arithmetic",
    (
        (gave_and_bought, seats_taken, packed_and_loose, packs_handed_out),
        (unsold_in_a_week, three_collectors, pooled_and_divided, reading_catch_up),
        (library_books, train_stops, working_backwards, orchard_harvest),
    ),
)
