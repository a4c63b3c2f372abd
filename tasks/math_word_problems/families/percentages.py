"""Percentages: of, which, from, up and down."""

from __future__ import annotations

from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING

from ors_server_tasks.math_word_problems.english import dollars, money, with_article
from ors_server_tasks.math_word_problems.problem import Family, problem, require
from ors_server_tasks.math_word_problems.vocabulary import CLUBS, VISITED_PLACES, people, person

if TYPE_CHECKING:
    from ors_server_tasks.math_word_problems.draw import Draw
    from ors_server_tasks.math_word_problems.problem import Problem

WHOLE = 100
"""Percent in a whole."""


def whole_for(draw: Draw, percent: int, low: int, high: int) -> int:
    """Draws a number in [low, high] of which the given percentage is a whole number."""
    step = WHOLE // gcd(percent, WHOLE)
    return draw.between(-(-low // step) * step, high, step)


def of_visitors(draw: Draw) -> Problem:
    """Asks for p% of n."""
    site, kind = draw.pick(VISITED_PLACES), draw.pick(("children", "students", "tourists", "members"))
    percent = draw.between(5, 95, 5)
    visitors = whole_for(draw, percent, 120, 900)
    question = (
        f"On one day {with_article(site)} has {visitors} visitors, and {percent}% of them are {kind}. How "
        f"many {kind} is that?"
    )
    return problem(question, Fraction(visitors * percent, WHOLE), kind)


def sprouted(draw: Draw) -> Problem:
    """Asks for 100 a / n."""
    gardener = person(draw)
    plant = draw.pick(("bean", "sunflower", "tomato", "pumpkin", "radish", "basil"))
    seeds = draw.pick((20, 25, 40, 50, 75, 80, 120, 125, 150, 160, 200, 250))
    percent = draw.between(16, 96, 4)
    require(seeds * percent % WHOLE == 0)
    question = (
        f"{gardener.name} sows {seeds} {plant} seeds, and {seeds * percent // WHOLE} of them sprout. "
        "What percentage of the seeds sprout?"
    )
    return problem(question, percent, "%")


def not_novels(draw: Draw) -> Problem:
    """Asks for n - p% of n."""
    kind = draw.pick(("novels", "comic books", "dictionaries", "cookbooks", "travel guides"))
    percent = draw.between(4, 48, 2)
    books = whole_for(draw, percent, 300, 2500)
    question = (
        f"A bookstore has {books:,} books in stock. {percent}% of the books are {kind}. How many are not "
        f"{kind}?"
    )
    return problem(question, books - Fraction(books * percent, WHOLE), "books")


def test_result(draw: Draw) -> Problem:
    """Asks for the questions answered right, from a percentage."""
    pupil = person(draw)
    questions = draw.between(20, 150, 5)
    percent = draw.between(42, 98)
    require(questions * percent % WHOLE == 0)
    question = (
        f"A test has {questions} questions. {pupil.name} answers {percent}% of them correctly. "
        f"How many questions does {pupil.he} get wrong?"
    )
    return problem(question, questions - Fraction(questions * percent, WHOLE), "questions")


def membership_growth(draw: Draw) -> Problem:
    """Asks for 100 (b - a) / a."""
    club = draw.pick(CLUBS)
    before = draw.pick((20, 24, 25, 30, 32, 36, 40, 48, 50, 60, 64, 75, 80, 90, 96, 120, 150))
    percent = draw.pick((10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 75, 80))
    require(before * percent % WHOLE == 0)
    change = before * percent // WHOLE
    up = draw.pick((True, True, False))
    after, verb, what = (
        (before + change, "grows", "increase") if up else (before - change, "shrinks", "decrease")
    )
    question = (
        f"In one year the number of members of a {club} {verb} from {before} to {after}. "
        f"What is the {what} in percent?"
    )
    return problem(question, percent, "%")


def whole_from_part(draw: Draw) -> Problem:
    """Asks for part / p%."""
    percent = draw.pick((5, 8, 12, 15, 16, 24, 30, 35, 36, 45, 48, 60, 65, 72, 85))
    vehicles = whole_for(draw, percent, 150, 1500)
    kind = draw.pick(("electric", "red", "more than ten years old", "registered in another state", "vans"))
    question = (
        f"In a parking garage {vehicles * percent // WHOLE:,} vehicles are {kind}. That is {percent}% of all "
        "the vehicles in the garage. How many vehicles are in the garage?"
    )
    return problem(question, vehicles, "vehicles")


def two_groups(draw: Draw) -> Problem:
    """Asks for p% of a + q% of b."""
    activity = draw.pick(("play an instrument", "wear glasses", "have a pet", "walk to school", "like chess"))
    girls_percent, boys_percent = draw.pick_some((10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70), 2)
    girls = whole_for(draw, girls_percent, 80, 260)
    boys = whole_for(draw, boys_percent, 80, 260)
    question = (
        f"A school has {girls} girls and {boys} boys. {girls_percent}% of the girls and {boys_percent}% of "
        f"the boys {activity}. How many of the pupils {activity}?"
    )
    return problem(question, Fraction(girls * girls_percent + boys * boys_percent, WHOLE), "pupils")


def whole_before_rise(draw: Draw) -> Problem:
    """Asks for after / (1 + p%)."""
    town = draw.pick(("village", "town", "island", "valley"))
    percent = draw.pick((4, 5, 8, 10, 12, 15, 20, 25, 30))
    before = whole_for(draw, percent, 800, 9000)
    after = before + before * percent // WHOLE
    question = (
        f"Over ten years the number of people living in {with_article(town)} rose by {percent}% to "
        f"{after:,}. How many people lived there at the start of the ten years?"
    )
    return problem(question, before, "people")


def up_then_down(draw: Draw) -> Problem:
    """Asks for n (1 + p%) (1 - q%)."""
    item = draw.pick(("bicycles", "tickets", "newspapers", "umbrellas", "ice cream cones", "lamps"))
    up, down = draw.between(5, 60, 5), draw.between(5, 45, 5)
    first = draw.between(200, 6000, 100)
    third = Fraction(first * (WHOLE + up) * (WHOLE - down), WHOLE * WHOLE)
    question = (
        f"A company sold {first:,} {item} in its first year. In the second year it sold {up}% more than in "
        f"the first, and in the third year {down}% fewer than in the second. How many {item} did it sell in "
        "the third year?"
    )
    require(third.denominator == 1)
    return problem(question, third, item)


def mixed_drink(draw: Draw) -> Problem:
    """Asks for (a p + b q) / (a + b)."""
    maker = person(draw)
    first, second = draw.between(2, 9), draw.between(2, 9)
    weak, strong = draw.between(5, 30, 5), draw.between(40, 90, 5)
    percent = Fraction(first * weak + second * strong, first + second)
    require(percent.denominator == 1)
    question = (
        f"{maker.name} mixes {first} liters of a drink that is {weak}% juice with {second} liters of a drink "
        f"that is {strong}% juice. What percentage of the mixture is juice?"
    )
    return problem(question, percent, "%")


def yearly_interest(draw: Draw) -> Problem:
    """Asks for P (1 + r%)^2."""
    saver, amount = person(draw), draw.between(1000, 9000, 500)
    rate = draw.between(2, 8)
    balance = Fraction(amount * (WHOLE + rate) ** 2, WHOLE**2)
    question = (
        f"{saver.name} deposits {money(amount * WHOLE)} in an account that pays {rate}% interest at the end "
        "of each year. The interest stays in the account and earns interest too. How much money, in "
        "dollars, is in the account after 2 years?"
    )
    return problem(question, balance, "$")


def election(draw: Draw) -> Problem:
    """Asks for the votes for the winner minus votes for the loser, with blank votes."""
    winner, loser = people(draw, 2)
    votes, valid = draw.between(400, 3000, 200), draw.pick((90, 92, 94, 95, 96, 98))
    share = draw.pick((52, 54, 55, 56, 58, 60, 62, 64))
    margin = Fraction(votes * valid * (2 * share - WHOLE), WHOLE * WHOLE)
    for_winner = Fraction(votes * valid * share, WHOLE * WHOLE)
    require(margin.denominator == 1 and for_winner.denominator == 1)
    question = (
        f"In an election {votes:,} people vote, and {valid}% of the votes are valid. {winner.name} gets "
        f"{share}% of the valid votes and {loser.name} gets all the other valid votes. By how many votes "
        f"does {winner.name} win?"
    )
    return problem(question, margin, "votes")


def two_discounts(draw: Draw) -> Problem:
    """Asks for 100 - (100 - p)(100 - q) / 100, as a single reduction."""
    thing = draw.pick(("coat", "sofa", "camera", "carpet", "laptop", "mirror"))
    first, second = draw.between(10, 60, 5), draw.between(4, 45)
    total = WHOLE - Fraction((WHOLE - first) * (WHOLE - second), WHOLE)
    question = (
        f"The price of a {thing} is reduced by {first}%, and a week later the reduced price is reduced by a "
        f"further {second}%. By what percentage is the final price below the original price?"
    )
    return problem(question, total, "%")


def dollars_spent(draw: Draw) -> Problem:
    """Asks for income * (1 - p%) * (1 - q%)."""
    worker = person(draw)
    income = draw.between(1600, 4800, 100)
    rent, saved = draw.between(20, 40, 5), draw.between(10, 50, 10)
    rest = Fraction(income * (WHOLE - rent) * (WHOLE - saved), WHOLE)
    question = (
        f"{worker.name} earns {money(income * WHOLE)} a month. {rent}% of it goes to rent. {worker.name} "
        f"saves {saved}% of what is left after the rent and spends the remainder. How many dollars does "
        f"{worker.he} spend, without the rent?"
    )
    return problem(question, dollars(rest), "$")


FAMILY = Family(
    "percentages",
    (
        (of_visitors, sprouted, not_novels, test_result),
        (membership_growth, whole_from_part, two_groups, whole_before_rise),
        (up_then_down, mixed_drink, yearly_interest, election, two_discounts, dollars_spent),
    ),
)
