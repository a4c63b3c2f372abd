"""Runs: a row each with its mean, and up to four compared, task by task and as charts for ECharts."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ors_server.alarms.run_alarms import Alarm
from ors_server.charts.chart import Options, band, chart_options, line, value_axis
from ors_server.console.views import formats
from ors_server.console.views.episode import task_title
from ors_server.console.views.marks import highest_of
from ors_server.model.trajectory import EpisodeRecord, EpisodeResult, result_of
from ors_server.store.aggregates import RunFigures, solve_band

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


# Intervals

Z = 1.959963984540054
"""Quantile of the normal distribution for 95 %."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and its interval."""

    value: float
    low: float
    high: float
    count: int


def mean_of(values: Sequence[float]) -> Mean | None:
    """Return the mean: with Wilson's interval where every value is 0.0 or 1.0, else the normal one.

    Whole numbers are counts, of which a 1 is no success.
    """
    count = len(values)
    if not count:
        return None
    mean = math.fsum(values) / count
    if all(type(value) is float and value in {0.0, 1.0} for value in values):
        return wilson(mean, count)
    half = Z * standard_error(values, mean)
    return Mean(mean, mean - half, mean + half, count)


def wilson(mean: float, count: int) -> Mean:
    """Return a share with Wilson's interval (1927)."""
    centre = (mean + Z * Z / (2 * count)) / (1 + Z * Z / count)
    half = Z / (1 + Z * Z / count) * math.sqrt(mean * (1 - mean) / count + Z * Z / (4 * count * count))
    return Mean(mean, max(0.0, centre - half), min(1.0, centre + half), count)


def standard_error(values: Sequence[float], mean: float) -> float:
    """Return the standard error of a mean; 0 for one value, of which it cannot be known."""
    if len(values) < 2:  # noqa: PLR2004  (a variance needs two)
        return 0.0
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))


# Charts


@dataclass(frozen=True, slots=True)
class Point:
    """One point, and the band around it."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """One series of a chart."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class RunChart:
    """Lines over one axis."""

    name: str
    title: str
    note: str
    x_name: str
    lines: tuple[ChartSeries, ...]

    @property
    def table(self) -> tuple[tuple[float, tuple[float | None, ...]], ...]:
        """About twelve rows of the same numbers: x, and each line's value there."""
        xs = sorted({point.x for line in self.lines for point in line.points})
        stride = max(1, len(xs) // 12)
        shown = [x for index, x in enumerate(xs) if (len(xs) - 1 - index) % stride == 0]
        values = [{point.x: point.y for point in line.points} for line in self.lines]
        return tuple((x, tuple(column.get(x) for column in values)) for x in shown)

    @property
    def options(self) -> Options:
        """The chart for ECharts: each line with its band."""
        series: list[Options] = []
        for number, drawn in enumerate(self.lines):
            ink = f"s{number + 1}"
            series += band([(point.x, point.low, point.high) for point in drawn.points], ink, str(number))
            series.append(line([(point.x, point.y) for point in drawn.points], ink, drawn.name, number))
        return chart_options(value_axis(self.x_name, low=1), value_axis(), series, by_axis=True)


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
class Square:
    """One attempt."""

    kind: str
    """Class: `hit`, `part`, `na`, or empty for a miss."""


@dataclass(frozen=True, slots=True)
class TaskCell:
    """The attempts of one run at one task."""

    squares: tuple[Square, ...]
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
    mean: float
    low: float
    high: float
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
    charts: tuple[RunChart, ...]


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
    returns = run.returns
    mean: Mean | None = None
    if returns.mean is not None:
        is_binary = run.success is not None and math.isclose(returns.mean, run.success, abs_tol=1e-9)
        low = returns.mean if returns.low is None else returns.low
        high = returns.mean if returns.high is None else returns.high
        mean = Mean(returns.mean, low, high, returns.episodes)
        if is_binary:  # every return is 0 or 1, so the normal interval would leave the scale
            mean = wilson(returns.mean, returns.episodes)
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
    squares: list[Square] = []
    for record in group[:MAX_SQUARES]:
        if not _is_graded(record):
            squares.append(Square("na"))
        elif _is_solved(record):
            squares.append(Square("hit"))
        else:
            squares.append(Square("part" if record.summary.episode_return > 0 else ""))
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
        if gaps:
            mean = math.fsum(gaps) / len(gaps)
            half = Z * standard_error(gaps, mean)
            better, worse = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
            differences.append(
                Difference(row.agent, mean, mean - half, mean + half, better, worse, len(gaps))
            )
    return differences


MAX_POINTS, MIN_COUNT = 100, 4
"""Points of one line, and values of its first one."""


def _charts(groups: Sequence[Sequence[EpisodeRecord]], picked: Sequence[RunView]) -> tuple[RunChart, ...]:
    if not groups:
        return ()
    returns: list[ChartSeries] = []
    lengths: list[ChartSeries] = []
    for group, row in zip(groups, picked, strict=True):
        graded = [record for record in group if _is_graded(record)]
        returns.append(ChartSeries(row.agent, _running([record.summary.episode_return for record in graded])))
        lengths.append(ChartSeries(row.agent, _running([record.summary.steps for record in group])))
    return (
        RunChart(
            "returns",
            "Mean return so far",
            "band: 95 % interval of the mean",
            "graded episode",
            tuple(returns),
        ),
        RunChart(
            "lengths", "Mean steps so far", "band: 95 % interval of the mean", "episode", tuple(lengths)
        ),
    )


def _running(values: Sequence[float]) -> tuple[Point, ...]:
    """Return the mean of the first n values for about `MAX_POINTS` numbers n, the last one included."""
    stride = max(1, len(values) // MAX_POINTS)
    first = min(MIN_COUNT, len(values))  # the mean of two or three says nothing
    points: list[Point] = []
    for count in sorted({*range(first, len(values) + 1, stride), len(values)} - {0}):
        mean = mean_of(values[:count])
        if mean is not None:
            points.append(Point(count, mean.value, mean.low, mean.high))
    return tuple(points)


def as_template(view: RunsView, alarms: Iterable[tuple[str, Alarm]]) -> Mapping[str, Any]:
    """Return the template's values.

    Args:
        alarms: Those that are open, with the names of their runs.
    """
    by_run: dict[str, list[Alarm]] = defaultdict(list)
    for name, alarm in alarms:
        by_run[name].append(alarm)
    return {"view": view, "alarms": dict(by_run), "max_compared": MAX_COMPARED}
