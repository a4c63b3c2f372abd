"""The plots of one run, each with a caption and with its data as a table."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias, TypeVar

from ors_server.charts.chart import (
    Chart,
    ChartMark,
    Options,
    band,
    bars,
    chart_options,
    dots,
    line,
    names_axis,
    ticks,
    value_axis,
    widened,
    with_level,
)
from ors_server.evaluation.intervals import Interval, z_of
from ors_server.evaluation.number_format import between, count_of, number, percent
from ors_server.evaluation.runs import Attempt
from ors_server.evaluation.summary import AtK, RunSummary, TaskFigures

Ranked = TypeVar("Ranked")
TaskMark: TypeAlias = tuple[float, tuple[float, float], str]
"""A task, or a group of neighbours, in a plot: its mean return, the ends of its band, and its words."""

MAX_VALUES = 12
"""Up to this many different values each have a bar; more are put into ranges."""
MAX_TASKS = 240
"""Up to this many tasks each have a mark; more are put into groups of neighbours."""
MAX_POINTS = 300
"""Points of a running mean."""
MAX_REASONS = 8
MAX_NAME = 20
"""Characters of a reason next to its bar."""
_BINS = 20


def histogram(name: str, title: str, label: str, values: Sequence[tuple[float, bool]]) -> Chart | None:
    """Draw how often values occur, those of successes separately; `None` without values."""
    if not values:
        return None
    labels, positions = _bins([value for value, _ in values])
    counts = Counter((positions[value], is_success) for value, is_success in values)
    rows: list[tuple[str, ...]] = []
    successes: list[ChartMark] = []
    others: list[ChartMark] = []
    for position, words in enumerate(labels):
        good, rest = counts[position, True], counts[position, False]
        rows.append((words, f"{good:,}", f"{rest:,}"))
        summary = f"{words}: {count_of(good + rest, 'attempt')}, {good:,} of them successes"
        successes.append(ChartMark(good, summary))
        others.append(ChartMark(rest, summary))
    return Chart(
        name,
        title,
        f"{count_of(len(values), 'attempt')} that count.",
        chart_options(
            names_axis(labels, label),
            value_axis("attempts", is_whole=True),
            [bars(successes, "good", "successes", "attempts"), bars(others, "other", "others", "attempts")],
        ),
        (label, "successes", "others"),
        rows,
        legend=(("good", "success"), ("other", "no success")),
    )


def _bins(values: Sequence[float]) -> tuple[list[str], Mapping[float, int]]:
    """Return the labels of a histogram's bars, and the bar of each value."""
    distinct = sorted(set(values))
    gap = min((after - before for before, after in pairwise(distinct)), default=1.0)
    # Few values, such as 0 and 1: a bar for each, without ranges between them that nothing can be in.
    if distinct[-1] - distinct[0] <= MAX_VALUES * gap:
        return list(map(number, distinct)), {value: index for index, value in enumerate(distinct)}
    low, high = widened(distinct[0], distinct[-1])
    marks = ticks(low, high, _BINS)
    step = marks[1] - marks[0]
    count = max(1, math.ceil((high - low) / step - 1e-9))
    edges = [number(low + step * index) for index in range(count + 1)]
    positions = {value: min(count - 1, max(0, int((value - low) / step + 1e-9))) for value in distinct}
    return [f"{start} to {end}" for start, end in pairwise(edges)], positions


