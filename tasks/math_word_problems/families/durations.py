"""Clock times, durations and dates."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

from ors_server_tasks.math_word_problems.english import cap, clock, with_article
from ors_server_tasks.math_word_problems.problem import Family, problem, require
from ors_server_tasks.math_word_problems.vocabulary import TOWNS, people, person

if TYPE_CHECKING:
    from ors_server_tasks.math_word_problems.draw import Draw
    from ors_server_tasks.math_word_problems.problem import Problem

HOUR = 60
NOON = 12 * HOUR
DAY = 24 * HOUR
MONTHS = (
    ("March", 31),
    ("April", 30),
    ("May", 31),
    ("June", 30),
    ("July", 31),
    ("August", 31),
    ("September", 30),
    ("October", 31),
)
"""Months with their numbers of days; none that a leap year changes."""


def start_time(draw: Draw, earliest: int, latest: int, step: int = 5) -> int:
    """Draws a minute of the day that is not noon, which people write in different ways."""
    minute = draw.between(earliest, latest, step)
    require(minute % NOON != 0)
    return minute


def film_length(draw: Draw) -> Problem:
    """Asks for end - start, over noon or not."""
    what = draw.pick(("film", "concert", "train ride", "football match", "guided tour", "exam", "boat trip"))
    start, length = start_time(draw, 9 * HOUR, 20 * HOUR), draw.between(67, 178)
    require((start + length) % NOON != 0)
    question = (
        f"{cap(with_article(what))} starts at {clock(start)} and ends at {clock(start + length)}. How many "
        "minutes does it last?"
    )
    return problem(question, length, "minutes")


def exercise_week(draw: Draw) -> Problem:
    """Asks for (n a + m b) minutes in hours."""
    someone = person(draw)
    activity = draw.pick(("plays tennis", "practices the piano", "swims", "studies Spanish", "draws"))
    days, more = draw.between(2, 3), draw.between(1, 2)
    minutes, longer = draw.between(20, 75, 5), draw.between(80, 150, 10)
    question = (
        f"Every week {someone.name} {activity} for {minutes} minutes on each of {days + 1} days and for "
        f"{longer} minutes on each of {more + 1} other days. How many hours does {someone.he} spend on it in "
        "a week? Give the exact value; it may be a fraction."
    )
    return problem(question, Fraction((days + 1) * minutes + (more + 1) * longer, HOUR), "hours")


def seconds_in_all(draw: Draw) -> Problem:
    """Asks for laps * (minutes and seconds)."""
    athlete = person(draw)
    thing, verb = draw.pick(
        (("laps", "runs"), ("lengths of a pool", "swims"), ("rounds of a track", "cycles"))
    )
    count, minutes, seconds = draw.between(4, 18), draw.between(1, 3), draw.between(5, 55)
    question = (
        f"{athlete.name} {verb} {count} {thing}. Each one takes {minutes} "
        f"{'minute' if minutes == 1 else 'minutes'} and {seconds} seconds. How many seconds does it take in "
        "all?"
    )
    return problem(question, count * (minutes * HOUR + seconds), "seconds")


def school_morning(draw: Draw) -> Problem:
    """Asks for end - start - breaks."""
    start = start_time(draw, 7 * HOUR + 30, 9 * HOUR)
    lessons, length = draw.between(4, 6), draw.between(40, 55, 5)
    gap = draw.between(5, 15, 5)
    end = start + lessons * length + (lessons - 1) * gap
    require(end % NOON != 0)
    question = (
        f"A school morning starts at {clock(start)} and ends at {clock(end)}. It has {lessons} lessons of "
        f"the same length, with a break of {gap} minutes between any two lessons in a row. How many minutes "
        "long is each lesson?"
    )
    return problem(question, length, "minutes")


def buses_in_a_day(draw: Draw) -> Problem:
    """Asks for (last - first) / interval + 1."""
    vehicle = draw.pick(("bus", "ferry", "tram", "cable car", "train"))
    interval, trips = draw.pick((8, 12, 15, 18, 20, 24, 25, 35, 40)), draw.between(12, 40)
    first = start_time(draw, 5 * HOUR, 8 * HOUR)
    last = first + interval * (trips - 1)
    require(last < 23 * HOUR and last % NOON != 0)
    question = (
        f"The first {vehicle} of the day leaves at {clock(first)} and the last one at {clock(last)}. In "
        f"between, one leaves every {interval} minutes. How many departures are there in the day, with the "
        "first and the last?"
    )
    return problem(question, trips, "departures")


def slow_clock(draw: Draw) -> Problem:
    """Asks for hours * minutes lost per hour."""
    owner = person(draw)
    error, verb = draw.between(2, 9), draw.pick(("loses", "gains"))
    start, hours = start_time(draw, 6 * HOUR, 9 * HOUR, 30), draw.between(5, 14)
    require((start + hours * HOUR) % NOON != 0)
    question = (
        f"{owner.name}'s clock {verb} {error} minutes every hour. {cap(owner.he)} sets it to the right time "
        f"at {clock(start)}. By how many minutes is it wrong when the right time is "
        f"{clock(start + hours * HOUR)} on the same day?"
    )
    return problem(question, error * hours, "minutes")


def days_between(draw: Draw) -> Problem:
    """Asks for the days from a date to a later one, over months."""
    subject, verb = draw.pick(
        (
            ("An exhibition", "opens"),
            ("A building site", "starts"),
            ("A sailing trip", "begins"),
            ("A course", "begins"),
        )
    )
    first, months = draw.between(0, len(MONTHS) - 3), draw.between(1, 2)
    day, last_day = draw.between(2, 28), draw.between(2, 28)
    days = sum(length for _, length in MONTHS[first : first + months]) - day + last_day
    question = (
        f"{subject} {verb} on {MONTHS[first][0]} {day} and ends on {MONTHS[first + months][0]} {last_day} of "
        "the same year. How many days does it last, if the first and the last day both count?"
    )
    return problem(question, days + 1, "days")


def time_zones(draw: Draw) -> Problem:
    """Asks for the flight time from two local times."""
    traveler, (start, end) = person(draw), draw.pick_some(TOWNS, 2)
    ahead, departure = draw.between(1, 8), start_time(draw, 6 * HOUR, 11 * HOUR)
    flight = draw.between(95, 560, 5)
    arrival = departure + flight + ahead * HOUR
    require(arrival < DAY and arrival % NOON != 0)
    question = (
        f"{traveler.name} flies from {start} to {end}, where the clocks are {ahead} "
        f"{'hour' if ahead == 1 else 'hours'} ahead of those in {start}. The plane leaves at "
        f"{clock(departure)} {start} time and lands on the same day at {clock(arrival)} {end} time. How many "
        "minutes does the flight take?"
    )
    return problem(question, flight, "minutes")


def shift_pay(draw: Draw) -> Problem:
    """Asks for the hours of a working week from clock times."""
    worker = person(draw)
    start = start_time(draw, 6 * HOUR, 10 * HOUR, 15)
    length, lunch, days = draw.between(7 * HOUR, 10 * HOUR, 15), draw.between(20, 60, 5), draw.between(3, 6)
    require((start + length) % NOON != 0)
    question = (
        f"{worker.name} works from {clock(start)} to {clock(start + length)} on {days} days a week, with an "
        f"unpaid lunch break of {lunch} minutes each day. For how many hours a week is {worker.he} paid? "
        "Give the exact value; it may be a fraction."
    )
    return problem(question, Fraction((length - lunch) * days, HOUR), "hours")


def signals_coincide(draw: Draw) -> Problem:
    """Asks for the times that two signals coincide within some hours."""
    thing, verb = draw.pick(
        (("lighthouses", "flash"), ("bells", "ring"), ("sprinklers", "start"), ("cuckoo clocks", "call"))
    )
    gap, other = draw.pick_some((8, 10, 12, 14, 15, 16, 18, 20, 24, 25), 2)
    hours = draw.between(4, 12)
    both = hours * HOUR // lcm(gap, other)
    require(lcm(gap, other) > max(gap, other) and both > 1)
    question = (
        f"Two {thing} {verb} at the same moment. After that, one of them does so every {gap} minutes and the "
        f"other every {other} minutes. How many more times do they {verb} at the same moment in the next "
        f"{hours} hours? A time exactly {hours} hours later counts."
    )
    return problem(question, both, "times")


def relay_finish(draw: Draw) -> Problem:
    """Asks for the sum of minutes and seconds, from a target."""
    first, second, third = people(draw, 3)
    times = [draw.between(185, 330) for _ in range(3)]
    goal = draw.between(max(times) * 3 + 10, max(times) * 3 + 150)
    minutes, seconds = divmod(goal, HOUR)
    shown = [f"{time // HOUR} minutes {time % HOUR} seconds" for time in times]
    require(all(time % HOUR > 1 for time in (*times, goal)))
    question = (
        f"In a relay race {first.name} needs {shown[0]}, {second.name} needs {shown[1]}, and {third.name} "
        f"needs {shown[2]}. The record stands at {minutes} minutes {seconds} seconds. By how many seconds do "
        "they beat the record?"
    )
    return problem(question, goal - sum(times), "seconds")


FAMILY = Family(
    "time",
    (
        (film_length, exercise_week, seconds_in_all),
        (school_morning, buses_in_a_day, slow_clock, days_between),
        (time_zones, shift_pay, signals_coincide, relay_finish),
    ),
)
