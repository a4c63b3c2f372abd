"""Draws scales, axes and marks of data as SVG.

Colours and fonts come from the page's style sheet by class (`style`), for light and dark pages. Each mark of
data has a `title` with its value. Parameters named `x`, `y`, `low` and `high` are in data units, unless a
docstring says otherwise.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ors_server.evaluation.number_format import number
from ors_server.evaluation.report.markup import Markup, element

_STEPS = (1, 2, 2.5, 5, 10)
_TICKS = 5
ARROW = 6.0
"""Length of the arrow at an end that is cut off, in the drawing's units."""
_TINY = 1e-300
"""Narrower ranges are points."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The size of a drawing and its margins for the axes, in its own units."""

    width: float = 560
    height: float = 262
    left: float = 50
    right: float = 26
    top: float = 28
    bottom: float = 40

    @property
    def floor(self) -> float:
        """Return where the horizontal axis is."""
        return self.height - self.bottom

    @property
    def end(self) -> float:
        """Return where the vertical scale ends on the right."""
        return self.width - self.right


def ticks(low: float, high: float, count: int = _TICKS) -> list[float]:
    """Return about `count` round numbers in a range."""
    if high - low <= max(_TINY, 1e-12 * max(abs(low), abs(high))):
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


def apart(positions: Sequence[float], gap: float, end: float) -> list[float]:
    """Return positions near the given ones, up to `end`, at least `gap` apart, in their order."""
    order = sorted(range(len(positions)), key=lambda at: (positions[at], at))
    moved = list(positions)
    highest = end
    # From the highest down: each label is pushed down only by those above it, never beyond `end`.
    for at in reversed(order):
        moved[at] = highest = min(positions[at], highest)
        highest -= gap
    return moved


