"""Runs: a row each with its mean, and up to four compared, task by task and as charts for ECharts."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ors_server.alarms.run_alarms import Alarm
from ors_server.charts.chart import Chart, Options, band, chart_options, line, value_axis
from ors_server.console.views import formats
from ors_server.console.views.episode import task_title
from ors_server.console.views.marks import highest_of
from ors_server.model.trajectory import EpisodeRecord, EpisodeResult, result_of
from ors_server.store.aggregates import MeanReturn, RunFigures, solve_band

MAX_EPISODES = 2_000
"""Episodes of each chosen run that are compared, the newest ones."""
MAX_COMPARED = 4
SHOWN_RUNS = 8
"""Runs below the chosen ones, until all are asked for."""
MAX_ID = 16
"""Characters of a run's id that are shown whole; of longer ones, the last six."""
SHOWN_TASKS = 50
MAX_SQUARES = 12
"""Attempts of one task that are drawn one by one."""
RUN = "run"


Z = 1.959963984540054
"""Quantile of the normal distribution for 95 %."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and its interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, returns: MeanReturn, *, is_share: bool = False) -> "Mean | None":
        """Return a mean with its normal interval, a share with Wilson's (1927), which stays in [0, 1]."""
        mean, count = returns.mean, returns.episodes
        if mean is None:
            return None
        if not is_share:
            return cls(
                mean,
                mean if returns.low is None else returns.low,
                mean if returns.high is None else returns.high,
            )
        centre = (mean + Z * Z / (2 * count)) / (1 + Z * Z / count)
        half = Z / (1 + Z * Z / count) * math.sqrt(mean * (1 - mean) / count + Z * Z / (4 * count * count))
        return cls(mean, max(0.0, centre - half), min(1.0, centre + half))


def mean_of(values: Sequence[float]) -> Mean | None:
    """Return the mean of values; it is a share if every one is 0.0 or 1.0.

    Whole numbers are counts, of which a 1 is no success.
    """
    is_share = all(type(value) is float and value in {0.0, 1.0} for value in values)
    squares = math.fsum(value * value for value in values)
    return Mean.of(MeanReturn.of(len(values), math.fsum(values), squares), is_share=is_share)


# The page


@dataclass(frozen=True, slots=True)
class RunView:
    """One run."""

    name: str
    agent: str
    environment: str
    short_id: str
    mean: Mean | None
    """Of the returns of graded episodes."""
    lowest: float
    highest: float
    """The scale of the bar."""
    solved: float | None
    episodes: int
    steps: float
    failed: int
    live: int
    last: str
    place: int | None = None
    """Its place among the chosen runs, from 1."""

    def at(self, value: float) -> float:
        """Return where a return is on a bar from 4 to 136."""
        span = self.highest - self.lowest
        return 4 + 132 * min(1.0, max(0.0, (value - self.lowest) / span))


@dataclass(frozen=True, slots=True)
class TaskCell:
    """The attempts of one run at one task."""

    squares: tuple[str, ...]
    """The class of each attempt: `hit`, `part`, `na`, or empty for a miss."""
    solved: int
    graded: int


@dataclass(frozen=True, slots=True)
class ComparedTask:
    """One task, with a cell for each chosen run."""

    title: str
    task_hash: str
    kind: str
    """never, rare, learnable, mostly or always, by the share of graded attempts that solve it."""
    cells: tuple[TaskCell, ...]
    spread: float
    """By how much the runs differ."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first chosen run against another."""

    other: str
    mean: Mean
    better: int
    worse: int
    tasks: int


@dataclass(frozen=True, slots=True)
class RunsView:
    """The page."""

    runs: tuple[RunView, ...]
    chosen: tuple[RunView, ...]
    hidden: int
    """Runs that are not shown."""
    episodes: int
    with_failures: int
    all_runs: int
    is_cut: bool
    """Whether older episodes were not read."""
    differences: tuple[Difference, ...]
    tasks: tuple[ComparedTask, ...]
    more_tasks: int
    charts: tuple[Chart, ...]


