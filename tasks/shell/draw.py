"""A stream of choices derived from a text seed.

It knows nothing about exercises. It uses SHA-512 and integer arithmetic only, so that the same seed gives
the same choices on every Python version and machine.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")

_WORDS_PER_BLOCK = struct.Struct(">8Q")
"""A SHA-512 digest (64 bytes) read as eight unsigned 64-bit words."""


class UnsuitableDrawError(Exception):
    """What was drawn makes no sensible exercise; the generator draws again."""


class Draw:
    """An endless stream of choices; equal seeds give equal streams."""

    def __init__(self, seed: str) -> None:
        """Start the stream of `seed`."""
        self._seed = seed.encode()
        self._blocks_used = 0
        self._words: list[int] = []

    def below(self, bound: int) -> int:
        """Draw an integer in [0, bound); its bias is under bound / 2**64."""
        if not self._words:
            digest = hashlib.sha512(b"%s#%d" % (self._seed, self._blocks_used)).digest()
            self._words.extend(_WORDS_PER_BLOCK.unpack(digest))
            self._blocks_used += 1
        return self._words.pop() % bound

    def between(self, low: int, high: int, step: int = 1) -> int:
        """Draw one of low, low + step, ... that is not above high (both ends included)."""
        return low + step * self.below((high - low) // step + 1)

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of the options."""
        return options[self.below(len(options))]

    def pick_some(self, options: Iterable[T], count: int) -> list[T]:
        """Draw `count` different positions of `options`, and return their entries in random order.

        Raises:
            UnsuitableDrawError: There are fewer.
        """
        pool = list(options)
        if count > len(pool):
            raise UnsuitableDrawError(f"{count} of {len(pool)} options were requested")
        return [pool.pop(self.below(len(pool))) for _ in range(count)]

    def shuffled(self, options: Iterable[T]) -> list[T]:
        """Return all options in random order."""
        pool = list(options)
        return self.pick_some(pool, len(pool))

    def chance(self, percent: int) -> bool:
        """Tell whether something happens that does so in `percent` of 100 cases."""
        return self.below(100) < percent
