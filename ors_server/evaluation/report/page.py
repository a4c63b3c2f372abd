"""The report of a run: its figures, plots, tasks, attempts and settings on one page."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import cast

from markupsafe import Markup

from ors_server.evaluation.attempt_transcripts import MAX_STEPS, Transcript
from ors_server.evaluation.failures import failure_lines
from ors_server.evaluation.number_format import (
    NOTHING,
    between,
    count_of,
    duration,
    measured,
    number,
)
from ors_server.evaluation.report.long_table import (
    MAX_ROWS,
    MAX_TEXT,
    Cell,
    Column,
    LongTable,
    cut,
)
from ors_server.evaluation.report.plots import (
    HistogramValue,
    at_k,
    histogram,
    interval_bar,
    returns_by_task,
    running_mean,
    stop_reasons,
)
from ors_server.evaluation.report.shell import anchor_of, parts, report
from ors_server.evaluation.run_results import RunResults
from ors_server.evaluation.runs import OPTIONS_KEY, Attempt, AttemptStatus, Run
from ors_server.evaluation.summary import Estimate, FigureOptions, Rate, RunSummary, TaskFigures
from ors_server.evaluation.table import remarks_on, version_remarks
from ors_server.evaluation.task_attempts import tokens_of

_TASK_COLUMNS: tuple[Column[TaskFigures], ...] = (
    Column("task", lambda task: f"{task.split}/{task.index}", in_id=True),
    Column("attempts", lambda task: task.counted, "number"),
    Column("mean return", lambda task: task.reward, "number"),
    Column("interval", lambda task: between(task.interval)),
    Column("successes", lambda task: task.successes, "number"),
    Column("success rate", lambda task: task.success_rate, "number"),
    Column("steps", lambda task: task.steps, "number"),
    Column("tokens", lambda task: task.tokens, "number"),
    Column("seconds", lambda task: task.seconds, "number"),
    Column("errored", lambda task: task.errored, "number"),
    Column("over budget", lambda task: task.over_budget, "number"),
)
_OFTEN_EMPTY = frozenset({"penalties", "tokens", "cost", "episode", "transcript", "error"})
"""Columns of attempts that the table has only if an attempt has a value there."""
SHOWN_DIGITS = 8
"""Digits of an episode's id, as in `ors-server episodes list`; commands take the beginning of an id."""
_OWN_LINES = frozenset({"target", "environment", "split", "attempts", "seed", "success_at"})
"""Options of a run that have a line of their own."""
_OPTIONS = {
    "tasks": "tasks",
    "limit": "most tasks",
    "agent": "agent as given",
    "agent_options": "agent option",
    "policy": "policy",
    "steps": "budget of an attempt: tool calls",
    "tokens": "budget of an attempt: tokens",
    "cost": "budget of an attempt: cost",
    "seconds": "budget of an attempt: seconds",
}
"""Labels of the options on the page."""


NO_TRANSCRIPTS = (
    "No transcripts: the record that was read does not have the episodes of these attempts. --store names "
    "another record; ors-server episodes show EPISODE --url URL prints an episode of a server."
)


def run_report(summary: RunSummary, results: RunResults, transcripts: Sequence[Transcript] = ()) -> str:
    """Return the report of a run as one page."""
    first = summary.runs[0]
    options = summary.reading
    counted = [attempt for attempt in results.attempts if options.counts(attempt)]
    shown = {anchor_of(transcript.attempt) for transcript in transcripts}
    remarks = parts.remarks(_remarks(summary, results))
    splits = ", ".join(dict.fromkeys(run.split for run in summary.runs))
    return report(
        f"{first.environment} · {splits} · {first.agent_name}",
        ("Evaluation", f"{first.environment} · {splits}", _lead(summary)),
        (
            ("figures", "Figures", [_tiles(summary), remarks, _splits(summary), _metrics(summary)]),
            ("plots", "Plots", [_plots(summary, counted, options)]),
            ("tasks-section", "Tasks", [_tasks(summary.tasks)]),
            ("attempts-section", "Attempts", [_attempts(results, options, shown)]),
            ("transcripts", "Transcripts", [_transcripts(transcripts, len(results.attempts))]),
            ("run", "Run", [run_facts(run) for run in summary.runs]),
        ),
        _about(summary),
        has_charts=bool(counted),
    )


