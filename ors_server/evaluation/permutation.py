"""The sign-flip permutation test of paired differences.

If two agents are equally good, each task's difference could as well have the other sign. The test counts all
signs if few sums are possible, and otherwise draws signs.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

DRAWS = 20_000
"""Number of drawn assignments of signs."""
MAX_SUMS = 40_000
"""Number of different sums up to which the test is exact."""
MAX_WORK = 1_500_000
"""Number of additions up to which it is exact."""
_FINEST_PART = 1_000
"""Largest denominator of differences that are taken for fractions of the largest one."""
_NEAR = 1e-12
"""Part of the largest difference below which a difference is a rounding error."""
_FIXED = 2**40
"""Units of the largest difference, if the differences are not such fractions."""
_BYTE = 8


@dataclass(frozen=True, slots=True)
class SignTest:
    """The result of a sign-flip test."""

    p: float
    """Two-sided p-value, in [0, 1]."""
    is_exact: bool
    """Whether all assignments of signs were counted; otherwise `DRAWS` were drawn."""


def sign_flip_test(differences: Sequence[float], seed: int = 0) -> SignTest:
    """Test whether paired differences, one finite number per task, have a mean other than 0.

    If signs are drawn, the observed ones count as one draw, so that p is never 0 (Phipson and Smyth 2010,
    Stat. Appl. Genet. Mol. Biol. 9, 39).
    """
    near = _NEAR * max(map(abs, differences), default=0.0)
    moved = [difference for difference in differences if abs(difference) > near]
    if not moved:
        return SignTest(1.0, is_exact=True)
    units = _as_fractions(moved) or _as_fixed(moved)
    sums = _all_sums(units)
    if sums is None:
        return SignTest(_drawn(units, seed), is_exact=False)
    return SignTest(_share(sums, _observed(units)), is_exact=True)


def _observed(units: Sequence[int]) -> int:
    """Return the distance of the sum from 0, less what rounding to units may have added."""
    slack = len(units) if max(map(abs, units)) >= _FIXED else 0
    return abs(sum(units)) - slack


def _as_fractions(numbers: Sequence[float]) -> list[int] | None:
    largest = max(map(abs, numbers))
    shares = [number / largest for number in numbers]
    parts = [Fraction(share).limit_denominator(_FINEST_PART) for share in shares]
    if any(abs(float(part) - share) > _NEAR for part, share in zip(parts, shares, strict=True)):
        return None
    common = math.lcm(*(part.denominator for part in parts))
    return [int(part * common) for part in parts]


def _as_fixed(numbers: Sequence[float]) -> list[int]:
    largest = max(map(abs, numbers))
    return [round(_FIXED * (number / largest)) for number in numbers]


def _all_sums(units: Sequence[int]) -> Counter[int] | None:
    sums: Counter[int] = Counter({0: 1})
    work = 0
    for size, times in sorted(Counter(map(abs, units)).items()):
        ways = {size * (times - 2 * flipped): math.comb(times, flipped) for flipped in range(times + 1)}
        work += len(sums) * len(ways)
        if work > MAX_WORK:
            return None
        following: Counter[int] = Counter()
        for total, count in sums.items():
            for change, more in ways.items():
                following[total + change] += count * more
        sums = following
        if len(sums) > MAX_SUMS:
            return None
    return sums


def _share(sums: Counter[int], observed: int) -> float:
    extreme = sum(count for total, count in sums.items() if abs(total) >= observed)
    return extreme / sum(sums.values())


def _drawn(units: Sequence[int], seed: int) -> float:
    sizes = [abs(size) for size in units]
    total, observed = sum(sizes), _observed(units)
    tables = [_subset_sums(sizes[at : at + _BYTE]) for at in range(0, len(sizes), _BYTE)]
    source = random.Random(seed)  # noqa: S311  (no secret)
    extreme = 0
    for _ in range(DRAWS):
        flipped = sum(table[byte] for table, byte in zip(tables, source.randbytes(len(tables)), strict=True))
        extreme += abs(total - 2 * flipped) >= observed
    return (extreme + 1) / (DRAWS + 1)


def _subset_sums(group: Sequence[int]) -> list[int]:
    """Return the sums of all subsets of up to eight numbers; a sum's index has a bit for each number."""
    sums = [0] * 2**_BYTE
    for subset in range(2**_BYTE):
        sums[subset] = sum(size for place, size in enumerate(group) if subset >> place & 1)
    return sums
