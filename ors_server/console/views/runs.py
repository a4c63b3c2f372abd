"""Runs: a row each with its mean, and up to four compared, task by task and as charts for ECharts."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ors_server.alarms.run_alarms import Alarm, RunAlarms
from ors_server.console.views.episode import task_title
from ors_server.console.views.run_charts import ChartedRun, axes_of, is_graded, is_solved, view_charts
from ors_server.model.trajectory import EpisodeRecord, EpisodeResult, result_of
from ors_server.store.aggregates import Z_95, MeanReturn, RunFigures, solve_band

MAX_EPISODES = 2_000
"""Episodes of each chosen run that are compared, the newest ones."""
MAX_COMPARED = 4
MAX_SHOWN_RUNS = 8
"""Runs below the chosen ones, until all are asked for."""
MAX_ID = 16
"""Characters of a run's id that are shown whole; of longer ones, the last six."""
MAX_SQUARES = 12
"""Attempts of one task that are drawn one by one."""
RUN = "run"


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and its interval."""

    value: float
    low: float | None
    high: float | None
    """`None` of a single value."""

    @classmethod
    def of(cls, returns: MeanReturn, *, is_share: bool = False) -> "Mean | None":
        """Return a mean with its normal interval, a share with Wilson's (1927), which stays in [0, 1]."""
        mean, count = returns.mean, returns.episodes
        if mean is None:
            return None
        if not is_share:
            return cls(mean, returns.low, returns.high)
        centre = (mean + Z_95**2 / (2 * count)) / (1 + Z_95**2 / count)
        half = Z_95 / (1 + Z_95**2 / count) * math.sqrt(mean * (1 - mean) / count + (Z_95 / (2 * count)) ** 2)
        return cls(mean, max(0.0, centre - half), min(1.0, centre + half))


@dataclass(frozen=True, slots=True)
class RunView:
    """One run."""

    figures: RunFigures
    agent: str
    environment: str
    short_id: str
    mean: Mean | None
    """Of the returns of graded episodes."""
    alarms: Sequence[Alarm]
    """Those that are open."""
    place: int | None = None
    """Its place among the chosen runs, from 1."""
    title: str = ""
    """The agent, with the run's id where another chosen run has the same agent."""

    @property
    def name(self) -> str:
        """The label `run` of its episodes."""
        return self.figures.run


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
    environment: str
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
class ChosenRun:
    """A run to compare."""

    records: Sequence[EpisodeRecord]
    """Its newest episodes, oldest first."""
    alarms: RunAlarms | None
    """`None` if its steps were not read."""


def view_runs(
    figures: Sequence[RunFigures],
    chosen: Mapping[str, ChosenRun],
    *,
    shows_all: bool,
    axis: str,
    alarms: Iterable[tuple[str, Alarm]] = (),
) -> Mapping[str, Any]:
    """Return the values of the page, by the names that its template has for them.

    Args:
        figures: Of all runs, the newest first.
        axis: What the charts are over, one of `AXES`; another text means the first one.
        alarms: Those that are open, with the names of their runs.
    """
    by_run: dict[str, list[Alarm]] = defaultdict(list)
    for name, alarm in alarms:
        by_run[name].append(alarm)
    places = {name: place for place, name in enumerate(chosen, 1)}
    rows = [_view_run(run, places.get(run.run), by_run[run.run]) for run in figures]
    chosen_rows = sorted((row for row in rows if row.place), key=lambda row: row.place or 0)
    agents = Counter(row.agent for row in chosen_rows)
    picked = [
        row if agents[row.agent] == 1 else replace(row, title=f"{row.agent} ({row.short_id})")
        for row in chosen_rows
    ]
    others = [row for row in rows if row.place is None]
    groups = [run.records for run in chosen.values()]
    charted = _charted(chosen, picked)
    axes = axes_of(charted)
    axis = axis if axis in axes else axes[0]
    tasks = _view_tasks(groups) if groups else []
    solved = Counter(tuple(cell.solved > 0 for cell in task.cells) for task in tasks)
    return {
        "all_runs": figures,
        "runs": [*picked, *(others if shows_all else others[:MAX_SHOWN_RUNS])],
        "chosen": picked,
        "max_compared": MAX_COMPARED,
        "max_episodes": MAX_EPISODES,
        "is_cut": any(len(group) >= MAX_EPISODES for group in groups),
        "differences": _differences(groups, picked),
        "tasks": tasks,
        "has_environments": len({task.environment for task in tasks}) > 1,
        # Of two runs: tasks that both, only the first, only the second, and neither solved at least once.
        "outcomes": [solved[first, second] for first in (True, False) for second in (True, False)]
        if len(groups) == 2  # noqa: PLR2004  (runs)
        else None,
        "charts": view_charts(charted, axis),
        "axis": axis,
        "axes": axes,
        # Their alarms and components are not known.
        "unread": [row.title for row in picked if chosen[row.name].alarms is None],
    }


