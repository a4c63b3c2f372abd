"""What a terminal shows of figures and comparisons."""

import io

import pytest
from rich.console import Console

from ors_server.evaluation.intervals import Interval
from ors_server.evaluation.number_format import (
    between,
    chance,
    count_of,
    duration,
    number,
    signed,
    signed_percent,
)
from ors_server.evaluation.resampling import Resampling
from ors_server.evaluation.run_comparison import compare
from ors_server.evaluation.run_figures import summarise
from ors_server.evaluation.run_results import results_of
from ors_server.evaluation.runs import AttemptStatus
from ors_server.evaluation.summary import FigureOptions
from ors_server.evaluation.table import (
    changes_table,
    comparison_remarks,
    comparison_table,
    summary_remarks,
    summary_table,
)
from tests.fixtures.made_runs import make_attempt, make_lively, make_outcome, make_run

MCNEMAR = (
    "only the first succeeds at 1, only the second at 0; both at 1, neither at 0 (McNemar, exact: p = 1.000)"
)
QUICK = FigureOptions(resampling=Resampling(200))


def printed(table, width=100):
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def rows(table):
    return {line.split("  ")[0]: line.split("  ", 1)[1].strip() for line in printed(table)[1:]}


def test_a_run_has_one_row_for_each_figure():
    outcome = make_outcome([[1.0, 0.0], [1.0, 1.0], [0.0, None]])
    found = rows(summary_table(summarise(outcome, QUICK)))
    assert list(found) == [
        *("tasks", "attempts", "reward", "success rate", "... errors as failures", "pass@2", "pass^2"),
        *("best of 2", "steps", "seconds"),
    ]
    assert found["attempts"] == "5 of 6 counted"
    assert found["success rate"].startswith("50.0 %  (")
    assert found["pass^2"].startswith("50.0 %  (")
    assert found["steps"] == "3 each, 15 in all"


def test_several_splits_stand_beside_each_other_and_all_of_them_last():
    runs = [make_run(1, 1), make_run(1, 1, run_id="run-b", split="train")]
    attempts = [make_attempt(), make_attempt(reward=0.0, run_id="run-b", split="train")]
    table = summary_table(summarise(results_of(runs, attempts), QUICK))
    assert printed(table)[0].split() == ["test", "train", "all"]
    assert rows(table)["tasks"].split() == ["1", "1", "2"]


def test_only_three_of_many_k_are_shown():
    table = summary_table(summarise(make_lively(3, 9), QUICK))
    assert [name for name in rows(table) if name.startswith("pass@")] == ["pass@2", "pass@6", "pass@9"]


def test_a_split_without_a_figure_shows_that_it_has_none():
    runs = [make_run(1, 2), make_run(1, 1, run_id="run-b", split="train")]
    attempts = [
        make_attempt(0, 1, cost=0.5, metrics={"reward_extra/f1/mean": 0.25}),
        make_attempt(0, 2, 0.0),
        make_attempt(0, 1, None, run_id="run-b", split="train"),
    ]
    found = rows(summary_table(summarise(results_of(runs, attempts), QUICK)))
    assert all(found[name].split()[-2:] for name in found)
    assert " - " in found["reward"]
    assert " - " in found["pass@2"]
    assert " - " in found["cost"]
    assert " - " in found["reward_extra/f1/mean"]


def test_names_with_brackets_are_shown_as_they_are():
    outcome = make_outcome([[1.0]], split="[bold]x")
    assert "[bold]x" in printed(summary_table(summarise(outcome, QUICK)))[0]


def test_remarks_tell_what_the_means_leave_out():
    over = make_attempt(1, 1, 0.0, status=AttemptStatus.OVER_BUDGET)
    outcome = results_of([make_run(3, 1)], [make_attempt(0, 1, None), over])
    assert summary_remarks(summarise(outcome, QUICK)) == [
        "1 attempt errored and is in no mean",
        "1 attempt ran out of budget: what was paid until then counts",
        "1 of 3 planned attempts is not recorded",
        "95 % intervals clustered by task; 200 resamples, seed 0",
    ]
    left_out = summarise(outcome, FigureOptions(over_budget=False, resampling=Resampling(200)))
    assert "1 attempt ran out of budget: in no mean" in summary_remarks(left_out)


def test_a_remark_names_the_versions_that_differ_between_runs():
    versions = {"ors-server": "0.2.0", "python": "3.12.1", "environment": "1.0", "numpy": "2.0"}
    runs = [make_run(1, 1), make_run(1, 1, run_id="run-b", versions=versions)]
    summary = summarise(results_of(runs, [make_attempt(), make_attempt(run_id="run-b")]), QUICK)
    remark = "the runs were played with different versions: ors-server 0.1.0, 0.2.0"
    assert remark in summary_remarks(summary)


def test_a_comparison_has_one_row_for_each_figure_that_both_have():
    comparison = compare(make_lively(20, 2), make_lively(20, 2, seed=2, skill=0.3, run_id="run-b"), QUICK)
    found = rows(comparison_table(comparison))
    names = ["reward", "success rate", "pass@2", "pass^2", "steps", "tokens", "cost", "seconds", "penalties"]
    assert [name for name in found if name] == names
    assert "pp" in found["success rate"]


def test_only_tasks_that_changed_are_listed_and_not_all_of_them():
    first = make_outcome([[0.0]] * 14)
    same = compare(first, make_outcome([[0.0]] * 14, run_id="run-b"), QUICK)
    changed = compare(first, make_outcome([[1.0]] * 14, run_id="run-b"), QUICK)
    assert changes_table(same).row_count == 0
    assert changes_table(changed).row_count == 10


def test_remarks_tell_the_record_and_what_is_not_compared():
    first = results_of([make_run(8, 1)], [make_attempt(index) for index in range(8)])
    found = comparison_remarks(compare(first, make_outcome([[0.0], [1.0]], run_id="run-b"), QUICK))
    assert found == [
        "of 2 matched tasks the second run does 0 better, 1 worse, 1 alike",
        MCNEMAR,
        "not compared: 6 tasks only in the first run (test/2, test/3, test/4, test/5 and 2 more)",
        "95 % intervals of the difference, paired by task; 200 resamples, seed 0",
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (1, "1"), (0.123456, "0.1235"), (-1234567.0, "-1,234,567"), (12.30, "12.3"), (None, "-")],
    ids=str,
)
def test_numbers_are_spelled_with_four_digits(value, words):
    assert number(value) == words


def test_other_words():
    assert (signed(0.5), signed(-0.5), signed(0.0)) == ("+0.5", "-0.5", "0")
    assert (signed_percent(0.1), signed_percent(-0.25)) == ("+10.0 pp", "-25.0 pp")
    assert (duration(3.14159), duration(61), duration(7260)) == ("3.14 s", "1 min 1 s", "2 h 1 min")
    assert (chance(0.00099), chance(0.05)) == ("p < 0.001", "p = 0.050")
    assert (count_of(1, "task"), count_of(1200, "task")) == ("1 task", "1,200 tasks")
    assert count_of(2, "try", "tries") == "2 tries"
    assert between(Interval(0.5, 0.75, "t")) == "0.5 to 0.75"
    assert between(Interval(0.5, 0.75, "t"), as_percent=True) == "50.0 to 75.0 %"
    assert between(None) == "-"
