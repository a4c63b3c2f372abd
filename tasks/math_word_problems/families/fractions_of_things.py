"""Parts of a whole, parts of a rest, and lengths in fractions."""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING

from ors_server_tasks.math_word_problems.english import cap, mixed
from ors_server_tasks.math_word_problems.problem import Family, problem, require
from ors_server_tasks.math_word_problems.vocabulary import BAKED, CLUBS, KEEPSAKES, people, person

if TYPE_CHECKING:
    from ors_server_tasks.math_word_problems.draw import Draw
    from ors_server_tasks.math_word_problems.problem import Problem

EXACT = "Give the exact value as a whole number, a fraction or a mixed number."


def proper(draw: Draw, largest_denominator: int = 8) -> Fraction:
    """Draws a fraction strictly between 0 and 1 in lowest terms."""
    below = draw.between(3, largest_denominator)
    return Fraction(draw.pick([above for above in range(1, below) if gcd(above, below) == 1]), below)


def part_left_over(draw: Draw) -> Problem:
    """Asks for n (1 - p)."""
    part = proper(draw)
    group, way = draw.pick(CLUBS), draw.pick(("by bus", "by bicycle", "on foot", "by train"))
    members = part.denominator * draw.between(6, 16)
    question = (
        f"The {group} has {members} members. {part} of the members come to the meetings {way}. "
        "How many members do not?"
    )
    return problem(question, members * (1 - part), "members")


def cake_left(draw: Draw) -> Problem:
    """Asks for 1 - p - q."""
    first, second = people(draw, 2)
    dish = draw.pick(("a pizza", "a cake", "a pie", "a lasagna", "a loaf of bread"))
    eaten, other = proper(draw), proper(draw)
    require(eaten + other < 1)
    question = (
        f"{first.name} eats {eaten} of {dish} and {second.name} eats {other} of it. "
        f"What fraction of it is left? Give the exact value as a fraction."
    )
    return problem(question, 1 - eaten - other)


def recipe_scaled(draw: Draw) -> Problem:
    """Asks for batches * p."""
    cook = person(draw)
    treat, ingredient = draw.pick(BAKED), draw.pick(("flour", "sugar", "milk", "butter", "oats"))
    amount = proper(draw, 4) + draw.between(0, 2)
    batches = draw.between(3, 11)
    question = (
        f"One batch of {treat.plural} needs {cups(amount)} of {ingredient}. {cook.name} bakes {batches} "
        f"batches. How many cups of {ingredient} does {cook.he} need? {EXACT}"
    )
    return problem(question, amount * batches, "cups")


def cups(amount: Fraction) -> str:
    """An amount of cups: "3/4 cup", "2 1/2 cups"."""
    return f"{mixed(amount)} {'cup' if amount <= 1 else 'cups'}"


def page_of_book(draw: Draw) -> Problem:
    """Asks for n (1 - p) - more."""
    reader, part = person(draw), proper(draw)
    pages = part.denominator * draw.between(20, 50)
    more = draw.between(3, int(pages * (1 - part)) - 5)
    question = (
        f"A book has {pages} pages. {reader.name} has read {part} of it. Today {reader.he} reads {more} more "
        f"pages. How many pages does {reader.he} still have to read?"
    )
    return problem(question, pages * (1 - part) - more, "pages")


def gifts_in_turn(draw: Draw) -> Problem:
    """Asks for n (1 - p) (1 - q)."""
    owner, second, third = people(draw, 3)
    item, share, other = draw.pick(KEEPSAKES), proper(draw, 6), proper(draw, 6)
    start = share.denominator * other.denominator * draw.between(3, 9)
    question = (
        f"{owner.name} has {item.count(start)}. {cap(owner.he)} gives {share} of them to {second.name}, and "
        f"then {other} of the {item.plural} that remain to {third.name}. How many {item.plural} does "
        f"{owner.name} keep?"
    )
    return problem(question, start * (1 - share) * (1 - other), item.plural)


def ribbon_pieces(draw: Draw) -> Problem:
    """Asks for length / piece."""
    maker = person(draw)
    material = draw.pick(("ribbon", "rope", "wire", "string", "fabric tape"))
    piece = proper(draw)
    pieces = draw.between(5, 24)
    question = (
        f"{maker.name} cuts {mixed(piece * pieces)} meters of {material} into pieces that are {piece} of a "
        f"meter long. Nothing is left over. How many pieces does {maker.he} get?"
    )
    return problem(question, pieces, "pieces")