def _charted(chosen: Mapping[str, ChosenRun], picked: Sequence[RunView]) -> list[ChartedRun]:
    charted: list[ChartedRun] = []
    for row in picked:
        run, all_of_run = chosen[row.name], row.figures
        ended = [record for record in run.records if result_of(record.summary) is not EpisodeResult.LIVE]
        earlier = max(0, all_of_run.episodes - all_of_run.live - len(ended))
        components, spans = ([], []) if run.alarms is None else (run.alarms.components, run.alarms.spans)
        charted.append(ChartedRun(row.title, ended, earlier, components, spans))
    return charted


def _view_run(run: RunFigures, place: int | None, alarms: Sequence[Alarm]) -> RunView:
    more = f" and {len(run.environments) - 1} more" if len(run.environments) > 1 else ""
    # Where the mean is the share of successes, every return is 0 or 1.
    is_share = None not in {run.returns.mean, run.success} and math.isclose(
        run.returns.mean or 0.0, run.success or 0.0, abs_tol=1e-9
    )
    mean = Mean.of(run.returns, is_share=is_share)
    return RunView(
        figures=run,
        agent=", ".join(run.agents) or run.run,
        environment=next(iter(run.environments), "") + more,
        short_id=run.run[-6:] if len(run.run) > MAX_ID else run.run,
        mean=mean,
        alarms=alarms,
        place=place,
        title=", ".join(run.agents) or run.run,
    )


def _by_task(group: Iterable[EpisodeRecord]) -> Mapping[tuple[str, str], list[EpisodeRecord]]:
    """Return the episodes of each task, by environment and hash: two environments may have equal rows."""
    tasks: dict[tuple[str, str], list[EpisodeRecord]] = defaultdict(list)
    for record in group:
        tasks[record.origin.environment, record.origin.task_hash].append(record)
    return tasks


def _view_tasks(groups: Sequence[Sequence[EpisodeRecord]]) -> list[ComparedTask]:
    """Return the tasks of the chosen runs, those on which they differ most first."""
    by_run = [_by_task(group) for group in groups]
    rows: list[ComparedTask] = []
    for task in dict.fromkeys(task for tasks in by_run for task in tasks):
        attempts = [tasks.get(task, []) for tasks in by_run]
        cells = tuple(_cell(group) for group in attempts)
        rates = [cell.solved / cell.graded for cell in cells if cell.graded]
        graded = sum(cell.graded for cell in cells)
        rate = sum(cell.solved for cell in cells) / graded if graded else None
        first = next(record for group in attempts for record in group)
        title = task_title(first).partition(" / ")[2] or task_title(first)
        rows.append(
            ComparedTask(title, *task, solve_band(rate), cells, max(rates) - min(rates) if rates else 0.0)
        )
    return sorted(rows, key=lambda row: (-row.spread, row.title, row.environment))


def _cell(group: Sequence[EpisodeRecord]) -> TaskCell:
    graded = [record for record in group if is_graded(record)]
    squares: list[str] = []
    for record in group[:MAX_SQUARES]:
        outcome = "hit" if is_solved(record) else "part" if record.summary.episode_return > 0 else ""
        squares.append(outcome if is_graded(record) else "na")
    return TaskCell(tuple(squares), sum(map(is_solved, graded)), len(graded))


def _differences(
    groups: Sequence[Sequence[EpisodeRecord]], picked: Sequence[RunView]
) -> Sequence[Difference]:
    """Compare the first run with each other one, over the tasks that both have played."""
    means = [
        {
            task: math.fsum(record.summary.episode_return for record in played) / len(played)
            for task, played in _by_task(filter(is_graded, group)).items()
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
            differences.append(Difference(row.title, mean, better, worse, len(gaps)))
    return differences
