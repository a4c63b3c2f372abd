"""Two runs compared: what is matched, what changed, and what chance would do."""

import pytest
import scipy.stats

from ors_server.evaluation.resampling import Resampling
from ors_server.evaluation.run_comparison import COMPARISON, ComparisonError, UnmatchedTasks, compare
from ors_server.evaluation.run_results import results_of
from ors_server.evaluation.summary import FigureOptions
from tests.fixtures.made_runs import make_attempt, make_lively, make_outcome, make_run

QUICK = FigureOptions(resampling=Resampling(500))


def compared(first, second, reading=QUICK, **changes):
    return compare(make_outcome(first), make_outcome(second, run_id="run-b", **changes), reading)


def test_the_difference_is_that_of_task_means_second_less_first():
    both = ([[0.0, 1.0], [0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    found = compared(*both).figures["reward"]
    assert (found.first, found.second) == (0.5, pytest.approx(2 / 3))
    assert found.difference == pytest.approx(1 / 6)
    assert found.standard_error == pytest.approx(float(scipy.stats.sem([0.5, 0.5, -0.5])))
    assert found.interval.low <= found.difference <= found.interval.high
    assert found.test.p == 1.0
    assert found.tasks == 3


def test_the_test_is_scipy_s_permutation_test_of_pairs():
    first = [[0.1], [0.4], [0.3], [0.9], [0.2], [0.5]]
    second = [[0.7], [0.6], [0.2], [1.0], [0.8], [0.9]]
    known = scipy.stats.permutation_test(
        ([b[0] for b in second], [a[0] for a in first]),
        lambda b, a: sum(b) - sum(a),
        permutation_type="samples",
        vectorized=False,
    )
    assert compared(first, second).figures["reward"].test.p == pytest.approx(known.pvalue)


def test_pairing_gains_where_tasks_are_alike_in_both_runs():
    first = [[0.1], [0.5], [0.9], [0.3]]
    second = [[0.2], [0.6], [1.0], [0.4]]
    found = compared(first, second).figures["reward"]
    assert found.correlation == pytest.approx(1.0)
    assert found.standard_error == pytest.approx(0.0, abs=1e-12)
    assert (found.interval.low, found.interval.high) == pytest.approx((0.1, 0.1))


def test_without_variance_there_is_no_correlation():
    assert compared([[1.0], [1.0]], [[0.0], [1.0]]).figures["reward"].correlation is None


def test_wins_ties_and_losses_are_counted():
    found = compared([[0.0], [1.0], [0.5], [0.0]], [[1.0], [0.0], [0.5], [0.2]]).record
    assert (found.wins, found.ties, found.losses) == (2, 1, 1)


def test_the_tasks_that_changed_most_come_first():
    found = compared([[0.0], [1.0], [0.5]], [[0.3], [0.0], [0.5]]).tasks
    assert [(one.index, one.difference) for one in found] == [(1, -1.0), (0, 0.3), (2, 0.0)]


def test_single_attempts_have_mcnemar_s_table():
    first = [[1.0]] * 12 + [[0.0]] * 9
    second = [[1.0]] * 10 + [[0.0]] * 2 + [[1.0]] * 8 + [[0.0]]
    found = compared(first, second).mcnemar
    assert (found.both, found.only_first, found.only_second, found.neither) == (10, 2, 8, 1)
    assert found.p == pytest.approx(scipy.stats.binomtest(2, 10).pvalue)


def test_several_attempts_have_no_mcnemar_but_pass_at_k():
    found = compared([[1.0, 0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 0.0]])
    assert found.mcnemar is None
    assert found.k == 2
    assert found.figures["pass_at_k"].first == pytest.approx((2 / 3 + 0) / 2)
    assert found.figures["pass_at_k"].second == 1.0
    assert found.figures["pass_hat_k"].second == 0.5


def test_pass_at_k_leaves_out_the_few_tasks_with_fewer_attempts():
    found = compared([[1.0, 0.0], [0.0, 0.0], [1.0, None]], [[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    assert (found.k, found.figures["pass_at_k"].tasks, found.figures["reward"].tasks) == (2, 2, 3)
    assert found.figures["pass_at_k"].difference == 0.5


def test_single_attempts_have_no_pass_at_k_beside_the_success_rate():
    assert "pass_at_k" not in compared([[1.0]], [[0.0]]).figures


def test_what_is_not_compared_is_told():
    first = results_of(
        [make_run(4, 1)],
        [make_attempt(0), make_attempt(1), make_attempt(2, task_hash="a" * 64), make_attempt(3, 1, None)],
    )
    attempts = [make_attempt(index, run_id="run-b") for index in (0, 2, 3, 7)]
    second = results_of([make_run(5, 1, run_id="run-b")], attempts)
    found = compare(first, second, QUICK)
    assert found.matched == 1
    assert found.unmatched == UnmatchedTasks(("test/1",), ("test/7",), ("test/2",), ("test/3",))
    assert found.figures["reward"].interval is None


def test_tasks_whose_hash_nobody_knows_are_matched_by_their_place():
    first = results_of([make_run(1, 1)], [make_attempt(task_hash="")])
    assert compare(first, make_outcome([[0.0]], run_id="run-b"), QUICK).matched == 1


def test_what_else_differs_is_noted():
    found = compared(
        [[1.0]],
        [[1.0]],
        seed=8,
        versions={"environment": "1.1", "ors-server": "0.1.0"},
        config={"concurrency": 8, "budget": {"steps": 60, "tokens": None}, "agent": "another"},
    )
    assert found.notes == (
        "the version of environment differs: 1.0 and 1.1",
        "the seed differs: 7 and 8",
        "the setting budget.steps differs: 30 and 60",
    )


def test_runs_that_are_alike_have_no_notes():
    assert compared([[1.0]], [[0.0]]).notes == ()


def test_runs_of_different_environments_are_not_compared():
    with pytest.raises(ComparisonError, match="got math_word_problems and qa"):
        compared([[1.0]], [[1.0]], environment="qa")


def test_runs_with_different_thresholds_need_one_for_both():
    with pytest.raises(ComparisonError, match=r"from 0\.5, 1\).*--success-at"):
        compared([[1.0]], [[1.0]], success_at=0.5)
    found = compared(
        [[0.6]], [[0.4]], FigureOptions(success_at=0.5, resampling=Resampling(100)), success_at=0.5
    )
    assert found.figures["success_rate"].difference == -1.0


def test_runs_without_a_common_task_are_not_compared():
    with pytest.raises(
        ComparisonError, match="1 are only in the first, 0 only in the second, 0 changed, 1 without"
    ):
        compared([[1.0], [1.0]], [[None]])


def test_the_same_seed_gives_the_same_comparison_which_is_written_without_loss():
    first, second = make_lively(12, 2), make_lively(12, 2, seed=2, run_id="run-b")
    found = compare(first, second, QUICK)
    assert found == compare(first, second, QUICK)
    assert COMPARISON.read(COMPARISON.write(found)) == found


def test_swapping_the_runs_turns_every_sign():
    first, second = make_lively(10, 2), make_lively(10, 2, seed=2, run_id="run-b")
    there, back = compare(first, second, QUICK), compare(second, first, QUICK)
    for name, found in there.figures.items():
        turned = back.figures[name]
        assert turned.difference == pytest.approx(-found.difference)
        assert turned.test.p == pytest.approx(found.test.p, abs=0.02)
    assert (there.record.wins, there.record.losses) == (back.record.losses, back.record.wins)
