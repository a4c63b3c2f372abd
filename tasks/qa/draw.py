"""A stream of choices derived from a text seed.

It knows nothing about questions. It uses SHA-512 and integer arithmetic only, so that the same seed gives
the same choices on every Python version and machine.
"""

import hashlib
import struct
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_WORDS_PER_BLOCK = struct.Struct(">8Q")
"""A SHA-512 digest (64 bytes) read as eight unsigned 64-bit words."""


class Draw:
    """An endless stream of choices; equal seeds give equal streams."""

    def __init__(self, seed: str) -> None:
        """Starts the stream of `seed`."""
        self._seed = seed.encode()
        self._blocks_used = 0
        self._words: list[int] = []

    def below(self, bound: int) -> int:
        """Draws an integer in [0, bound).

        The bias of the remainder is under bound / 2**64, which cannot be seen in a few hundred articles.
        """
        if not self._words:
            digest = hashlib.sha512(b"%s#%d" % (self._seed, self._blocks_used)).digest()
            self._words.extend(_WORDS_PER_BLOCK.unpack(digest))
            self._blocks_used += 1
        return self._words.pop() % bound

    def between(self, low: int, high: int) -> int:
        """Draws an integer in [low, high], both ends included."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        """Draws one of the options."""
        return options[self.below(len(options))]

    def pick_some(self, options: Sequence[T], count: int) -> list[T]:
        """Draw `count` different positions of `options`, and return their entries in random order."""
        pool = list(options)
        return [pool.pop(self.below(len(pool))) for _ in range(count)]

    def shuffle(self, options: Sequence[T]) -> list[T]:
        """Returns all the options in random order."""
        return self.pick_some(options, len(options))
