"""Unknown numbers: ages, coins, tickets and other small systems of linear equations."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ors_server_tasks.math_word_problems.english import TIMES, cap, dollars, money
from ors_server_tasks.math_word_problems.problem import Family, problem, require, require_within
from ors_server_tasks.math_word_problems.vocabulary import CHEAP_GOODS, KEEPSAKES, people, person

if TYPE_CHECKING:
    from ors_server_tasks.math_word_problems.draw import Draw
    from ors_server_tasks.math_word_problems.problem import Problem

CENTS = 100
YEARS = "years"


def thought_number(draw: Draw) -> Problem:
    """Asks for (y - b) / a."""
    thinker = person(draw)
    number, factor, added = draw.between(4, 60), draw.between(3, 12), draw.between(5, 70)
    result = number * factor + added
    question = (
        f"{thinker.name} thinks of a number, multiplies it by {factor}, and adds {added}. The result is "
        f"{result}. What number does {thinker.name} think of?"
    )
    return problem(question, number)


def sum_and_difference(draw: Draw) -> Problem:
    """Asks for (s + d) / 2."""
    first, second = people(draw, 2)
    item = draw.pick(KEEPSAKES)
    less, more = draw.between(11, 90), draw.between(4, 40)
    question = (
        f"{first.name} and {second.name} have {2 * less + more} {item.plural} together. {first.name} has "
        f"{more} more {item.plural} than {second.name}. How many {item.plural} does {first.name} have?"
    )
    return problem(question, less + more, item.plural)


def twice_as_many(draw: Draw) -> Problem:
    """Asks for s / (k + 1)."""
    first, second = people(draw, 2)
    item = draw.pick(KEEPSAKES)
    times, less = draw.between(2, 7), draw.between(8, 45)
    question = (
        f"{first.name} has {TIMES[times]} as many {item.plural} as {second.name}. Together they have "
        f"{less * (times + 1)}. How many {item.plural} does {second.name} have?"
    )
    return problem(question, less, item.plural)


def consecutive_numbers(draw: Draw) -> Problem:
    """Asks for (s + n (n - 1) / 2) / n, the largest."""
    count, first = draw.between(3, 7), draw.between(8, 120)
    kind, step = draw.pick((("whole", 1), ("even", 2), ("odd", 2)))
    start = first if kind == "whole" else 2 * first + (kind == "odd")
    total = sum(start + step * position for position in range(count))
    question = (
        f"The sum of {count} consecutive {kind} numbers is {total}. What is the largest of these numbers?"
    )
    return problem(question, start + step * (count - 1))


def ages_and_sum(draw: Draw) -> Problem:
    """Asks for x from k x + x + 2 n = s."""
    parent, child = people(draw, 2)
    age, times, later = draw.between(4, 14), draw.between(3, 6), draw.between(3, 15)
    require_within(age * times - age, 22, 45)
    question = (
        f"{parent.name} is {TIMES[times]} as old as {child.name}. In {later} years the sum of their ages "
        f"will be {age * (times + 1) + 2 * later} years. How many years old is {child.name} now?"
    )
    return problem(question, age, YEARS)


def coins_of_two_kinds(draw: Draw) -> Problem:
    """Asks for the number of one coin from the count and the worth of all."""
    owner = person(draw)
    (coin, worth), (other, other_worth) = draw.pick(
        (
            (("quarters", 25), ("dimes", 10)),
            (("quarters", 25), ("nickels", 5)),
            (("dimes", 10), ("nickels", 5)),
        )
    )
    count, other_count = draw.between(4, 35), draw.between(4, 35)
    question = (
        f"{owner.name} has {count + other_count} coins, all of them {coin} ({worth} cents each) and {other} "
        f"({other_worth} cents each). Together they are worth "
        f"{money(count * worth + other_count * other_worth)}. How many {coin} does {owner.name} have?"
    )
    return problem(question, count, coin)


def tickets_sold(draw: Draw) -> Problem:
    """Asks for the children's tickets from the count and the takings."""
    event = draw.pick(("school play", "puppet show", "circus", "concert", "magic show", "basketball game"))
    adult, child = draw.between(9, 18), draw.between(3, 8)
    adults, children = draw.between(25, 180), draw.between(25, 180)
    question = (
        f"For a {event}, {adults + children} tickets are sold. A ticket costs {money(adult * CENTS)} for "
        f"adults and {money(child * CENTS)} for children. The takings are "
        f"{money((adults * adult + children * child) * CENTS)}. How many tickets for children are sold?"
    )
    return problem(question, children, "tickets")


def heads_and_legs(draw: Draw) -> Problem:
    """Asks for the animals of one kind from heads and legs."""
    farmer = person(draw)
    four, two = (
        draw.pick(("goats", "sheep", "cows", "rabbits", "pigs")),
        draw.pick(("chickens", "ducks", "geese", "turkeys")),
    )
    fours, twos = draw.between(4, 40), draw.between(4, 60)
    question = (
        f"On {farmer.name}'s farm there are {two} with 2 legs each and {four} with 4 legs each. Together "
        f"they have {fours + twos} heads and {4 * fours + 2 * twos} legs. How many {four} are there?"
    )
    return problem(question, fours, four)


