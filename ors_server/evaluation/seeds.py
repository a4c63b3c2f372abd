"""The seeds of a run's attempts."""

import hashlib

from ors_server.evaluation.runs import AttemptPlace


def seed_of(run_seed: int, place: AttemptPlace) -> int:
    """Return an attempt's seed in [0, 2**53): the first 53 bits of a SHA-256.

    It depends on the run's seed and the attempt's place only, so it is the same in every such run.
    """
    text = f"{run_seed}/{place.split}/{place.index}/{place.attempt}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 11
