"""Numbers, times and addresses as pages write them.

A missing value is an en dash and never 0. Minus is U+2212, which is as wide as plus.
"""

import math
from collections.abc import Iterable
from datetime import datetime
from urllib.parse import quote, urlencode

from ors_server.model import printable
from ors_server.model.wire import compact_json

MISSING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
_KIB = 1024
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def amount(value: float | None) -> str:
    """Write a return with two decimals; minus only where it is negative."""
    if value is None:
        return MISSING
    if not math.isfinite(value) or abs(value) >= 1e6:  # noqa: PLR2004  (two decimals would hide the digits)
        return f"{value:.3g}".replace("-", MINUS)
    text = f"{value:.2f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", MINUS)


def reward(value: float | None) -> str:
    """Write a reward with its sign; zero is written without a sign."""
    text = amount(value)
    return f"+{text}" if value is not None and value > 0 and text != "0.00" else text


def sign_class(value: float | None) -> str:
    """Return the class with which a reward is coloured."""
    return "none" if value is None else "plus" if value > 0 else "minus" if value < 0 else ""


def share(value: float | None) -> str:
    """Write a share in [0, 1] in percent."""
    return MISSING if value is None else f"{100 * value:.0f}\N{NO-BREAK SPACE}%"


def count(value: int | None) -> str:
    """Write a whole number with commas between thousands."""
    return MISSING if value is None else f"{value:,}"


def duration(seconds: float | None) -> str:
    """Write a time in the unit in which it has few digits."""
    if seconds is None:
        return MISSING
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms" if seconds >= 0.001 else "<1 ms"  # noqa: PLR2004  (a millisecond)
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"
    return f"{seconds // _HOUR:.0f} h {seconds % _HOUR // _MINUTE:.0f} min"


def age(then: datetime, now: datetime) -> str:
    """Write how long ago something was, in one unit."""
    seconds = max(0.0, (now - then).total_seconds())
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name}"
    return f"{seconds:.0f} s"


def moment(value: datetime | None) -> str:
    """Write a time in UTC, to the second."""
    return MISSING if value is None else f"{value:%Y-%m-%d %H:%M:%S} UTC"


def size(length: int) -> str:
    """Write a number of bytes."""
    if length < _KIB:
        return f"{length} B"
    return f"{length / _KIB:.0f} KiB" if length < _KIB * _KIB else f"{length / _KIB / _KIB:.1f} MiB"


def visible(value: object) -> str:
    """Write text of others so that nothing in it is invisible or turns the direction of the page."""
    return printable.clean(str(value))


def plain(value: object) -> str:
    """Write any value: a text as it is, another value as JSON."""
    return value if isinstance(value, str) else compact_json(value)


def finalise(value: object) -> object:
    """Make visible what is written into a page, before it is escaped.

    Markup is another class and passes, so `| e` keeps a value exact where a form sends it back.
    """
    return visible(value) if type(value) is str else value


def path_part(value: str) -> str:
    """Write a name as one part of a path."""
    return quote(value, safe="")


def query(pairs: Iterable[tuple[str, str]]) -> str:
    """Write a query with its question mark; nothing for no pairs."""
    text = urlencode(list(pairs))
    return f"?{text}" if text else ""
