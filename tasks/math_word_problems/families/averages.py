"""Means, of a list, of groups and after a change."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ors_server_tasks.math_word_problems.english import ORDINALS, decimal, listing
from ors_server_tasks.math_word_problems.problem import Family, problem, require, require_within
from ors_server_tasks.math_word_problems.vocabulary import DAYS, people, person

if TYPE_CHECKING:
    from ors_server_tasks.math_word_problems.draw import Draw
    from ors_server_tasks.math_word_problems.problem import Problem

MEASURES = (
    ("runs", "miles", 3, 14),
    ("reads", "pages", 18, 75),
    ("practices the violin for", "minutes", 20, 90),
    ("solves", "puzzles", 4, 19),
    ("sells", "raffle tickets", 9, 60),
    ("bakes", "rolls", 24, 96),
)
"""Verb, unit, smallest and largest amount of one day."""


def terminates(value: Fraction) -> bool:
    """Whether the value has at most two decimal places."""
    return (value * 100).denominator == 1


def mean_of_days(draw: Draw) -> Problem:
    """Asks for sum / n."""
    someone, (verb, unit, low, high) = person(draw), draw.pick(MEASURES)
    days = draw.between(3, 6)
    amounts = [draw.between(low, high) for _ in range(days)]
    mean = Fraction(sum(amounts), days)
    require(terminates(mean))
    question = (
        f"From Monday to {DAYS[days - 1]}, {someone.name} {verb} "
        f"{listing([str(amount) for amount in amounts])} {unit}, day by day. What is the average number of "
        f"{unit} per day?"
    )
    return problem(question, mean, unit)


def total_from_mean(draw: Draw) -> Problem:
    """Asks for n m."""
    thing, unit = draw.pick(
        (("parcels", "kilograms"), ("melons", "kilograms"), ("pumpkins", "kilograms"), ("planks", "meters"))
    )
    count, tenths = draw.between(4, 25), draw.between(11, 89)
    measure = "weight" if unit == "kilograms" else "length"
    question = (
        f"The average {measure} of {count} {thing} is {decimal(Fraction(tenths, 10))} {unit}. "
        f"What is their total {measure} in {unit}?"
    )
    return problem(question, Fraction(count * tenths, 10), unit)


def mean_height(draw: Draw) -> Problem:
    """Asks for the mean of four people's heights."""
    group = people(draw, 4)
    heights = [draw.between(128, 192) for _ in group]
    mean = Fraction(sum(heights), 4)
    question = (
        f"{listing([someone.name for someone in group])} are {listing([str(height) for height in heights])} "
        "centimeters tall, in this order. What is their average height in centimeters?"
    )
    return problem(question, mean, "centimeters")


def score_needed(draw: Draw) -> Problem:
    """Asks for n m - sum."""
    pupil = person(draw)
    scores = [draw.between(61, 95) for _ in range(draw.between(3, 5))]
    wanted = draw.between(74, 92)
    needed = wanted * (len(scores) + 1) - sum(scores)
    require_within(needed, max(50, max(scores) - 20), 100)
    question = (
        f"{pupil.name} scores {listing([str(score) for score in scores])} points on {len(scores)} tests. How "
        f"many points does {pupil.he} need on the next test so that the average of all {len(scores) + 1} "
        f"tests is {wanted} points?"
    )
    return problem(question, needed, "points")


def two_classes(draw: Draw) -> Problem:
    """Asks for (n a + m b) / (n + m)."""
    first, second = draw.between(16, 32, 2), draw.between(16, 32, 2)
    score, other = draw.between(58, 92), draw.between(58, 92)
    mean = Fraction(first * score + second * other, first + second)
    require(score != other and terminates(mean) and first != second)
    question = (
        f"A class of {first} pupils has an average of {score} points on a test. Another class of {second} "
        f"pupils has an average of {other} points. What is the average of all the pupils of the two classes "
        "together?"
    )
    return problem(question, mean, "points")


def missing_day(draw: Draw) -> Problem:
    """Asks for n m - the known ones."""
    someone, (verb, unit, low, high) = person(draw), draw.pick(MEASURES)
    amounts = [draw.between(low, high) for _ in range(5)]
    require(sum(amounts) % 5 == 0)
    hidden = draw.between(0, 4)
    shown = [str(amount) for day, amount in enumerate(amounts) if day != hidden]
    question = (
        f"From Monday to Friday {someone.name} {verb} {sum(amounts) // 5} {unit} a day on average. On the 4 "
        f"days other than {DAYS[hidden]} the amounts are {listing(shown)} {unit}. How many {unit} is it on "
        f"{DAYS[hidden]}?"
    )
    return problem(question, amounts[hidden], unit)


