"""Inspect evaluates a scripted model on the acceptance environment through `inspect-openreward`."""

import pytest


@pytest.fixture(scope="module")
def answer(acceptance_url, play):
    started = play("inspect", "play_inspect_openreward.py")
    started.start(acceptance_url, "dataset", "win", "lose", "silent")
    return started.answer


def test_builds_its_dataset_from_the_tasks_of_a_split(answer):
    assert [task["target"] for task in answer("dataset")] == ["hello", "world", "trl", "ors"]


def test_runs_a_sample_to_the_reward_of_the_environment(answer):
    seen = answer("win")
    assert (seen["status"], seen["error"]) == ("success", None)
    assert seen["prompt"] == "Call the `echo` tool with text='hello' to win."
    assert seen["answers"] == ["hello", "no", "hello"]
    assert (seen["value"], seen["mean"]) == (1.0, 1.0)
    assert seen["metadata"] == {"finished": True, "reward": 1.0}


def test_scores_a_sample_that_gave_up_by_its_last_reward(answer):
    seen = answer("lose")
    assert seen["answers"] == ["3", "no"]
    assert seen["value"] == 0.0
    assert seen["metadata"] == {"finished": False, "reward": 0.0}


def test_tells_a_sample_without_any_reward_apart(answer):
    seen = answer("silent")
    assert seen["answers"] == []
    assert seen["metadata"] == {"finished": False, "reward": None}
