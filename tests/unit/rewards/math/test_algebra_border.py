"""No pair of readable statements makes the judge by numbers raise, whatever their kinds."""

from itertools import product

import pytest

from ors_server.rewards.math.algebra.answer_statements import read_statement
from ors_server.rewards.math.algebra.judge import Tools, judge

MATRIX = r"\begin{pmatrix}1&2\\-3&4\end{pmatrix}"
TEXTS = (
    "5",
    "x+1",
    r"\int_0^1 x dx",
    r"\{1,2\}",
    "(1,2)",
    MATRIX,
    rf"2{MATRIX}",
    rf"x+{MATRIX}",
    r"\Gamma(3)",
)


@pytest.mark.parametrize(("gold", "answer"), list(product(TEXTS, TEXTS)))
def test_statements_of_any_two_kinds_are_judged_or_left_undecided(gold, answer):
    opinion = judge(read_statement(gold), read_statement(answer))
    assert opinion.is_equal in {True, False, None}
    assert opinion.is_equal is not True or gold == answer


def test_what_the_packages_have_no_rule_for_is_undecided():
    def fails(*_trees):
        raise TypeError("cannot create mpf from matrix")

    opinion = judge(read_statement("x^2>4"), read_statement("x^2>5"), Tools(fails, fails))
    assert opinion.is_equal is None
    assert "TypeError" in opinion.why
