"""Ratios: sharing, scaling, mixing and comparing."""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING

from ors_server_tasks.math_word_problems.english import cap, decimal, money
from ors_server_tasks.math_word_problems.problem import Family, problem, require, require_within
from ors_server_tasks.math_word_problems.vocabulary import COLORS, FRUIT, KEEPSAKES, TOWNS, people, person

if TYPE_CHECKING:
    from ors_server_tasks.math_word_problems.draw import Draw
    from ors_server_tasks.math_word_problems.problem import Problem

CENTS = 100


def coprime_pair(draw: Draw, largest: int = 9) -> tuple[int, int]:
    """Draws two different numbers in [1, largest] without a common divisor."""
    first, second = draw.between(1, largest), draw.between(1, largest)
    require(first != second and gcd(first, second) == 1)
    return first, second


def shared_money(draw: Draw) -> Problem:
    """Asks for t a / (a + b)."""
    first, second = people(draw, 2)
    own, other = coprime_pair(draw)
    part = draw.between(4, 30)
    question = (
        f"{first.name} and {second.name} earn {money((own + other) * part * CENTS)} together and share it in "
        f"the ratio {own}:{other}, in this order. How many dollars does {first.name} get?"
    )
    return problem(question, own * part, "$")


def rice_and_water(draw: Draw) -> Problem:
    """Asks for amount * b / a."""
    cook = person(draw)
    dish = draw.pick((("rice", "water"), ("oats", "milk"), ("lentils", "broth"), ("couscous", "water")))
    dry, wet = coprime_pair(draw, 7)
    require(dry > 1)
    batches = draw.between(3, 9)
    question = (
        f"{cook.name} uses {dry} cups of {dish[0]} for every {wet} {'cup' if wet == 1 else 'cups'} of "
        f"{dish[1]}. How many cups of {dish[1]} does {cook.he} use with {dry * batches} cups of {dish[0]}?"
    )
    return problem(question, wet * batches, "cups")


def map_scale(draw: Draw) -> Problem:
    """Asks for distance on the map * scale."""
    first, second = draw.pick_some(TOWNS, 2)
    scale, tenths = draw.between(2, 25), draw.between(21, 149)
    question = (
        f"On a map, 1 centimeter stands for {scale} kilometers. {first} and {second} are "
        f"{decimal(Fraction(tenths, 10))} centimeters apart on the map. "
        "How many kilometers apart are they in reality?"
    )
    return problem(question, Fraction(tenths * scale, 10), "kilometers")


def boys_and_girls(draw: Draw) -> Problem:
    """Asks for n b / (a + b)."""
    own, other = coprime_pair(draw, 8)
    part = draw.between(3, 14)
    kinds = draw.pick(
        (
            ("adults", "children", "on a boat"),
            ("boys", "girls", "at a camp"),
            ("cats", "dogs", "in a shelter"),
        )
    )
    question = (
        f"There are {(own + other) * part} {kinds[0]} and {kinds[1]} {kinds[2]}. The ratio of {kinds[0]} to "
        f"{kinds[1]} is {own}:{other}. How many {kinds[1]} are there?"
    )
    return problem(question, other * part, kinds[1])


def from_difference(draw: Draw) -> Problem:
    """Asks for d (a + b) / (b - a)."""
    owner = person(draw)
    item, (first, second) = draw.pick(KEEPSAKES[:8]), draw.pick_some(COLORS, 2)
    own, other = coprime_pair(draw)
    require(own < other)
    part = draw.between(3, 20)
    question = (
        f"{owner.name} has only {first} and {second} {item.plural}. The ratio of {first} to {second} "
        f"{item.plural} is {own}:{other}. There are {(other - own) * part} more {second} {item.plural} than "
        f"{first} ones. How many {item.plural} does {owner.name} have in all?"
    )
    require((other - own) * part > 1)
    return problem(question, (own + other) * part, item.plural)


def three_shares(draw: Draw) -> Problem:
    """Asks for t max(a, b, c) / (a + b + c)."""
    first, second, third = people(draw, 3)
    own, two, three = draw.pick_some(range(1, 10), 3)
    require(gcd(own, two, three) == 1)
    part = draw.between(6, 40)
    question = (
        f"{first.name}, {second.name}, and {third.name} divide a prize of "
        f"{money((own + two + three) * part * CENTS)} in the ratio {own}:{two}:{three}. How many dollars is "
        "the largest share?"
    )
    return problem(question, max(own, two, three) * part, "$")


def paint_mix(draw: Draw) -> Problem:
    """Asks for the liters of one color for an amount of the other color."""
    painter = person(draw)
    mix = draw.pick(
        (
            ("green", "blue", "yellow"),
            ("orange", "red", "yellow"),
            ("purple", "red", "blue"),
            ("pink", "red", "white"),
        )
    )
    own, other = coprime_pair(draw, 7)
    total = Fraction((own + other) * draw.between(3, 25), 2)
    question = (
        f"{painter.name} makes {mix[0]} paint by mixing {mix[1]} and {mix[2]} paint in the ratio "
        f"{own}:{other}. How many liters of {mix[2]} paint does {painter.he} need for {decimal(total)} "
        f"liters of {mix[0]} paint?"
    )
    return problem(question, total * other / (own + other), "liters")


