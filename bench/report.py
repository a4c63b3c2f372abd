"""What a benchmark says, and the table of it."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure should be."""

    figure: Literal["ours", "ratio"]
    least: float | None = None
    most: float | None = None

    def is_met(self, value: float) -> bool:
        """Say whether a value is good enough."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        sign, bound = ("≥", self.least) if self.most is None else ("≤", self.most)
        return f"{'ratio ' if self.figure == 'ratio' else ''}{sign} {bound:g}"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of ours beside a peer's, measured in the same run."""

    name: str
    unit: str
    ours: float
    peer: float
    peer_name: str
    goal: Goal | None = None

    @property
    def ratio(self) -> float:
        """Ours over the peer's; 1 if neither has any, infinite if only the peer has none."""
        if self.peer == 0:
            return 1.0 if self.ours == 0 else math.inf
        return self.ours / self.peer

    @property
    def is_good(self) -> bool:
        """Whether the goal is met, if there is one."""
        return self.goal is None or self.goal.is_met(self.ours if self.goal.figure == "ours" else self.ratio)

    def as_json(self) -> dict[str, Any]:
        """Render the row with JSON types."""
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": self.ours,
            "peer": self.peer,
            "peer_name": self.peer_name,
            "ratio": self.ratio if math.isfinite(self.ratio) else None,
            "goal": None if self.goal is None else str(self.goal),
            "is_good": self.is_good,
        }


def as_table(rows: list[Row]) -> Table:
    """Lay rows out for a terminal."""
    table = Table(title="Speed and memory; each row was measured side by side, so its ratio is what counts")
    for heading in ("measured", "unit"):
        table.add_column(heading, no_wrap=True)
    for heading in ("ours", "peer", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("the peer", "goal", ""):
        table.add_column(heading, no_wrap=True)
    for row in rows:
        verdict = "" if row.goal is None else "[green]met[/]" if row.is_good else "[bold red]missed[/]"
        goal = "" if row.goal is None else str(row.goal)
        figures = (_figure(row.ours), _figure(row.peer), _figure(row.ratio))
        table.add_row(row.name, row.unit, *figures, row.peer_name, goal, verdict)
    return table


def _figure(value: float) -> str:
    is_count = value == int(value) if math.isfinite(value) else False
    return f"{value:,.0f}" if value >= 100 or is_count else f"{value:#.3g}"  # noqa: PLR2004  (three digits that count)
