"""Rates: speed, work, flow, pay and price per unit."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ors_server_tasks.math_word_problems.english import cap, clock, decimal, dollars, mixed, money
from ors_server_tasks.math_word_problems.problem import Family, problem, require
from ors_server_tasks.math_word_problems.vocabulary import TOWNS, people, person

if TYPE_CHECKING:
    from ors_server_tasks.math_word_problems.draw import Draw
    from ors_server_tasks.math_word_problems.problem import Problem

CENTS = 100
MINUTES = 60
EXACT = "Give the exact value; it may be a fraction."


def distance_driven(draw: Draw) -> Problem:
    """Asks for speed * time."""
    driver, (start, end) = person(draw), draw.pick_some(TOWNS, 2)
    quarters, speed = draw.between(5, 23), draw.between(36, 96, 4)
    question = (
        f"{driver.name} drives from {start} to {end} at a steady {speed} kilometers per hour. The drive "
        f"takes {mixed(Fraction(quarters, 4))} hours. How many kilometers long is the drive?"
    )
    return problem(question, Fraction(quarters * speed, 4), "kilometers")


def pay_by_the_hour(draw: Draw) -> Problem:
    """Asks for hours * wage."""
    worker = person(draw)
    job = draw.pick(
        ("mows lawns", "washes cars", "teaches piano", "walks dogs", "paints fences", "repairs bicycles")
    )
    halves, wage = draw.between(5, 30), draw.between(900, 3200, 50)
    question = (
        f"{worker.name} {job} for {money(wage)} an hour. How many dollars does {worker.he} earn in "
        f"{decimal(Fraction(halves, 2))} hours?"
    )
    return problem(question, dollars(Fraction(halves * wage, 2)), "$")


def price_by_weight(draw: Draw) -> Problem:
    """Asks for cost / weight * other weight."""
    buyer, food = (
        person(draw),
        draw.pick(("cheese", "rice", "grapes", "almonds", "coffee", "salmon", "flour")),
    )
    weight, wanted = draw.pick_some((2, 3, 4, 5, 6, 8, 9), 2)
    price = draw.between(120, 950, 10)
    question = (
        f"{weight} kilograms of {food} cost {money(weight * price)}. How many dollars does {buyer.name} pay "
        f"for {wanted} kilograms at the same price per kilogram?"
    )
    return problem(question, dollars(wanted * price), "$")


def machine_output(draw: Draw) -> Problem:
    """Asks for the pieces per minute, over hours."""
    thing = draw.pick(("bottles", "screws", "labels", "bricks", "chocolate bars", "light bulbs"))
    minutes, pieces, hours = draw.pick((3, 4, 5, 6, 10, 12)), draw.between(14, 90, 2), draw.between(2, 8)
    question = (
        f"A machine makes {pieces} {thing} every {minutes} minutes. How many {thing} does it make in {hours} "
        "hours?"
    )
    return problem(question, pieces * hours * MINUTES // minutes, thing)


def two_legs(draw: Draw) -> Problem:
    """Asks for the average speed over two legs of different length and time."""
    traveler = person(draw)
    hours, more_hours = draw.between(1, 5), draw.between(2, 5)
    speed, other_speed = draw.pick_some(range(12, 100, 2), 2)
    average = Fraction(hours * speed + more_hours * other_speed, hours + more_hours)
    require(average.denominator == 1)
    question = (
        f"{traveler.name} travels {hours * speed} kilometers in {hours_of(hours)} and then "
        f"{more_hours * other_speed} kilometers in {hours_of(more_hours)}. What is the average speed over "
        "the whole journey, in kilometers per hour?"
    )
    return problem(question, average, "kilometers per hour")


def hours_of(number: int) -> str:
    """A number of hours: "1 hour", "3 hours"."""
    return f"{number} {'hour' if number == 1 else 'hours'}"


def filling_and_leaking(draw: Draw) -> Problem:
    """Asks for volume / (in - out)."""
    vessel = draw.pick(("swimming pool", "water tank", "pond", "reservoir"))
    rate, leak = draw.between(20, 90, 5), draw.between(4, 15)
    minutes = draw.between(20, 240, 4)
    volume = (rate - leak) * minutes
    question = (
        f"A pump fills an empty {vessel} with {rate} liters of water a minute, while {leak} liters a minute "
        f"leak out. The {vessel} holds {volume:,} liters. How many minutes does it take until it is full?"
    )
    return problem(question, minutes, "minutes")


def workers_and_days(draw: Draw) -> Problem:
    """Asks for a d / b, the same work by more or fewer people."""
    job = draw.pick(
        (
            "paint a school",
            "pick the grapes of a vineyard",
            "pave a square",
            "build a wall",
            "clear a forest path",
        )
    )
    workers, more, days = draw.between(3, 12), draw.between(3, 18), draw.between(4, 24)
    require(workers != more and workers * days % more == 0 and workers * days // more > 1)
    question = (
        f"{workers} workers need {days} days to {job}. How many days do {more} workers need for it, if all "
        "work at the same pace?"
    )
    return problem(question, workers * days // more, "days")


def fuel_cost(draw: Draw) -> Problem:
    """Asks for distance / 100 * use * price."""
    driver = person(draw)
    distance, tenths, price = draw.between(150, 900, 50), draw.between(45, 95, 5), draw.between(120, 220, 2)
    cost = Fraction(distance * tenths * price, 100 * 10)
    require(cost.denominator == 1)
    question = (
        f"{driver.name}'s car uses {decimal(Fraction(tenths, 10))} liters of fuel per 100 kilometers. A "
        f"liter of fuel costs {money(price)}. How many dollars does the fuel for a trip of {distance} "
        "kilometers cost?"
    )
    return problem(question, dollars(cost), "$")


def towards_each_other(draw: Draw) -> Problem:
    """Asks for distance / (v + w)."""
    first, second = people(draw, 2)
    way, low, high = draw.pick((("walk", 3, 7), ("cycle", 12, 28), ("drive", 50, 100)))
    speed, other = draw.between(low, high), draw.between(low, high)
    minutes = draw.between(30, 210, 15)
    distance = Fraction((speed + other) * minutes, MINUTES)
    require(speed != other)
    question = (
        f"{first.name} and {second.name} start at the same moment at the two ends of a road that is "
        f"{decimal(distance)} kilometers long and {way} towards each other, {first.name} at {speed} and "
        f"{second.name} at {other} kilometers per hour. After how many minutes do they meet?"
    )
    return problem(question, minutes, "minutes")


def catching_up(draw: Draw) -> Problem:
    """Asks for head start * v / (w - v), in hours."""
    first, second = people(draw, 2)
    slow, fast = draw.between(8, 20), draw.between(22, 45)
    lead = draw.pick((1, 2, 3))
    hours = Fraction(slow * lead, fast - slow)
    question = (
        f"{first.name} sets out on a bicycle at {slow} kilometers per hour. {cap(hours_of(lead))} later "
        f"{second.name} follows along the same road on a scooter at {fast} kilometers per hour. How many "
        f"hours after {second.he} sets out does {second.name} catch up with {first.name}? {EXACT}"
    )
    return problem(question, hours, "hours")


def working_together(draw: Draw) -> Problem:
    """Asks for 1 / (1/a + 1/b)."""
    first, second = people(draw, 2)
    job = draw.pick(
        ("paint a room", "clean a warehouse", "type a long report", "dig a trench", "assemble the shelves")
    )
    hours, other = draw.pick_some(range(2, 16), 2)
    question = (
        f"{first.name} needs {hours} hours to {job} alone, and {second.name} needs {other} hours. "
        f"How many hours do they need if they work together, each at the usual pace? {EXACT}"
    )
    return problem(question, Fraction(hours * other, hours + other), "hours")


def there_and_back(draw: Draw) -> Problem:
    """Asks for 2 / (1/v + 1/w)."""
    rider = person(draw)
    there, back = draw.pick_some(range(8, 61, 2), 2)
    distance = draw.between(12, 60, 6)
    question = (
        f"{rider.name} rides {distance} kilometers to a lake at {there} kilometers per hour and comes back "
        f"the same way at {back} kilometers per hour. What is the average speed of the whole ride in "
        f"kilometers per hour? {EXACT}"
    )
    return problem(question, Fraction(2 * there * back, there + back), "kilometers per hour")


def helped_later(draw: Draw) -> Problem:
    """Asks for (1 - t/a) / (1/a + 1/b), after one worker began alone."""
    first, second = people(draw, 2)
    tool, job = draw.pick(
        (("hose", "fill a pool"), ("printer", "print a poster edition"), ("pump", "empty a tank"))
    )
    alone, other = draw.pick_some(range(4, 19), 2)
    started = draw.between(1, alone - 2)
    rest = Fraction(alone - started, alone) / (Fraction(1, alone) + Fraction(1, other))
    question = (
        f"{first.name}'s {tool} takes {alone} hours to {job}, and {second.name}'s {tool} takes {other} hours "
        f"for the same job. {first.name}'s {tool} runs alone for {hours_of(started)}, and then both run "
        f"together until the job is finished. For how many hours do both run together? {EXACT}"
    )
    return problem(question, rest, "hours")


def arrival(draw: Draw) -> Problem:
    """Asks for the minutes saved by driving faster."""
    driver = person(draw)
    slow, fast = draw.pick(
        ((40, 60), (45, 60), (48, 60), (50, 60), (60, 72), (60, 80), (60, 90), (72, 80), (75, 90), (80, 100))
    )
    unit = Fraction(slow * fast, fast - slow)
    distance = draw.between(60, 480, 20)
    saved = Fraction(distance * MINUTES) / unit
    require(saved.denominator == 1)
    question = (
        f"{driver.name} leaves at {clock(draw.between(360, 660, 10))} for a city {distance} kilometers away. "
        f"How many minutes earlier does {driver.he} arrive when driving at {fast} instead of {slow} "
        "kilometers per hour?"
    )
    return problem(question, saved, "minutes")


FAMILY = Family(
    "rates",
    (
        (distance_driven, pay_by_the_hour, price_by_weight, machine_output),
        (two_legs, filling_and_leaking, workers_and_days, fuel_cost),
        (towards_each_other, catching_up, working_together, there_and_back, helped_later, arrival),
    ),
)
