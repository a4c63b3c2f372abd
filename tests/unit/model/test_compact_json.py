"""JSON as it crosses the wire: what the standard library writes, without spaces."""

import json
import math

import pytest

from ors_server.model.wire import compact_json


@pytest.mark.parametrize(
    "value",
    [
        None,
        'a \u2028 \ud800 "',
        [],
        {},
        [1, -2.5, 1e300, 10**30, True, {"a": {"b": [None]}}],
        {2: "a", None: "b", 1.5: "c", True: "d"},
        ("a", ["b"]),
    ],
)
def test_compact_json_is_what_the_standard_library_writes(value):
    assert compact_json(value) == json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize(
    ("value", "error"), [(math.nan, ValueError), ([-math.inf], ValueError), (object(), TypeError)]
)
def test_compact_json_refuses_what_json_has_not(value, error):
    with pytest.raises(error):
        compact_json(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_nonsense_is_written(value):
    with pytest.raises(ValueError, match=r"JSON compliant|float"):
        compact_json({"reward": value})


def test_compact_json_refuses_a_list_that_contains_itself():
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        compact_json(endless)
