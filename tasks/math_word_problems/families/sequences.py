"""Quantities that grow step by step: arithmetic and geometric sequences."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ors_server_tasks.math_word_problems.english import decimal, dollars, listing, money
from ors_server_tasks.math_word_problems.problem import Family, problem, require
from ors_server_tasks.math_word_problems.vocabulary import CHEAP_GOODS, KEEPSAKES, SEATED_PLACES, person

if TYPE_CHECKING:
    from ors_server_tasks.math_word_problems.draw import Draw
    from ors_server_tasks.math_word_problems.problem import Problem

CENTS = 100


def training_day(draw: Draw) -> Problem:
    """Asks for a + (n - 1) d."""
    athlete = person(draw)
    exercise = draw.pick(("push-ups", "sit-ups", "squats", "rope jumps", "pull-ups"))
    first, more, day = draw.between(4, 25), draw.between(2, 7), draw.between(7, 24)
    question = (
        f"{athlete.name} does {first} {exercise} on the first day of training and {more} more every day than "
        f"on the day before. How many {exercise} does {athlete.he} do on day {day}?"
    )
    return problem(question, first + (day - 1) * more, exercise)


def next_number(draw: Draw) -> Problem:
    """Asks for the the term after four given ones."""
    writer = person(draw)
    first = draw.between(2, 40)
    kind = draw.below(3)
    step, growth = draw.between(3, 17), draw.between(2, 4)
    if kind == 0:
        terms = [first + step * position for position in range(5)]
        rule = "adds the same number each time"
    elif kind == 1:
        terms = [first * growth**position for position in range(5)]
        rule = "multiplies by the same number each time"
    else:
        terms = [first + step * 6 - step * position for position in range(5)]
        rule = "subtracts the same number each time"
    question = (
        f"{writer.name} writes the numbers {', '.join(str(term) for term in terms[:4])}, and so on. To get "
        f"from one number to the next, {writer.he} {rule}. What is the next number?"
    )
    return problem(question, terms[4])


def folding_population(draw: Draw) -> Problem:
    """Asks for a 2^n or a 3^n."""
    kind = draw.pick(("bacteria", "yeast cells", "algae", "water fleas"))
    verb, growth = draw.pick((("doubles", 2), ("triples", 3)))
    start, steps = draw.between(5, 40, 5), draw.between(3, 6)
    hours = draw.between(2, 5)
    question = (
        f"A dish contains {start} {kind}. Their number {verb} every {hours} hours. How many {kind} are in "
        f"the dish after {steps * hours} hours?"
    )
    return problem(question, start * growth**steps, kind)


def seats_in_rows(draw: Draw) -> Problem:
    """Asks for n (2 a + (n - 1) d) / 2."""
    hall, rows, first, more = (
        draw.pick(SEATED_PLACES),
        draw.between(9, 24),
        draw.between(12, 30),
        draw.between(2, 5),
    )
    question = (
        f"A {hall} has {rows} rows of seats. The first row has {first} seats, and each following row has "
        f"{more} more seats than the row in front of it. How many seats are there in all?"
    )
    return problem(question, Fraction(rows * (2 * first + (rows - 1) * more), 2), "seats")


def weekly_savings(draw: Draw) -> Problem:
    """Asks for the sum of growing savings."""
    saver = person(draw)
    first, more, weeks = draw.between(50, 500, 25), draw.between(25, 150, 25), draw.between(6, 20)
    total = Fraction(weeks * (2 * first + (weeks - 1) * more), 2)
    question = (
        f"{saver.name} saves {money(first)} in the first week and every week {money(more)} more than in the "
        f"week before. How many dollars has {saver.he} saved after {weeks} weeks?"
    )
    return problem(question, dollars(total), "$")


def stacked_cans(draw: Draw) -> Problem:
    """Asks for the cans in a stack whose rows shrink by a constant."""
    goods = draw.pick(("cans", "logs", "barrels", "boxes", "hay bales"))
    step, top, rows = draw.between(1, 3), draw.between(1, 8), draw.between(6, 18)
    bottom = top + step * (rows - 1)
    question = (
        f"In a stack of {goods}, the bottom row has {bottom} {goods}, and every row has {step} fewer than "
        f"the row below it. The top row has {top}. How many {goods} are in the stack?"
    )
    require(top > 1)
    return problem(question, Fraction(rows * (top + bottom), 2), goods)


def day_of_reaching(draw: Draw) -> Problem:
    """Asks for the first n with a + (n - 1) d at least a goal."""
    someone, item = person(draw), draw.pick(KEEPSAKES)
    start, more, goal = draw.between(10, 60), draw.between(4, 13), draw.between(100, 300, 10)
    weeks = -((start - goal) // more)
    question = (
        f"{someone.name} has {item.count(start)} and gets {more} new ones at the end of every week. After "
        f"how many weeks does {someone.he} have at least {goal} {item.plural} for the first time?"
    )
    return problem(question, weeks, "weeks")


def bouncing_ball(draw: Draw) -> Problem:
    """Asks for h r^n."""
    dropper = person(draw)
    ratio = draw.pick((Fraction(1, 2), Fraction(2, 3), Fraction(3, 4), Fraction(3, 5), Fraction(4, 5)))
    height, bounces = draw.between(60, 400, 10), draw.between(2, 4)
    question = (
        f"{dropper.name} drops a ball from a height of {height} centimeters. After every bounce it rises to "
        f"{ratio} of the height from which it fell. How many centimeters high does it rise after bounce "
        f"number {bounces}? Give the exact value; it may be a fraction."
    )
    return problem(question, height * ratio**bounces, "centimeters")


def squares_of_matches(draw: Draw) -> Problem:
    """Asks for the number of shapes in a row that some sticks suffice for."""
    builder = person(draw)
    shape, sides = draw.pick((("squares", 4), ("triangles", 3), ("hexagons", 6), ("pentagons", 5)))
    shapes = draw.between(12, 90)
    spare = draw.between(0, sides - 2)
    sticks = 1 + (sides - 1) * shapes + spare
    question = (
        f"{builder.name} lays a row of {shape} with sticks of equal length; each one shares one side with "
        f"the one before it. The first needs {sides} sticks, and each further one needs {sides - 1} more. "
        f"How many {shape} can {builder.he} lay with {sticks} sticks?"
    )
    return problem(question, shapes, shape)


def falling_price(draw: Draw) -> Problem:
    """Asks for p (1 - d%)^n as an amount of dollars."""
    goods = draw.pick(("car", "tractor", "machine", "computer", "van"))
    price, cut, years = draw.between(2000, 40000, 100), draw.pick((10, 20, 30)), draw.between(2, 3)
    worth = price * Fraction(CENTS - cut, CENTS) ** years
    question = (
        f"A {goods} costs {money(price * CENTS)} when it is new. Every year it loses {cut}% of the value "
        f"that it had at the start of that year. How many dollars is it worth after {years} years?"
    )
    return problem(question, worth, "$")


def terms_apart(draw: Draw) -> Problem:
    """Asks for the term n from two others of an arithmetic sequence."""
    first, step = draw.between(3, 60), draw.between(2, 14)
    low = draw.between(3, 7)
    high, wanted = low + draw.between(2, 8), low + draw.between(10, 25)
    question = (
        "The houses on one side of a street are numbered so that each number is larger than the one before "
        f"it by the same amount. House number {low} in the row bears the number {first + step * (low - 1)}, "
        f"and house number {high} in the row bears the number {first + step * (high - 1)}. What number does "
        f"house number {wanted} in the row bear?"
    )
    return problem(question, first + step * (wanted - 1))


def spreading_news(draw: Draw) -> Problem:
    """Asks for 1 + k + k^2 + ... + k^n."""
    teller = person(draw)
    fan, rounds = draw.between(2, 5), draw.between(3, 5)
    total = sum(fan**step for step in range(rounds + 1))
    question = (
        f"{teller.name} knows a secret. On the first day {teller.he} tells it to {fan} people. On every "
        f"following day each person who heard it on the day before tells it to {fan} new people, and no one "
        f"else tells it. How many people know the secret after {rounds} days, with {teller.name}?"
    )
    return problem(question, total, "people")


def falling_unit_price(draw: Draw) -> Problem:
    """Asks for the sum of prices that fall by the same amount from one piece to the next."""
    buyer, goods = person(draw), draw.pick(CHEAP_GOODS)
    first, less, count = draw.between(600, 990, 10), draw.between(10, 40, 5), draw.between(5, 12)
    total = Fraction(count * (2 * first - (count - 1) * less), 2)
    question = (
        f"In a sale the first {goods.singular} costs {money(first)}, and every further {goods.singular} "
        f"costs {less} cents less than the one before. How many dollars does {buyer.name} pay for "
        f"{goods.count(count)}?"
    )
    return problem(question, dollars(total), "$")


def growing_plant(draw: Draw) -> Problem:
    """Asks for the height after weeks of growth in fractions."""
    gardener, plant = (
        person(draw),
        draw.pick(("sunflower", "bamboo cane", "tomato plant", "vine", "corn stalk")),
    )
    start, step = Fraction(draw.between(20, 90), 4), Fraction(draw.between(3, 19), 4)
    weeks = draw.between(4, 14)
    heights = listing([decimal(start), decimal(start + step), decimal(start + 2 * step)])
    question = (
        f"{gardener.name} measures a {plant} at the end of every week. The first three heights are {heights} "
        "centimeters. If it goes on growing by the same amount every week, how many centimeters high is it "
        f"{weeks} weeks after the first measurement?"
    )
    require(step.denominator > 1 or start.denominator > 1)
    return problem(question, start + weeks * step, "centimeters")


FAMILY = Family(
    "sequences",
    (
        (training_day, next_number, folding_population, day_of_reaching),
        (seats_in_rows, weekly_savings, stacked_cans, growing_plant),
        (bouncing_ball, squares_of_matches, falling_price, terms_apart, spreading_news, falling_unit_price),
    ),
)
