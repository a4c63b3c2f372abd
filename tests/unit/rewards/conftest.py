"""Plays recorded cases, one test per case, and says whether this library does as the recorded package.

A module that plays recordings has `PLAYERS`: the name of each file to a function of one case that returns
this library's result, or raises. A test of it that takes `vectors` and `case` runs for each case.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ors_server.rewards.deviations import Deviation, deviations_of
from ors_server.rewards.result import RewardResult
from tests.fixtures.deviations import explains
from tests.fixtures.recorded_rewards import all_cases

FOR_PEOPLE = "output"
"""A text that some rewards write for people; it is no figure, and not compared."""

Player = Callable[[Mapping[str, Any]], RewardResult]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if {"vectors", "case"} <= set(metafunc.fixturenames):
        metafunc.parametrize(("vectors", "case"), all_cases(*metafunc.module.PLAYERS))


def agrees(output: Mapping[str, Any], result: RewardResult | None, error: Exception | None) -> bool:
    """Whether the value agrees to 1e-9, or the class of the error."""
    if "error" in output:
        return error is not None and output["error"] in {one.__name__ for one in type(error).__mro__}
    if result is None or result.reward is None:
        return False
    value = output["value"] if isinstance(output["value"], dict) else {"reward": output["value"]}
    wanted = {**value, **value.get("extras", {})}
    ours = {"reward": result.reward, **result.extras}
    return all(same(ours.get(key), wanted[key]) for key in wanted if key not in {FOR_PEOPLE, "extras"})


def same(ours: object, theirs: object) -> bool:
    if isinstance(ours, int | float) and isinstance(theirs, int | float):
        return math.isclose(ours, theirs, rel_tol=0.0, abs_tol=1e-9)
    return ours == theirs


def compare(vectors: str, case: Mapping[str, Any], player: Player) -> tuple[Deviation, ...]:
    """The rows of the table that explain a case; none where it agrees. Fails if none does."""
    result, error = None, None
    try:
        result = player(case)
    except Exception as raised:  # noqa: BLE001  (whatever a reward raises is what it does)
        error = raised
    if agrees(case["output"], result, error):
        return ()
    rows = explaining(vectors, case, result)
    assert rows, f"theirs {case['output']}, ours {result or error!r}, and no row of the table says why"
    return rows


def explaining(vectors: str, case: Mapping[str, Any], result: RewardResult | None) -> tuple[Deviation, ...]:
    """The rows of the table that expect just this result; a result without a number may be an error."""
    ours = None if result is None else result.reward
    figures = {} if result is None else result.extras
    return tuple(row for row in deviations_of(vectors) if explains(row, vectors, case, ours, figures))


@pytest.fixture(name="compare")
def compare_fixture() -> Callable[..., tuple[Deviation, ...]]:
    return compare
