"""The seeds of a run's attempts."""

import hashlib

SEEDS = 2**53
"""How many there are: whole numbers that a float of 64 bits, and so JSON everywhere, keeps exactly."""


def seed_of(run_seed: int, split: str, index: int, attempt: int) -> int:
    """Derive an attempt's seed: the same in every run with the same seed, whatever else the run plays.

    Args:
        run_seed: The run's seed.
        split: The task's split.
        index: The task's place in it.
        attempt: The attempt's number, from 1.

    Returns:
        A number in [0, 2**53): of the SHA-256 of the four, the first 53 bits.
    """
    text = f"{run_seed}/{split}/{index}/{attempt}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 11
