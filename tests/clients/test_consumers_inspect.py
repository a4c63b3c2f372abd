"""inspect-openreward scores a sample by its last reward; what that is depends on when the server pays."""

import pytest

from ors_server.client import Client
from tests.clients.consuming import REWARDS, Consumers

PARTS = ("whole", "half", "refused", "slips", "beyond", "misjudged")


@pytest.fixture(scope="module")
def consumers(serve_with, play):
    return Consumers.start(serve_with, play("inspect", "consume_inspect.py"), *PARTS)


@pytest.fixture(params=["dense", "final"])
def consumed(request, consumers):
    return consumers.of(request.param)


def test_it_takes_the_last_reward_or_the_return(consumed):
    emit, url, answer = consumed
    seen = answer("whole")
    assert (seen["status"], seen["finished"]) == ("success", True)
    with Client(url) as client, client.episode("ladder", split="train", index=0) as episode:
        for hand in ("left", "right"):
            episode.call("climb", {"hand": hand})
        episode.call("jump")
        stated = episode.check().episode_return
    assert stated == sum(REWARDS)
    assert seen["value"] == (REWARDS[-1] if emit == "dense" else stated)


def test_a_sample_that_ends_before_its_episode_is_scored_zero_where_nothing_was_paid(consumed):
    emit, _, answer = consumed
    seen = answer("half")
    assert (seen["status"], seen["finished"]) == ("success", False)
    assert (seen["value"], seen["reward"]) == ((REWARDS[0],) * 2 if emit == "dense" else (0.0, None))


def test_calls_that_inspect_refuses_itself_are_not_charged(consumed):
    emit, _, answer = consumed
    seen = answer("refused")
    assert all("ToolCallError(type='parsing'" in told for told in seen["tool_answers"][:3])
    assert seen["value"] == (REWARDS[0] if emit == "dense" else 0.0)


def test_a_tool_that_raises_ends_the_sample_with_an_error(consumed):
    _, _, answer = consumed
    seen = answer("slips")
    assert (seen["status"], "value" in seen) == ("error", False)
    assert seen["tool_answers"] == ["left"]


def test_a_call_after_the_end_of_the_episode_makes_the_sample_an_error(consumed):
    _, _, answer = consumed
    seen = answer("beyond")
    assert (seen["status"], "value" in seen) == ("error", False)
    assert "episode_finished" in seen["error"]


def test_a_sample_whose_judgement_failed_is_an_error_and_has_no_score(consumed):
    _, _, answer = consumed
    seen = answer("misjudged")
    assert seen["status"] == "error"
    assert seen.get("value") is None
