"""Budgets stop what they should and nothing else; seeds depend on the place alone."""

import pytest

from ors_server.evaluation.budgets import BudgetError, BudgetSpentError, Limit, Meter, RunMeter, UsageBudget
from ors_server.evaluation.runs import Attempt, AttemptPlace, AttemptStatus
from ors_server.evaluation.seeds import seed_of
from ors_server.trajectory import SEEDS
from tests.fixtures.evaluation_plays import BEGUN


def attempt(**changes):
    place = {"run_id": "r", "environment": "e", "split": "test", "index": 0, "task_hash": "", "attempt": 1}
    outcome = {"status": AttemptStatus.DONE, "seconds": 1.0, "episode_return": 1.0, "success": True}
    return Attempt(**{**place, **outcome, "seed": 1, "started_at": BEGUN, **changes})


ERRORED = attempt(status=AttemptStatus.ERRORED, episode_return=None, success=None, error="no")


@pytest.mark.parametrize("name", ["steps", "tokens", "cost", "seconds"])
@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf")], ids=str)
def test_a_budget_is_a_positive_number(name, limit):
    with pytest.raises(BudgetError, match=name):
        UsageBudget(**{name: limit})


def test_a_call_too_many_is_refused_and_not_counted():
    meter = Meter(UsageBudget(steps=2))
    meter.begin_call()
    meter.begin_call()
    with pytest.raises(BudgetSpentError, match="step budget") as spent:
        meter.begin_call()
    assert (spent.value.limit, meter.calls) == (Limit.STEPS, 2)


@pytest.mark.parametrize(
    ("budget", "spending", "limit"),
    [
        pytest.param(UsageBudget(tokens=100), (60, 41, None), Limit.TOKENS, id="tokens"),
        pytest.param(UsageBudget(cost=1.0), (1, 1, 1.01), Limit.COST, id="cost"),
    ],
)
def test_spending_more_than_there_is_is_counted_and_stops(budget, spending, limit):
    meter = Meter(budget)
    with pytest.raises(BudgetSpentError) as spent:
        meter.spend(*spending)
    assert spent.value.limit is limit
    assert (meter.tokens_in, meter.tokens_out, meter.cost) == spending


def test_spending_exactly_what_there_is_goes_through():
    meter = Meter(UsageBudget(tokens=100, cost=1.0))
    meter.spend(60, 40, 1.0)
    assert (meter.tokens_in, meter.tokens_out) == (60, 40)


def test_what_nobody_counted_stays_unknown():
    meter = Meter()
    meter.spend(None, None, None)
    assert (meter.tokens_in, meter.tokens_out, meter.cost) == (None, None, None)
    meter.spend(5, None, None)
    meter.spend(None, 2, 0.5)
    assert (meter.tokens_in, meter.tokens_out, meter.cost) == (5, 2, 0.5)


@pytest.mark.parametrize(
    ("budget", "ended", "seconds", "limit"),
    [
        pytest.param(UsageBudget(steps=10), attempt(steps=10), 0, Limit.STEPS, id="steps"),
        pytest.param(
            UsageBudget(tokens=10), attempt(tokens_in=4, tokens_out=6), 0, Limit.TOKENS, id="tokens"
        ),
        pytest.param(UsageBudget(cost=2.0), attempt(cost=2.5), 0, Limit.COST, id="cost"),
        pytest.param(UsageBudget(seconds=60), attempt(), 60, Limit.SECONDS, id="seconds"),
        pytest.param(UsageBudget(), attempt(steps=10**6, cost=1e9), 1e9, None, id="none"),
        pytest.param(UsageBudget(steps=10), attempt(steps=9), 0, None, id="enough is left"),
    ],
)
def test_a_run_s_budget_is_spent_once_it_is_reached(budget, ended, seconds, limit):
    meter = RunMeter(budget)
    assert meter.spent(0) is None
    meter.add(ended)
    assert meter.spent(seconds) is limit


def test_errors_in_a_row_are_counted_and_a_success_in_between_is_a_new_beginning():
    meter = RunMeter(most_errors=2)
    for ended in (ERRORED, attempt(), ERRORED):
        meter.add(ended)
    assert meter.spent(0) is None
    meter.add(ERRORED)
    assert meter.spent(0) is Limit.ERRORS
    meter.forget_errors()
    assert meter.spent(0) is None


def test_bearing_no_errors_at_all_makes_no_sense():
    with pytest.raises(BudgetError, match="at least 1"):
        RunMeter(most_errors=0)


def test_a_seed_depends_on_run_split_task_and_attempt_and_on_nothing_else():
    seeds = [
        seed_of(run, AttemptPlace(split, index, number))
        for run in (0, 1)
        for split in ("train", "test")
        for index in range(10)
        for number in (1, 2)
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < SEEDS for seed in seeds)
    assert seed_of(7, AttemptPlace("test", 2, 1)) == seed_of(7, AttemptPlace("test", 2, 1))


def test_the_seeds_stay_what_they_are():
    # The first digits of SHA-256 of "0/test/0/1"; a run that goes on relies on them.
    assert seed_of(0, AttemptPlace("test", 0, 1)) == int("3c31e63ffd6088f4", 16) >> 11
