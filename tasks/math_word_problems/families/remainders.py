"""Division with remainder, divisors and multiples."""

from __future__ import annotations

from math import gcd, lcm
from typing import TYPE_CHECKING

from ors_server_tasks.math_word_problems.english import cap
from ors_server_tasks.math_word_problems.problem import Family, problem, require, require_within
from ors_server_tasks.math_word_problems.vocabulary import (
    BAKED,
    CONTAINERS,
    FRUIT,
    KEEPSAKES,
    SUPPLIES,
    people,
    person,
)

if TYPE_CHECKING:
    from ors_server_tasks.math_word_problems.draw import Draw
    from ors_server_tasks.math_word_problems.problem import Problem


def left_over(draw: Draw) -> Problem:
    """Asks for a mod b."""
    owner, item = person(draw), draw.pick(KEEPSAKES)
    friends, total = draw.between(4, 13), draw.between(60, 400)
    require(total % friends > 1)
    question = (
        f"{owner.name} divides {item.count(total)} equally among {friends} friends so that everyone gets as "
        f"many as possible. How many {item.plural} are left over?"
    )
    return problem(question, total % friends, item.plural)


def vehicles_needed(draw: Draw) -> Problem:
    """Asks for ceil(a / b)."""
    vehicle, low, high = draw.pick(
        (("buses", 30, 55), ("boats", 6, 14), ("minivans", 6, 8), ("cable cars", 20, 35))
    )
    group, capacity = draw.pick(("pupils", "hikers", "guests", "scouts", "tourists")), draw.between(low, high)
    riders = draw.between(3 * capacity, 12 * capacity)
    question = (
        f"{riders} {group} go on a trip in {vehicle} that carry at most {capacity} passengers each. What is "
        f"the smallest number of {vehicle} that they need?"
    )
    return problem(question, -(-riders // capacity), vehicle)


def full_boxes(draw: Draw) -> Problem:
    """Asks for floor(a / b)."""
    baker, item = person(draw), draw.pick(BAKED)
    size, total = draw.pick((6, 8, 9, 12, 15, 16)), draw.between(90, 500)
    require(total % size > 0)
    question = (
        f"{baker.name} bakes {item.count(total)} and puts them into boxes of {size}. Only full boxes are "
        "sold. How many boxes can be sold?"
    )
    return problem(question, total // size, "boxes")


def missing_to_full(draw: Draw) -> Problem:
    """Asks for -a mod b."""
    packer, item, container = person(draw), draw.pick(FRUIT), draw.pick(CONTAINERS)
    size, total = draw.between(7, 25), draw.between(80, 600)
    missing = -total % size
    require(missing > 1)
    question = (
        f"{packer.name} packs {item.count(total)} into {container.plural} of {size}. The last "
        f"{container.singular} does not get full. How many more {item.plural} would be needed to fill it?"
    )
    return problem(question, missing, item.plural)


def equal_bags(draw: Draw) -> Problem:
    """Asks for gcd(a, b)."""
    packer, (supply, other) = person(draw), draw.pick_some(SUPPLIES, 2)
    bags, first, second = draw.between(4, 24), draw.between(2, 15), draw.between(2, 15)
    require(gcd(first, second) == 1)
    question = (
        f"{packer.name} has {supply.count(bags * first)} and {other.count(bags * second)}. {cap(packer.he)} "
        "makes gift bags that all have the same content and uses up everything. What is the largest number "
        "of gift bags possible?"
    )
    return problem(question, bags, "gift bags")


def together_again(draw: Draw) -> Problem:
    """Asks for lcm(a, b)."""
    first, second = people(draw, 2)
    site = draw.pick(("library", "gym", "swimming pool", "market", "museum"))
    days, other = draw.pick_some(range(3, 22), 2)
    require_within(lcm(days, other), max(days, other) + 1, 250)
    question = (
        f"{first.name} goes to the {site} every {days} days and {second.name} every {other} days. Today both "
        "are there. After how many days are both there on the same day for the next time?"
    )
    return problem(question, lcm(days, other), "days")


def two_ways_to_pack(draw: Draw) -> Problem:
    """Asks for the left over after refilling, with both quotients."""
    packer, item = person(draw), draw.pick(KEEPSAKES)
    small, large = draw.between(3, 9), draw.between(11, 25)
    total = draw.between(100, 600)
    rest = total % large
    require(rest % small > 0 and rest > small)
    question = (
        f"{packer.name} has {item.count(total)}. {cap(packer.he)} first fills as many big bags with {large} "
        f"{item.plural} each as possible. From the rest {packer.he} fills as many small bags with {small} "
        f"each as possible. How many {item.plural} remain without a bag?"
    )
    return problem(question, rest % small, item.plural)


def cut_boards(draw: Draw) -> Problem:
    """Asks for the boards to buy when each gives a whole number of pieces."""
    builder, thing = person(draw), draw.pick(("shelves", "rungs", "slats", "fence pickets"))
    length, piece = draw.pick((180, 200, 240, 250, 300, 360, 400)), draw.between(35, 85)
    per_board = length // piece
    count = draw.between(3 * per_board + 1, 11 * per_board)
    require(per_board > 1 and length % piece > 0 and count % per_board > 0)
    question = (
        f"{builder.name} needs {count} {thing}, each {piece} centimeters long and cut in one piece from "
        f"boards that are {length} centimeters long. How many boards must {builder.he} buy?"
    )
    return problem(question, -(-count // per_board), "boards")


def smallest_with_remainders(draw: Draw) -> Problem:
    """Asks for the smallest number with two given remainders."""
    owner, item = person(draw), draw.pick(KEEPSAKES)
    row, other = draw.pick_some(range(4, 13), 2)
    require(gcd(row, other) == 1)
    rest, other_rest = draw.between(1, row - 1), draw.between(1, other - 1)
    total = next(
        number for number in range(1, row * other) if number % row == rest and number % other == other_rest
    )
    require(total > 2 * max(row, other))
    question = (
        f"When {owner.name} puts {owner.his} {item.plural} into rows of {row}, {remain(rest)}. With rows of "
        f"{other}, {remain(other_rest)}. What is the smallest number of {item.plural} that {owner.he} can "
        f"have, if {owner.he} has more than {2 * max(row, other)}?"
    )
    return problem(question, total, item.plural)


def remain(rest: int) -> str:
    """A clause about what is left over: "1 remains", "4 remain"."""
    return "1 remains" if rest == 1 else f"{rest} remain"


def between_with_remainder(draw: Draw) -> Problem:
    """Asks for the the number in a range with the same remainder for two divisors."""
    group = draw.pick(("children", "dancers", "soldiers", "gymnasts", "musicians"))
    row, other, rest = draw.between(5, 12), draw.between(5, 12), draw.between(1, 4)
    multiple = lcm(row, other)
    require(row != other)
    require_within(multiple, 30, 130)
    times = draw.between(1, 4)
    low = times * multiple - draw.between(4, multiple // 2)
    high = times * multiple + draw.between(10, max(10, multiple // 2))
    question = (
        f"More than {low} and fewer than {high} {group} take part in a parade. In rows of {row}, "
        f"{remain(rest)}, and in rows of {other}, {remain(rest)} too. How many {group} take part?"
    )
    return problem(question, times * multiple + rest, group)


def largest_tile(draw: Draw) -> Problem:
    """Asks for the number of the largest square tiles that cover a floor: (a / g) (b / g)."""
    room = draw.pick(("hall", "terrace", "bathroom", "kitchen", "balcony", "stage"))
    side, across, along = draw.between(12, 60, 2), draw.between(3, 11), draw.between(4, 15)
    require(gcd(across, along) == 1)
    question = (
        f"The rectangular floor of a {room} is {side * across} centimeters wide and {side * along} "
        "centimeters long. It is to be covered with square tiles of the same size, as large as possible, "
        "without cutting any. How many tiles are needed?"
    )
    return problem(question, across * along, "tiles")


def three_signals(draw: Draw) -> Problem:
    """Asks for the least common multiple of three periods."""
    pause, two, three = draw.pick_some((10, 12, 15, 18, 20, 24, 30, 36, 40, 45), 3)
    multiple = lcm(pause, two, three)
    require_within(multiple, 100, 720)
    thing = draw.pick(("buses", "ferries", "alarm clocks", "fountains", "trams"))
    verb = {
        "buses": "leave",
        "ferries": "leave",
        "alarm clocks": "ring",
        "fountains": "start",
        "trams": "leave",
    }[thing]
    question = (
        f"Three {thing} {verb} at the same moment. From then on the first one does so every {pause} minutes, "
        f"the second one every {two} minutes, and the third one every {three} minutes. After how many "
        f"minutes do all three {verb} at the same moment for the next time?"
    )
    return problem(question, multiple, "minutes")


def pages_of_stamps(draw: Draw) -> Problem:
    """Asks for the items on the last page after gifts: ((a - b) mod c)."""
    owner, friend = people(draw, 2)
    item = draw.pick(KEEPSAKES[1:4])
    pages, size, last = draw.between(8, 30), draw.between(9, 20), draw.between(2, 8)
    gave, bought = draw.between(11, 60), draw.between(5, 40)
    total = pages * size + last - bought + gave
    require(last < size)
    question = (
        f"{owner.name} has {item.count(total)}, gives {gave} of them to {friend.name}, and then buys "
        f"{bought} more. {cap(owner.he)} puts {owner.his} {item.plural} into an album, {size} to a page, and "
        f"starts a new page only when the one before is full. How many {item.plural} are on the last page?"
    )
    return problem(question, last, item.plural)


FAMILY = Family(
    "remainders",
    (
        (left_over, vehicles_needed, full_boxes, missing_to_full),
        (equal_bags, together_again, two_ways_to_pack, cut_boards),
        (smallest_with_remainders, between_with_remainder, largest_tile, three_signals, pages_of_stamps),
    ),
)
