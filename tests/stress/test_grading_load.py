"""Gold solutions earn 1.0 however many are submitted at once, and however busy the machine is."""

import pytest

from tests.stress.grading_load import gold_plays, load, slow_plays

pytestmark = [pytest.mark.stress, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("count", [1, 12, 64, 200, 330, 500])
async def test_every_gold_solution_submitted_at_once_is_paid_in_full(count: int) -> None:
    (report,) = await load([gold_plays(count)])
    assert report.errors == []
    assert report.rewards == {1.0: count}


async def test_solutions_that_compute_half_a_second_a_case_are_paid_in_full_twelve_at_once() -> None:
    (report,) = await load([slow_plays(12)])
    assert report.errors == []
    assert report.rewards == {1.0: 12}
