"""Charts for ECharts as data: axes, series and tooltips, without colours, which belong to a page.

A series names its ink (`s1` to `s5`, `good`, `bad`, `other`), for which each page has a class `ink-NAME`. A
point may have words, which its tooltip shows. Every chart has its numbers as a table too.
"""

import base64
import gzip
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

Options: TypeAlias = dict[str, Any]
SCRIPT = "charts.js"
LIBRARY = "echarts.common.min.js"
DASHES: tuple[str | list[int], ...] = ("solid", [7, 3], [2, 3], [8, 3, 2, 3])
"""Of lines in order, so that colour is not all that tells them apart."""
_STEPS = (1, 2, 2.5, 5, 10)
_TICKS = 5
_MIN_RANGE = 1e-300
"""Narrower ranges are points."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart of a page, and its numbers as text."""

    name: str
    """Its id."""
    title: str
    caption: str
    options: Options
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    is_wide: bool = False
    legend: tuple[tuple[str, str], ...] = ()
    """Ink and meaning."""
    entries: int = 0
    """Number of horizontal bars, which decides the height; 0 for vertical bars."""


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A point or a bar."""

    value: float | tuple[float, float]
    """The bar's length, or x and y."""
    words: str
    """What its tooltip says."""
    ink: str | None = None
    """Where it is not its series's."""
    size: float | None = None
    """Diameter of a point, pixels."""

    def as_item(self) -> Options:
        """The mark as an item of a series."""
        item = {"value": self.value, "words": self.words, "ink": self.ink, "symbolSize": self.size}
        return {name: value for name, value in item.items() if value is not None}


def value_axis(
    name: str = "",
    *,
    low: float | None = None,
    high: float | None = None,
    is_whole: bool = False,
    is_percent: bool = False,
) -> Options:
    """Return an axis of numbers; without ends it begins at 0 or below."""
    axis = _axis("value", name)
    if low is not None:
        axis["min"] = round(low, 12)  # a label is 0.4, not 0.40000000000000013
    if high is not None:
        axis["max"] = round(high, 12)
    if is_whole:
        axis["minInterval"] = 1
    return axis | ({"percent": True} if is_percent else {})


def names_axis(names: Sequence[str], name: str = "", *, is_down: bool = False) -> Options:
    """Return an axis of names, the first one at the top where they are read downwards."""
    return _axis("category", name) | {"data": [*names], "inverse": is_down, "axisTick": {"show": False}}


def _axis(kind: str, name: str) -> Options:
    return {"type": kind, "name": name, "nameLocation": "middle", "nameGap": 26}


def chart_options(x: Options, y: Options, series: Sequence[Options], *, by_axis: bool = False) -> Options:
    """Return the options of a chart; `by_axis`: a tooltip tells all series at one x."""
    top, bottom = 28 if y.get("name") else 12, 26 if x.get("name") else 8
    return {
        "animation": False,
        "grid": {"left": 12, "right": 16, "top": top, "bottom": bottom, "containLabel": True},
        "xAxis": x,
        "yAxis": y | ({"nameLocation": "end", "nameGap": 10} if y["type"] == "value" else {}),
        "tooltip": {"trigger": "axis" if by_axis else "item", "renderMode": "html", "confine": True},
        "series": [*series],
    }


def band(points: Iterable[tuple[float, float, float]], ink: str, key: str) -> list[Options]:
    """Return an area between two heights: two stacked series without names, of which one is seen."""
    base = {"type": "line", "symbol": "none", "silent": True, "stack": f"band-{key}", "ink": ink}
    base |= {"lineStyle": {"opacity": 0}, "stackStrategy": "all"}
    ends = [*points]
    return [
        {**base, "data": [[x, low] for x, low, _ in ends], "band": False},
        {**base, "data": [[x, high - low] for x, low, high in ends], "band": True},
    ]


def line(points: Sequence[tuple[float, float]], ink: str, name: str, number: int = 0) -> Options:
    """Return a line; `number` chooses its dashes."""
    return {
        "type": "line",
        "name": name,
        "showSymbol": len(points) == 1,
        "lineStyle": {"width": 2, "type": DASHES[number % len(DASHES)]},
        "data": [[x, y] for x, y in points],
        "ink": ink,
    }


def bars(marks: Sequence[ChartMark], ink: str, name: str, stack: str | None = None) -> Options:
    """Return bars; those of one stack are put on each other."""
    series: Options = {"type": "bar", "name": name, "ink": ink, "barCategoryGap": "12%"}
    series["data"] = [mark.as_item() for mark in marks]
    return series if stack is None else {**series, "stack": stack}


def dots(marks: Sequence[ChartMark], ink: str, name: str) -> Options:
    """Return points."""
    return {"type": "scatter", "name": name, "ink": ink, "data": [mark.as_item() for mark in marks]}


def with_level(series: Options, height: float, words: str) -> Options:
    """Return a series with a dashed line at a height."""
    return _with_lines(series, [({"yAxis": height}, words)])


def with_moments(series: Options, moments: Iterable[tuple[float, str]]) -> Options:
    """Return a series with a dashed upright line, and words along it, at each of some places."""
    return _with_lines(series, [({"xAxis": x}, words) for x, words in moments], rotate=90)


def _with_lines(series: Options, lines: Iterable[tuple[Options, str]], **look: object) -> Options:
    label = {"position": "insideEndTop", **look}
    data = [{**line, "label": {**label, "formatter": words}} for line, words in lines]
    return {**series, "markLine": {"silent": True, "symbol": "none", "data": data}}


def cloud(points: Sequence[tuple[float, float]], ink: str) -> Options:
    """Return small faint points behind a line; without a name, so that no tooltip lists them."""
    series = {"type": "scatter", "ink": ink, "silent": True, "symbolSize": 4, "itemStyle": {"opacity": 0.3}}
    return {**series, "data": [[x, y] for x, y in points]}


def ticks(low: float, high: float, count: int = _TICKS) -> list[float]:
    """Return about `count` round numbers in a range."""
    if high - low <= max(_MIN_RANGE, 1e-12 * max(abs(low), abs(high))):
        return [low]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    # A tolerance, as the rough step may be a round number less one rounding error.
    step = next(power * factor for factor in _STEPS if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(multiple * step, 12) for multiple in range(first, last + 1)]


def widened(low: float, high: float) -> tuple[float, float]:
    """Return a range around two values, with round ends and never a point."""
    if high - low <= 1e-9 * max(1.0, abs(low), abs(high)):
        return low - 0.5, high + 0.5
    step = ticks(low, high)[:2]
    size = step[1] - step[0] if len(step) > 1 else high - low
    return math.floor(low / size + 1e-9) * size, math.ceil(high / size - 1e-9) * size


@cache
def chart_asset(name: str) -> str:
    """Return a script of this package."""
    return (files("ors_server.charts") / name).read_text("utf-8")


@cache
def packed_library() -> str:
    """Return ECharts, packed to a third of its size."""
    return packed(chart_asset(LIBRARY))


def packed(text: str) -> str:
    """Return a text in gzip and base64, for a page that has to hold it."""
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()
