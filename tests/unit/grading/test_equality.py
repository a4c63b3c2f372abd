"""Two values are the same if their types and their contents are, whatever the answer's tree says."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ors_server.grading.encoding import Encoder
from ors_server.grading.function_answer import same

VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(),
    lambda inner: some.lists(inner) | some.tuples(inner) | some.dictionaries(some.text(), inner),
    max_leaves=10,
)
ANY_TREE = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.sampled_from("ifcbtszdxoh"), inner, max_size=2),
    max_leaves=10,
)


def tree(value):
    return Encoder().tree(value)


@given(VALUES)
def test_a_value_is_the_same_as_itself(value):
    assert same(tree(value), tree(value), 0.0)


@given(VALUES, ANY_TREE)
def test_no_tree_makes_the_comparison_fail(value, answer):
    assert same(tree(value), answer, 1e-9) in {True, False}


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (1.0, 1),
        (0.3, 0.1 + 0.2),
        (0.0, 1e-12),
        (0.0, -0.0),
        (1e300, 1e300 * (1 + 1e-12)),
        (math.nan, math.nan),
        (math.inf, math.inf),
        (1 + 2j, (1 + 1e-12) + 2j),
        ({1.0, 2.0}, {2.0000000000001, 1.0000000000001}),
        ({1, 2, 3}, {3, 2, 1}),
        ({"a": 1.0, "b": [2]}, {"b": [2], "a": 1.0 + 1e-13}),
        ({(1, 2.0): "x"}, {(1, 2.0): "x"}),
        (10**400, 10**400),
        (frozenset({frozenset({1, 2})}), frozenset({frozenset({2, 1})})),
        ([], []),
    ],
)
def test_these_are_the_same(expected, answer):
    assert same(tree(expected), tree(answer), 1e-9)


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (1, True),
        (True, 1),
        (1, 1.0),
        (1.0, True),
        (0, None),
        (0, ""),
        ("1", 1),
        ([1], (1,)),
        ({1}, frozenset({1})),
        ({1}, {True}),
        ({1: "x"}, {True: "x"}),
        ({1: "x"}, {1: "y"}),
        ({1: "x"}, {}),
        ([1, 2], [1, 2, 3]),
        ([1, 2], [2, 1]),
        (b"x", "x"),
        (b"x", bytearray(b"x")),
        (1.0, 1.0001),
        (0.0, 1e-6),
        (1e-12, 0.0),
        (1e-12, 2e-12),
        (math.nan, 1.0),
        (1.0, math.nan),
        (math.inf, 1e308),
        (1.0, math.inf),
        (-math.inf, math.inf),
        (1.0, 10**400),
        (1e308, -1e308),
        (1 + 2j, 1 + 3j),
        (1 + 2j, 1),
        ({1.0, 2.0}, {1.0, 3.0}),
        ({1.0, 2.0}, {1.0}),
        ("a", "A"),
        (range(3), [0, 1, 2]),
    ],
)
def test_these_are_not(expected, answer):
    assert not same(tree(expected), tree(answer), 1e-9)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"f": 1},
        {"f": "x"},
        {"d": [[1, 2], [1, 2]]},
        {"s": [1, 1]},
        {"s": [{}]},
        {"i": 3},
        1.5,
        {"o": "int"},
        {"equal": "to everything"},
    ],
    ids=repr,
)
@pytest.mark.parametrize("expected", [3, 2.0, {1: 2}, {1, 2}, [1], None])
def test_what_is_no_value_is_the_same_as_none(expected, answer):
    assert not same(tree(expected), answer, 1e-9)


def test_a_set_whose_elements_are_rounded_is_matched_up_to_a_bound():
    few, many = ({n + 0.5 for n in range(count)} for count in (50, 500))
    for values, agree in ((few, True), (many, False)):
        assert same(tree(values), tree({value * (1 + 1e-12) for value in values}), 1e-9) is agree


def test_sets_nested_deeply_cost_no_more_than_they_hold():
    deep, flat = {"z": [1]}, tree(frozenset({1}))
    for _ in range(100):
        deep = {"z": [deep]}
    assert not same({"s": [flat]}, {"s": [deep]}, 0.0)
