"""TRL's `OpenRewardSpec` trains on the acceptance environment, but for the trainer."""

import json

import pytest

PARTS = ("capped", "chosen", "whole", "bare", "rollouts", "tools", "named")


@pytest.fixture(scope="module")
def answer(acceptance_url, server_url, play):
    started = play("trl", "play_trl.py")
    named = {} if acceptance_url == server_url else {"ENVIRONMENT": "refenv"}
    started.start(acceptance_url, *PARTS, **named)
    return started.answer


def test_builds_its_training_set_from_as_many_tasks_as_it_wants(answer):
    seen = answer("capped")
    assert seen["columns"] == ["id", "prompt", "target", "task_index"]
    assert [row["target"] for row in seen["rows"]] == ["hello", "world", "trl"]
    assert [row["task_index"] for row in seen["rows"]] == [0, 1, 2]


def test_builds_its_training_set_from_chosen_tasks(answer):
    assert [(row["task_index"], row["target"]) for row in answer("chosen")["rows"]] == [
        (3, "ors"),
        (1, "world"),
    ]


def test_builds_its_training_set_from_a_whole_split(answer):
    assert [row["target"] for row in answer("whole")["rows"]] == ["exam"]


def test_builds_its_training_set_without_the_tasks_contents(answer):
    assert answer("bare")["columns"] == ["prompt", "task_index"]


def test_plays_one_rollout_for_each_row_and_sees_its_reward(answer):
    seen = answer("rollouts")
    assert seen["prompts"] == [
        f"Call the `echo` tool with text='{target}' to win." for target in ("hello", "world", "trl", "ors")
    ]
    assert seen["rewards"] == [1.0] * 4
    assert all(play["rewards"] == [0.0, 1.0, None] and play["finished"] for play in seen["played"])
    assert all(play["metadata"][1]["won"] is True for play in seen["played"])


def test_tells_the_model_that_the_episode_has_finished(answer):
    assert all(said[2].startswith("Error: episode_finished") for said in answer("rollouts")["said"])


def test_binds_every_tool_of_the_environment_and_of_the_task(answer):
    seen = answer("tools")
    assert {"echo", "add", "count", "finish", "hint", "image", "noargs", "tagged"} <= set(seen["bound"])
    assert seen["hint"] == "trl"
    parameters = seen["schema"]["function"]["parameters"]
    assert parameters["properties"]["a"]["type"] == "integer"
    assert parameters["required"] == ["a"]


def test_may_send_null_for_optional_parameters_that_allow_none(answer):
    assert json.loads(answer("tools")["tagged"]) == {"a": 1, "note": "", "tags": [], "z": 2.5}


def test_calls_tools_of_every_shape(answer):
    seen = answer("tools")
    assert (seen["noargs"], seen["image"], seen["empty"]) == ("nothing taken", "a pixel", "(no output)")
    assert json.loads(seen["whoami"])["K"] == "v"
    assert seen["error"].startswith("Error: input_validation")


def test_keeps_the_last_reward_where_the_end_brings_none(answer):
    seen = answer("tools")
    assert (seen["finished"], seen["reward"]) == (True, 0.25)


def test_starts_anew_at_reset(answer):
    seen = answer("tools")
    assert seen["reset"].startswith("Call the `echo` tool")
    assert seen["after_reset"] == {"reward": None, "finished": False, "count": "1"}


def test_resets_to_a_task_of_its_own(answer):
    seen = answer("named")
    assert seen["prompt"] == "Call the `echo` tool with text='brought' to win."
    assert (seen["said"], seen["reward"]) == ("brought", 1.0)