def _lead(summary: RunSummary) -> str:
    first, counts = summary.runs[0], summary.overall.counts
    ended = max((run.ended_at for run in summary.runs if run.ended_at), default=None)
    until = f" to {_moment(ended)} UTC." if ended else "; the run has not ended."
    return (
        f"{first.agent_name} played {count_of(counts.recorded, 'attempt')} at "
        f"{count_of(counts.tasks, 'task')}: {_moment(min(run.started_at for run in summary.runs))} UTC{until}"
    )


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def _remarks(summary: RunSummary, results: RunResults) -> list[str]:
    stops = [
        f"the run {run.run_id} stopped early: {run.stop_reason}" for run in summary.runs if run.stop_reason
    ]
    lines = [
        *remarks_on(summary.overall.counts, over_budget=summary.reading.over_budget),
        *version_remarks(summary.runs),
        *stops,
    ]
    lines += failure_lines(results.attempts, len(results.attempts))
    return [f"{words[:1].upper()}{words[1:]}." for words in lines]


def _tiles(summary: RunSummary) -> Markup:
    overall = summary.overall
    last = overall.at_k[-1] if overall.at_k else None
    tiles = [
        _reward_tile(overall.reward),
        _rate_tile(overall.success_rate, overall.success_rate_errors_as_failures),
    ]
    if last is not None and last.k > 1:
        best, within = measured(last.pass_at_k.value, last.pass_at_k.interval, as_percent=True)
        every, _ = measured(last.pass_hat_k.value, last.pass_hat_k.interval, as_percent=True)
        over = f"over {last.tasks:,} of {count_of(summary.overall.counts.tasks, 'task')}"
        tiles.append(parts.tile(f"pass@{last.k}", best, f"{within}; {over}; pass^{last.k} {every}"))
    tiles.append(_counts_tile(summary))
    for name, amount in (("Steps", overall.steps), ("Tokens", overall.tokens), ("Cost", overall.cost)):
        if amount is not None:
            mean, _ = measured(amount.mean.value, amount.mean.interval)
            tiles.append(parts.tile(f"{name} per attempt", mean, f"{number(amount.total)} in all"))
    if overall.seconds is not None:
        took, total = overall.seconds.mean, overall.seconds.total
        tiles.append(parts.tile("Time per attempt", duration(took.value), f"{duration(total)} in all"))
    return parts.box("tiles", *tiles)


def _reward_tile(estimate: Estimate | None) -> Markup:
    if estimate is None:
        return parts.tile("Mean return", NOTHING, "no attempt counts")
    # At least from 0 to 1, so that usual returns are comparable from page to page.
    scale = (min(0.0, estimate.least), max(1.0, estimate.greatest))
    drawing = None
    if estimate.interval is not None:
        drawing = interval_bar(estimate.value, estimate.interval, scale)
    return parts.tile("Mean return", *measured(estimate.value, estimate.interval), drawing)


def _rate_tile(rate: Rate | None, pessimistic: Rate | None) -> Markup:
    if rate is None:
        return parts.tile("Success rate", NOTHING, "no attempt counts")
    value, aside = measured(rate.value, rate.interval, as_percent=True)
    # Where nothing errored, both rates are the same.
    if pessimistic is not None and pessimistic.attempts != rate.attempts:
        strict, _ = measured(pessimistic.value, pessimistic.interval, as_percent=True)
        aside += f"; {strict} with errors as failures"
    drawing = interval_bar(rate.value, rate.interval, (0.0, 1.0))
    return parts.tile("Success rate", value, aside, drawing)


def _counts_tile(summary: RunSummary) -> Markup:
    counts = summary.overall.counts
    kinds = ((counts.errored, "errored"), (counts.over_budget, "over budget"), (counts.missing, "missing"))
    rest = [f"{count:,} {words}" for count, words in kinds if count]
    return parts.tile(
        "Attempts that count", f"{counts.counted:,}", ", ".join(rest) or f"all {counts.planned:,} planned"
    )


