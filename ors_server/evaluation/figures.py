"""GroupFigures of attempts at one task: how many would do, and what the best of several is worth.

Each is the mean over all ways to draw k of the n attempts that were made, without putting any back, so that
it is an unbiased estimate of what k fresh attempts would come to. All are averages over draws; none draws.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import isnan

EVERY_K = 64
"""Up to so many attempts every k is looked at; beyond, only some."""


def pass_at_k(attempts: int, successes: int) -> list[float]:
    """Estimate for each k how probable it is that at least one of k attempts succeeds.

    1 - C(n-c, k) / C(n, k) of Chen et al. 2021 ("Evaluating Large Language Models Trained on Code",
    arXiv:2107.03374), as a running product, which neither overflows nor cancels.

    Args:
        attempts: n, at least 0.
        successes: c, in [0, n].

    Returns:
        One estimate in [0, 1] for each k from 1 to n, in this order.
    """
    _check(attempts, successes)
    return [1.0 - none for none in _all_of(attempts, attempts - successes)]


def mean_pass_at_k(groups: Iterable[Sequence[float | None]], k: int, threshold: float = 1.0) -> float | None:
    """Estimate pass@k over tasks from the rewards of several attempts at each, without bias.

    The estimate of a task is `pass_at_k`; the figure is the mean over the tasks that have at least k attempts
    with a reward. Attempts without a reward are left out, as they are nowhere a failure.

    Args:
        groups: For each task the rewards of its attempts, such as those of a group of completions; `None` for
            an attempt that was not judged.
        k: At least 1.
        threshold: Reward from which on an attempt is a success.

    Returns:
        In [0, 1]; `None` if no task has k attempts with a reward.

    Raises:
        ValueError: If k is below 1, or a reward or the threshold is NaN.
    """
    if k < 1 or isnan(threshold):
        raise ValueError(f"k is at least 1 and the threshold a number, not {k!r} and {threshold!r}")
    estimates: list[float] = []
    for group in groups:
        rewards = [one for one in group if one is not None]
        if any(isnan(one) for one in rewards):
            raise ValueError("a reward is a number or None, not NaN")
        if len(rewards) >= k:
            successes = sum(1 for one in rewards if one >= threshold)
            estimates.append(pass_at_k(len(rewards), successes)[k - 1])
    return sum(estimates) / len(estimates) if estimates else None


def pass_hat_k(attempts: int, successes: int) -> list[float]:
    """Estimate for each k how probable it is that all of k attempts succeed.

    C(c, k) / C(n, k): pass^k of Yao et al. 2024 ("tau-bench", arXiv:2406.12045).

    Args:
        attempts: n, at least 0.
        successes: c, in [0, n].

    Returns:
        One estimate in [0, 1] for each k from 1 to n, in this order.
    """
    _check(attempts, successes)
    return _all_of(attempts, successes)


def best_of_k(returns: Sequence[float], ks: Sequence[int]) -> list[float]:
    """Estimate the mean of the greatest of k returns.

    The i-th smallest of n returns is the greatest of C(i-1, k-1) of the C(n, k) draws.

    Args:
        returns: Those of the attempts, in any order.
        ks: Which k, each in [1, n].

    Returns:
        One estimate for each k, in the order of `ks`.
    """
    falling = sorted(returns, reverse=True)
    return [_mean_greatest(falling, k) for k in ks]


def chosen_ks(attempts: int) -> tuple[int, ...]:
    """Choose the k to show for a number of attempts: all of them, or 1, 2, 4, ... and the last.

    Args:
        attempts: The most attempts that any task has, at least 0.
    """
    if attempts <= EVERY_K:
        return tuple(range(1, attempts + 1))
    doubling = [2**power for power in range(attempts.bit_length()) if 2**power < attempts]
    return (*doubling, attempts)


def _check(attempts: int, successes: int) -> None:
    if not 0 <= successes <= attempts:
        raise ValueError(f"successes lie between 0 and the {attempts} attempts; there are {successes}")


def _all_of(attempts: int, wanted: int) -> list[float]:
    factors = (max(0, wanted - drawn) / (attempts - drawn) for drawn in range(attempts))
    return list(accumulate(factors, lambda product, factor: product * factor))


def _mean_greatest(falling: Sequence[float], k: int) -> float:
    count = len(falling)
    if not 1 <= k <= count:
        raise ValueError(f"k lies between 1 and the {count} returns; it is {k}")
    share = k / count  # of the draws, those whose greatest is the first one
    mean = 0.0
    for place, value in enumerate(falling[: count - k + 1]):
        mean += share * value
        left = count - place - 1
        share *= (left - k + 1) / left if left else 0.0
    return mean