def month_average(draw: Draw) -> Problem:
    """Asks for the mean per day over two stretches of days."""
    shop = draw.pick(("bakery", "kiosk", "cafe", "flower stall", "bookstall"))
    days, more = draw.between(5, 15), draw.between(5, 15)
    first, second = draw.between(40, 160), draw.between(40, 160)
    mean = Fraction(days * first + more * second, days + more)
    require(terminates(mean) and first != second)
    question = (
        f"For {days} days a {shop} has {first} customers a day on average, and for the following {more} "
        f"days it has {second} customers a day on average. What is the average number of customers a day "
        f"over all {days + more} days?"
    )
    return problem(question, mean, "customers")


def one_leaves(draw: Draw) -> Problem:
    """Asks for (n m - x) / (n - 1)."""
    leaver = person(draw)
    group = draw.pick(("team", "band", "study group", "crew", "dance troupe"))
    count, mean, rest = draw.between(5, 12), draw.between(18, 40), draw.between(18, 40)
    age = count * mean - (count - 1) * rest
    require(mean != rest)
    require_within(age, 16, 75)
    question = (
        f"The average age of the {count} members of a {group} is {mean} years. {leaver.name}, who is {age} "
        "years old, leaves. What is the average age of the remaining members in years?"
    )
    return problem(question, rest, "years")


def wrong_entry(draw: Draw) -> Problem:
    """Asks for m + (right - wrong) / n."""
    teacher = person(draw)
    count, mean = draw.pick((5, 8, 10, 16, 20, 25, 40)), draw.between(55, 85)
    right, wrong = draw.pick_some(range(35, 99), 2)
    corrected = mean + Fraction(right - wrong, count)
    require(terminates(corrected))
    question = (
        f"{teacher.name} computes that the average of {count} exam results is {mean} points. Then "
        f"{teacher.he} notices that one result was entered as {wrong} instead of {right} points. What is the "
        "correct average?"
    )
    return problem(question, corrected, "points")


def weighted_grade(draw: Draw) -> Problem:
    """Asks for the weighted mean in percent."""
    pupil = person(draw)
    home, test = draw.pick(((10, 30), (20, 30), (20, 40), (25, 25), (30, 30), (15, 35), (10, 50)))
    marks = [draw.between(60, 99) for _ in range(3)]
    grade = Fraction(home * marks[0] + test * marks[1] + (100 - home - test) * marks[2], 100)
    question = (
        f"In a course, homework counts {home}%, the midterm test {test}%, and the final exam "
        f"{100 - home - test}% of the grade. {pupil.name} gets {marks[0]} points for homework, {marks[1]} "
        f"points in the midterm test, and {marks[2]} points in the final exam. What is the weighted average "
        "in points?"
    )
    return problem(question, grade, "points")


def joined_later(draw: Draw) -> Problem:
    """Asks for n m' - (n - 1) m."""
    player = person(draw)
    position = draw.between(4, 7)
    before, after = draw.between(9, 30), draw.between(9, 30)
    points = position * after - (position - 1) * before
    require(before != after)
    require_within(points, 2, 60)
    verb = "rises" if after > before else "drops"
    question = (
        f"{player.name} scores an average of {before} points in the first {position - 1} games of a season. "
        f"After the {ORDINALS[position]} game the average {verb} to {after} points. How many points does "
        f"{player.name} score in the {ORDINALS[position]} game?"
    )
    return problem(question, points, "points")


def lowest_dropped(draw: Draw) -> Problem:
    """Asks for the mean without the smallest."""
    athlete = person(draw)
    marks = draw.pick_some(range(41, 99), draw.between(5, 6))
    best = sorted(marks)[1:]
    mean = Fraction(sum(best), len(best))
    require(terminates(mean))
    question = (
        f"In a contest {athlete.name} gets {listing([str(mark) for mark in marks])} points from {len(marks)} "
        "judges. The lowest mark is dropped. What is the average of the other marks?"
    )
    return problem(question, mean, "points")


FAMILY = Family(
    "averages",
    (
        (mean_of_days, total_from_mean, mean_height),
        (score_needed, two_classes, missing_day, month_average, lowest_dropped),
        (one_leaves, wrong_entry, weighted_grade, joined_later),
    ),
)
