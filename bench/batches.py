"""Rewards by the thousand: rows judged by name in worker processes, against a plain loop in this process."""

import statistics
import time
from collections.abc import Iterable

from bench.report import Goal, Row
from ors_server.rewards import RewardResult, find_reward, score
from ors_server.rewards.batch.batch_scorer import BatchScorer

MAX_RATIO = 2.0
"""Times a plain loop that a row judged by name may take."""
REWARDS = ("exact_match_reward", "qa_f1_reward", "math_equal_reward")


def measure(rows: int = 10_000, rounds: int = 3) -> list[Row]:
    """Judge the same rows both ways, in turns.

    Args:
        rows: Rows of each batch.
        rounds: Batches each way, of which the median counts.
    """
    return [_measure(name, rows, rounds) for name in REWARDS]


def _measure(name: str, count: int, rounds: int) -> Row:
    rows = [{"final_response": f"The answer is {number}", "answer": str(number)} for number in range(count)]
    reward = find_reward(name)
    named, plain = [], []
    with BatchScorer(name) as scorer:
        _drain(scorer.score(rows[:10]))  # the workers have started
        for _ in range(rounds):
            started = time.perf_counter()
            assert _drain(scorer.score(rows)) == count
            between = time.perf_counter()
            assert _drain(score(reward, **row) for row in rows) == count
            named.append(between - started)
            plain.append(time.perf_counter() - between)
    mine, peer = (statistics.median(seconds) / count * 1e6 for seconds in (named, plain))
    return Row(
        f"score_rows by name, {name}", "us/row", mine, peer, "a plain loop", Goal("ratio", most=MAX_RATIO)
    )


def _drain(results: Iterable[RewardResult]) -> int:
    return sum(1 for _ in results)
