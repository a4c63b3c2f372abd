"""Golds of the Berkeley Function Calling Leaderboard, and calls compared as leniently as there."""

import itertools
from typing import Any

import pytest

from ors_server.rewards.scoring import score
from ors_server.rewards.structures.call_match import BadCallsError
from ors_server.rewards.structures.tool_calls import MAX_SHAPES, from_bfcl, loosen, tool_call_match_reward

AREA = [{"geo.area": {"base": [10], "height": [5, 5.0], "unit": ["units", ""]}}]
TRIP = [
    {"book": {"city": ["New York", "NYC"], "dates": [["2026-01-02", "2026-01-03"]]}},
    {"book": {"city": ["Paris"], "dates": [[]]}},
]
WHERE = [{"city": ["Rome"], "rooms": [2, 3], "pets": [True, ""]}]
NESTED = [{"find": {"where": WHERE, "sort": [[{"by": ["price"], "down": [True, False]}]]}}]


def talk(*calls):
    listed = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    return [{"role": "assistant", "content": "", "tool_calls": listed}]


def paid(gold, *calls, strictness="lenient"):
    return score(tool_call_match_reward, talk(*calls), answer=from_bfcl(gold), strictness=strictness).reward


def area(**arguments):
    return ("geo.area", {"base": 10, "height": 5, **arguments})


def book(city, *dates):
    return ("book", {"city": city, "dates": list(dates)})


def find(where, by="price", *, down=True):
    return ("find", {"where": where, "sort": [{"by": by, "down": down}]})


@pytest.mark.parametrize(
    ("gold", "calls"),
    [
        (AREA, [area()]),
        (AREA, [("geo_area", {"base": 10.0, "height": 5, "unit": "Units"})]),
        (TRIP, [book("paris"), book("new-york", "2026/01/02", "2026 01 03")]),
        (NESTED, [find({"city": "rome", "rooms": 3}, down=False)]),
        (NESTED, [find({"city": "Rome", "rooms": 2, "pets": True}, "Price")]),
        ([], []),
    ],
)
def test_calls_that_the_leaderboard_takes_are_paid(gold, calls):
    assert paid(gold, *calls) == 1.0


@pytest.mark.parametrize(
    ("gold", "calls"),
    [
        (AREA, []),
        (AREA, [("geo.area", {"base": 10})]),
        (AREA, [area(base="10")]),
        (AREA, [area(height=6)]),
        (AREA, [area(unit="m")]),
        (AREA, [area(colour="red")]),
        (AREA, [("area", {"base": 10, "height": 5})]),
        (AREA, [area()] * 2),
        (TRIP, [book("Paris")]),
        (TRIP, [book("Paris"), book("NYC", "2026-01-03", "2026-01-02")]),
        (NESTED, [find({"city": "Rome"})]),
        (NESTED, [find({"city": "Rome", "rooms": 2, "x": 1})]),
        ([], [("geo.area", {})]),
    ],
)
def test_calls_that_the_leaderboard_refuses_earn_nothing(gold, calls):
    assert paid(gold, *calls) == 0.0


def test_texts_count_as_they_stand_unless_the_mode_is_lenient():
    assert paid(AREA, area(unit="Units"), strictness="exact") == 0.0
    assert paid(AREA, area(unit="units"), strictness="exact") == 1.0
    assert paid(AREA, ("geo_area", {"base": 10, "height": 5}), strictness="exact") == 0.0
    other = score(tool_call_match_reward, talk(area()), answer=from_bfcl(AREA), strictness="strict")
    assert (other.reward, other.status) == (None, "error")


def test_every_choice_of_values_is_paid_and_one_changed_value_is_not():
    choices: dict[str, list[Any]] = {
        "a": [1, 2],
        "b": ["x", "Y z", ""],
        "c": [[1, 2], [3]],
        "d": [None, True],
    }
    gold = [{"f": choices}]
    for values in itertools.product(*choices.values()):
        arguments = dict(zip(choices, values, strict=True))
        assert paid(gold, ("f", arguments)) == 1.0
        for name in choices:
            assert paid(gold, ("f", {**arguments, name: "something else"})) == 0.0
        arguments.pop("b")
        assert paid(gold, ("f", arguments)) == 1.0


def test_marks_case_and_quotes_are_not_compared():
    assert loosen("It's 5,000 km/h. (New-York)_*^") == 'it"s5000kmh(newyork)'
    assert loosen({"Key": ["A b", 1, None]}) == {"Key": ["ab", 1, None]}


@pytest.mark.parametrize(
    "gold",
    [
        "f(x=1)",
        [{"f": {"a": [1]}, "g": {}}],
        [{"f": [1]}],
        [{"f": {"a": 1}}],
        [{"f": {"a": []}}],
        [{}],
        [1],
        [{"f": {"a": list(range(MAX_SHAPES + 1))}}],
        [{"f": {"a": [{str(key): [1, 2, 3] for key in range(6)}]}}],
    ],
)
def test_what_is_no_possible_answer_is_refused(gold):
    with pytest.raises(BadCallsError):
        from_bfcl(gold)
