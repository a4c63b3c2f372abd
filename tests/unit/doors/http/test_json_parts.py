"""Long values are the same JSON in parts as at once, and no part is long."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ors_server.doors.http.sse import LONG_CHARACTERS, STRING_CHARACTERS, is_long, json_parts
from ors_server.model.wire import compact_json

LONG_TEXT = 'é\x01"\\\u2028😀 ' * (LONG_CHARACTERS // 4)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["", LONG_TEXT, "a" * (STRING_CHARACTERS + 1), "\ud800"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=30)
@given(VALUES)
def test_a_value_in_parts_is_the_same_json(value):
    assert b"".join(json_parts(value)).decode() == compact_json(value)


@pytest.mark.parametrize(
    "value",
    [
        LONG_TEXT,
        [LONG_TEXT, {"a": LONG_TEXT}],
        ["short"] * 100_000,
        {str(n): "x" * 40 for n in range(50_000)},
    ],
    ids=["a text", "texts", "many values", "many keys"],
)
def test_no_part_is_long(value):
    assert is_long(value)
    parts = list(json_parts(value))
    assert b"".join(parts).decode() == json.dumps(value, separators=(",", ":"))
    assert max(map(len, parts)) < 13 * STRING_CHARACTERS  # a character takes 12 bytes at most, as two escapes


@pytest.mark.parametrize("value", ["a", ["a"] * 1_000, {"a": [1.5, None, {"b": "c" * 10_000}]}])
def test_a_short_value_is_one_part(value):
    assert not is_long(value)
    assert list(json_parts(value)) == [compact_json(value).encode()]


def test_a_deep_value_is_written_and_what_is_no_json_refused():
    value: object = LONG_TEXT
    for _ in range(400):
        value = [value]
    assert b"".join(json_parts(value)).decode() == compact_json(value)
    with pytest.raises(ValueError, match="JSON compliant"):
        list(json_parts([LONG_TEXT, float("nan")]))