def prices_in_proportion(draw: Draw) -> Problem:
    """Asks for cost of a * b / a."""
    buyer = person(draw)
    fruit = draw.pick(FRUIT)
    count, wanted = draw.pick_some((4, 5, 6, 8, 10, 12, 15, 18, 20), 2)
    price = draw.between(15, 95, 5)
    question = (
        f"{fruit.count(count)} cost {money(count * price)}. At the same price for each {fruit.singular}, how "
        f"many dollars does {buyer.name} pay for {fruit.count(wanted)}?"
    )
    return problem(question, Fraction(wanted * price, CENTS), "$")


def ratio_after_joining(draw: Draw) -> Problem:
    """Asks for the unchanged members, from the ratio before and the ratio after."""
    girls, boys = coprime_pair(draw, 7)
    part, joined = draw.between(2, 9), draw.between(2, 18)
    girls_now, boys_now = girls * part + joined, boys * part
    divisor = gcd(girls_now, boys_now)
    require(divisor > 1)
    require_within(girls_now // divisor, 1, 15)
    group = draw.pick(("school orchestra", "sports club", "summer camp", "dance class", "youth choir"))
    question = (
        f"In a {group} the ratio of girls to boys is {girls}:{boys}. After {joined} more girls join, the "
        f"ratio of girls to boys is {girls_now // divisor}:{boys_now // divisor}. How many boys are there?"
    )
    return problem(question, boys_now, "boys")


def chained_ratios(draw: Draw) -> Problem:
    """Asks for t c / (a + b + c) with a:b and b:c given apart."""
    first, second, third = people(draw, 3)
    item = draw.pick(KEEPSAKES)
    (own, two), (three, four) = coprime_pair(draw, 6), coprime_pair(draw, 6)
    require(two != three)
    middle = lcm(two, three)
    shares = (own * middle // two, middle, four * middle // three)
    part = draw.between(2, 7)
    question = (
        f"{first.name}, {second.name}, and {third.name} have {sum(shares) * part} {item.plural} altogether. "
        f"The ratio of {first.name}'s {item.plural} to {second.name}'s is {own}:{two}, and the ratio of "
        f"{second.name}'s {item.plural} to {third.name}'s is {three}:{four}. How many {item.plural} does "
        f"{third.name} have?"
    )
    return problem(question, shares[2] * part, item.plural)


def alloy(draw: Draw) -> Problem:
    """Asks for the amount of one metal in a blend of two alloys."""
    (own, two), (three, four) = coprime_pair(draw, 5), coprime_pair(draw, 5)
    first, second = (own + two) * draw.between(2, 12), (three + four) * draw.between(2, 12)
    metals = draw.pick((("copper", "zinc"), ("copper", "tin"), ("silver", "copper"), ("iron", "nickel")))
    copper = Fraction(first * own, own + two) + Fraction(second * three, three + four)
    question = (
        f"One alloy contains {metals[0]} and {metals[1]} in the ratio {own}:{two}. Another contains the same "
        f"two metals in the ratio {three}:{four}. {first} kilograms of the first alloy are melted together "
        f"with {second} kilograms of the second. How many kilograms of {metals[0]} does the result contain?"
    )
    return problem(question, copper, "kilograms")


def partners_profit(draw: Draw) -> Problem:
    """Asks for a share of a profit, in proportion to money and time."""
    first, second = people(draw, 2)
    stake, other_stake = draw.between(2, 12), draw.between(2, 12)
    months = draw.between(3, 11)
    weight, other_weight = stake * 12, other_stake * months
    common = gcd(weight, other_weight)
    weight, other_weight = weight // common, other_weight // common
    require_within(weight + other_weight, 2, 40)
    part = draw.between(30, 300, 10)
    question = (
        f"{first.name} invests {money(stake * 1000 * CENTS)} in a business for 12 months, and {second.name} "
        f"invests {money(other_stake * 1000 * CENTS)} in it for {months} months. They share the profit of "
        f"{money((weight + other_weight) * part * CENTS)} in proportion to money times months. How many "
        f"dollars does {second.name} get?"
    )
    return problem(question, other_weight * part, "$")


def juice_from_fruit(draw: Draw) -> Problem:
    """Asks for an amount through two rates in a row."""
    cook = person(draw)
    fruit = draw.pick(FRUIT[:8])
    count, glasses = draw.pick(((5, 2), (7, 3), (8, 3), (9, 4), (7, 2), (9, 2), (11, 4)))
    jugs = draw.between(3, 12)
    per_jug = glasses * draw.between(2, 4)
    needed = count * jugs * per_jug // glasses
    question = (
        f"{cap(fruit.plural)} are pressed for juice: {count} {fruit.plural} give {glasses} glasses, and a "
        f"jug holds {per_jug} glasses. How many {fruit.plural} does {cook.name} need to fill {jugs} jugs?"
    )
    return problem(question, needed, fruit.plural)


FAMILY = Family(
    "ratios",
    (
        (shared_money, rice_and_water, map_scale, boys_and_girls),
        (from_difference, three_shares, paint_mix, prices_in_proportion),
        (ratio_after_joining, chained_ratios, alloy, partners_profit, juice_from_fruit),
    ),
)