def view_runs(
    figures: Sequence[RunFigures],
    chosen: Mapping[str, Sequence[EpisodeRecord]],
    now: datetime,
    *,
    shows_all: bool,
) -> RunsView:
    """Return the page.

    Args:
        figures: Of all runs, the newest first.
        chosen: The episodes of the runs to compare, oldest first.
    """
    names = list(chosen)
    rows = [_view_run(run, now, names.index(run.run) + 1 if run.run in chosen else None) for run in figures]
    picked = sorted((row for row in rows if row.place), key=lambda row: row.place or 0)
    others = [row for row in rows if row.place is None]
    shown = others if shows_all else others[:SHOWN_RUNS]
    groups = list(chosen.values())
    tasks = _view_tasks(groups) if groups else []
    return RunsView(
        runs=(*picked, *shown),
        chosen=tuple(picked),
        hidden=len(others) - len(shown),
        episodes=sum(row.episodes for row in rows),
        with_failures=sum(row.failed > 0 for row in rows),
        all_runs=len(rows),
        is_cut=any(len(group) >= MAX_EPISODES for group in groups),
        differences=tuple(_differences(names, groups, picked)),
        tasks=tuple(tasks[:SHOWN_TASKS]),
        more_tasks=max(0, len(tasks) - SHOWN_TASKS),
        charts=_charts(groups, picked),
    )


def _is_graded(record: EpisodeRecord) -> bool:
    return result_of(record.summary) is EpisodeResult.GRADED


def _is_solved(record: EpisodeRecord) -> bool:
    highest = highest_of(record)
    return record.summary.episode_return >= (1.0 if highest is None else highest)


def _view_run(run: RunFigures, now: datetime, place: int | None) -> RunView:
    more = f" and {len(run.environments) - 1} more" if len(run.environments) > 1 else ""
    # Where the mean is the share of successes, every return is 0 or 1.
    is_share = None not in {run.returns.mean, run.success} and math.isclose(
        run.returns.mean or 0.0, run.success or 0.0, abs_tol=1e-9
    )
    mean = Mean.of(run.returns, is_share=is_share)
    return RunView(
        name=run.run,
        agent=", ".join(run.agents) or run.run,
        environment=next(iter(run.environments), "") + more,
        short_id=run.run[-6:] if len(run.run) > MAX_ID else run.run,
        mean=mean,
        lowest=min(0.0, mean.low if mean else 0.0),
        highest=max(1.0, mean.high if mean else 1.0),
        solved=run.success,
        episodes=run.episodes,
        steps=run.steps / run.episodes,
        failed=run.failed,
        live=run.live,
        last=formats.age(run.last_created_at, now),
        place=place,
    )


def _by_task(group: Iterable[EpisodeRecord]) -> Mapping[str, list[EpisodeRecord]]:
    tasks: dict[str, list[EpisodeRecord]] = defaultdict(list)
    for record in group:
        tasks[record.origin.task_hash].append(record)
    return tasks


def _view_tasks(groups: Sequence[Sequence[EpisodeRecord]]) -> list[ComparedTask]:
    """Return the tasks of the chosen runs, those on which they differ most first."""
    by_run = [_by_task(group) for group in groups]
    rows: list[ComparedTask] = []
    for task_hash in dict.fromkeys(task for tasks in by_run for task in tasks):
        attempts = [tasks.get(task_hash, []) for tasks in by_run]
        cells = tuple(_cell(group) for group in attempts)
        rates = [cell.solved / cell.graded for cell in cells if cell.graded]
        graded = sum(cell.graded for cell in cells)
        rate = sum(cell.solved for cell in cells) / graded if graded else None
        first = next(record for group in attempts for record in group)
        title = task_title(first).partition(" / ")[2] or task_title(first)
        rows.append(
            ComparedTask(title, task_hash, solve_band(rate), cells, max(rates) - min(rates) if rates else 0.0)
        )
    return sorted(rows, key=lambda row: (-row.spread, row.title))


