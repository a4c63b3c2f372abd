"""Printed answers agree line by line, byte by byte or number by number, as the author chose."""

import pytest

from ors_server.grading.grading_errors import GradingError
from ors_server.grading.text_comparison import TextComparison


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        ("1\n2\n", b"1\n2"),
        ("1\n2", b"1  \n2\t\n\n\n"),
        ("a b", b"a b\r\n"),
        ("", b"\n\n"),
        ("é", "é".encode()),
    ],
)
def test_white_space_at_the_ends_does_not_count_by_default(expected, answer):
    assert TextComparison().agrees(expected, answer)
    assert TextComparison(exact=True).agrees(expected, answer) is (expected.encode() == answer)


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        ("1\n2", b"1 2"),
        ("a", b" a"),
        ("a", b"a\nb"),
        ("a\nb", b"a\n\nb"),
        ("3", b"\xff3"),
        ("3", "٣".encode()),
    ],
)
def test_everything_else_does(expected, answer):
    assert not TextComparison().agrees(expected, answer)


@pytest.mark.parametrize(
    ("expected", "answer", "agree"),
    [
        ("0.3", b"0.30000000000000004", True),
        ("pi 3.14159", b"pi   3.1415901", True),
        ("0.0", b"1e-9", True),
        ("0.0", b"0.001", False),
        ("1e3", b"1000", True),
        ("1.5", b"1.6", False),
        ("1000000007", b"1000000008", False),
        ("42", b"42.0", False),
        ("1.0", b"nan", False),
        ("1.0", b"inf", False),
        ("1.0", b"1_0", False),
        ("1.0", "\uff11.0".encode(), False),
        ("1.0 2.0", b"1.0", False),
        ("1.0\n2.0", b"1.0 2.0", False),
        ("1.0", b"1." + b"0" * 1000, False),
        ("1.0", b"1e99999", False),
        ("x", b"y", False),
    ],
)
def test_with_a_tolerance_numbers_written_with_a_point_may_be_off(expected, answer, agree):
    assert TextComparison(tolerance=1e-6).agrees(expected, answer) is agree


@pytest.mark.parametrize(
    "options", [{"exact": True, "tolerance": 0.1}, {"tolerance": -1}, {"tolerance": float("nan")}]
)
def test_options_that_contradict_each_other_are_refused(options):
    with pytest.raises(GradingError, match="tolerance"):
        TextComparison(**options)