@dataclass
class Drawing:
    """A drawing with two scales; marks are drawn in data units."""

    x: tuple[float, float]
    """Least and greatest value from left to right."""
    y: tuple[float, float]
    """Least and greatest value from bottom to top."""
    frame: Frame = field(default_factory=Frame)
    parts: list[Markup] = field(default_factory=list[Markup])

    def at_x(self, value: float) -> float:
        """Return the distance of a value from the left, in the drawing's units."""
        low, high = self.x
        return self.frame.left + (value - low) / (high - low) * (self.frame.end - self.frame.left)

    def at_y(self, value: float) -> float:
        """Return the distance of a value from the top, in the drawing's units."""
        low, high = self.y
        return self.frame.floor - (value - low) / (high - low) * (self.frame.floor - self.frame.top)

    def axes(
        self,
        x_label: str,
        y_label: str,
        *,
        x_ticks: Sequence[float] | None = None,
        y_ticks: Sequence[float] | None = None,
        format_y: Callable[[float], str] = number,
    ) -> None:
        """Draw lines at values of y, and label values on both axes; round values by default."""
        frame = self.frame
        for value in ticks(*self.y) if y_ticks is None else y_ticks:
            y = self.at_y(value)
            self.parts.append(element("line", x1=frame.left, x2=frame.end, y1=y, y2=y, class_="grid"))
            self.text(frame.left - 8, y + 4, format_y(value), "tick end")
        for value in ticks(*self.x) if x_ticks is None else x_ticks:
            self.text(self.at_x(value), frame.floor + 17, number(value), "tick middle")
        self.parts.append(
            element("line", x1=frame.left, x2=frame.end, y1=frame.floor, y2=frame.floor, class_="axis")
        )
        self.text((frame.left + frame.end) / 2, frame.height - 5, x_label, "label middle")
        self.text(frame.left, frame.top - 14, y_label, "label")

    def text(self, x: float, y: float, words: str, style: str) -> None:
        """Write words at a position in the drawing's own units."""
        self.parts.append(element("text", words, x=x, y=y, class_=style))

    def bar(self, x: tuple[float, float], y: tuple[float, float], title: str, style: str) -> None:
        """Draw a rectangle of data; `y` in any order."""
        left, right = self.at_x(x[0]), self.at_x(x[1])
        gap = 1.0 if right - left > 4 else 0.0  # noqa: PLR2004  (thinner ones touch each other)
        top, bottom = sorted((self.at_y(y[0]), self.at_y(y[1])))
        self.parts.append(
            element(
                "rect",
                element("title", title),
                x=left + gap / 2,
                y=top,
                width=max(0.5, right - left - gap),
                height=max(0.75, bottom - top),
                class_=f"mark {style}",
            )
        )

    def dot(self, x: float, y: float, title: str, style: str, radius: float = 3.5) -> None:
        """Draw a point of data; `radius` in the drawing's units."""
        title_ = element("title", title)
        self.parts.append(
            element("circle", title_, cx=self.at_x(x), cy=self.at_y(y), r=radius, class_=f"mark {style}")
        )

    def whisker(self, x: float, low: float, high: float) -> None:
        """Draw a vertical line; an arrow marks an end beyond the scale."""
        bottom, top = (self.at_y(min(max(value, self.y[0]), self.y[1])) for value in (low, high))
        at = self.at_x(x)
        self.parts.append(element("line", x1=at, x2=at, y1=bottom, y2=top, class_="whisker"))
        if low < self.y[0]:
            self._arrow(at, bottom, (0, ARROW), f"continues down to {number(low)}")
        if high > self.y[1]:
            self._arrow(at, top, (0, -ARROW), f"continues up to {number(high)}")

    def extent(self, low: float, high: float, y: float) -> None:
        """Draw a horizontal line at `y` in the drawing's units; an arrow marks an end beyond the scale."""
        left, right = (self.at_x(min(max(value, self.x[0]), self.x[1])) for value in (low, high))
        self.parts.append(element("line", x1=left, x2=max(right, left + 1), y1=y, y2=y, class_="extent"))
        if low < self.x[0]:
            self._arrow(left, y, (-ARROW, 0), f"continues down to {number(low)}")
        if high > self.x[1]:
            self._arrow(right, y, (ARROW, 0), f"continues up to {number(high)}")

    def _arrow(self, x: float, y: float, to: tuple[float, float], title: str) -> None:
        along, across = to, (to[1] * 0.7, to[0] * 0.7)
        corners = (
            (x + along[0], y + along[1]),
            (x + across[0], y + across[1]),
            (x - across[0], y - across[1]),
        )
        points = " ".join(f"{left:.1f},{top:.1f}" for left, top in corners)
        self.parts.append(element("polygon", element("title", title), points=points, class_="mark clipped"))

    def level(self, y: float, words: str) -> None:
        """Draw a labelled line from left to right."""
        at, frame = self.at_y(y), self.frame
        self.parts.append(element("line", x1=frame.left, x2=frame.end, y1=at, y2=at, class_="level"))
        self.text(frame.end, at - 5, words, "note end")

    def line(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """Draw a line through points, from left to right."""
        self.parts.append(element("path", d=self._path(points), class_=f"line {style}"))

    def band(self, points: Sequence[tuple[float, float, float]], style: str = "band") -> None:
        """Fill the area between two lines, given as (x, lower y, upper y) from left to right."""
        low, high = self.y
        upper = [(x, min(top, high)) for x, _, top in points]
        lower = [(x, max(bottom, low)) for x, bottom, _ in reversed(points)]
        self.parts.append(element("path", d=f"{self._path([*upper, *lower])}Z", class_=style))

    def _path(self, points: Sequence[tuple[float, float]]) -> str:
        return "M" + "L".join(f"{self.at_x(x):.1f} {self.at_y(y):.1f}" for x, y in points)

    def render(self, name: str, title: str) -> Markup:
        """Return the drawing; `name` is its id on the page."""
        return element(
            "svg",
            element("title", title, id=f"{name}-title"),
            *self.parts,
            viewBox=f"0 0 {self.frame.width:g} {self.frame.height:g}",
            role="img",
            aria_labelledby=f"{name}-title",
        )