def ages_then_and_now(draw: Draw) -> Problem:
    """Asks for the age from two comparisons at different times."""
    parent, child = people(draw, 2)
    age, ago, later = draw.between(6, 20), draw.between(2, 5), draw.between(2, 16)
    past, future = draw.between(4, 7), draw.between(2, 3)
    older = past * (age - ago) + ago
    require(older + later == future * (age + later))
    require_within(older - age, 20, 45)
    question = (
        f"{ago} years ago {parent.name} was {TIMES[past]} as old as {child.name}. In {later} years "
        f"{parent.name} will be {TIMES[future]} as old as {child.name}. How many years old is {parent.name} "
        "now?"
    )
    return problem(question, older, YEARS)


def two_orders(draw: Draw) -> Problem:
    """Asks for p from a p + b q and c p + d q."""
    first, second = people(draw, 2)
    pen, other = draw.pick_some(CHEAP_GOODS, 2)
    price, other_price = draw.between(120, 800, 5), draw.between(120, 800, 5)
    a, b, c, d = (draw.between(2, 6) for _ in range(4))
    require(a * d != b * c)
    question = (
        f"{first.name} buys {pen.count(a)} and {other.count(b)} for {money(a * price + b * other_price)}. In "
        f"the same shop {second.name} buys {pen.count(c)} and {other.count(d)} for "
        f"{money(c * price + d * other_price)}. How many dollars does one {pen.singular} cost?"
    )
    return problem(question, dollars(price), "$")


def three_parts(draw: Draw) -> Problem:
    """Asks for x from x + (k x) + (x + d)."""
    first, second, third = people(draw, 3)
    times, more, base = draw.between(2, 5), draw.between(6, 50), draw.between(12, 90)
    total = base * (times + 2) + more
    question = (
        f"{first.name}, {second.name}, and {third.name} drive {total} kilometers in turns. {second.name} "
        f"drives {TIMES[times]} as far as {first.name}, and {third.name} drives {more} kilometers more than "
        f"{first.name}. How many kilometers does {second.name} drive?"
    )
    return problem(question, base * times, "kilometers")


def candles_burning(draw: Draw) -> Problem:
    """Asks for the hours until two lengths are equal."""
    tall, short = draw.between(24, 45), draw.between(12, 30)
    halves, slower = draw.between(3, 8), draw.between(1, 5)
    rate, other = Fraction(halves, 2), Fraction(slower, 2)
    require(tall > short and rate > other and other != 1)
    hours = (tall - short) / (rate - other)
    require(tall - rate * hours > 0)
    question = (
        f"Two candles are lit at the same time. One is {tall} centimeters long and gets {per_hour(rate)} "
        f"centimeters shorter every hour. The other is {short} centimeters long and gets {per_hour(other)} "
        "centimeters shorter every hour. After how many hours are they equally long? Give the exact value; "
        "it may be a fraction."
    )
    return problem(question, hours, "hours")


def per_hour(rate: Fraction) -> str:
    """A rate in halves as a decimal number, such as "1.5"."""
    return str(rate) if rate.denominator == 1 else f"{rate.numerator // 2}.5"


def equal_stocks(draw: Draw) -> Problem:
    """Asks for the days until two changing stocks are equal."""
    thing = draw.pick(("bricks", "liters of milk", "books", "tires", "sacks of flour"))
    days, down, up = draw.between(4, 25), draw.between(5, 30), draw.between(3, 20)
    low = draw.between(40, 250)
    high = low + days * (down + up)
    require(high > down * days)
    question = (
        f"One warehouse has {high} {thing}, and its stock falls by {down} every day. A second warehouse has "
        f"{low} {thing}, and its stock grows by {up} every day. After how many days do both have the same "
        "stock?"
    )
    return problem(question, days, "days")


def digits_reversed(draw: Draw) -> Problem:
    """Asks for a two-digit number, from its digit sum and the change when its digits are swapped."""
    tens, ones = draw.between(1, 8), draw.between(2, 9)
    require(tens < ones)
    thinker = person(draw)
    question = (
        f"{thinker.name} writes a two-digit number. The sum of its two digits is {tens + ones}. When "
        f"{thinker.name} swaps the digits, the new number is {9 * (ones - tens)} larger than the old one. "
        f"What number did {thinker.he} write first?"
    )
    return problem(question, 10 * tens + ones)


def quiz_points(draw: Draw) -> Problem:
    """Asks for the right answers from points won and lost."""
    player = person(draw)
    right, wrong = draw.between(8, 30), draw.between(2, 12)
    win, lose = draw.between(3, 10), draw.between(1, 4)
    score = right * win - wrong * lose
    require(score > 0)
    loses = "1 point is" if lose == 1 else f"{lose} points are"
    question = (
        f"In a quiz, {player.name} gets {win} points for every right answer, and {loses} taken away for "
        f"every wrong answer. {cap(player.he)} answers all {right + wrong} questions and has {score} points "
        "in the end. How many answers are right?"
    )
    return problem(question, right, "answers")


FAMILY = Family(
    "algebra",
    (
        (thought_number, sum_and_difference, twice_as_many, consecutive_numbers),
        (ages_and_sum, coins_of_two_kinds, tickets_sold, heads_and_legs),
        (
            ages_then_and_now,
            two_orders,
            three_parts,
            candles_burning,
            equal_stocks,
            digits_reversed,
            quiz_points,
        ),
    ),
)
