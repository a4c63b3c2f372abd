"""Values as the tables have them."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FURTHEST = 2**63 - 1


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
