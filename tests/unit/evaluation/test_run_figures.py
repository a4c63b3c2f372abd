"""The figures of a run: what counts, what does not, and what each means."""

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from ors_server.evaluation.folder import RunFolder
from ors_server.evaluation.resampling import Resampling
from ors_server.evaluation.run_figures import summarise
from ors_server.evaluation.run_results import read_results, results_of
from ors_server.evaluation.runs import AttemptStatus
from ors_server.evaluation.summary import SUMMARY, FigureOptions, GroupFigures
from ors_server.model.errors import RecordError
from tests.fixtures.made_runs import BEGIN, make_attempt, make_lively, make_outcome, make_run

QUICK = FigureOptions(resampling=Resampling(200))


def figures(rewards, reading=QUICK):
    return summarise(make_outcome(rewards), reading).overall


def test_the_mean_return_is_the_mean_of_task_means():
    found = figures([[1.0, 1.0, 1.0], [0.0], [0.5, 0.0]])
    assert found.reward.value == pytest.approx((1 + 0 + 0.25) / 3)
    assert (found.reward.least, found.reward.greatest, found.reward.tasks) == (0.0, 1.0, 3)
    assert found.reward.interval.low <= found.reward.value <= found.reward.interval.high
    assert found.reward.standard_error == pytest.approx(float(scipy.stats.sem([1, 0, 0.25])))


def test_the_success_rate_is_pass_at_1_and_pass_hat_1():
    found = figures([[1.0, 0.0, 1.0], [0.0, None, 0.2], [1.0, 1.0, 1.0]])
    first = found.at_k[0]
    assert found.success_rate.value == pytest.approx(first.pass_at_k.value) == first.pass_hat_k.value
    assert found.success_rate.value == pytest.approx((2 / 3 + 0 + 1) / 3)


def test_errored_attempts_are_in_no_mean_and_are_told():
    found = figures([[1.0, None], [0.0, 1.0], [None, None]])
    assert found.reward.value == pytest.approx(0.75)
    assert found.reward.tasks == 2
    assert (found.counts.errored, found.counts.counted, found.counts.recorded) == (3, 3, 6)
    assert found.counts.tasks == 3


def test_the_pessimistic_success_rate_counts_errors_as_failures():
    found = figures([[1.0, None], [1.0, 1.0], [None, None]])
    assert found.success_rate.value == 1.0
    assert found.success_rate_errors_as_failures.value == pytest.approx((0.5 + 1 + 0) / 3)
    assert found.success_rate_errors_as_failures.attempts == 6
    assert found.success_rate_errors_as_failures.tasks == 3


def test_attempts_over_their_budget_count_unless_they_are_to_be_left_out():
    run = make_run(1, 2)
    over = make_attempt(0, 2, 0.0, status=AttemptStatus.OVER_BUDGET, stop_reason="token_budget")
    outcome = results_of([run], [make_attempt(0, 1, 1.0), over])
    counted = summarise(outcome, QUICK).overall
    left_out = summarise(outcome, replace(QUICK, over_budget=False)).overall
    assert (counted.reward.value, left_out.reward.value) == (0.5, 1.0)
    assert counted.counts.over_budget == left_out.counts.over_budget == 1
    assert (counted.counts.counted, left_out.counts.counted) == (2, 1)
    assert counted.stop_reasons == {"completed": 1, "token_budget": 1}


def test_the_threshold_of_success_is_the_run_s_or_the_reader_s():
    rewards = [[0.4, 1.0], [0.6, 0.0]]
    assert figures(rewards).success_rate.value == 0.25
    assert figures(rewards, replace(QUICK, success_at=0.5)).success_rate.value == 0.5


def test_one_attempt_each_gives_wilson_s_plain_interval():
    found = figures([[1.0], [0.0], [1.0], [1.0]]).success_rate
    known = scipy.stats.binomtest(3, 4).proportion_ci(method="wilson")
    assert found.interval == found.wilson
    assert (found.interval.low, found.interval.high) == pytest.approx((known.low, known.high))
    assert found.effective_attempts == 4


