"""The labels of `algebra_pairs.json`, judged by mpmath and scipy, by none of the project's code."""

import itertools
import json
import random
from pathlib import Path

import mpmath
import pytest
from scipy import optimize

pytestmark = [pytest.mark.stress, pytest.mark.timeout(600)]

GROUPS = json.loads((Path(__file__).parents[1] / "data" / "algebra_pairs.json").read_text())["groups"]
PAIRS = [(group, form) for group in GROUPS for form in group["forms"]]
RANGES = {"whole": None, "unit": (0.1, 0.9)}
NAMES = {name: value for name, value in vars(mpmath).items() if not name.startswith("_")} | {
    "abs": abs,
    "int": int,
    "range": range,
}
WINDOW = 8


def evaluate(text, values=()):
    """Evaluate an expression that stands in the project's own data."""
    return eval(text, {"__builtins__": {}, **NAMES, **dict(values)})  # noqa: S307  (our own labels)


def points(group, count=3):
    rng = random.Random(group["gold"])  # noqa: S311  (points to compare at)
    names = [name for name in group["variables"].split(",") if name]
    for _ in range(count if names else 1):
        if group.get("range") == "whole":
            yield {
                name: mpmath.mpf(rng.randint(2, 7)) if name == "n" else rng.uniform(0.1, 0.9)
                for name in names
            }
        else:
            low, high = RANGES.get(group.get("range"), (0.15, 0.95))
            yield {name: mpmath.mpf(rng.uniform(low, high)) for name in names}


def is_near(first, second):
    if mpmath.isinf(first) or mpmath.isinf(second):
        return first == second
    return abs(first - second) <= 1e-6 * max(abs(first), abs(second), 1e-3)


def same_value(group, form):
    return all(
        is_near(evaluate(group["value"], point), evaluate(form["value"], point)) for point in points(group)
    )


def same_antiderivative(group, form):
    gaps = []
    for place in (0.21, 0.34, 0.57, 0.83):
        point = {"x": mpmath.mpf(place)}
        gaps.append(evaluate(group["value"], point) - evaluate(form["value"], point))
    return all(abs(gap - gaps[0]) < 1e-9 for gap in gaps)


def same_matrix(group, form):
    return all(
        all(
            is_near(one, other)
            for one, other in zip(
                evaluate(group["value"], point), evaluate(form["value"], point), strict=True
            )
        )
        for point in points(group)
    )


def same_family(group, form):
    def members(text, width):
        return [value for n in range(-width, width + 1) for value in evaluate(text, {"n": mpmath.mpf(n)})]

    def is_within(some, others):
        return all(any(is_near(1 + one, 1 + other) for other in others) for one in some)

    mine, theirs = group["value"], form["value"]
    return is_within(members(mine, WINDOW), members(theirs, 6 * WINDOW)) and is_within(
        members(theirs, WINDOW), members(mine, 6 * WINDOW)
    )


def same_general(group, form):
    places = [mpmath.mpf(place) for place in ("0.11", "0.37", "0.52", "0.79", "0.93")]

    def curve(text, constants):
        values = dict(zip(("c0", "c1"), map(mpmath.mpf, constants), strict=True))
        return [float(evaluate(text, {**values, "x": place})) for place in places]

    def covers(text, other):
        return all(fits(text, curve(other, wanted)) for wanted in ((2.3, 1.7), (3.1, 0.6)))

    def fits(text, wanted):
        def gap(constants):
            return [one - two for one, two in zip(curve(text, constants), wanted, strict=True)]

        starts = itertools.product((-2.5, 1.0, 2.5), repeat=2)
        return any(
            optimize.least_squares(gap, start, xtol=1e-15, ftol=1e-15).cost < 1e-12 for start in starts
        )

    return covers(group["value"], form["value"]) and covers(form["value"], group["value"])


def same_levels(group, form):
    def slope(text, x, y):
        across = mpmath.diff(lambda t: evaluate(text, {"x": t, "y": y}), x)
        up = mpmath.diff(lambda t: evaluate(text, {"x": x, "y": t}), y)
        return across / up

    return all(
        is_near(slope(group["value"], *point.values()), slope(form["value"], *point.values()))
        for point in points(group)
    )


def same_solutions(group, form):
    grid = [step / 16 for step in range(-160, 161)]
    return all(
        bool(evaluate(group["value"], {"x": place})) == bool(evaluate(form["value"], {"x": place}))
        for place in grid
    )


JUDGES = {
    "value": same_value,
    "antiderivative": same_antiderivative,
    "matrix": same_matrix,
    "family": same_family,
    "general": same_general,
    "level": same_levels,
    "solutions": same_solutions,
}


@pytest.mark.parametrize("judge", JUDGES)
def test_numbers_alone_confirm_every_label(judge):
    pairs = [(group, form) for group, form in PAIRS if group["judge"] == judge]
    assert pairs
    wrong = [
        (group["gold"], form["prediction"], form["equal"])
        for group, form in pairs
        if JUDGES[judge](group, form) != form["equal"]
    ]
    assert wrong == []
