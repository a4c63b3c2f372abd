"""Charts of runs: seven figures over episodes, time or the label `step`, and where alarms opened."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean, quantiles
from typing import TypeAlias, TypeVar

from ors_server.alarms.episode_facts import STEP_LABEL
from ors_server.alarms.run_alarms import AlarmSpan, ComponentBin
from ors_server.charts.chart import (
    Chart,
    Options,
    band,
    chart_options,
    cloud,
    line,
    value_axis,
    with_moments,
)
from ors_server.console.views import formats
from ors_server.console.views.marks import solved_at
from ors_server.model.clock import from_microseconds, to_microseconds
from ors_server.model.trajectory import EpisodeRecord, EpisodeResult, result_of
from ors_server.store.series import MIN_GRADED

AXES: Mapping[str, str] = {"episode": "episode of the run", "time": "time (UTC)", "step": "label step"}
"""What charts may be over, with the name of the axis."""
WINDOWS, MIN_WINDOW = 24, 8
"""Maximum number of points of one line, and minimum of episodes of each: a mean of two or three is noise."""
MAX_DOTS = 300
"""Single returns behind the line of their mean."""
MAX_COMPONENTS = 4
"""Components that have a line, the largest ones."""
_MILLISECOND = 1_000
_CHART_OF: Mapping[str, str] = {
    **dict.fromkeys(("dead-groups", "diversity"), "groups"),
    **dict.fromkeys(("dead-outcomes", "lost-tasks", "learnable", "same-answer", "stale"), "success"),
    **dict.fromkeys(("variance", "ceiling", "jump", "ungraded"), "returns"),
    **dict.fromkeys(("length", "cut"), "lengths"),
    "dominance": "components",
    "tool-failures": "failures",
    "infrastructure": "infrastructure",
}
"""The chart that an alarm is marked on, by the alarm's name."""

Lines: TypeAlias = Sequence[tuple[str, str, Sequence[tuple[float, float]]]]
"""Of each line its name, its ink and its points."""
_Member = TypeVar("_Member")


@dataclass(frozen=True, slots=True)
class ChartedRun:
    """A run as its charts need it."""

    name: str
    records: Sequence[EpisodeRecord]
    """Its newest ended episodes, oldest first."""
    earlier: int
    """Ended episodes before them."""
    components: Sequence[ComponentBin]
    """In the order in which the run's episodes ended; empty if their steps were not read."""
    alarms: Sequence[AlarmSpan]

    def place(self, number: int, axis: str) -> float | None:
        """Return where about the ended episode of a number is on an axis; `None` if it is not shown."""
        position = number - 1 - self.earlier
        if not 0 <= position < len(self.records):
            return None
        return float(number) if axis == "episode" else _place_of(self.records[position], axis)

    def placed(self, axis: str) -> list[tuple[float, EpisodeRecord]]:
        """Return its episodes that are on an axis, each with its place."""
        places = [
            (self.place(number, axis), record) for number, record in enumerate(self.records, self.earlier + 1)
        ]
        return [(x, record) for x, record in places if x is not None]


_ReadLines: TypeAlias = Callable[[ChartedRun, str], tuple[str, Lines]]


def axes_of(runs: Sequence[ChartedRun]) -> list[str]:
    """Return what the charts of these runs can be over."""
    has_steps = any(_place_of(record, "step") is not None for run in runs for record in run.records)
    return [name for name in AXES if name != "step" or has_steps]


