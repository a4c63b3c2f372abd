"""What the stock `openreward` client makes of a tool that raises, and of a call after the end."""

import pytest

from tests.clients.consuming import LADDER, REWARDS, returns_of


@pytest.fixture(scope="module")
def consumed(serve_with, play):
    url = serve_with(None, LADDER)
    started = play("openreward", "consume_openreward.py")
    started.start(url, "slips", "beyond")
    return url, started.answer


def test_a_tool_that_raises_ends_the_episode(consumed):
    url, answer = consumed
    seen = answer("slips")
    paid, first, after = seen["came"]
    assert paid == [REWARDS[0], False]
    assert first.startswith("ToolFailed: ")
    assert after.startswith("SessionTerminatedError: ")
    summary = returns_of(url, seen["session"])
    assert (summary.steps, summary.failed_steps, summary.episode_return) == (2, 1, REWARDS[0])


def test_a_call_after_the_end_raises_and_costs_nothing(consumed):
    url, answer = consumed
    seen = answer("beyond")
    paid, after = seen["came"]
    assert paid == [REWARDS[-1], True]
    assert after.startswith("ToolCallError: episode_finished")
    summary = returns_of(url, seen["session"])
    assert (summary.steps, summary.episode_return, summary.penalty_sum) == (1, REWARDS[-1], 0.0)
