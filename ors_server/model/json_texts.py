"""The texts inside JSON values, and numbers that stand for texts."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, cast


def number_of(text: str) -> int:
    """Return a text's number, which is the same in every process."""
    # `hash` of a text differs from process to process.
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def texts_of(value: Any) -> Iterator[str]:
    """Yield every text inside a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in cast("Mapping[str, Any]", value).values():
            yield from texts_of(part)
    elif isinstance(value, list | tuple):
        for part in cast("Sequence[Any]", value):
            yield from texts_of(part)
