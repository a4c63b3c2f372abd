"""Nothing is alleged against a policy that learns honestly, whatever the kind of task."""

import pytest

from tests.fixtures.training_batches import HONEST, make_batch


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", HONEST)
def test_nothing_is_found_in_honest_episodes(judge, kind, seed):
    played, _ = make_batch(HONEST[kind], seed, tasks=40, episodes=480)
    report = judge(played)
    assert report.findings == ()
    assert report.environments[0].winning >= 100


@pytest.mark.parametrize("kind", HONEST)
def test_nothing_is_found_where_each_task_is_played_once(judge, kind):
    played, _ = make_batch(HONEST[kind], 7, tasks=4000, episodes=400)
    assert judge(played).findings == ()


def test_a_policy_that_learns_everything_is_no_collapse(judge):
    """The last rewards are all the same, because every task is solved at last."""
    played, _ = make_batch(HONEST["searches"], 5, tasks=40, episodes=480)
    won = [one for one in played if one.summary.episode_return > 0]
    lost = [one for one in played if not one.summary.episode_return]
    mixed = [*(one for pair in zip(won[:150], lost[:60] * 3, strict=False) for one in pair)]
    dense = [*mixed, *(won[150 + place % 60] for place in range(40)), *lost[60:70], *won[:150]]
    assert judge(dense).failed == []