def running_mean(attempts: Sequence[Attempt], confidence: float) -> Chart | None:
    """Draw the mean return over counted attempts in the order of their end; `None` without attempts."""
    if not attempts:
        return None
    returns = [attempt.episode_return or 0.0 for attempt in attempts]
    least, greatest = min(returns), max(returns)
    means = running_means(attempts, z_of(confidence))
    # The first bands are so wide that they would set the scale.
    means = means[min(len(means) // 10, 20) :]
    step = max(1.0, (len(means) - 1) / (MAX_POINTS - 1))
    shown = [means[round(index * step)] for index in range(min(len(means), MAX_POINTS))]
    points = [(count, mean, max(least, bottom), min(greatest, top)) for count, mean, bottom, top in shown]
    low, high = widened(min(point[2] for point in points), max(point[3] for point in points))
    series = [
        *band([(count, bottom, top) for count, _, bottom, top in points], "s1", "mean"),
        line([(count, mean) for count, mean, _, _ in points], "s1", "mean"),
    ]
    return Chart(
        "running-mean",
        "Running mean of the return",
        "The mean after each attempt, in the order in which they ended. The band is its interval, clustered "
        "by task and cut off at the least and greatest return. Quick attempts end first, so the beginning "
        "shows mostly them.",
        chart_options(
            value_axis("attempts that have ended", low=points[0][0], high=points[-1][0]),
            value_axis("mean return", low=low, high=high),
            series,
            by_axis=True,
        ),
        ("attempts", "mean", "band"),
        [
            (f"{int(ended):,}", number(mid), between(Interval(bottom, top, "")))
            for ended, mid, bottom, top in points
        ],
    )


def running_means(attempts: Sequence[Attempt], z: float) -> list[tuple[float, float, float, float]]:
    """Return (count, mean, lower end, upper end) after each attempt.

    The band is `z` standard errors to each side, clustered by task (Miller 2024, arXiv:2411.00640); its sums
    over tasks (squared totals, totals times sizes, squared sizes) are updated with each attempt.
    """
    totals: dict[tuple[str, int], tuple[float, int]] = {}
    total = squares = products = sizes = 0.0
    points: list[tuple[float, float, float, float]] = []
    for count, attempt in enumerate(attempts, 1):
        task, reward = (attempt.split, attempt.index), attempt.episode_return or 0.0
        before, size = totals.get(task, (0.0, 0))
        after = before + reward
        totals[task] = (after, size + 1)
        total += reward
        squares += after**2 - before**2
        products += after * (size + 1) - before * size
        sizes += 2 * size + 1
        mean = total / count
        # Rounding may make a spread of 0 negative.
        spread = max(0.0, squares - 2 * mean * products + mean**2 * sizes)
        half = z * math.sqrt(spread) / count if len(totals) > 1 else 0.0
        points.append((float(count), mean, mean - half, mean + half))
    return points


def returns_by_task(summary: RunSummary) -> Chart | None:
    """Draw the mean return of each task, the best first; `None` if no attempt counts."""
    tasks = sorted(
        (task for task in summary.tasks if task.reward is not None),
        key=lambda task: (-(task.reward or 0.0), task.split, task.index),
    )
    if not tasks:
        return None
    caption = "Each point is a task; the band is the interval of its mean return, cut at the ends."
    marks: list[TaskMark] = []
    if len(tasks) <= MAX_TASKS:
        for task in tasks:
            mean, within, count = task.reward or 0.0, task.interval, count_of(task.counted, "attempt")
            ends = (mean, mean) if within is None else (within.low, within.high)
            details = count if within is None else f"{between(within)}; {count}"
            marks.append((mean, ends, f"{task.split}/{task.index}: {number(mean)} ({details})"))
    else:
        for ranks, group in neighbours(tasks):
            mean, ends = math.fsum(task.reward or 0.0 for task in group) / len(group), _ends(group)
            marks.append((mean, ends, f"{ranks}: {number(mean)} ({' to '.join(map(number, ends))})"))
        caption = (
            f"{len(tasks):,} tasks in {MAX_TASKS} groups of neighbours; the band reaches from the least to "
            "the greatest return of a group."
        )
    low, high = widened(*_ends(tasks))
    size = 7 if len(marks) <= MAX_TASKS // 2 else 4
    points = dots(
        [ChartMark((rank, mean), words, size=size) for rank, (mean, _, words) in enumerate(marks, 1)],
        "s1",
        "task",
    )
    if (overall := summary.overall.reward) is not None:
        points = with_level(points, overall.value, f"mean {number(overall.value)}")
    # Intervals of few attempts would set the scale; what is beyond it is in the words and in the table.
    bands = [(rank, max(low, least), min(high, top)) for rank, (_, (least, top), _) in enumerate(marks, 1)]
    return Chart(
        "task-returns",
        "Return per task",
        caption,
        chart_options(
            value_axis("tasks, the best first", low=0, high=len(marks) + 1, is_whole=True)
            | {"axisLabel": {"showMaxLabel": False}},
            value_axis("mean return", low=low, high=high),
            [*band(bands, "s1", "tasks"), points],
        ),
        ("task", "mean return and interval"),
        [tuple(words.split(": ", 1)) for _, _, words in marks],
        is_wide=True,
    )


def neighbours(ranked: Sequence[Ranked]) -> Iterator[tuple[str, Sequence[Ranked]]]:
    """Return more than `MAX_TASKS` tasks in as many groups, each with its ranks in words."""
    step = len(ranked) / MAX_TASKS
    for index in range(MAX_TASKS):
        start, end = round(index * step), round((index + 1) * step)
        yield f"ranks {start + 1:,} to {end:,}", ranked[start:end]


def _ends(tasks: Sequence[TaskFigures]) -> tuple[float, float]:
    return (
        min(task.least for task in tasks if task.least is not None),
        max(task.greatest for task in tasks if task.greatest is not None),
    )


def at_k(figures: Sequence[AtK]) -> Chart | None:
    """Draw pass@k and pass^k over k; `None` for fewer than two k."""
    if len(figures) < 2:  # noqa: PLR2004  (a curve has two points)
        return None
    series: list[Options] = []
    for position, (label, ink) in enumerate((("pass@k", "good"), ("pass^k", "s1"))):
        shares = [figure.pass_at_k if label == "pass@k" else figure.pass_hat_k for figure in figures]
        points = [(float(figure.k), share) for figure, share in zip(figures, shares, strict=True)]
        ends = [(k, share.interval.low, share.interval.high) for k, share in points if share.interval]
        if len(ends) == len(points):
            series += band(ends, ink, label)
        series.append(line([(k, share.value) for k, share in points], ink, label, position))
    rows: list[tuple[str, ...]] = []
    for figure in figures:
        cells = [str(figure.k), f"{figure.tasks:,}"]
        for share in (figure.pass_at_k, figure.pass_hat_k):
            cells += [percent(share.value), between(share.interval, as_percent=True)]
        rows.append((*cells, number(figure.best_of_k.value), between(figure.best_of_k.interval)))
    return Chart(
        "at-k",
        "What more attempts gain",
        "pass@k: at least one of k attempts succeeds; pass^k: all of them do. Over the tasks with at least k "
        "attempts that count.",
        chart_options(
            value_axis("attempts at a task, k", low=figures[0].k, high=figures[-1].k, is_whole=True),
            value_axis("probability", low=0, high=1, is_percent=True),
            series,
            by_axis=True,
        ),
        ("k", "tasks", "pass@k", "interval", "pass^k", "interval", "best return of k", "interval"),
        rows,
        legend=(("good", "pass@k"), ("s1", "pass^k")),
    )


def stop_reasons(summary: RunSummary) -> Chart | None:
    """Draw the number of attempts by stop reason; `None` without attempts."""
    reasons = list(summary.overall.stop_reasons.items())
    if not reasons:
        return None
    rest = sum(count for _, count in reasons[MAX_REASONS:])
    shown = reasons[:MAX_REASONS] + ([("all others", rest)] if rest else [])
    total = sum(count for _, count in reasons)
    marks = [
        ChartMark(
            count,
            f"{reason}: {count_of(count, 'attempt')}, {percent(count / total)}",
            "bad" if reason == "error" else None,
        )
        for reason, count in shown
    ]
    names = [reason if len(reason) <= MAX_NAME else f"{reason[: MAX_NAME - 1]}…" for reason, _ in shown]
    return Chart(
        "stop-reasons",
        "Why attempts ended",
        f"{count_of(total, 'attempt')}, including those that errored.",
        chart_options(
            value_axis(is_whole=True), names_axis(names, is_down=True), [bars(marks, "s1", "attempts")]
        ),
        ("reason", "attempts", "share"),
        [(reason, f"{count:,}", percent(count / total)) for reason, count in reasons],
        entries=len(shown),
    )
