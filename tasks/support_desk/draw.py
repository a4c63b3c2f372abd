"""Random choices that follow from a text seed, the same on every machine and Python version."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A stream of choices; equal seeds give equal streams."""

    def __init__(self, seed: str) -> None:
        """Start the stream of a seed."""
        self._seed = seed
        self._drawn = 0

    def below(self, bound: int) -> int:
        """Draw an integer in [0, bound)."""
        self._drawn += 1
        digest = hashlib.sha256(f"{self._seed}#{self._drawn}".encode()).digest()
        return int.from_bytes(digest[:8]) % bound

    def between(self, low: int, high: int) -> int:
        """Draw an integer in [low, high], both ends included."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of the options."""
        return options[self.below(len(options))]

    def pick_some(self, options: Sequence[T], count: int) -> list[T]:
        """Draw `count` different positions of `options`, and return their entries in random order."""
        pool = list(options)
        return [pool.pop(self.below(len(pool))) for _ in range(count)]
