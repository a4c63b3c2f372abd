"""Groups of a batch: rows that are judged beside each other, and what happens to all of them."""

import pytest

from ors_server.rewards.batch.batch_scorer import BatchScorer

REWARDS = '''
import os
import anyio


def number(answer):
    return answer


def rank(rollouts, answer, weight=1.0):
    """Pays the share of others that are further away."""
    far = [abs(float(one.final_response) - answer) for one in rollouts]
    if 99.0 in far:
        os._exit(5)
    most = len(far) - 1 or 1
    return [{"reward": weight * sum(one > mine for one in far) / most, "size": len(far)} for mine in far]


async def rank_later(rollouts, answer):
    """Does the same later."""
    await anyio.sleep(0)
    return rank(rollouts, answer)
'''


@pytest.fixture
def mine(tmp_path):
    """Spells the place of a reward in a file."""
    (tmp_path / "mine.py").write_text(REWARDS)
    return lambda name: f"{tmp_path / 'mine.py'}:{name}"


@pytest.mark.parametrize("name", ["rank", "rank_later"])
def test_rows_of_a_group_are_judged_beside_each_other(mine, name):
    def row(task, response, **more):
        return {"task_id": task, "final_response": response, "answer": 4.0, **more}

    rows = [
        *(row("a", response) for response in ("4", "6", "5")),
        row("b", "4"),
        row("c", "103"),  # ends the worker, and all of its group are told
        row("c", "4"),
        *(row("d", response) for response in ("3", "4")),
        *(row("a", response) for response in ("4", "9")),  # another group, for others stood between
        {"task_id": 1, "trajectory": {"outcome": "4"}, "answer": 4.0},
        {"task_id": 1, "trajectory": {"outcome": "5"}, "answer": 4.0},
    ]
    with BatchScorer(mine(name), jobs=2) as scorer:
        results = list(scorer.score(rows, group_by="task_id"))
    assert [result.reward for result in results] == [1, 0, 0.5, 0, None, None, 0, 1, 1, 0, 1, 0]
    assert [result.extras.get("size") for result in results] == [3, 3, 3, 1, None, None, 2, 2, 2, 2, 2, 2]
    assert "row 5 to row 6: the worker" in (results[4].reason or "")
    assert results[4] == results[5]


def test_a_group_with_a_row_that_cannot_be_read_is_not_judged(mine, tmp_path):
    lines = [
        '{"g": 1, "final_response": "4", "answer": 4}',
        '{"g": 1, "final_response"',
        '{"g": 1, "final_response": "5", "answer": 4}',
        '{"g": 2, "final_response": "4", "answer": 4}',
        '{"final_response": "4", "answer": 4}',
        '{"g": 3, "final_response": "4", "answer": 4}',
        '{"g": 4, "answer": 4}',
    ]
    (tmp_path / "rows").write_text("\n".join(lines))
    with (tmp_path / "rows").open("rb") as opened, BatchScorer(mine("rank"), jobs=1) as scorer:
        results = list(scorer.score_lines(opened.fileno(), group_by="g"))
    assert [result.reward for result in results] == [None] * 5 + [0.0, None]
    broken = "the group of line 1 to line 3 cannot be judged: line 2 is not valid JSON"
    assert all((result.reason or "").startswith(broken) for result in results[:3])
    assert (results[3].reason or "").endswith("line 5 has no g")
    assert "a trajectory or a final_response" in (results[6].reason or "")


def test_a_group_is_only_for_rewards_of_groups(mine):
    with BatchScorer(mine("number"), jobs=1) as scorer:
        (result,) = scorer.score([{"g": 1, "answer": 1}], group_by="g")
    assert "takes no group" in (result.reason or "")