def test_attempts_that_cluster_make_the_interval_wider():
    found = figures([[1.0] * 8, [0.0] * 8, [1.0] * 8, [0.0] * 7 + [1.0]]).success_rate
    assert found.attempts == 32
    assert found.effective_attempts == pytest.approx(4, abs=0.5)
    assert found.interval.low < found.wilson.low < found.wilson.high < found.interval.high


def test_pass_at_k_is_over_the_tasks_with_as_many_attempts():
    found = figures([[1.0, 0.0, 0.0], [0.0]]).at_k
    assert [(one.k, one.tasks) for one in found] == [(1, 2), (2, 1), (3, 1)]
    assert found[1].pass_at_k.value == pytest.approx(2 / 3)
    assert found[2].pass_hat_k.value == 0.0
    assert found[1].best_of_k.value == pytest.approx(2 / 3)
    assert found[1].pass_at_k.interval is None


def test_probabilities_that_all_tasks_agree_on_are_not_certain():
    found = figures([[0.0, 0.0]] * 5).at_k[1]
    known = scipy.stats.binomtest(0, 5).proportion_ci(method="wilson")
    assert (found.pass_at_k.interval.low, found.pass_at_k.interval.high) == pytest.approx((0.0, known.high))
    assert (found.best_of_k.interval.low, found.best_of_k.interval.high) == (0.0, 0.0)


def test_amounts_are_means_of_what_counts_and_totals_of_everything():
    shared = {"tokens_in": 100, "tokens_out": 20, "cost": 0.5}
    outcome = results_of(
        [make_run(1, 3)],
        [make_attempt(0, 1, 1.0, **shared), make_attempt(0, 2, None, **shared), make_attempt(0, 3, 0.0)],
    )
    found = summarise(outcome, QUICK).overall
    assert (found.tokens.mean.value, found.tokens.total) == (120, 240)
    assert (found.cost.mean.value, found.cost.total) == (0.5, 1.0)
    assert (found.steps.mean.value, found.steps.total) == (3, 6)
    assert found.seconds.total == 6.0


def test_what_nobody_counted_is_nothing_and_not_zero():
    found = figures([[1.0], [0.0]])
    assert found.tokens is None
    assert found.cost is None
    assert summarise(results_of([make_run(2, 2)], []), QUICK).overall.reward is None


def test_metrics_are_summed_up_by_their_kind():
    names = ("reward_extra/f1/mean", "reward_extra/f1/max", "reward_extra/f1/min", "seen")
    metrics = [
        dict(zip(names, values, strict=True)) for values in ((0.5, 0.9, 0.1, 1.0), (0.7, 0.8, 0.2, 3.0))
    ]
    attempts = [make_attempt(0, number, 1.0, metrics=one) for number, one in enumerate(metrics, 1)]
    found = summarise(results_of([make_run(1, 2)], attempts), QUICK).overall.metrics
    assert found == pytest.approx(
        {"reward_extra/f1/max": 0.9, "reward_extra/f1/mean": 0.6, "reward_extra/f1/min": 0.1, "seen": 2.0}
    )


def test_each_task_and_each_split_has_its_figures():
    runs = [make_run(2, 1), make_run(1, 2, run_id="run-b", split="train")]
    attempts = [
        make_attempt(0, 1, 1.0),
        make_attempt(1, 1, 0.0),
        make_attempt(0, 1, 0.25, run_id="run-b", split="train"),
        make_attempt(0, 2, 0.75, run_id="run-b", split="train"),
    ]
    found = summarise(results_of(runs, attempts), QUICK)
    assert {name: split.reward.value for name, split in found.splits.items()} == {"test": 0.5, "train": 0.5}
    assert found.overall.counts.planned == 4
    assert found.splits["train"].counts.planned == 2
    figures = [(task.split, task.index, task.reward) for task in found.tasks]
    assert figures == [("test", 0, 1.0), ("test", 1, 0.0), ("train", 0, 0.5)]
    assert found.tasks[2].interval.method == "t"
    assert found.tasks[0].interval is None
    assert found.tasks[2].pass_at_k == (0.0, 0.0)


def test_tasks_of_a_run_that_pays_all_or_nothing_have_wilson_s_interval():
    found = summarise(make_outcome([[1.0, 1.0], [0.0, None], [None, None]]), QUICK).tasks
    assert found[0].interval == found[0].success_interval
    assert found[0].interval.method == "wilson"
    assert found[1].interval.high > 0.5
    assert (found[2].interval, found[2].success_rate, found[2].reward) == (None, None, None)