def view_charts(runs: Sequence[ChartedRun], axis: str) -> list[Chart]:
    """Return the charts of runs to compare; those of groups and components are of one run each."""
    windows = [_windows_of(sorted(run.placed(axis), key=itemgetter(0))) for run in runs]
    sizes = [len(members) for of_run in windows for _, members in of_run]
    if not sizes:
        return []
    size = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else str(max(sizes))
    each = f"each point: {size} episode{'' if size == '1' else 's'}"
    inks = [f"s{number}" for number in range(1, len(runs) + 1)]
    figures = [[(x, _figures(members)) for x, members in of_run] for of_run in windows]

    def of_runs(name: str, title: str, *, is_percent: bool = False) -> Chart:
        caption, behind = each, list[Options]()
        if name == "returns":
            caption = f"{each}; line: mean, band: 10th to 90th percentile, dots: single episodes"
            for run, of_run, ink in zip(runs, windows, inks, strict=True):
                dots = run.placed(axis)[:: max(1, len(run.records) // MAX_DOTS)]
                returns = [(x, record.summary.episode_return) for x, record in dots if is_graded(record)]
                behind += [*_spread(of_run, ink), cloud(returns, ink)]
        lines = [
            (run.name, ink, [(x, value) for x, values in of_run if (value := values[name]) is not None])
            for run, ink, of_run in zip(runs, inks, figures, strict=True)
        ]
        return _draw((name, title, caption), axis, lines, runs, behind, is_percent=is_percent)

    def of_each(name: str, title: str, read: _ReadLines, *, is_percent: bool = False) -> Iterator[Chart]:
        for number, run in enumerate(runs, 1):
            caption, lines = read(run, axis)
            words = (name, title, caption)
            if len(runs) > 1:
                words = (f"{name}-{number}", f"{title}: {run.name}", caption)
            yield _draw(words, axis, lines, [run], is_percent=is_percent)

    charts = [
        of_runs("returns", "Return"),
        of_runs("success", "Solved", is_percent=True),
        *of_each("groups", "Groups", _lines_of_groups, is_percent=True),
        of_runs("lengths", "Steps"),
        *of_each("components", "Components", _lines_of_components),
        of_runs("failures", "Calls that were refused or failed", is_percent=True),
        of_runs("infrastructure", "Episodes in which the environment failed", is_percent=True),
    ]
    return [chart for chart in charts if chart.rows]


def _lines_of_groups(run: ChartedRun, axis: str) -> tuple[str, Lines]:
    """Return the caption, and a line for each kind of groups: its share."""
    groups: dict[tuple[str, str], list[tuple[float, bool]]] = defaultdict(list)
    for x, record in run.placed(axis):
        labels = record.origin.labels
        if is_graded(record):
            key = labels.get("group") or record.origin.task_hash, labels.get(STEP_LABEL, "")
            groups[key].append((x, is_solved(record)))
    kinds: list[tuple[float, str]] = []
    for members in groups.values():
        if len(members) >= MIN_GRADED:
            outcomes = {solved for _, solved in members}
            kind = "mixed" if len(outcomes) > 1 else "all pass" if True in outcomes else "all fail"
            kinds.append((members[-1][0], kind))
    windows = _windows_of(sorted(kinds))
    size = max((len(members) for _, members in windows), default=0)
    lines = [
        (kind, ink, [(x, fmean(kind == member for member in members)) for x, members in windows])
        for kind, ink in (("all fail", "bad"), ("mixed", "s1"), ("all pass", "good"))
    ]
    return f"groups of {MIN_GRADED} graded attempts or more; each point: at most {size} of them", lines


def _lines_of_components(run: ChartedRun, axis: str) -> tuple[str, Lines]:
    """Return the caption, and a line for each of the largest components; none for a single one."""
    sums: Counter[str] = Counter()
    places: list[tuple[float, ComponentBin]] = []
    last = 0
    for part in run.components:
        sums.update({name: abs(value) for name, value in part.sums.items()})
        last += part.episodes
        if (x := run.place(last, axis)) is not None:
            places.append((x, part))
    largest = [name for name, _ in sums.most_common(MAX_COMPONENTS)] if len(sums) > 1 else []
    lines = [
        (name, f"s{ink}", sorted((x, part.sums.get(name, 0.0) / part.episodes) for x, part in places))
        for ink, name in enumerate(largest, 1)
    ]
    size = max((part.episodes for part in run.components), default=0)
    return f"means of the parts of the reward; each point: at most {size} episodes", lines


def _draw(
    words: tuple[str, str, str],
    axis: str,
    lines: Lines,
    runs: Sequence[ChartedRun],
    behind: Sequence[Options] = (),
    *,
    is_percent: bool = False,
) -> Chart:
    """Draw lines; alarms of the runs are marked, each on one chart."""
    name, title, caption = words
    series = [line(points, ink, title, number) for number, (title, ink, points) in enumerate(lines) if points]
    opened = [
        (x, f"{alarm.title}{'' if len(runs) == 1 else f', {run.name}'}", alarm)
        for run in runs
        for alarm in run.alarms
        if _CHART_OF.get(alarm.name) == name.partition("-")[0]
        and (x := run.place(alarm.opened, axis)) is not None
    ]
    if series and opened:
        series[0] = with_moments(series[0], [(x, text) for x, text, _ in opened])
    for _, text, alarm in opened:
        until = "still open" if alarm.closed is None else f"closed at {alarm.closed:,}"
        caption += f". Alarm at episode {alarm.opened:,}, {until}: {text}"
    values = [dict(points) for _, _, points in lines]
    places = sorted({x for points in values for x in points})
    write = formats.share if is_percent else formats.amount
    rows: list[tuple[str, ...]] = []
    for x in places:
        moment = from_microseconds(round(x * _MILLISECOND)) if axis == "time" else None
        first = f"{x:,.0f}" if moment is None else formats.moment(moment)
        rows.append((first, *(write(points.get(x)) for points in values)))
    across = value_axis(AXES[axis], low=places[0], high=places[-1]) if places else value_axis()
    if axis == "time":
        across |= {"type": "time"}
    # A share of failures is small: its axis ends where the line does.
    is_whole = is_percent and name not in {"failures", "infrastructure"}
    upwards = value_axis(
        low=0.0 if is_percent else None, high=1.0 if is_whole else None, is_percent=is_percent
    )
    options = chart_options(across, upwards, [*behind, *series], by_axis=True) | {"useUTC": True}
    legend = tuple((ink, name) for name, ink, _ in lines) if len(lines) > 1 else ()
    return Chart(
        name, title, caption, options, (AXES[axis], *(name for name, _, _ in lines)), rows, legend=legend
    )


def _place_of(record: EpisodeRecord, axis: str) -> float | None:
    """Return where an episode is in time, in milliseconds, or by its label `step`."""
    if axis == "time":
        return to_microseconds(record.origin.created_at) / _MILLISECOND
    text = record.origin.labels.get(STEP_LABEL, "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 else None  # noqa: PLR2004  (2**53)


def _windows_of(placed: Sequence[tuple[float, _Member]]) -> list[tuple[float, Sequence[_Member]]]:
    """Cut what is in order of its place into windows, each with the place of its middle."""
    size = max(1, math.ceil(len(placed) / WINDOWS), min(MIN_WINDOW, len(placed) // MIN_WINDOW))
    windows: list[list[tuple[float, _Member]]] = []
    for x, member in placed:
        # What is at one place, such as the episodes of a step, is not divided.
        if not windows or (len(windows[-1]) >= size and x != windows[-1][-1][0]):
            windows.append([])
        windows[-1].append((x, member))
    return [(part[(len(part) - 1) // 2][0], [member for _, member in part]) for part in windows]


def _figures(records: Sequence[EpisodeRecord]) -> Mapping[str, float | None]:
    """Return the figures of a window, by the name of their chart."""
    summaries = [record.summary for record in records]
    graded = [record for record in records if is_graded(record)]
    calls = sum(summary.steps for summary in summaries)
    faults = sum(summary.refused_steps + summary.failed_steps for summary in summaries)
    broken = [
        bool(summary.failed_steps or summary.unjudged_steps) or result_of(summary) is EpisodeResult.FAILED
        for summary in summaries
    ]
    return {
        "returns": fmean(record.summary.episode_return for record in graded) if graded else None,
        "success": fmean(map(is_solved, graded)) if graded else None,
        "lengths": calls / len(summaries),
        "failures": faults / calls if calls else None,
        "infrastructure": fmean(broken),
    }


def is_graded(record: EpisodeRecord) -> bool:
    """Return whether an episode has a return that counts."""
    return result_of(record.summary) is EpisodeResult.GRADED


def is_solved(record: EpisodeRecord) -> bool:
    """Return whether an episode earned the highest return of its environment, or 1 without a range."""
    return record.summary.episode_return >= solved_at(record)


def _spread(windows: Sequence[tuple[float, Sequence[EpisodeRecord]]], ink: str) -> list[Options]:
    """Return the band from the 10th to the 90th percentile of the returns."""
    ends: list[tuple[float, float, float]] = []
    for x, members in windows:
        returns = [record.summary.episode_return for record in members if is_graded(record)]
        if len(returns) > 1:
            tenths = quantiles(returns, n=10, method="inclusive")
            ends.append((x, tenths[0], tenths[-1]))
    return band(ends, ink, ink) if ends else []