def _splits(summary: RunSummary) -> Markup:
    if len(summary.splits) < 2:  # noqa: PLR2004  (one split is all of them)
        return Markup("")
    rows = [
        (
            name,
            f"{split.counts.tasks:,}",
            f"{split.counts.counted:,} of {split.counts.recorded:,}",
            *_figure_cells(split.reward, as_percent=False),
            *_figure_cells(split.success_rate, as_percent=True),
        )
        for name, split in summary.splits.items()
    ]
    headings = ("split", "tasks", "attempts", "mean return", "interval", "success rate", "interval")
    return parts.box("card", parts.plain_table(headings, rows, "By split"))


def _figure_cells(figure: Estimate | Rate | None, *, as_percent: bool) -> tuple[str, str]:
    if figure is None:
        return NOTHING, NOTHING
    return measured(figure.value, figure.interval, as_percent=as_percent)


def _metrics(summary: RunSummary) -> Markup:
    metrics = summary.overall.metrics
    if not metrics:
        return Markup("")
    names = dict.fromkeys(re.sub("/(mean|max|min)$", "", name) for name in metrics)
    rows = [
        (name, *(number(metrics.get(f"{name}/{kind}", metrics.get(name))) for kind in ("mean", "min", "max")))
        for name in names
    ]
    caption = "Metrics that rewards reported, over the attempts that count"
    table = parts.plain_table(("metric", "mean", "least", "greatest"), rows, caption)
    return parts.box("card", table)


def _plots(summary: RunSummary, counted: Sequence[Attempt], options: FigureOptions) -> Markup:
    def values(of: Sequence[tuple[float | None, Attempt]]) -> list[HistogramValue]:
        return [
            HistogramValue(float(value), options.succeeded(attempt))
            for value, attempt in of
            if value is not None
        ]

    tokens = values([(tokens_of(attempt), attempt) for attempt in counted])
    return parts.figures(
        (
            histogram(
                "returns",
                "Returns",
                "return",
                values([(attempt.episode_return, attempt) for attempt in counted]),
            ),
            running_mean(counted, summary.reading.resampling.confidence),
            returns_by_task(summary),
            at_k(summary.overall.at_k),
            stop_reasons(summary),
            histogram(
                "steps", "Steps", "tool calls", values([(attempt.steps, attempt) for attempt in counted])
            ),
            histogram("tokens", "Tokens", "tokens read and written", tokens),
            histogram(
                "seconds", "Time", "seconds", values([(attempt.seconds, attempt) for attempt in counted])
            ),
            histogram("cost", "Cost", "cost", values([(attempt.cost, attempt) for attempt in counted])),
        )
    )


def _tasks(tasks: Sequence[TaskFigures]) -> Markup:
    title = "Means over each task's attempts that count. Select a task to see its attempts."
    return parts.long_table(LongTable("tasks", title, _TASK_COLUMNS, tasks, "task:", link="attempts-of:"))


def _attempts(results: RunResults, options: FigureOptions, shown: Collection[str]) -> Markup:
    title = "In the order in which they ended. ors-server episodes show EPISODE prints one, step by step."
    columns = _attempt_columns(options, shown, several=len(results.runs) > 1)
    # A column that is empty in every row costs the width that the others need.
    columns = [
        column
        for column in columns
        if column.name not in _OFTEN_EMPTY or any(column.read(attempt) for attempt in results.attempts)
    ]
    table = LongTable("attempts", title, columns, results.attempts, "attempt:", filter_by="status")
    return parts.long_table(table)


def _transcripts(transcripts: Sequence[Transcript], total: int) -> Markup:
    if not transcripts:
        return Markup('<p class="soft">{}</p>').format(NO_TRANSCRIPTS)
    note = (
        f"{len(transcripts):,} of {count_of(total, 'attempt')}: those that failed first, then the lowest "
        f"returns. Each has at most {MAX_STEPS} steps; ors-server episodes show EPISODE shows all."
    )
    return parts.transcripts(note, transcripts)


