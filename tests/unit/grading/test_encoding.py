"""Plain values survive the way there and back with their types; nothing else is taken for a value."""

import datetime as dt
import decimal
import enum
import fractions
import math
from collections import Counter, OrderedDict, defaultdict
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ors_server.grading import encoding
from ors_server.grading.encoding import (
    MAX_DEPTH,
    MAX_EXPONENT,
    DecodingError,
    Encoder,
    EncodingError,
    decode,
    from_text,
    to_text,
)


def unfolded(time):
    return time.replace(fold=0)


PLAIN = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text() | some.binary()
    | some.complex_numbers() | some.decimals(allow_nan=False, places=3) | some.fractions() | some.dates()
    | some.datetimes().map(unfolded) | some.times().map(unfolded) | some.timedeltas(),
    lambda inner: some.lists(inner) | some.tuples(inner, inner) | some.dictionaries(some.text(), inner),
    max_leaves=20,
)  # fmt: skip


def there_and_back(value):
    return decode(from_text(to_text(Encoder().tree(value))))


@given(PLAIN)
def test_a_plain_value_comes_back_as_it_was(value):
    assert repr(there_and_back(value)) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        {1, 2.5, "x", (1, 2)},
        frozenset({frozenset({1}), b"x"}),
        bytearray(b"xyz"),
        {(1, 2): [3], None: {}, True: 1.0},
        10**4000,
        -(10**30),
        "\ud800 and \0",
        range(1, 10, 2),
        slice(1, None, 2),
        -0.0,
    ],
)
def test_so_does_one_of_a_rarer_kind(value):
    back = there_and_back(value)
    assert (type(back), back) == (type(value), value)


def test_infinities_and_what_is_no_number_come_back():
    back = there_and_back([math.inf, -math.inf, math.nan])
    assert back[:2] == [math.inf, -math.inf]
    assert math.isnan(back[2])


class Level(enum.IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


class Liar(str):
    __slots__ = ()

    def __str__(self):
        raise AssertionError("nothing of the object's own is asked")

    __hash__ = __len__ = __iter__ = __str__  # type: ignore[assignment] # all of them lie


class LyingList(list):
    def __iter__(self):
        raise AssertionError("nothing of the object's own is asked")

    __len__ = __iter__


@pytest.mark.parametrize(
    ("value", "base"),
    [
        (Level.HIGH, 3),
        (Liar("x"), "x"),
        (LyingList([1, 2]), [1, 2]),
        (Counter("aab"), {"a": 2, "b": 1}),
        (defaultdict(int, {1: 2}), {1: 2}),
        (OrderedDict(a=1), {"a": 1}),
        (Point(1, 2), (1, 2)),
        (type("F", (float,), {})(1.5), 1.5),
        (type("C", (complex,), {})(1 + 2j), 1 + 2j),
        (type("B", (bytes,), {})(b"x"), b"x"),
        (type("A", (bytearray,), {})(b"x"), bytearray(b"x")),
        (type("S", (set,), {})({1}), {1}),
        (type("Z", (frozenset,), {})({1}), frozenset({1})),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_derives_from_a_plain_type_comes_back_as_that_type(value, base):
    back = there_and_back(value)
    assert (type(back), back) == (type(base), base)


class FalseDecimal(decimal.Decimal):
    pass


FalseDecimal.__module__, FalseDecimal.__qualname__ = "decimal", "Decimal"


@pytest.mark.parametrize(
    "value",
    [
        object(),
        int,
        len,
        FalseDecimal(1),
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        dt.time(1, fold=1),
        (x for x in "x"),
        [[object()]],
    ],
)
def test_what_is_not_plain_is_refused(value):
    with pytest.raises(EncodingError, match="plain"):
        Encoder().tree(value)


def test_depth_size_and_circles_are_bounded(monkeypatch):
    monkeypatch.setattr(encoding, "MAX_NODES", 10_000)
    deep: list = []
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    circle: list = []
    circle.append(circle)
    wide = [1]
    for _ in range(30):
        wide = [wide, wide]
    for value, said in ((deep, "within one another"), (circle, "within one another"), (wide, "within one$")):
        with pytest.raises(EncodingError, match=said):
            Encoder().tree(value)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"1.5", b"NaN", b"1e999", b"[" * 100_000, b"\xff", b"9" * 5000, b"nonsense"]
)
def test_a_text_that_no_encoder_writes_is_refused(text):
    with pytest.raises(DecodingError):
        from_text(text)


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"i": "1", "f": "2"},
        {"i": 1},
        {"i": "zz"},
        {"f": "x"},
        {"f": 1},
        {"c": ["0x1p+0"]},
        {"b": "%"},
        {"t": 1},
        {"s": [[]]},
        {"s": [1, 1]},
        {"z": [1, True]},
        {"d": [[1, 2], [True, 3]]},
        {"d": [[1]]},
        {"d": [[[], 1]]},
        {"o": 1},
        {"x": ["os.system", "true"]},
        {"x": []},
        {"x": ["builtins.eval", "1"]},
        {"x": ["datetime.date", 1]},
        {"x": ["decimal.Decimal", f"1e{MAX_EXPONENT + 1}"]},
        {"p": ["os"]},
        1.5,
    ],
    ids=repr,
)
def test_a_tree_that_no_encoder_makes_is_refused(tree):
    with pytest.raises(DecodingError):
        decode(tree)


def test_elements_that_were_made_to_collide_are_refused():
    colliding = [n * ((1 << 61) - 1) for n in range(2_000)]
    with pytest.raises(DecodingError, match="collide"):
        decode({"s": Encoder().trees(colliding)})
    with pytest.raises(DecodingError, match="collide"):
        decode({"d": [[tree, 1] for tree in Encoder().trees(colliding)]})
    assert len(decode({"s": Encoder().trees(range(2_000))})) == 2_000


def test_exact_types_of_the_standard_library_keep_their_type():
    values = [decimal.Decimal("1.50"), fractions.Fraction(1, 3), dt.timedelta(days=1), dt.time(1, 2)]
    assert [repr(value) for value in there_and_back(values)] == [repr(value) for value in values]
