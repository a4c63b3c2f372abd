"""A composed reward asks a part only while its answer can still change the whole."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from ors_server.rewards import (
    CompositeReward,
    GatedReward,
    MinReward,
    ProductReward,
    RewardResult,
    RewardStatus,
    evaluate,
    reward,
    score,
)

BROKEN = RewardResult.without(RewardStatus.ERROR, "the judge is away")


def part(value: object, asked: list[object], *, is_async: bool = False) -> Any:
    """Makes a reward in [0, 1] that notes that it was asked."""

    @reward(name=f"part_{len(asked)}", range=(0.0, 1.0))
    async def later() -> Any:
        asked.append(value)
        return value

    @reward(name=f"part_{len(asked)}", range=(0.0, 1.0))
    def now() -> Any:
        asked.append(value)
        return value

    return later if is_async else now


CASES: dict[str, tuple[Callable[..., Any], float, float | None, int]] = {
    "what a closed gate guards is not asked": (GatedReward, 0.0, 0.0, 1),
    "what an open gate guards is asked": (GatedReward, 1.0, None, 2),
    "a part of weight 0 is not asked": (lambda one, two: CompositeReward([(one, 1), (two, 0)]), 0.5, 0.5, 1),
    "weights that add up to 0 ask nobody": (
        lambda one, two: CompositeReward([(one, 1), (two, -1)]),
        0.5,
        0.0,
        0,
    ),
    "a factor of 0 decides": (ProductReward, 0.0, 0.0, 1),
    "a later factor of 0 decides over a failure": (lambda one, two: ProductReward(two, one), 0.0, 0.0, 2),
    "the least that is possible decides": (MinReward, 0.0, 0.0, 1),
    "another least asks everybody": (MinReward, 0.5, None, 2),
}


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_part_that_cannot_matter_neither_costs_nor_breaks(case, is_async):
    compose, first, expected, count = CASES[case]
    asked: list[object] = []
    whole = compose(part(first, asked), part(BROKEN, asked, is_async=is_async))
    result = score(whole)
    assert result.reward == expected
    assert len(asked) == count
    assert result.status is (RewardStatus.ERROR if expected is None else RewardStatus.GRADED)
    assert anyio.run(evaluate, whole, {}).reward == expected


def test_only_parts_that_were_asked_stand_in_the_extras():
    result = score(GatedReward(part(0.25, []), part(1.0, [None])))
    assert dict(result.extras) == {"part_0": 0.25}
