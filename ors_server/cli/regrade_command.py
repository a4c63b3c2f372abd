"""`ors-server regrade`: judges recorded episodes with another reward and shows the differences."""

import heapq
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from ors_server.cli.command_output import complain, say
from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.judging_options import JudgingOptions, make_scorer
from ors_server.cli.recorded_options import RecordedOptions, open_recorded
from ors_server.cli.score_command import RunningFigures
from ors_server.cli.terminal import make_console, make_table
from ors_server.model.printable import clean_line

if TYPE_CHECKING:
    from rich.table import Table

    from ors_server.replaying.regrading import Regraded

MAX_SHOWN_CHANGES = 10
"""Largest changes that are shown."""
MAX_REASONS = 5
"""Reasons of episodes without a judgement that are shown."""
ROUNDING_ERROR = 1e-9
"""Differences up to this are rounding, and count as none."""
_MAX_REASON_CHARACTERS = 200
"""Characters of a reason that are shown."""
_DIGITS = 12
"""Digits of an id that are shown."""


@dataclass(frozen=True, kw_only=True)
class RegradeOptions(JudgingOptions, RecordedOptions):
    """Options of `regrade`."""

    final_response_from: Annotated[
        str | None,
        typer.Option(
            metavar="TOOL.ARGUMENT",
            help="Where the final response is: an argument of the last call of a tool, or TOOL for the text "
            "that it returned. What the episode's last call handed in by default.",
            show_default=False,
        ),
    ] = None
    by_task: Annotated[
        bool,
        typer.Option("--by-task", help="For a reward of groups: the episodes of one task are a group."),
    ] = False
    json: Annotated[
        bool, typer.Option("--json", help="Print one object per episode, as soon as it is judged.")
    ] = False


def regrade(options: RegradeOptions) -> None:
    """Judge recorded episodes with another reward, and show how it differs from the paid rewards.

    The reward receives the same fields as the environment's own: the task's fields by name, the trajectory,
    the final response. The paid rewards are those of the tools, without penalties. The record is not changed.
    The status is 0 if every episode was judged, 1 if some could not be, 2 if the command line is wrong or the
    reward cannot judge anything here.
    """
    import anyio

    from ors_server.rewards.reward_errors import BatchError

    summary = RegradeSummary()

    def report(regraded: "Regraded") -> None:
        summary.add(regraded)
        if options.json:
            say(json.dumps(regraded.as_json(), allow_nan=False))

    try:
        anyio.run(_regrade, options, report)
    except BatchError as error:
        raise typer.BadParameter(str(error)) from error
    if not options.json:
        _show(summary)
    if summary.unjudged:
        complain(f"{summary.unjudged} of {summary.episodes} episodes could not be judged")
        for reason in summary.reasons:
            complain(clean_line(reason))
        raise typer.Exit(ExitStatus.FAILED)


async def _regrade(options: RegradeOptions, report: "Callable[[Regraded], None]") -> None:
    from anyio import to_thread

    from ors_server.replaying.regrading import RegradeRequest
    from ors_server.replaying.regrading import regrade as judge_again

    request = RegradeRequest(options.final_response_from, options.by_task)
    with make_scorer(options) as scorer:
        await to_thread.run_sync(scorer.start)
        async with open_recorded(options) as episodes:
            replaced = await judge_again(scorer, episodes, request, report)
    if replaced:
        complain(f"{replaced} workers were replaced: they died, or an episode took them too long")


def _show(summary: "RegradeSummary") -> None:
    if not summary.episodes:
        say("no episodes")
        return
    console = make_console()
    console.print(summary.as_table())
    if summary.largest:
        say()
        console.print(summary.as_changes())


@dataclass
class Correlation:
    """Pearson's correlation of pairs that come one after another (Welford's method for the moments)."""

    count: int = 0
    mean_x: float = 0.0
    mean_y: float = 0.0
    square_x: float = 0.0
    square_y: float = 0.0
    product: float = 0.0

    def add(self, x: float, y: float) -> None:
        """Add a pair."""
        self.count += 1
        off_x, off_y = x - self.mean_x, y - self.mean_y
        self.mean_x += off_x / self.count
        self.mean_y += off_y / self.count
        self.square_x += off_x * (x - self.mean_x)
        self.square_y += off_y * (y - self.mean_y)
        self.product += off_x * (y - self.mean_y)

    @property
    def value(self) -> float | None:
        """The correlation, in [-1, 1]; `None` where one side never varies."""
        spread = math.sqrt(self.square_x) * math.sqrt(self.square_y)
        return min(1.0, max(-1.0, self.product / spread)) if spread > 0 else None


