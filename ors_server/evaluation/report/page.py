"""The report of a run, with its plots, tasks and attempts, and of several, in a table."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import cast

from markupsafe import Markup

from ors_server.charts.chart import Chart
from ors_server.evaluation.attempt_transcripts import Transcript
from ors_server.evaluation.failures import failure_lines
from ors_server.evaluation.number_format import (
    NOTHING,
    between,
    count_of,
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
    at_k,
    histogram,
    returns_by_task,
    running_mean,
    stop_reasons,
)
from ors_server.evaluation.report.shell import anchor_of, parts, report
from ors_server.evaluation.run_results import RunResults
from ors_server.evaluation.runs import OPTIONS_KEY, Attempt, AttemptStatus, Run
from ors_server.evaluation.suite import agent_labels
from ors_server.evaluation.summary import FigureOptions, GroupFigures, RunSummary, TaskFigures
from ors_server.evaluation.table import remarks_on, runs_remarks, version_remarks
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
_GROUP_HEADINGS = ("tasks", "attempts", "mean return", "interval", "success rate", "interval")
_OFTEN_EMPTY = frozenset({"penalties", "tokens", "cost", "episode", "transcript", "error"})
"""Columns of attempts that the table has only if an attempt has a value there."""
ID_DIGITS = 8
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


def run_report(summary: RunSummary, results: RunResults, transcripts: Sequence[Transcript] = ()) -> str:
    """Return the report of a run as one page."""
    first = summary.runs[0]
    options = summary.reading
    counted_attempts = [attempt for attempt in results.attempts if options.counts(attempt)]
    shown = {anchor_of(transcript.attempt) for transcript in transcripts}
    remarks = parts.remarks(_remarks(summary, results))
    splits = ", ".join(dict.fromkeys(run.split for run in summary.runs))
    rows = [(name, *_group_cells(split)) for name, split in summary.splits.items()]
    # One split is all of them.
    by_split = _card(("split", *_GROUP_HEADINGS), rows, "By split") if len(rows) > 1 else Markup()
    title = "Means over each task's attempts that count. Select a task to see its attempts."
    tasks = LongTable("tasks", title, _TASK_COLUMNS, summary.tasks, "task:", link="attempts-of:")
    return report(
        f"{first.environment} · {splits} · {first.agent_name}",
        ("Evaluation", f"{first.environment} · {splits}", _lead(summary)),
        (
            (
                "figures",
                "Figures",
                [parts.tiles(summary.overall), remarks, by_split, _metrics(summary)],
            ),
            ("plots", "Plots", [_plots(summary, counted_attempts, options)]),
            ("tasks-section", "Tasks", [parts.long_table(tasks)]),
            ("attempts-section", "Attempts", [_attempts(results, options, shown)]),
            ("transcripts", "Transcripts", [parts.transcripts(transcripts, len(results.attempts))]),
            ("run", "Run", [run_facts(run) for run in summary.runs]),
        ),
        _about(summary),
        has_charts=bool(counted_attempts),
    )


def _lead(summary: RunSummary) -> str:
    first, counts = summary.runs[0], summary.overall.counts
    ended = max((run.ended_at for run in summary.runs if run.ended_at), default=None)
    until = f" to {ended:%Y-%m-%d %H:%M} UTC." if ended else "; the run has not ended."
    played = f"{count_of(counts.recorded, 'attempt')} at {count_of(counts.tasks, 'task')}"
    began = min(run.started_at for run in summary.runs)
    return f"{first.agent_name} played {played}: {began:%Y-%m-%d %H:%M} UTC{until}"


def _remarks(summary: RunSummary, results: RunResults) -> list[str]:
    stops = [
        f"the run {run.run_id} stopped early: {run.stop_reason}" for run in summary.runs if run.stop_reason
    ]
    lines = [
        *remarks_on(summary.overall.counts, over_budget=summary.reading.over_budget),
        *version_remarks(summary.runs),
        *stops,
    ]
    return lines + failure_lines(results.attempts, len(results.attempts))


def _group_cells(figures: GroupFigures) -> Iterator[str]:
    counts = figures.counts
    yield f"{counts.tasks:,}"
    yield f"{counts.counted:,} of {counts.recorded:,}"
    for figure, as_percent in ((figures.reward, False), (figures.success_rate, True)):
        yield from (
            (NOTHING, NOTHING)
            if figure is None
            else measured(figure.value, figure.interval, as_percent=as_percent)
        )


def _card(headings: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> Markup:
    return parts.box("card", parts.plain_table(headings, rows, caption))


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
    return _card(("metric", "mean", "least", "greatest"), rows, caption)


def _plots(summary: RunSummary, attempts: Sequence[Attempt], options: FigureOptions) -> Markup:
    def drawn(title: str, label: str, read: Callable[[Attempt], float | None]) -> Chart | None:
        values = [
            (float(value), options.succeeded(attempt))
            for attempt in attempts
            if (value := read(attempt)) is not None
        ]
        return histogram(title.lower(), title, label, values)

    return parts.figures(
        (
            drawn("Returns", "return", lambda attempt: attempt.episode_return),
            running_mean(attempts, summary.reading.resampling.confidence),
            returns_by_task(summary),
            at_k(summary.overall.at_k),
            stop_reasons(summary),
            drawn("Steps", "tool calls", lambda attempt: attempt.steps),
            drawn("Tokens", "tokens read and written", tokens_of),
            drawn("Time", "seconds", lambda attempt: attempt.seconds),
            drawn("Cost", "cost", lambda attempt: attempt.cost),
        )
    )


def _attempts(results: RunResults, options: FigureOptions, shown: Collection[str]) -> Markup:
    title = "In the order in which they ended. ors-server episodes show EPISODE prints one, step by step."

    def success(attempt: Attempt) -> Cell:
        is_errored = attempt.status is AttemptStatus.ERRORED
        return None if is_errored else "yes" if options.succeeded(attempt) else "no"

    def transcript(attempt: Attempt) -> Cell:
        return anchor_of(attempt) if anchor_of(attempt) in shown else None

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
        Column("episode", lambda attempt: attempt.episode_id and attempt.episode_id[:ID_DIGITS], "mono"),
        Column("transcript", transcript, "link"),
        Column("error", lambda attempt: cut(attempt.error), "text"),
    ]
    if len(results.runs) > 1:
        columns.append(Column("run", lambda attempt: attempt.run_id, "mono", in_id=True))
    # A column that is empty in every row costs the width that the others need.
    columns = [
        column
        for column in columns
        if column.name not in _OFTEN_EMPTY or any(column.read(attempt) for attempt in results.attempts)
    ]
    table = LongTable("attempts", title, columns, results.attempts, "attempt:", filter_by="status")
    return parts.long_table(table)


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
    options = cast("Mapping[str, object]", run.config.get(OPTIONS_KEY, {}))
    values: list[tuple[str, object]] = [
        ("agent", run.agent),
        *((f"version of {name}", version) for name, version in run.versions.items()),
        *((name, value) for name, value in run.config.items() if name != OPTIONS_KEY),
        *((_OPTIONS.get(name, name), value) for name, value in options.items() if name not in _OWN_LINES),
    ]
    settings = [pair for name, value in values for pair in _spread(name, value)]
    cards = [parts.box("card", parts.facts(pairs)) for pairs in (plan, settings) if pairs]
    above = Markup('<h3 class="apart">{}</h3>').format(title) if title else Markup()
    return above + parts.box("pair", *cards)


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


def runs_report(summaries: Sequence[RunSummary]) -> str:
    """Return the report of several runs, at least one, as one page, ordered by environment."""
    labels = agent_labels([summary.runs[0] for summary in summaries])
    ordered = sorted(
        zip(labels, summaries, strict=True), key=lambda pair: (pair[1].runs[0].environment, pair[0])
    )
    rows = [
        (
            summary.runs[0].environment,
            label,
            *_group_cells(summary.overall),
            f"{summary.overall.counts.errored:,}",
        )
        for label, summary in ordered
    ]
    table = _card(("environment", "agent", *_GROUP_HEADINGS, "errored"), rows)
    environments = list(dict.fromkeys(summary.runs[0].environment for summary in summaries))
    count = count_of(len(summaries), "run")
    *notes, how = runs_remarks([summary for _, summary in ordered])
    return report(
        f"{', '.join(environments)}: {count}",
        ("Evaluation", ", ".join(environments), f"{count} in {count_of(len(environments), 'environment')}."),
        (
            ("figures", "Figures", [table, parts.remarks(list(dict.fromkeys(notes)), names=True)]),
            ("run", "Runs", [run_facts(run) for summary in summaries for run in summary.runs]),
        ),
        f"{how}. The page loads nothing.",
    )