def _cell(group: Sequence[EpisodeRecord]) -> TaskCell:
    squares = [
        "na"
        if not _is_graded(record)
        else "hit"
        if _is_solved(record)
        else "part"
        if record.summary.episode_return > 0
        else ""
        for record in group[:MAX_SQUARES]
    ]
    graded = [record for record in group if _is_graded(record)]
    return TaskCell(tuple(squares), sum(map(_is_solved, graded)), len(graded))


def _differences(
    names: Sequence[str], groups: Sequence[Sequence[EpisodeRecord]], picked: Sequence[RunView]
) -> Sequence[Difference]:
    """Compare the first run with each other one, over the tasks that both have played."""
    if len(names) < 2:  # noqa: PLR2004  (one run is compared with none)
        return ()
    means = [
        {
            task: math.fsum(record.summary.episode_return for record in played) / len(played)
            for task, played in _by_task(filter(_is_graded, group)).items()
        }
        for group in groups
    ]
    differences: list[Difference] = []
    for own, row in zip(means[1:], picked[1:], strict=True):
        gaps = [means[0][task] - own[task] for task in means[0] if task in own]
        squares = math.fsum(gap * gap for gap in gaps)
        mean = Mean.of(MeanReturn.of(len(gaps), math.fsum(gaps), squares))
        if mean is not None:
            better, worse = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
            differences.append(Difference(row.agent, mean, better, worse, len(gaps)))
    return differences


MAX_POINTS, MIN_COUNT = 100, 4
"""Points of one line, and values of its first one."""
TABLE_ROWS = 12
"""Rows of a chart's table, about."""


def _charts(groups: Sequence[Sequence[EpisodeRecord]], picked: Sequence[RunView]) -> tuple[Chart, ...]:
    if not groups:
        return ()
    returns = [[record.summary.episode_return for record in group if _is_graded(record)] for group in groups]
    lengths = [[record.summary.steps for record in group] for group in groups]
    names = [row.agent for row in picked]
    return (
        _chart("returns", "Mean return so far", "graded episode", names, returns),
        _chart("lengths", "Mean steps so far", "episode", names, lengths),
    )


def _chart(
    name: str, title: str, x_name: str, names: Sequence[str], values: Sequence[Sequence[float]]
) -> Chart:
    """Draw the mean of the first n values of each run, with its band, over n."""
    means = [_running(of_run) for of_run in values]
    series: list[Options] = []
    for number, points in enumerate(means):
        ink = f"s{number + 1}"
        series += band([(count, mean.low, mean.high) for count, mean in points.items()], ink, str(number))
        heights = [(float(count), mean.value) for count, mean in points.items()]
        series.append(line(heights, ink, names[number], number))
    counts = sorted({count for points in means for count in points})
    shown = counts[:: -max(1, len(counts) // TABLE_ROWS)][::-1]
    rows = [
        (
            str(count),
            *(formats.amount(mean.value if (mean := points.get(count)) else None) for points in means),
        )
        for count in shown
    ]
    options = chart_options(value_axis(x_name, low=1), value_axis(), series, by_axis=True)
    return Chart(name, title, "band: 95 % interval of the mean", options, (x_name, *names), rows)


def _running(values: Sequence[float]) -> Mapping[int, Mean]:
    """Return the mean of the first n values for about `MAX_POINTS` numbers n, the last one included."""
    stride = max(1, len(values) // MAX_POINTS)
    first = min(MIN_COUNT, len(values))  # the mean of two or three says nothing
    counts = sorted({*range(first, len(values) + 1, stride), len(values)} - {0})
    return {count: mean for count in counts if (mean := mean_of(values[:count])) is not None}


def as_template(view: RunsView, alarms: Iterable[tuple[str, Alarm]]) -> Mapping[str, Any]:
    """Return the template's values.

    Args:
        alarms: Those that are open, with the names of their runs.
    """
    by_run: dict[str, list[Alarm]] = defaultdict(list)
    for name, alarm in alarms:
        by_run[name].append(alarm)
    return {"view": view, "alarms": dict(by_run), "max_compared": MAX_COMPARED}
