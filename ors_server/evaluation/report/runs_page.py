"""The report of several runs: a table of their figures, and what each was."""

from collections.abc import Sequence

from ors_server.evaluation.number_format import NOTHING, between, count_of, number, percent
from ors_server.evaluation.report.page import run_facts
from ors_server.evaluation.report.shell import parts, report
from ors_server.evaluation.suite import agent_labels
from ors_server.evaluation.summary import RunSummary
from ors_server.evaluation.table import intervals_remark, summary_remarks

_HEADINGS = ("environment", "agent", "reward", "interval", "success rate", "tasks", "attempts", "errored")


def runs_report(summaries: Sequence[RunSummary]) -> str:
    """Return the report of several runs, at least one, as one page, ordered by environment."""
    firsts = [summary.runs[0] for summary in summaries]
    labelled = sorted(
        zip(firsts, agent_labels(firsts), summaries, strict=True),
        key=lambda row: (row[0].environment, row[1]),
    )
    rows = [
        (
            run.environment,
            label,
            NOTHING if overall.reward is None else number(overall.reward.value),
            NOTHING if overall.reward is None else between(overall.reward.interval),
            NOTHING if overall.success_rate is None else percent(overall.success_rate.value),
            f"{overall.counts.tasks:,}",
            f"{overall.counts.counted:,} of {overall.counts.recorded:,}",
            f"{overall.counts.errored:,}",
        )
        for run, label, overall in ((run, label, summary.overall) for run, label, summary in labelled)
    ]
    notes = dict.fromkeys(
        f"{label} in {run.environment}: {line}."
        for run, label, summary in labelled
        for line in summary_remarks(summary)[:-1]
    )
    environments = list(dict.fromkeys(run.environment for run in firsts))
    lead = f"{count_of(len(summaries), 'run')} in {count_of(len(environments), 'environment')}."
    how, resamples = summaries[0].reading.resampling, summaries[0].resamples
    figures = [parts.box("card", parts.plain_table(_HEADINGS, rows)), parts.remarks([*notes])]
    return report(
        f"{', '.join(environments)}: {count_of(len(summaries), 'run')}",
        ("Evaluation", ", ".join(environments), lead),
        (
            ("figures", "Figures", figures),
            ("run", "Runs", [run_facts(run) for summary in summaries for run in summary.runs]),
        ),
        f"{intervals_remark('clustered by task', how, resamples)}. The page loads nothing.",
    )
