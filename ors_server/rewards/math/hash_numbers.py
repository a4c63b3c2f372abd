"""Numbers that only a text decides, so that every verdict is reproducible."""

import hashlib


def hash_number(text: str, size: int = 6) -> int:
    """Return a number of `size` bytes."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "big")
