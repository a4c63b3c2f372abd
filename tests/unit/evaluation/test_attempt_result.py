"""What an attempt came to follows from what agent, session and server say, and from nothing else."""

import pytest

from ors_server.client.session_summary import Summary
from ors_server.evaluation.attempt_runner import AttemptEnd, Ending, judge
from ors_server.evaluation.budgets import Limit
from ors_server.evaluation.runs import Attempt, AttemptStatus
from tests.fixtures.evaluation_plays import BEGUN

FACTS = {"run_id": "run-1", "environment": "guessing", "split": "test", "index": 2, "task_hash": "ab"}
FACTS |= {"attempt": 1, "seed": 5, "started_at": BEGUN, "seconds": 0.5}


def figures_of(episode_return, steps=0, **known):
    known = {"phase": "finished", "session_id": "se", "environment": "guessing", **known}
    return Summary(steps=steps, episode_return=episode_return, **known)


PAID = figures_of(1.0, steps=3, last_reward=1.0, stop_reason="completed")
FAILED = figures_of(0.0, steps=1, stop_reason="failed")
BROKEN = figures_of(0.0, steps=4, failed_steps=1)
UNPAID = figures_of(0.0, steps=1, stop_reason="completed")
LEFT = figures_of(0.25, steps=1, last_reward=0.25, stop_reason="deleted")


def judged(ending=None, summary=PAID, success_at=1.0, **standing):
    end = AttemptEnd(ending or Ending("completed"), summary, **standing)
    return Attempt(**FACTS, **judge(end, success_at))


def test_the_server_s_return_counts():
    attempt = judged(own_sum=1.0, own_steps=9)
    assert attempt.status is AttemptStatus.DONE
    assert (attempt.episode_return, attempt.steps, attempt.success) == (1.0, 3, True)
    assert (attempt.finished, attempt.stop_reason) == (True, "completed")


def test_an_agent_that_leaves_keeps_what_it_was_paid():
    attempt = judged(Ending("no_tool_call"), LEFT, own_sum=0.25)
    assert attempt.status is AttemptStatus.DONE
    assert (attempt.episode_return, attempt.success) == (0.25, False)
    assert (attempt.finished, attempt.stop_reason) == (False, "no_tool_call")


@pytest.mark.parametrize(("success_at", "success"), [(0.25, True), (0.26, False), (-1.0, True)])
def test_success_is_a_return_that_reaches_the_threshold(success_at, success):
    assert judged(Ending("agent"), LEFT, success_at).success is success


def test_where_only_the_client_saw_the_rewards_its_sum_counts():
    attempt = judged(summary=None, own_sum=0.5, own_last=0.5, own_steps=4, is_over=True)
    assert (attempt.episode_return, attempt.last_reward, attempt.steps) == (0.5, 0.5, 4)
    assert (attempt.finished, attempt.stop_reason) == (True, "completed")


@pytest.mark.parametrize(
    ("standing", "reason"),
    [
        pytest.param({"own_sum": 0.5}, "add up to 0.5, but the server's return is 1.0", id="sums differ"),
        pytest.param({"ending": Ending("error", error="no luck")}, "no luck", id="the agent failed"),
        pytest.param({"summary": FAILED}, "failed at the server", id="failed"),
        pytest.param({"summary": figures_of(0.0, stop_reason="expired")}, "expired", id="expired"),
        pytest.param({"summary": BROKEN}, "failed in 1 of 4 calls", id="a tool failed"),
        pytest.param({"summary": None}, "the return is not known", id="not known"),
        pytest.param({"summary": UNPAID}, "could not be graded", id="nothing was judged"),
        pytest.param({"is_unjudged": True}, "could not be graded", id="the end was not judged"),
        pytest.param(
            {"summary": None, "own_sum": 0.0, "is_over": True},
            "could not be graded",
            id="nothing was judged, and only the client knows",
        ),
    ],
)
def test_a_return_that_cannot_be_believed_is_an_error_and_no_number(standing, reason):
    attempt = judged(**standing)
    assert attempt.status is AttemptStatus.ERRORED
    assert (attempt.episode_return, attempt.success) == (None, None)
    assert reason in attempt.error


def test_sums_in_another_order_agree():
    assert judged(summary=figures_of(0.1 + 0.2 + 0.3, last_reward=0.3), own_sum=0.6).error is None


def test_a_budget_that_is_spent_leaves_the_return_as_it_is():
    attempt = judged(Ending(Limit.TOKENS.value, Limit.TOKENS), LEFT)
    assert (attempt.status, attempt.stop_reason) == (AttemptStatus.OVER_BUDGET, "token_budget")
    assert attempt.episode_return == 0.25


def test_an_episode_that_ended_just_in_time_is_not_over_its_budget():
    attempt = judged(Ending(Limit.SECONDS.value, Limit.SECONDS))
    assert (attempt.status, attempt.stop_reason) == (AttemptStatus.DONE, "completed")


@pytest.mark.parametrize(
    ("steps", "own_limit", "status"),
    [
        pytest.param(3, 3, AttemptStatus.OVER_BUDGET, id="the budget's"),
        pytest.param(2, 3, AttemptStatus.DONE, id="the environment's own"),
        pytest.param(3, None, AttemptStatus.DONE, id="no budget"),
    ],
)
def test_a_step_limit_that_stands_for_a_budget_is_told_from_the_environment_s(steps, own_limit, status):
    summary = figures_of(0.0, steps=steps, stop_reason="step_limit")
    attempt = judged(summary=summary, own_step_limit=own_limit)
    assert attempt.status is status
    assert attempt.finished is True


def test_an_episode_may_be_over_by_a_limit_without_any_reward():
    attempt = judged(summary=figures_of(0.0, steps=5, stop_reason="time_limit"))
    assert attempt.status is AttemptStatus.DONE
    assert (attempt.stop_reason, attempt.last_reward) == ("time_limit", None)


def test_what_failed_first_is_what_is_told():
    summary = figures_of(0.0, steps=2, failed_steps=1, stop_reason="failed")
    attempt = judged(Ending("error", error="the tool broke"), summary)
    assert (attempt.error, attempt.stop_reason) == ("the tool broke", "error")
    assert attempt.steps == 2