def test_missing_attempts_are_counted():
    outcome = results_of([make_run(3, 2)], [make_attempt(0, 1)])
    assert summarise(outcome, QUICK).overall.counts.missing == 5


@settings(max_examples=10)
@given(st.randoms(use_true_random=False))
def test_the_order_in_which_attempts_ended_changes_no_figure(source):
    outcome = make_lively(6, 3)
    shuffled = list(outcome.attempts)
    source.shuffle(shuffled)
    assert summarise(results_of(outcome.runs, shuffled), QUICK) == summarise(outcome, QUICK)


def test_a_summary_is_written_and_read_without_loss():
    found = summarise(make_lively(8, 3), QUICK)
    assert SUMMARY.read(SUMMARY.write(found)) == found
    assert set(SUMMARY.as_json(found)["overall"]) == {field.name for field in fields(GroupFigures)}


def test_every_figure_is_documented():
    page = Path(__file__).parents[3] / "docs" / "reference" / "evaluation-figures.md"
    rows = re.findall(r"^\| (`.*?`) \|", page.read_text(), re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {field.name for field in fields(GroupFigures)} <= documented


class TestGathering:
    def test_of_two_attempts_at_one_place_the_later_line_stands(self):
        outcome = results_of([make_run(1, 1)], [make_attempt(0, 1, None), make_attempt(0, 1, 1.0)])
        assert [attempt.episode_return for attempt in outcome.attempts] == [1.0]

    def test_attempts_stand_in_the_order_in_which_they_ended(self):
        slow = make_attempt(0, 1, started_at=BEGIN, seconds=100.0)
        assert [one.index for one in results_of([make_run()], [slow, make_attempt(1, 1)]).attempts] == [1, 0]

    def test_folders_are_read(self, tmp_path):
        outcome = make_outcome([[1.0, 0.0], [None]])
        with RunFolder(tmp_path / "run") as folder:
            folder.begin(outcome.runs[0])
            for attempt in outcome.attempts:
                folder.append(attempt)
        assert read_results([tmp_path / "run"]) == outcome

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"environment": "qa"}, "environment"),
            ({"agent": {"kind": "noop"}}, "agent"),
            ({}, "named twice"),
            ({"versions": {"environment": "2.0"}}, r"run-a is of version 1\.0 and run-b of version 2\.0"),
            ({"success_at": 0.5}, r"different thresholds as success \(from 0\.5, 1\)"),
        ],
        ids=["environment", "agent", "same", "version", "threshold"],
    )
    def test_runs_of_different_things_are_not_summed_up_together(self, changes, words):
        run_id = "run-b" if changes else "run-a"
        with pytest.raises(RecordError, match=words):
            results_of([make_run(), make_run(run_id=run_id, **changes)], [])

    def test_runs_with_different_thresholds_are_summed_up_with_one_for_all(self):
        runs = [make_run(), make_run(run_id="run-b", success_at=0.5)]
        attempts = [make_attempt(0, 1, 0.5), make_attempt(1, 1, 0.5, run_id="run-b", success=True)]
        reading = FigureOptions(success_at=0.5, resampling=Resampling(200))
        assert summarise(results_of(runs, attempts, 0.5), reading).overall.success_rate.value == 1.0

    def test_runs_that_disagree_about_a_task_are_not_summed_up_together(self):
        other = make_attempt(0, 2, task_hash="f" * 64)
        with pytest.raises(RecordError, match="task 0 of the split test"):
            results_of([make_run()], [make_attempt(0, 1), other])

    def test_a_task_whose_hash_nobody_knows_may_be_any(self):
        outcome = results_of([make_run()], [make_attempt(0, 1, task_hash=""), make_attempt(0, 2)])
        (task,) = summarise(outcome, QUICK).tasks
        assert task.task_hash == "0" * 64


@pytest.mark.stress
def test_a_thousand_tasks_with_ten_attempts_take_seconds():
    found = summarise(make_lively(1000, 10))
    assert found.resamples == 10_000
    assert found.overall.counts.recorded == 10_000
