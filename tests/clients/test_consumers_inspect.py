"""inspect-openreward scores a sample by its last reward; what that is depends on when the server pays."""

import pytest

from ors_server.client import Client
from tests.clients.consuming import LADDER, REWARDS


@pytest.fixture(scope="module", params=["dense", "final"])
def consumed(request, serve_with, play):
    url = serve_with(None, LADDER, ORS_EMIT=request.param)
    started = play("inspect", "consume_inspect.py")
    started.start(url, "whole", "half")
    return request.param, url, started.answer


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
