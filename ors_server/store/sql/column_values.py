"""Converts values to and from their form in database columns."""

import hashlib

_FURTHEST = 2**63 - 1
_DIGEST_BYTES = 12
_MAX_SEARCHED = 640
"""Bytes of a text in a searched column; the key of the kept totals has four such columns."""
_HASH_ROOM = 3 + 2 * _DIGEST_BYTES
_MAX_BYTES_OF_CHARACTER = 4


def without_nul(text: str) -> str:
    """Return a text for a column: PostgreSQL allows no NUL. The body keeps the exact text."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}") if "\0" in text else text


def as_search_text(text: str) -> str:
    """Return a text for a searched column.

    PostgreSQL refuses a row whose part in an index is longer than 2,704 bytes, so that of a longer text the
    column has the beginning and a hash: equal texts stay equal, and others different.
    """
    text = without_nul(text)
    if len(text) * _MAX_BYTES_OF_CHARACTER <= _MAX_SEARCHED:
        return text
    coded = text.encode(errors="surrogatepass")
    if len(coded) <= _MAX_SEARCHED:
        return text
    beginning = coded[: _MAX_SEARCHED - _HASH_ROOM].decode(errors="ignore")
    return f"{beginning}\N{HORIZONTAL ELLIPSIS}{_hash(coded)}"


def as_bigint(number: int | None) -> int | None:
    """Return a number that fits a 64-bit column, else `None`."""
    return number if number is not None and abs(number) <= _FURTHEST else None


def row_digest(body: bytes, blob_refs: str | None = None) -> str:
    """Return 24 hex digits of a BLAKE2b hash, which shows whether a row's texts were edited."""
    text = body if blob_refs is None else body + b"\0" + blob_refs.encode()
    return _hash(text)


def is_edited(digest: str, body: str, blob_refs: str | None = None) -> bool:
    """Return whether a row differs from its digest; false if an older server wrote it without one."""
    return bool(digest) and digest != row_digest(body.encode(), blob_refs)


def _hash(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()
