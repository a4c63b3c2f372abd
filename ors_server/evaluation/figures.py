"""Figures of several attempts at one task: pass@k, pass^k and the best of k.

Each is the exact mean over all draws of k of the n attempts without replacement, and so an unbiased estimate
for k new attempts.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import isnan

EVERY_K = 64
"""Up to this many attempts every k is used; beyond, only some."""


def pass_at_k(attempts: int, successes: int) -> list[float]:
    """Estimate the probability that at least one of k attempts succeeds, for each k from 1 to n, in order.

    1 - C(n-c, k) / C(n, k) of Chen et al. 2021 ("Evaluating Large Language Models Trained on Code",
    arXiv:2107.03374), as a running product, which neither overflows nor cancels.

    Args:
        attempts: n, at least 0.
        successes: c, in [0, n].
    """
    _check(attempts, successes)
    return [1.0 - none for none in _all_of(attempts, attempts - successes)]


def mean_pass_at_k(groups: Iterable[Sequence[float | None]], k: int, threshold: float = 1.0) -> float | None:
    """Estimate pass@k over tasks from the rewards of several attempts at each, without bias.

    It is the mean of `pass_at_k` over the tasks that have at least k attempts with a reward; `None` if no
    task has. Attempts without a reward are left out and are not failures.

    Args:
        groups: For each task the rewards of its attempts; `None` for an attempt that was not judged.
        k: At least 1.
        threshold: Minimum reward of a success.

    Raises:
        ValueError: If k is below 1, or a reward or the threshold is NaN.
    """
    if k < 1 or isnan(threshold):
        raise ValueError(f"k must be at least 1 and the threshold a number, got {k!r} and {threshold!r}")
    estimates: list[float] = []
    for group in groups:
        rewards = [reward for reward in group if reward is not None]
        if any(isnan(reward) for reward in rewards):
            raise ValueError("a reward must be a number or None, got NaN")
        if len(rewards) >= k:
            successes = sum(1 for reward in rewards if reward >= threshold)
            estimates.append(pass_at_k(len(rewards), successes)[k - 1])
    return sum(estimates) / len(estimates) if estimates else None


def pass_hat_k(attempts: int, successes: int) -> list[float]:
    """Estimate the probability that all of k attempts succeed, as `pass_at_k` does for one.

    C(c, k) / C(n, k): pass^k of Yao et al. 2024 ("tau-bench", arXiv:2406.12045).
    """
    _check(attempts, successes)
    return _all_of(attempts, successes)


def best_of_k(returns: Sequence[float], ks: Sequence[int]) -> list[float]:
    """Estimate the mean of the greatest of k returns for each k of `ks`, which are in [1, n].

    The i-th smallest of n returns is the greatest of C(i-1, k-1) of the C(n, k) draws.
    """
    falling = sorted(returns, reverse=True)
    return [_mean_greatest(falling, k) for k in ks]


def chosen_ks(attempts: int) -> tuple[int, ...]:
    """Return the k to show: all up to the greatest number of attempts, or 1, 2, 4, ... and the last."""
    if attempts <= EVERY_K:
        return tuple(range(1, attempts + 1))
    doubling = [2**power for power in range(attempts.bit_length()) if 2**power < attempts]
    return (*doubling, attempts)


def _check(attempts: int, successes: int) -> None:
    if not 0 <= successes <= attempts:
        raise ValueError(
            f"successes must be between 0 and {attempts}, the number of attempts; got {successes}"
        )


def _all_of(attempts: int, successes: int) -> list[float]:
    factors = (max(0, successes - drawn) / (attempts - drawn) for drawn in range(attempts))
    return list(accumulate(factors, lambda product, factor: product * factor))


def _mean_greatest(falling: Sequence[float], k: int) -> float:
    count = len(falling)
    if not 1 <= k <= count:
        raise ValueError(f"k must be between 1 and {count}, the number of returns; got {k}")
    share = k / count  # of the draws, those whose greatest is the first one
    mean = 0.0
    for rank, value in enumerate(falling[: count - k + 1]):
        mean += share * value
        left = count - rank - 1
        # The next return is the greatest of a draw if that misses all before: the ratio of neighbouring
        # binomial coefficients.
        share *= (left - k + 1) / left if left else 0.0
    return mean
