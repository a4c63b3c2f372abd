"""What is asked for becomes a run, and a run that goes on stays what it was; its budgets and seeds."""

from dataclasses import replace

import pytest

from ors_server.evaluation import planning
from ors_server.evaluation.agents.agent_choice import choose_agent
from ors_server.evaluation.attempt_runner import seed_of
from ors_server.evaluation.budgets import BudgetError, BudgetSpentError, Limit, Meter, RunMeter, UsageBudget
from ors_server.evaluation.local_target import open_local_target
from ors_server.evaluation.planning import (
    RunOptions,
    check_same,
    choose_split,
    choose_tasks,
    options_of,
    plan_run,
    resume_options,
)
from ors_server.evaluation.runner import RunError
from ors_server.evaluation.runs import Attempt, AttemptKey, AttemptStatus
from ors_server.model.trajectory import SEEDS
from ors_server.model.wire import Split
from ors_server.store.open import open_reader
from tests.fixtures.evaluated_environments import Guessing
from tests.fixtures.evaluation_plays import BEGUN, make_run

AGENT = {"kind": "oracle", "name": "oracle"}


async def planned(**wishes):
    async with open_local_target(Guessing) as target:
        return await plan_run(RunOptions(agent="oracle", **wishes), target, AGENT, BEGUN)


async def test_a_wish_for_nothing_in_particular_plays_every_test_task_once():
    run = await planned()
    assert (run.split, run.indices) == ("test", tuple(range(6)))
    assert (run.attempts, run.seed, run.success_at) == (1, 0, 1.0)
    assert (run.environment, run.target) == ("guessing", "guessing")
    assert run.versions["environment"] == "3"
    assert set(run.versions) >= {"ors-server", "python"}
    assert run.run_id.startswith("guessing-oracle-20261101-120000-")


async def test_two_runs_of_the_same_second_have_different_names():
    assert (await planned()).run_id != (await planned()).run_id


async def test_the_wish_is_kept_in_the_run():
    run = await planned(split="train", tasks="1:4", limit=2, attempts=3, seed=9, success_at=0.5, steps=4)
    wish = options_of(run)
    assert (run.split, run.indices, run.attempts, run.seed, run.success_at) == ("train", (1, 2), 3, 9, 0.5)
    assert (wish.agent, wish.tasks, wish.limit, wish.budget.steps) == ("oracle", "1:4", 2, 4)


@pytest.mark.parametrize(
    ("wishes", "error", "message"),
    [
        pytest.param({"attempts": 0}, RunError, "at least 1", id="no attempts"),
        pytest.param({"seed": 2**53}, RunError, "seed", id="seed too large"),
        pytest.param({"cost": -1.0}, BudgetError, "cost", id="negative budget"),
        pytest.param({"split": "nowhere"}, RunError, "train, test", id="no split"),
        pytest.param({"tasks": "10:"}, RunError, "no task is left", id="no task"),
    ],
)
async def test_a_wish_that_makes_no_sense_is_refused(wishes, error, message):
    with pytest.raises(error, match=message):
        await planned(**wishes)


async def test_a_run_goes_on_if_what_is_said_agrees_or_nothing_is_said():
    run = await planned(attempts=2)
    assert resume_options(run, RunOptions()) == options_of(run)
    same = RunOptions(target="guessing", split="test", attempts=2, success_at=1.0)
    assert resume_options(run, same) == options_of(run)


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        pytest.param({"attempts": 3}, "attempts was 2 and is now 3", id="attempts"),
        pytest.param({"tasks": "0:2"}, "tasks was not set and is now '0:2'", id="tasks"),
        pytest.param({"policy": {"step_limit": 3}}, "policy was not set", id="policy"),
        pytest.param({"agent": "noop"}, "agent was 'oracle' and is now 'noop'", id="agent"),
    ],
)
async def test_a_run_does_not_go_on_as_another_one(wishes, said):
    with pytest.raises(RunError, match=said):
        resume_options(await planned(attempts=2), RunOptions(**wishes))


async def test_a_run_that_was_not_begun_by_a_wish_cannot_go_on():
    for config in ({}, {"options": {"nonsense": 1}}):
        with pytest.raises(RunError, match="does not record its options"):
            options_of(make_run(config=config))


