"""The figures of a file's rewards; their size does not grow with the number of rows."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ors_server.cli.terminal import make_table

if TYPE_CHECKING:
    from rich.table import Table

    from ors_server.rewards.result import RewardResult

MAX_EXTRAS = 100
"""Most extras that are summed up; further names are ignored."""
MAX_REASONS = 5
"""Most reasons that are shown."""
_WIDE = 200
"""Characters of a reason that are shown."""


@dataclass
class RunningFigures:
    """Count, mean, least and greatest of some numbers."""

    count: int = 0
    total: float = 0.0
    least: float = math.inf
    greatest: float = -math.inf

    def add(self, value: float) -> None:
        """Add a number."""
        self.count += 1
        self.total += value
        self.least = min(self.least, value)
        self.greatest = max(self.greatest, value)

    @property
    def mean(self) -> float:
        """The mean; 0 of nothing."""
        return self.total / self.count if self.count else 0.0

    def as_cells(self) -> tuple[str, str, str]:
        """Render mean, least and greatest."""
        if not self.count:
            return ("none", "none", "none")
        return (f"{self.mean:.4f}", f"{self.least:.4g}", f"{self.greatest:.4g}")


@dataclass
class ScoreSummary:
    """RunningFigures of rewards, of statuses, and of extras."""

    rows: int = 0
    unjudged: int = 0
    """Rows without a reward."""
    rewards: RunningFigures = field(default_factory=RunningFigures)
    statuses: Counter[str] = field(default_factory=Counter[str])
    extras: dict[str, RunningFigures] = field(default_factory=dict[str, RunningFigures])
    """By name; only numbers are summed up."""
    reasons: list[str] = field(default_factory=list[str])
    """The first reasons why there was no reward, each with its row."""

    def add(self, result: "RewardResult") -> None:
        """Add a result."""
        self.rows += 1
        self.statuses[result.status.value] += 1
        if result.reward is not None:
            self.rewards.add(result.reward)
        else:
            self._add_reason(f"{result.status.value}: {result.reason}"[:_WIDE])
        for name, value in result.extras.items():
            is_shown = name in self.extras or len(self.extras) < MAX_EXTRAS
            if is_shown and isinstance(value, int | float):
                self.extras.setdefault(name, RunningFigures()).add(float(value))

    def _add_reason(self, reason: str) -> None:
        self.unjudged += 1
        if len(self.reasons) < MAX_REASONS:
            self.reasons.append(f"result {self.rows}, {reason}")

    @property
    def headline(self) -> str:
        """The running mean, and how many rows could not be judged."""
        lost = f", {self.unjudged} not judged" if self.unjudged else ""
        return f"mean {self.rewards.mean:.4f}{lost}"

    def as_table(self) -> "Table":
        """Render everything."""
        table = make_table("", "rows", "mean", "min", "max")
        table.add_row("reward", str(self.rows), *self.rewards.as_cells())
        for status, count in sorted(self.statuses.items()):
            table.add_row(f"  {status}", str(count))
        for name, figures in sorted(self.extras.items()):
            table.add_row(f"extra {name}", str(figures.count), *figures.as_cells())
        return table
