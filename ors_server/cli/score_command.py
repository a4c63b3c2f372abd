"""`ors-server score`: judges the rows of a file with one reward."""

import json
import math
import os
import stat
import sys
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from ors_server.cli.command_output import complain, say
from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.judging_options import JudgingOptions, make_scorer
from ors_server.cli.terminal import make_console, make_table, progress_bar

if TYPE_CHECKING:
    from rich.table import Table

    from ors_server.rewards.result import RewardResult

MAX_EXTRAS = 100
"""Maximum number of extras that are summed up; further names are ignored."""
MAX_REASONS = 5
"""Maximum number of reasons that are shown."""
_MAX_REASON_CHARACTERS = 200
"""Characters of a reason that are shown."""


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(JudgingOptions):
    """Options of `score`."""

    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="JSON lines; each is an object with the fields of one judgement. - is standard input.",
        ),
    ]
    group_by: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="For a reward of groups: the field on which the rows of one group agree, which follow one "
            "another.",
        ),
    ] = None
    json: Annotated[
        bool, typer.Option("--json", help="Print one object per row, in order, as soon as it is judged.")
    ] = False


def score(options: ScoreOptions) -> None:
    """Judge every row of a file with one reward.

    Prints a summary or, with --json, one object per row: reward (a number or null), status, extras, and the
    reason if there is one. A row that could not be judged has no number. The status is 0 if every row was
    judged, 1 if some could not be, 2 if the command line is wrong or the reward cannot judge anything here.
    """
    from ors_server.rewards.reward_errors import BatchError

    summary = ScoreSummary()
    try:
        with _opened(options.file) as descriptor, make_scorer(options) as scorer:
            scorer.start()
            results = scorer.score_lines(descriptor, group_by=options.group_by)
            _judge(results, descriptor, summary, as_json=options.json)
            if scorer.replaced:
                complain(f"{scorer.replaced} workers were replaced: they died, or a row took them too long")
    except BatchError as error:
        raise typer.BadParameter(str(error)) from error
    _conclude(summary, as_json=options.json)


@contextmanager
def _opened(file: str) -> Generator[int, None, None]:
    if file == "-":
        yield 0
        return
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise typer.BadParameter(f"{file} is a folder")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _judge(
    results: Iterable["RewardResult"], descriptor: int, summary: "ScoreSummary", *, as_json: bool
) -> None:
    with progress_bar(count_lines(descriptor) if sys.stderr.isatty() else None) as show:
        for result in results:
            summary.add(result)
            if as_json:
                say(json.dumps(result.as_json(), allow_nan=False))
            show(summary.rows, summary.headline)


def count_lines(descriptor: int) -> int | None:
    """Count the lines of an open file without moving its position; `None` for a pipe or a device."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    count, at, last = 0, os.lseek(descriptor, 0, os.SEEK_CUR), b"\n"
    while piece := os.pread(descriptor, 2**20, at):
        count += piece.count(b"\n")
        at += len(piece)
        last = piece[-1:]
    return count + (last != b"\n")


def _conclude(summary: "ScoreSummary", *, as_json: bool) -> None:
    if not as_json:
        make_console().print(summary.as_table())
    if summary.unjudged:
        complain(f"{summary.unjudged} of {summary.rows} rows could not be judged")
        for reason in summary.reasons:
            complain(reason)
        raise typer.Exit(ExitStatus.FAILED)


@dataclass
class RunningFigures:
    """Count, mean, least and greatest of some numbers, without keeping them."""

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
            self._add_reason(f"{result.status.value}: {result.reason}"[:_MAX_REASON_CHARACTERS])
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
