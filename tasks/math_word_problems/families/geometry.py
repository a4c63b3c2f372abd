"""Lengths, areas and volumes of straight-edged shapes."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ors_server_tasks.math_word_problems.english import cap, decimal, dollars, money
from ors_server_tasks.math_word_problems.problem import Family, problem, require
from ors_server_tasks.math_word_problems.vocabulary import person

if TYPE_CHECKING:
    from ors_server_tasks.math_word_problems.draw import Draw
    from ors_server_tasks.math_word_problems.problem import Problem

CENTS = 100
PLOTS = ("garden", "playground", "meadow", "parking lot", "vegetable patch", "schoolyard", "sheep pen")
SQUARE_METERS = "square meters"
METERS = "meters"


def fence_length(draw: Draw) -> Problem:
    """Asks for 2 (a + b) - gate."""
    plot, owner = draw.pick(PLOTS), person(draw)
    length, width = draw.between(120, 480), draw.between(50, 119)
    gate = draw.between(2, 5)
    question = (
        f"{owner.name} puts a fence around a rectangular {plot} that is {decimal(Fraction(length, 10))} "
        f"meters long and {decimal(Fraction(width, 10))} meters wide. A gate of {gate} meters needs no "
        "fence. How many meters of fence are needed?"
    )
    return problem(question, Fraction(2 * (length + width), 10) - gate, METERS)


def floor_area(draw: Draw) -> Problem:
    """Asks for a b - c d."""
    room = draw.pick(("living room", "kitchen", "classroom", "office", "dance studio", "workshop"))
    length, width = draw.between(45, 120, 5), draw.between(30, 80, 5)
    rug, rug_width = draw.between(15, 40, 5), draw.between(12, 28, 2)
    question = (
        f"The floor of a rectangular {room} is {decimal(Fraction(length, 10))} meters by "
        f"{decimal(Fraction(width, 10))} meters. A rug of {decimal(Fraction(rug, 10))} meters by "
        f"{decimal(Fraction(rug_width, 10))} meters lies on it. How many square meters of the floor are not "
        "covered?"
    )
    return problem(question, Fraction(length * width - rug * rug_width, 100), SQUARE_METERS)


def triangle_area(draw: Draw) -> Problem:
    """Asks for b h / 2."""
    thing = draw.pick(("sail", "flag", "flower bed", "road sign", "roof window"))
    base, height = draw.between(7, 95), draw.between(6, 80)
    question = (
        f"A {thing} has the shape of a triangle. One side is {base} centimeters long, and the height on this "
        f"side is {height} centimeters. What is the area of the {thing} in square centimeters?"
    )
    return problem(question, Fraction(base * height, 2), "square centimeters")


def side_from_perimeter(draw: Draw) -> Problem:
    """Asks for p / 2 - a, times a."""
    plot = draw.pick(PLOTS)
    length, width = draw.between(18, 70), draw.between(6, 40)
    require(length > width)
    question = (
        f"A rectangular {plot} has a perimeter of {2 * (length + width)} meters and is {length} meters long. "
        "What is its area in square meters?"
    )
    return problem(question, length * width, SQUARE_METERS)


def fence_cost(draw: Draw) -> Problem:
    """Asks for 2 (a + b) p."""
    owner, plot = person(draw), draw.pick(PLOTS)
    area_side, width, price = draw.between(14, 60), draw.between(5, 40), draw.between(450, 2950, 50)
    require(area_side > width)
    question = (
        f"{owner.name}'s rectangular {plot} has an area of {area_side * width:,} square meters and is "
        f"{width} meters wide. A fence costs {money(price)} per meter. How many dollars does a fence around "
        f"the whole {plot} cost?"
    )
    return problem(question, dollars(2 * (area_side + width) * price), "$")


def floor_tiles(draw: Draw) -> Problem:
    """Asks for (a b) / tile^2."""
    room = draw.pick(("bathroom", "hall", "kitchen", "terrace", "laundry room", "corridor"))
    tile = draw.pick((20, 25, 30, 40, 50))
    across, along = draw.between(6, 18), draw.between(12, 36)
    question = (
        f"The rectangular floor of a {room} is {decimal(Fraction(across * tile, CENTS))} meters wide and "
        f"{decimal(Fraction(along * tile, CENTS))} meters long. It is covered with square tiles whose sides "
        f"are {tile} centimeters long. How many tiles are needed?"
    )
    return problem(question, across * along, "tiles")


def box_volume(draw: Draw) -> Problem:
    """Asks for a b h in liters."""
    vessel = draw.pick(("fish tank", "glass tank", "plastic tub", "water trough"))
    length, width, height = draw.between(40, 120, 10), draw.between(25, 60, 5), draw.between(20, 50, 5)
    filled = height - draw.between(4, 12)
    question = (
        f"A {vessel} with a rectangular base is {length} centimeters long, {width} centimeters wide, and "
        f"{height} centimeters high. It is filled to a height of {filled} centimeters. How many liters does "
        "it contain? One liter is 1,000 cubic centimeters."
    )
    return problem(question, Fraction(length * width * filled, 1000), "liters")


def path_around(draw: Draw) -> Problem:
    """Asks for (a + 2 w)(b + 2 w) - a b."""
    middle = draw.pick(("pond", "swimming pool", "lawn", "flower bed", "fountain"))
    length, width, path = draw.between(8, 40), draw.between(4, 24), draw.between(1, 4)
    require(length > width)
    area = (length + 2 * path) * (width + 2 * path) - length * width
    question = (
        f"A rectangular {middle} is {length} meters long and {width} meters wide. A path that is {path} "
        f"{'meter' if path == 1 else 'meters'} wide runs all the way around it, with square corners. What is "
        "the area of the path in square meters?"
    )
    return problem(question, area, SQUARE_METERS)


def notched_plot(draw: Draw) -> Problem:
    """Asks for the cost of sowing an L-shaped plot."""
    owner = person(draw)
    length, width = draw.between(12, 40), draw.between(10, 30)
    cut, cut_width = draw.between(3, length - 5), draw.between(3, width - 4)
    price = draw.between(20, 160, 5)
    question = (
        f"{owner.name} sows grass on a rectangular plot of {length} meters by {width} meters. In one corner, "
        f"a rectangle of {cut} meters by {cut_width} meters is taken up by a shed and stays without grass. "
        f"The seed costs {money(price)} per square meter. How many dollars does the seed cost?"
    )
    return problem(question, dollars((length * width - cut * cut_width) * price), "$")


def wall_paint(draw: Draw) -> Problem:
    """Asks for the cans of paint for four walls less the openings, rounded up."""
    painter = person(draw)
    length, width, height = (
        draw.between(4, 9),
        draw.between(3, 7),
        draw.pick((Fraction(5, 2), Fraction(3), Fraction(14, 5))),
    )
    openings, cover = draw.between(3, 9), draw.between(7, 14)
    area = 2 * (length + width) * height - openings
    cans = -(-area // cover)
    question = (
        f"{painter.name} paints the 4 walls of a room that is {length} meters long, {width} meters wide, and "
        f"{decimal(height)} meters high. The door and the windows take up {openings} square meters and are "
        f"not painted. One can of paint covers {cover} square meters, and {painter.he} can only buy whole "
        f"cans. How many cans must {painter.he} buy?"
    )
    return problem(question, cans, "cans")


def stretched_rectangle(draw: Draw) -> Problem:
    """Asks for the percent change of an area when the sides change by percentages."""
    thing = draw.pick(("photo", "poster", "map", "banner", "rug"))
    up, down = draw.between(12, 80, 2), draw.between(5, 35)
    change = Fraction((CENTS + up) * (CENTS - down), CENTS) - CENTS
    require(change > 0)
    question = (
        f"The length of a rectangular {thing} is increased by {up}%, and its width is decreased by {down}%. "
        "By what percentage does its area increase?"
    )
    return problem(question, change, "%")


def sides_in_ratio(draw: Draw) -> Problem:
    """Asks for the area from the perimeter and how the sides compare."""
    plot, owner = draw.pick(PLOTS), person(draw)
    width, longer = draw.between(6, 40), draw.between(3, 25)
    question = (
        f"{owner.name}'s rectangular {plot} is {longer} meters longer than it is wide. {cap(owner.he)} walks "
        f"{4 * width + 2 * longer} meters when {owner.he} walks once around it along its edge. What is the "
        f"area of the {plot} in square meters?"
    )
    return problem(question, width * (width + longer), SQUARE_METERS)


def trapezoid_field(draw: Draw) -> Problem:
    """Asks for (a + b) h / 2 times a yield."""
    farmer, crop = person(draw), draw.pick(("potatoes", "onions", "cabbages", "beets", "carrots"))
    long, short, height = draw.between(60, 150, 2), draw.between(20, 58, 2), draw.between(20, 80)
    per = draw.between(2, 6)
    question = (
        f"{farmer.name}'s field has the shape of a trapezoid. Its parallel sides are {long} and {short} "
        f"meters long, and the distance between them is {height} meters. Each square meter yields {per} "
        f"kilograms of {crop}. How many kilograms of {crop} does the field yield?"
    )
    return problem(question, (long + short) // 2 * height * per, "kilograms")


FAMILY = Family(
    "geometry",
    (
        (fence_length, floor_area, triangle_area),
        (side_from_perimeter, fence_cost, floor_tiles, box_volume),
        (path_around, notched_plot, wall_paint, stretched_rectangle, sides_in_ratio, trapezoid_field),
    ),
)
