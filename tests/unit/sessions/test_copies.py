"""The server's own copies of JSON that somebody else wrote."""

from typing import Any

import pytest

from ors_server.sessions.tool_arguments import (
    MAX_VALUES,
    JSONCopyError,
    check_size,
    copy_json,
    read_json,
    write_json,
)


def nest(depth):
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def test_a_copy_is_equal_and_shares_nothing_and_keeps_numbers_and_what_utf8_expresses():
    original = {"list": [1, 2.5, None, True], "text": "é\u2028", "object": {"a": {}}}
    copied = copy_json(original)
    assert copied == original
    assert copied["list"] is not original["list"]
    assert copied["object"]["a"] is not original["object"]["a"]
    assert copy_json({"a": "x\ud800y"}) == {"a": "x?y"}
    numbers = {"large": 2**200, "small": 5e-324, "tenth": 0.1, "zero": -0.0}
    assert str(copy_json(numbers)) == str(numbers)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), object(), {1, 2}, b"x"])
def test_what_is_no_json_is_refused(value):
    with pytest.raises(JSONCopyError):
        write_json({"a": value})


def test_a_circle_and_more_digits_than_python_writes_are_refused():
    with pytest.raises(JSONCopyError):
        write_json({"a": int("9" * 4000) ** 2})
    circle: dict[str, Any] = {}
    circle["a"] = circle
    with pytest.raises(JSONCopyError):
        copy_json(circle)


@pytest.mark.parametrize(
    ("depth", "is_fine"), [(100, True), (190, True), (260, False), (900, False), (5000, False)]
)
def test_nesting_is_bounded(depth, is_fine):
    if is_fine:
        assert copy_json(nest(depth)) == nest(depth)
        return
    with pytest.raises(JSONCopyError):
        copy_json(nest(depth))


def test_text_that_is_no_json_is_refused():
    with pytest.raises(JSONCopyError):
        read_json("{")


@pytest.mark.parametrize(
    "value",
    [
        {"a": [0] * MAX_VALUES},
        {"a": [[]] * MAX_VALUES},
        {str(number): number for number in range(MAX_VALUES)},
        {"a": ({"b": 0},) * (MAX_VALUES // 3 + 1)},
    ],
    ids=["numbers", "lists", "keys", "objects"],
)
def test_a_value_of_too_many_parts_is_refused_and_a_smaller_one_is_not(value):
    with pytest.raises(JSONCopyError, match="more than 50000"):
        check_size(value)
    check_size({"a": [0] * (MAX_VALUES - 4), "text": "," * MAX_VALUES})


def test_a_value_that_holds_itself_is_too_large():
    value: dict[str, Any] = {}
    value["a"] = [value, value]
    with pytest.raises(JSONCopyError):
        check_size(value)
