"""The figures of a run, and the comparison of two, as tables for a terminal."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from rich.table import Table
from rich.text import Text

from ors_server.evaluation.number_format import (
    NOTHING,
    between,
    chance,
    count_of,
    duration,
    number,
    percent,
    signed,
    signed_percent,
)
from ors_server.evaluation.resampling import Resampling
from ors_server.evaluation.run_comparison import FigureDifference, RunComparison
from ors_server.evaluation.runs import Run, version_differences
from ors_server.evaluation.suite import agent_labels
from ors_server.evaluation.summary import Amount, Counts, Estimate, GroupFigures, Rate, RunSummary

MAX_CHANGED = 10
"""Maximum number of tasks that a comparison lists."""
RATES = ("success_rate", "pass_at_k", "pass_hat_k")
"""Figures that are shares of 1."""
COMPARED = ("reward", *RATES, "steps", "tokens", "cost", "seconds", "penalties")
"""Figures of a comparison, in the order in which they are shown."""
_NAMED = 4
"""Maximum number of tasks that a remark names."""
_MAX_SHOWN_K = 3
"""Number of k above 1 that are shown, the first and the last among them."""
_Format: TypeAlias = Callable[[GroupFigures], str]
_AMOUNTS = ("steps", "tokens", "cost", "seconds")


def summary_table(summary: RunSummary) -> Table:
    """Return the figures of a run: a column for each split, and one for all if there are several."""
    splits = dict(summary.splits)
    columns = {**splits, "all": summary.overall} if len(splits) != 1 else splits
    table = _table("")
    for name in columns:
        table.add_column(Text(name))
    for heading, format_ in _rows(summary.overall):
        table.add_row(*map(Text, (heading, *map(format_, columns.values()))))
    return table


def runs_table(summaries: Sequence[RunSummary]) -> Table:
    """Return the mean rewards of runs with their intervals: an agent a row, an environment a column."""
    firsts = [summary.runs[0] for summary in summaries]
    environments = list(dict.fromkeys(run.environment for run in firsts))
    table = _table("agent", *environments)
    rows: dict[str, dict[str, list[str]]] = {}
    for label, run, summary in zip(agent_labels(firsts), firsts, summaries, strict=True):
        counts = summary.overall.counts
        errors = f", {counts.errored:,} errored" if counts.errored else ""
        cell = f"{_estimate(summary.overall.reward)}{errors}"
        rows.setdefault(label, {}).setdefault(run.environment, []).append(cell)
    for label, cells in rows.items():
        table.add_row(Text(label), *("; ".join(cells.get(name, [NOTHING])) for name in environments))
    return table


def _table(name: str, *numbers: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(name)
    for heading in numbers:
        table.add_column(heading, justify="right")
    return table


def tasks_table(summary: RunSummary) -> Table:
    """Return the figures of each task, a row for each."""
    table = _table("task", "counted", "successes", "reward", "interval", "steps", "errored", "over budget")
    for task in summary.tasks:
        table.add_row(
            Text(f"{task.split}/{task.index}"),
            f"{task.counted:,}",
            f"{task.successes:,}",
            number(task.reward),
            between(task.interval),
            number(task.steps),
            f"{task.errored:,}",
            f"{task.over_budget:,}",
        )
    return table


def summary_remarks(summary: RunSummary) -> list[str]:
    """Return notes to the figures: what they leave out, and how intervals were computed."""
    how = summary.reading.resampling
    return [
        *remarks_on(summary.overall.counts, over_budget=summary.reading.over_budget),
        *version_remarks(summary.runs),
        intervals_remark("clustered by task", how, summary.resamples),
    ]


def runs_remarks(summaries: Sequence[RunSummary]) -> list[str]:
    """Return the notes to the figures of each run, with its name, and last how intervals were computed."""
    labels = agent_labels([summary.runs[0] for summary in summaries])
    notes = [
        f"{label} in {summary.runs[0].environment}: {remark}"
        for label, summary in zip(labels, summaries, strict=True)
        for remark in summary_remarks(summary)[:-1]
    ]
    return [*notes, summary_remarks(summaries[0])[-1]]


def version_remarks(runs: Sequence[Run]) -> list[str]:
    """Return a note if the runs were played with different versions of packages."""
    differences = version_differences([run.versions for run in runs])
    return [f"the runs were played with different versions: {differences}"] if differences else []


def remarks_on(counts: Counts, *, over_budget: bool) -> list[str]:
    """Return the numbers of attempts that the means leave out."""
    lines: list[str] = []
    if counts.errored:
        lines.append(f"{count_of(counts.errored, 'attempt')} errored and {_is(counts.errored)} in no mean")
    if counts.over_budget:
        fate = "what was paid until then counts" if over_budget else "in no mean"
        lines.append(f"{count_of(counts.over_budget, 'attempt')} ran out of budget: {fate}")
    if counts.missing:
        lines.append(
            f"{counts.missing:,} of {count_of(counts.planned, 'planned attempt')} "
            f"{_is(counts.missing)} not recorded"
        )
    return lines


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def intervals_remark(kind: str, how: Resampling, resamples: int) -> str:
    """Return how intervals were computed."""
    return f"{100 * how.confidence:g} % intervals {kind}; {resamples:,} resamples, seed {how.seed}"


def comparison_table(comparison: RunComparison) -> Table:
    """Return the differences between two runs, a row for each figure."""
    table = _table("", "first", "second", "difference", "interval", "sign flips")
    for name in COMPARED:
        if name in comparison.figures:
            cells = difference_cells(comparison.figures[name], is_rate=name in RATES)
            table.add_row(label_of(name, comparison.k), *cells)
    return table


def comparisons_table(comparisons: Sequence[RunComparison]) -> Table:
    """Return the differences of several runs from one, a row for each."""
    table = _table("run", "tasks", "first", "this", "difference", "interval", "sign flips", "better", "worse")
    labels = agent_labels([comparison.second[0] for comparison in comparisons])
    for label, comparison in zip(labels, comparisons, strict=True):
        name = Text(label if labels.count(label) == 1 else f"{label} ({comparison.second[0].run_id})")
        cells = difference_cells(comparison.figures["reward"], is_rate=False)
        record = comparison.record
        table.add_row(name, f"{comparison.matched:,}", *cells, f"{record.wins:,}", f"{record.losses:,}")
    return table


def label_of(name: str, k: int) -> str:
    """Return the label of a compared figure, such as `pass@4` for `pass_at_k`."""
    return name.replace("_at_k", f"@{k}").replace("_hat_k", f"^{k}").replace("_", " ")


def changes_table(comparison: RunComparison) -> Table:
    """Return the tasks whose mean return changed most."""
    table = _table("task", "first", "second", "difference")
    for change in comparison.tasks[:MAX_CHANGED]:
        if change.difference:
            name = f"{change.split}/{change.index}"
            table.add_row(Text(name), number(change.first), number(change.second), signed(change.difference))
    return table


def comparison_remarks(comparison: RunComparison) -> list[str]:
    """Return notes to the differences: wins, what is left out, what else differs."""
    record, gone, mcnemar = comparison.record, comparison.unmatched, comparison.mcnemar
    how = comparison.reading.resampling
    matched = count_of(comparison.matched, "matched task")
    remarks: list[str] = []
    remarks.append(
        f"of {matched} the second run does {record.wins:,} better, {record.losses:,} worse, "
        f"{record.ties:,} alike"
    )
    if mcnemar is not None:
        remarks.append(
            f"only the first succeeds at {mcnemar.only_first:,}, only the second at {mcnemar.only_second:,}; "
            f"both at {mcnemar.both:,}, neither at {mcnemar.neither:,} (McNemar, exact: {chance(mcnemar.p)})"
        )
    for names, why in (
        (gone.only_first, "only in the first run"),
        (gone.only_second, "only in the second run"),
        (gone.changed, "with another content in each run"),
        (gone.uncounted, "without an attempt that counts in one of the runs"),
    ):
        if names:
            remarks.append(f"not compared: {count_of(len(names), 'task')} {why} ({_some(names)})")
    remarks.extend(comparison.notes)
    remarks.append(intervals_remark("of the difference, paired by task", how, comparison.resamples))
    return remarks


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def difference_cells(difference: FigureDifference, *, is_rate: bool) -> tuple[str, str, str, str, str]:
    """Format both figures, their difference, its interval and its p-value."""
    format_, format_change = (percent, signed_percent) if is_rate else (number, signed)
    brief = signed_percent if is_rate else _brief
    interval = difference.interval
    within = NOTHING if interval is None else " to ".join(map(brief, (interval.low, interval.high)))
    return (
        format_(difference.first),
        format_(difference.second),
        format_change(difference.difference),
        within,
        chance(difference.test.p),
    )


def _brief(value: float) -> str:
    return signed(value, 3)


def _rows(overall: GroupFigures) -> list[tuple[str, _Format]]:
    rows: list[tuple[str, _Format]] = [
        ("tasks", lambda figures: f"{figures.counts.tasks:,}"),
        ("attempts", lambda figures: f"{figures.counts.counted:,} of {figures.counts.recorded:,} counted"),
        ("reward", lambda figures: _estimate(figures.reward)),
        ("success rate", lambda figures: _rate(figures.success_rate)),
    ]
    if overall.counts.errored:
        rows.append(
            ("... errors as failures", lambda figures: _rate(figures.success_rate_errors_as_failures))
        )
    ks = [figure.k for figure in overall.at_k if figure.k > 1]
    for k in ks if len(ks) <= _MAX_SHOWN_K else (ks[0], ks[len(ks) // 2], ks[-1]):
        rows.extend((f"{name}{k}", _format_at(name, k)) for name in ("pass@", "pass^", "best of "))
    rows.extend((name, _format_amount(name)) for name in _AMOUNTS if getattr(overall, name) is not None)
    rows.extend((name, _metric(name)) for name in overall.metrics if name.endswith("/mean"))
    return rows


def _metric(name: str) -> _Format:
    return lambda figures: number(figures.metrics.get(name))


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return NOTHING
    return f"{number(estimate.value)}  ({between(estimate.interval)})"


def _rate(rate: Rate | None) -> str:
    if rate is None:
        return NOTHING
    return f"{percent(rate.value)}  ({between(rate.interval, as_percent=True)})"


def _format_amount(name: str) -> _Format:
    unit = duration if name == "seconds" else number

    def format_(figures: GroupFigures) -> str:
        amount: Amount | None = getattr(figures, name)
        return NOTHING if amount is None else f"{unit(amount.mean.value)} each, {unit(amount.total)} in all"

    return format_


def _format_at(name: str, k: int) -> _Format:
    def format_(figures: GroupFigures) -> str:
        figure = next((figure for figure in figures.at_k if figure.k == k), None)
        if figure is None:
            return NOTHING
        if name == "best of ":
            return f"{number(figure.best_of_k.value)}  ({between(figure.best_of_k.interval)})"
        share = figure.pass_at_k if name == "pass@" else figure.pass_hat_k
        return f"{percent(share.value)}  ({between(share.interval, as_percent=True)})"

    return format_