async def test_a_run_does_not_go_on_with_another_version_or_another_agent():
    run = await planned()
    async with open_local_target(Guessing) as target:
        check_same(run, target, AGENT)
        with pytest.raises(RunError, match="version 2; here is 'guessing', version 3"):
            check_same(replace(run, versions={"environment": "2"}), target, AGENT)
        with pytest.raises(RunError, match="begin a new run"):
            check_same(replace(run, environment="other"), target, AGENT)
        for name in ("ors-server", "python"):
            older = replace(run, versions={**run.versions, name: "0.0.1"})
            with pytest.raises(RunError, match=rf"other versions .*\({name} 0\.0\.1, .*begin a new run"):
                check_same(older, target, AGENT)
        with pytest.raises(RunError, match="expected its agent"):
            check_same(run, target, {**AGENT, "kind": "noop"})


async def test_a_run_does_not_go_on_when_the_file_of_its_agent_has_changed(tmp_path):
    file = tmp_path / "player.py"
    file.write_text("def play(session): pass\n")

    async def described():
        return (await choose_agent(f"{file}:play", {}, open_reader)).describe()

    async with open_local_target(Guessing) as target:
        begun = await described()
        run = await plan_run(RunOptions(agent="x"), target, begun, BEGUN)
        check_same(run, target, await described())
        file.write_text("def play(session): session.call('bonus')\n")
        with pytest.raises(RunError, match=r"the file of the agent .* has changed"):
            check_same(run, target, await described())
        earlier = {key: value for key, value in begun.items() if key != "source"}
        check_same(replace(run, agent=earlier), target, await described())


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (None, (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)),
        ("0:3", (0, 1, 2)),
        ("::4", (0, 4, 8)),
        ("-2:", (8, 9)),
        ("7", (7,)),
        ("-1", (9,)),
        ("5, 3,3:5", (5, 3, 4)),
        ("8:100", (8, 9)),
    ],
    ids=str,
)
def test_tasks_are_chosen_by_their_places(text, places):
    assert choose_tasks(text, 10) == places


def test_no_more_tasks_are_chosen_than_the_limit():
    assert choose_tasks("4:", 10, limit=2) == (4, 5)


@pytest.mark.parametrize("text", ["10", "-11", "x", "1-3", "", "0:1:2:3", "::0", "3:3"], ids=repr)
def test_places_that_cannot_be_read_or_are_not_there_are_refused(text):
    with pytest.raises(RunError, match="task"):
        choose_tasks(text, 10)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ([("train", "train"), ("test", "test")], "test"),
        ([("test", "validation"), ("held_out", "test")], "test"),
        ([("a", "train"), ("b", "test")], "b"),
        ([("only", "train")], "only"),
    ],
    ids=["named", "named first", "typed", "only one"],
)
def test_the_split_is_that_for_tests_unless_somebody_says_otherwise(names, chosen):
    splits = [Split(name=name, type=kind) for name, kind in names]
    assert choose_split(splits, None) == chosen
    assert choose_split(splits, names[0][0]) == names[0][0]


def test_where_it_is_not_clear_which_split_is_meant_it_has_to_be_named():
    with pytest.raises(RunError, match="name a split: a, b"):
        choose_split([Split(name="a", type="train"), Split(name="b", type="validation")], None)


def test_the_old_name_of_run_options_warns():
    with pytest.deprecated_call(match="RunOptions"):
        assert planning.Wish is RunOptions


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
        seed_of(run, AttemptKey(split, index, number))
        for run in (0, 1)
        for split in ("train", "test")
        for index in range(10)
        for number in (1, 2)
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < SEEDS for seed in seeds)
    assert seed_of(7, AttemptKey("test", 2, 1)) == seed_of(7, AttemptKey("test", 2, 1))


def test_the_seeds_stay_what_they_are():
    # The first digits of SHA-256 of "0/test/0/1"; a run that goes on relies on them.
    assert seed_of(0, AttemptKey("test", 0, 1)) == int("3c31e63ffd6088f4", 16) >> 11