@dataclass
class RegradeSummary:
    """RunningFigures of the paid rewards and of another reward."""

    episodes: int = 0
    before: RunningFigures = field(default_factory=RunningFigures)
    """Paid rewards of the episodes that both judged."""
    after: RunningFigures = field(default_factory=RunningFigures)
    """New rewards of the same episodes."""
    more: int = 0
    less: int = 0
    unjudged: int = 0
    """Episodes that the new reward could not judge."""
    only_now: int = 0
    """Episodes that had no reward before."""
    only_now_figures: RunningFigures = field(default_factory=RunningFigures)
    correlation: Correlation = field(default_factory=Correlation)
    statuses: Counter[str] = field(default_factory=Counter[str])
    reasons: list[str] = field(default_factory=list[str])
    _largest: "list[tuple[float, int, Regraded]]" = field(default_factory=list["tuple[float, int, Regraded]"])

    def add(self, regraded: "Regraded") -> None:
        """Add an episode."""
        self.episodes += 1
        self.statuses[regraded.result.status.value] += 1
        new, difference = regraded.result.reward, regraded.difference
        if new is None:
            self._add_reason(regraded)
        elif difference is None or regraded.paid is None:
            self.only_now += 1
            self.only_now_figures.add(new)
        else:
            self._add_pair(regraded, regraded.paid, new, difference)

    @property
    def same(self) -> int:
        """Episodes with the same reward."""
        return self.before.count - self.more - self.less

    @property
    def largest(self) -> "list[Regraded]":
        """The largest changes, the largest one first."""
        return [regraded for _, _, regraded in sorted(self._largest, reverse=True, key=lambda item: item[:2])]

    def as_table(self) -> "Table":
        """Render the figures."""
        table = make_table("", "episodes", "mean", "min", "max")
        table.add_row("paid before", str(self.before.count), *self.before.as_cells())
        table.add_row("this reward", str(self.after.count), *self.after.as_cells())
        table.add_row("  more", str(self.more))
        table.add_row("  less", str(self.less))
        table.add_row("  the same", str(self.same))
        if self.only_now:
            table.add_row("judged now only", str(self.only_now), *self.only_now_figures.as_cells())
        for status, count in sorted(self.statuses.items()):
            table.add_row(f"status {status}", str(count))
        value = self.correlation.value
        table.add_row("correlation", "", "none" if value is None else f"{value:.4f}")
        return table

    def as_changes(self) -> "Table":
        """Render the largest changes."""
        table = make_table("largest changes", "task", "paid", "now", "difference", left=2)
        for regraded in self.largest:
            origin, now = regraded.origin, regraded.result.reward
            task = origin.task_hash[:_DIGITS] if origin.split is None else f"{origin.split} {origin.index}"
            figures = (regraded.paid, now, regraded.difference)
            cells = ("" if value is None else f"{value:.4g}" for value in figures)
            table.add_row(origin.episode_id[:_DIGITS], f"{origin.environment} {task}", *cells)
        return table

    def _add_pair(self, regraded: "Regraded", paid: float, new: float, difference: float) -> None:
        self.before.add(paid)
        self.after.add(new)
        self.correlation.add(paid, new)
        if abs(difference) <= ROUNDING_ERROR:
            return
        self.more += difference > 0
        self.less += difference < 0
        entry = (abs(difference), -self.episodes, regraded)  # of equal ones, the earlier
        if len(self._largest) < MAX_SHOWN_CHANGES:
            heapq.heappush(self._largest, entry)
        else:
            heapq.heappushpop(self._largest, entry)

    def _add_reason(self, regraded: "Regraded") -> None:
        self.unjudged += 1
        if len(self.reasons) < MAX_REASONS:
            name = regraded.origin.episode_id[:_DIGITS]
            self.reasons.append(
                f"{name}, {regraded.result.status.value}: {regraded.result.reason}"[:_MAX_REASON_CHARACTERS]
            )