def tank_filled(draw: Draw) -> Problem:
    """Asks for added / (q - p)."""
    vessel = draw.pick(("water tank", "rain barrel", "fuel tank", "fish tank", "cattle trough"))
    before, after = proper(draw), proper(draw)
    require(before < after)
    capacity = lcm(before.denominator, after.denominator) * draw.between(3, 12)
    question = (
        f"A {vessel} is {before} full. After {capacity * (after - before)} liters are added, it is {after} "
        "full. How many liters does it hold when it is full?"
    )
    require(capacity * (after - before) > 1)
    return problem(question, capacity, "liters")


def two_lengths(draw: Draw) -> Problem:
    """Asks for total - a - b, in mixed numbers."""
    walker = person(draw)
    first, second = draw.between(2, 6) + proper(draw, 6), draw.between(1, 5) + proper(draw, 6)
    trail = draw.between(13, 24)
    question = (
        f"A trail is {trail} miles long. {walker.name} walks {mixed(first)} miles of it in the morning and "
        f"{mixed(second)} miles in the afternoon. How many miles are left to the end of the trail? {EXACT}"
    )
    return problem(question, trail - first - second, "miles")


def book_in_three_days(draw: Draw) -> Problem:
    """Asks for left / ((1 - p) (1 - q))."""
    reader, part, other = person(draw), proper(draw, 6), proper(draw, 6)
    pages = part.denominator * other.denominator * draw.between(8, 20)
    left = pages * (1 - part) * (1 - other)
    question = (
        f"{reader.name} reads {part} of a book on Friday and {other} of the rest of the book on Saturday. On "
        f"Sunday {reader.he} reads the last {left} pages. How many pages does the book have?"
    )
    return problem(question, pages, "pages")


def farm_animals(draw: Draw) -> Problem:
    """Asks for (1 - p) (1 - q)."""
    first, second, third = draw.pick_some(
        ("sheep", "goats", "cows", "chickens", "ducks", "horses", "rabbits"), 3
    )
    share, other = proper(draw), proper(draw)
    question = (
        f"On a farm, {share} of the animals are {first}. Of the other animals, {other} are {second}, and all "
        f"the rest are {third}. What fraction of all the animals are {third}? Give the exact value as a "
        "fraction."
    )
    return problem(question, (1 - share) * (1 - other))


def garden_beds(draw: Draw) -> Problem:
    """Asks for p rest / (1 - p - q)."""
    gardener = person(draw)
    first, second, third = draw.pick_some(
        ("carrots", "potatoes", "beans", "onions", "lettuce", "pumpkins"), 3
    )
    cut, other = proper(draw), proper(draw)
    require(cut + other < 1)
    unit = lcm(cut.denominator, other.denominator)
    area = unit * draw.between(2, 9)
    rest = area * (1 - cut - other)
    question = (
        f"{gardener.name} plants {cut} of a garden with {first} and {other} of the garden with {second}. The "
        f"remaining {rest} square meters are planted with {third}. How many square meters are planted with "
        f"{first}?"
    )
    require(rest > 1)
    return problem(question, area * cut, "square meters")


def shared_leftover(draw: Draw) -> Problem:
    """Asks for (1 - p) / n."""
    host = person(draw)
    dish = draw.pick(
        ("a tray of lasagna", "a bag of rice", "a chocolate cake", "a pot of soup", "a wheel of cheese")
    )
    part, friends = proper(draw), draw.between(2, 7)
    later = proper(draw, 4)
    question = (
        f"{host.name} has {part} of {dish} left. {cap(host.he)} keeps {later} of what is left for the next "
        f"day and shares the rest equally among {friends} friends. What fraction of the whole does each "
        "friend get? Give the exact value as a fraction."
    )
    return problem(question, part * (1 - later) / friends)


FAMILY = Family(
    "fractions",
    (
        (part_left_over, cake_left, recipe_scaled, page_of_book),
        (gifts_in_turn, ribbon_pieces, tank_filled, two_lengths),
        (book_in_three_days, farm_animals, garden_beds, shared_leftover),
    ),
)
