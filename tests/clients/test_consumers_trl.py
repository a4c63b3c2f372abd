"""TRL trains on the last reward of an episode; what that is depends on when the server pays.

The same environment is served twice, once paying with each step and once at the end.
"""

import pytest

from ors_server.client import Client
from tests.clients.consuming import REWARDS, Consumers, returns_of

PARTS = ("whole", "half", "blind", "refused", "slips", "open", "misjudged")
NULL_PARTS = ("misjudged", "misjudged_middle")
"""Played at a server that pays with each step, and answers a failed judgement with a null reward."""
MISTAKE = -0.0625


@pytest.fixture(scope="module")
def consumers(serve_with, play):
    return Consumers.start(serve_with, play("trl", "consume_trl.py"), *PARTS, null=NULL_PARTS)


@pytest.fixture(params=["dense", "final"])
def consumed(request, consumers):
    return consumers.of(request.param)


def test_it_takes_the_last_reward_or_the_return(consumed):
    emit, url, answer = consumed
    seen = answer("whole")
    assert seen["finished"] is True
    summary = returns_of(url, seen["session"])
    assert summary.episode_return == sum(REWARDS) + MISTAKE
    if emit == "dense":
        assert seen["rewards"] == [REWARDS[0], None, MISTAKE, REWARDS[1], REWARDS[2]]
        assert seen["trained_on"] == REWARDS[-1]
    else:
        assert seen["rewards"] == [None, None, None, None, summary.episode_return]
        assert seen["trained_on"] == summary.episode_return
    assert sum(reward or 0.0 for reward in seen["rewards"]) == summary.episode_return


def test_an_episode_that_is_given_up_pays_what_it_earned_or_says_what_it_withheld(consumed):
    emit, url, answer = consumed
    seen = answer("half")
    summary = returns_of(url, seen["session"])
    assert seen["trained_on"] == (REWARDS[0] if emit == "dense" else None)
    assert (summary.episode_return, summary.withheld) == (
        (REWARDS[0], 0.0) if emit == "dense" else (0.0, REWARDS[0])
    )


def test_an_episode_that_nobody_judged_is_no_zero(consumed):
    _, url, answer = consumed
    seen = answer("blind")
    assert seen["trained_on"] is None
    assert returns_of(url, seen["session"]).ungraded_steps == 1


def test_an_episode_whose_judgement_failed_is_left_out_where_the_end_pays(consumed):
    emit, url, answer = consumed
    seen = answer("misjudged")
    assert seen["trained_on"] == (REWARDS[0] if emit == "dense" else None)
    assert seen["returned"] is None
    summary = returns_of(url, seen["session"])
    assert (summary.unjudged_steps, summary.stop_reason) == (1, "completed")


@pytest.mark.parametrize("part", NULL_PARTS)
def test_our_function_leaves_out_a_rollout_of_a_server_that_answers_a_failed_judgement_with_null(
    consumers, part
):
    url = consumers.urls["null"]
    seen = consumers.answer(f"{url}#{part}")
    assert seen["trained_on"] == REWARDS[0]
    assert seen["returned"] is None
    assert returns_of(url, seen["session"]).unjudged_steps == 1


def test_our_function_returns_what_the_server_recorded(consumed):
    _, url, answer = consumed
    for part in ("whole", "half", "refused"):
        seen = answer(part)
        summary = returns_of(url, seen["session"])
        assert seen["returned"] == (None if summary.last_reward is None else summary.episode_return)
    assert answer("blind")["returned"] is None


def test_our_own_client_sums_to_the_same_return_either_way(consumed):
    emit, url, _ = consumed
    with Client(url) as client, client.episode("ladder", split="train", index=0) as episode:
        for tool, arguments in [
            ("climb", {"hand": "left"}),
            ("look", {}),
            ("climb", {"hand": 7}),
            ("climb", {"hand": "right"}),
        ]:
            episode.call(tool, arguments)
        assert episode.summary().withheld == (0.0 if emit == "dense" else sum(REWARDS[:2]) + MISTAKE)
        episode.call("jump")
        assert episode.check().episode_return == sum(REWARDS) + MISTAKE
        assert (episode.ledger.last_reward == episode.ledger.total) is (emit == "final")


def test_calls_that_trl_refuses_itself_are_not_charged(consumed):
    emit, url, answer = consumed
    seen = answer("refused")
    assert seen["said"] == ["TypeError", "TypeError", "AttributeError"]
    summary = returns_of(url, seen["session"])
    assert summary.steps == 1
    assert summary.episode_return + summary.withheld == REWARDS[0]
    assert seen["rewards"] == ([REWARDS[0]] if emit == "dense" else [None])


def test_a_tool_that_raises_ends_the_episode_for_trl(consumed):
    emit, url, answer = consumed
    seen = answer("slips")
    first, after = seen["said"]
    assert first.startswith("Error: ")
    assert "session terminated" in after
    assert seen["rewards"] == [REWARDS[0] if emit == "dense" else None, None, None]
    assert (seen["finished"], seen["returned"]) == (False, None)
    summary = returns_of(url, seen["session"])
    assert (summary.steps, summary.failed_steps) == (2, 1)


def test_trl_leaves_its_last_session_open(consumed):
    _, url, answer = consumed
    with Client(url) as client:
        left = {part: client.summary(answer(part)["session"]) for part in ("open", "whole")}
    assert left["open"].phase == "playing"
    assert left["whole"].phase == "deleted"


def test_the_answer_is_a_column_of_the_dataset_unless_metadata_is_left_out(consumed):
    _, _, answer = consumed
    seen = answer("whole")
    assert {"answer", "id"} <= set(seen["columns"])
    assert seen["answers"] == ["left"]
    assert set(seen["columns_without"]) == {"prompt", "task_index"}
