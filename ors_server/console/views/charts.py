"""Charts: their data, and the options that draw them with ECharts. Colours and tooltips are the page's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DASHES: tuple[str | list[int], ...] = ("solid", [7, 3], [2, 3], [8, 3, 2, 3])
"""Of the lines in order, so that colour is not all that tells them apart."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point, and the band around it."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Line:
    """One line."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over one axis."""

    name: str
    title: str
    note: str
    x_name: str
    lines: tuple[Line, ...]

    @property
    def table(self) -> tuple[tuple[float, tuple[float | None, ...]], ...]:
        """About twelve rows of the same numbers: x, and each line's value there."""
        xs = sorted({point.x for line in self.lines for point in line.points})
        stride = max(1, len(xs) // 12)
        kept = [x for index, x in enumerate(xs) if (len(xs) - 1 - index) % stride == 0]
        values = [{point.x: point.y for point in line.points} for line in self.lines]
        return tuple((x, tuple(column.get(x) for column in values)) for x in kept)

    @property
    def options(self) -> Mapping[str, Any]:
        """The chart for ECharts: each line with its band, which is two stacked areas."""
        series: list[dict[str, Any]] = []
        for number, line in enumerate(self.lines):
            base = {"type": "line", "symbol": "none", "silent": True, "stack": f"band{number}"}
            band = {"lineStyle": {"opacity": 0}, "stackStrategy": "all"}
            lows = [[point.x, point.low] for point in line.points]
            highs = [[point.x, point.high - point.low] for point in line.points]
            series.append({**base, **band, "data": lows, "band": False})
            series.append({**base, **band, "data": highs, "band": True, "line": number})
            series.append(
                {
                    "type": "line",
                    "name": line.name,
                    "showSymbol": len(line.points) == 1,
                    "lineStyle": {"width": 2, "type": DASHES[number % len(DASHES)]},
                    "data": [[point.x, point.y] for point in line.points],
                    "line": number,
                }
            )
        return {
            "animation": False,
            "grid": {"left": 44, "right": 12, "top": 12, "bottom": 40},
            "xAxis": {
                "type": "value",
                "name": self.x_name,
                "nameLocation": "middle",
                "nameGap": 26,
                "min": 1,
            },
            "yAxis": {"type": "value", "scale": False},
            "tooltip": {"trigger": "axis", "renderMode": "html"},
            "series": series,
        }
