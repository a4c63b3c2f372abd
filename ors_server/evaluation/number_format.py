"""How figures are spelled, in a terminal and in a report alike."""

import math

from ors_server.evaluation.intervals import Interval

NOTHING = "-"
"""What stands where there is no figure."""
_MINUTE = 60
_HOUR = 3600
_TINY = 0.0005


def percent(value: float) -> str:
    """Spell a share of 1 as a percentage with one decimal.

    Args:
        value: Such as 0.125.
    """
    return f"{100 * value:.1f} %"


def number(value: float | None, figures: int = 4) -> str:
    """Spell a number with few significant digits, large ones in full with their thousands apart.

    Args:
        value: Any finite number, or `None`.
        figures: How many digits, at most.
    """
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    digits = max(0, figures - 1 - math.floor(math.log10(abs(value))))
    spelled = f"{value:,.{min(digits, 8)}f}"
    return spelled.rstrip("0").rstrip(".") if "." in spelled else spelled


def signed(value: float, figures: int = 4) -> str:
    """Spell a difference with its sign.

    Args:
        value: Any finite number.
        figures: How many digits, at most.
    """
    return f"+{number(value, figures)}" if value > 0 else number(value, figures)


def signed_percent(value: float) -> str:
    """Spell a difference of shares in percentage points, with its sign.

    Args:
        value: Such as -0.125.
    """
    return f"{100 * value:+.1f} pp"


def duration(seconds: float) -> str:
    """Spell a length of time.

    Args:
        seconds: At least 0.
    """
    if seconds < _MINUTE:
        return f"{number(round(seconds, 2))} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min {int(seconds % _MINUTE)} s"
    return f"{int(seconds // _HOUR)} h {int(seconds % _HOUR // _MINUTE)} min"


def chance(p: float) -> str:
    """Spell a p-value.

    Args:
        p: In [0, 1].
    """
    return "p < 0.001" if p < 2 * _TINY else f"p = {p:.3f}"


def count_of(count: int, one: str, many: str | None = None) -> str:
    """Spell how many there are of something.

    Args:
        count: At least 0.
        one: What one of them is called.
        many: What several are called; the same with an s by default.
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def between(interval: Interval | None, *, as_percent: bool = False) -> str:
    """Spell an interval.

    Args:
        interval: It, or `None`.
        as_percent: Whether its ends are shares of 1.
    """
    if interval is None:
        return NOTHING
    if as_percent:
        return f"{100 * interval.low:.1f} to {100 * interval.high:.1f} %"
    return f"{number(interval.low, 3)} to {number(interval.high, 3)}"
