r"""Unknown sequences, renamed constants and parameters, long sums, bases: what is the same, what is not."""

import random

from ors_server.rewards.math.algebra.answer_statements import read_statement
from ors_server.rewards.math.algebra.judge import judge


def judged(gold, answer):
    return judge(read_statement(gold), read_statement(answer)).is_equal


def line(place, direction, name):
    terms = [f"{one}+({two}){name}" for one, two in zip(place, direction, strict=True)]
    return f"({','.join(terms)})"


def test_lines_are_the_same_exactly_if_their_points_are():
    rng = random.Random(41)  # noqa: S311  (test data)
    for _ in range(150):
        place, direction = ([rng.randint(-4, 4) or 5 for _ in range(3)] for _ in range(2))
        shift, scale = rng.randint(-3, 3), rng.choice((-2, -1, 1, 2, 3))
        other = [one + shift * two for one, two in zip(place, direction, strict=True)]
        along = [scale * two for two in direction]
        gold = line(place, direction, "t")
        assert judged(gold, line(other, along, "s")) is True
        axis = rng.randrange(3)
        other[axis] += 1
        assert judged(gold, line(other, along, "s")) is not True
        other[axis] -= 1
        along[axis] += 1
        assert judged(gold, line(other, along, "s")) is not True
        assert judged(gold, line(place, along, "t")) is not True


def series(start, factor, index, power):
    return rf"\sum_{{n={start}}}^\infty {factor} a_{{{index}}} x^{{{power}}}"


def terms(start, slope, offset, index, power):
    """Give the coefficient and the member at each power of x."""
    return {
        n + power: (slope * n + offset, n + index) for n in range(start, start + 40) if slope * n + offset
    }


def signed(shift):
    return "n" if not shift else f"n{shift:+d}"


def test_series_of_an_unknown_sequence_are_the_same_exactly_if_their_terms_are():
    rng = random.Random(42)  # noqa: S311  (test data)
    found = {True: 0, False: 0}
    for _ in range(300):
        start, offset = rng.randint(0, 2), rng.randint(0, 2)
        shift = rng.randint(-start, 2)
        mine = (start, 1, offset, 0, 0)
        theirs = [start - shift, 1, offset + shift, shift, shift]
        if rng.random() < 0.7:
            theirs[rng.choice((0, 2, 3, 4))] += rng.choice((-1, 1))
        if theirs[0] < 0:
            continue
        one, two = terms(*mine), terms(*theirs)
        is_same = all(one.get(power) == two.get(power) for power in range(-3, 30))
        texts = [
            series(begin, f"(n{add:+d})" if add else "n", signed(index), signed(power))
            for begin, _, add, index, power in (mine, theirs)
        ]
        found[is_same] += 1
        assert (judged(*texts) is True) == is_same, texts
    assert min(found.values()) > 40
