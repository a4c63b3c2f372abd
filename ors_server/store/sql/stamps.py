"""Values as the tables have them."""

import hashlib
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FURTHEST = 2**63 - 1
_DIGEST_BYTES = 12


def stamp(moment: datetime) -> int:
    """Return a moment in microseconds since 1970 in UTC, exactly.

    Args:
        moment: With its zone.
    """
    return (moment - _EPOCH) // _MICROSECOND


def moment(stamped: int) -> datetime:
    """Return the moment that `stamp` was given, in UTC.

    Args:
        stamped: Microseconds since 1970.
    """
    return _EPOCH + stamped * _MICROSECOND


def searchable(text: str) -> str:
    """Return a text as columns that are searched have it: PostgreSQL has no NUL in texts.

    The record itself keeps the text as it was.

    Args:
        text: Any text.
    """
    return text.replace("\0", "\N{SYMBOL FOR NULL}") if "\0" in text else text


def whole(number: int | None) -> int | None:
    """Return a number as a column has it; one that no column has becomes `None`.

    Args:
        number: Any integer.
    """
    return number if number is not None and abs(number) <= _FURTHEST else None


def digest_of(body: bytes, places: str | None = None) -> str:
    """Return what tells whether a row's texts were edited: 24 hex digits of a BLAKE2b.

    Args:
        body: The row's JSON in UTF-8.
        places: Where the texts of its blobs belong, if it has any.
    """
    text = body if places is None else body + b"\0" + places.encode()
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()


def is_edited(digest: str, body: str, places: str | None = None) -> bool:
    """Say whether a row's texts are others than those that its digest was made of.

    Args:
        digest: The row's; an older server wrote none, and then nobody can tell.
        body: Its JSON.
        places: Where the texts of its blobs belong.
    """
    return bool(digest) and digest != digest_of(body.encode(), places)
