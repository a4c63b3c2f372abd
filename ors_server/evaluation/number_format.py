"""Formats figures, for terminals and reports."""

import math

from ors_server.evaluation.intervals import Interval

NOTHING = "-"
"""Replaces a missing figure."""
_MINUTE = 60
_HOUR = 3600
_HALF_A_DIGIT = 0.0005


def percent(value: float) -> str:
    """Format a share of 1 as a percentage with one decimal."""
    return f"{100 * value:.1f} %"


def number(value: float | None, figures: int = 4) -> str:
    """Format a number with at most `figures` significant digits, and commas between thousands."""
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    # Digits after the point for so many significant ones; at most 8, so that tiny numbers stay readable.
    digits = max(0, figures - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(digits, 8)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def measured(value: float, interval: Interval | None, *, as_percent: bool = False) -> tuple[str, str]:
    """Format a figure, and its interval, with as many digits as the interval deserves.

    The last digit is that of the second significant digit of half the interval's width: 0.662 for 0.6616 with
    an interval from 0.566 to 0.754. Shares have at most one decimal of a percentage. A figure without an
    interval, or with one of no width, has the digits of `number` and `percent`.
    """
    scale = 100.0 if as_percent else 1.0
    width = 0.0 if interval is None else scale * (interval.high - interval.low)
    if interval is None or not width > 0:
        return percent(value) if as_percent else number(value), between(interval, as_percent=as_percent)
    decimals = min(1 - math.floor(math.log10(width / 2)), 1 if as_percent else 8)

    def spell(part: float) -> str:
        # `+ 0.0` turns a rounded -0.0 into 0.0.
        return f"{round(scale * part, decimals) + 0.0:,.{max(0, decimals)}f}"

    unit = " %" if as_percent else ""
    return f"{spell(value)}{unit}", f"{spell(interval.low)} to {spell(interval.high)}{unit}"


def signed(value: float, figures: int = 4) -> str:
    """Format a difference with its sign."""
    return f"+{number(value, figures)}" if value > 0 else number(value, figures)


def signed_percent(value: float) -> str:
    """Format a difference of shares in percentage points, with its sign."""
    return f"{100 * value:+.1f} pp"


def duration(seconds: float) -> str:
    """Format a duration in seconds."""
    if seconds < _MINUTE:
        return f"{number(round(seconds, 2))} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min {int(seconds % _MINUTE)} s"
    return f"{int(seconds // _HOUR)} h {int(seconds % _HOUR // _MINUTE)} min"


def chance(p: float) -> str:
    """Format a p-value."""
    return "p < 0.001" if p < 2 * _HALF_A_DIGIT else f"p = {p:.3f}"


def count_of(count: int, singular: str, many: str | None = None) -> str:
    """Format a count with its noun; the plural is `singular` with an s by default."""
    return f"{count:,} {singular if count == 1 else many or singular + 's'}"


def between(interval: Interval | None, *, as_percent: bool = False) -> str:
    """Format an interval, of numbers or of shares of 1."""
    if interval is None:
        return NOTHING
    if as_percent:
        return f"{100 * interval.low:.1f} to {100 * interval.high:.1f} %"
    return f"{number(interval.low, 3)} to {number(interval.high, 3)}"