def _attempt_columns(
    options: FigureOptions, shown: Collection[str], *, several: bool
) -> list[Column[Attempt]]:
    def success(attempt: Attempt) -> Cell:
        return (
            None if attempt.status is AttemptStatus.ERRORED else "yes" if options.succeeded(attempt) else "no"
        )

    columns: list[Column[Attempt]] = [
        Column("task", lambda attempt: f"{attempt.split}/{attempt.index}", in_id=True),
        Column("attempt", lambda attempt: attempt.attempt, "number", in_id=True),
        Column("status", lambda attempt: attempt.status.value, "badge"),
        Column("return", lambda attempt: attempt.episode_return, "number"),
        Column("success", success, "badge"),
        Column("steps", lambda attempt: attempt.steps, "number"),
        Column("penalties", lambda attempt: attempt.penalties, "number"),
        Column("tokens", tokens_of, "number"),
        Column("cost", lambda attempt: attempt.cost, "number"),
        Column("seconds", lambda attempt: round(attempt.seconds, 3), "number"),
        Column("stop reason", lambda attempt: cut(attempt.stop_reason)),
        Column("episode", lambda attempt: attempt.episode_id and attempt.episode_id[:SHOWN_DIGITS], "mono"),
        Column(
            "transcript", lambda attempt: anchor_of(attempt) if anchor_of(attempt) in shown else None, "link"
        ),
        Column("error", lambda attempt: cut(attempt.error), "text"),
    ]
    if several:
        columns.append(Column("run", lambda attempt: attempt.run_id, "mono", in_id=True))
    return columns


def run_facts(run: Run, title: str = "") -> Markup:
    """Return the plan, versions and settings of a run, below a title where there are several."""
    plan = [
        ("Run", run.run_id),
        ("Environment", run.environment),
        ("Target", run.target),
        ("Split", run.split),
        ("Planned", f"{count_of(len(run.indices), 'task')}, {count_of(run.attempts, 'attempt')} at each"),
        ("Success", f"a return of at least {run.success_at:g}"),
        ("Seed", str(run.seed)),
        ("Started", f"{run.started_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("Ended", f"{run.ended_at:%Y-%m-%d %H:%M:%S} UTC" if run.ended_at else "not ended"),
    ]
    settings = [
        *_spread("agent", run.agent),
        *((f"version of {name}", value) for name, value in run.versions.items()),
        *(pair for name, value in run.config.items() for pair in _setting(name, value)),
    ]
    cards = [parts.box("card", parts.facts(pairs)) for pairs in (plan, settings) if pairs]
    above = Markup('<h3 class="apart">{}</h3>').format(title) if title else Markup()
    return above + parts.box("pair", *cards)


def _setting(name: str, value: object) -> Iterator[tuple[str, str]]:
    if name != OPTIONS_KEY or not isinstance(value, Mapping):
        yield from _spread(name, value)
        return
    for option, setting in cast("Mapping[str, object]", value).items():
        if option not in _OWN_LINES:
            yield from _spread(_OPTIONS.get(option, option), setting)


def _spread(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in cast("Mapping[str, object]", value).items():
            yield from _spread(f"{name}: {key}", part)
    elif isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if items:
            yield name, ", ".join(part for item in items for _, part in _spread("", item))
    elif isinstance(value, bool):
        yield name, "yes" if value else "no"
    elif value is not None:
        yield name, str(value)


def _about(summary: RunSummary) -> str:
    how = summary.reading.resampling
    threshold = summary.reading.success_at
    success = "" if threshold is None else f" A success is a return of at least {threshold:g}."
    return (
        "Each task counts once in a mean, with the mean of its attempts that count. "
        f"{100 * how.confidence:g} % intervals are clustered by task ({summary.resamples:,} resamples, seed "
        f"{how.seed}); the interval of the success rate is Wilson's, for the effective number of attempts. "
        f"Figures have the digits that their intervals justify.{success} The page shows at most {MAX_ROWS:,} "
        f"attempts and {MAX_TEXT} characters of each text, and loads nothing from a network."
    )
