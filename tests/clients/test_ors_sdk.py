"""The `ors-sdk` client plays the acceptance environments."""

import pytest

SCENARIOS = (
    "discovery",
    "twenty_tasks",
    "tools",
    "secrets",
    "errors",
    "broken_setup",
    "big_outputs",
    "parallel",
    "finishing",
    "other_environment",
    "by_index",
    "synchronous",
)


@pytest.fixture(scope="module")
def proxy(acceptance_url, cutting_proxy):
    return cutting_proxy(acceptance_url, request=b"slow_count")


@pytest.fixture(scope="module")
def answer(acceptance_url, proxy, play):
    started = play("ors_sdk", "play_ors_sdk.py")
    started.start(proxy.url, "dropped")
    started.start(acceptance_url, *SCENARIOS)
    return started.answer


def test_finds_splits_tasks_and_tools_without_a_session(answer):
    seen = answer("discovery")
    assert seen["splits"] == ["train", "test", "extra"]
    assert [t["target"] for t in seen["tasks"]] == ["hello", "world", "trl", "ors"]
    assert (seen["task"], seen["environment_name"]) == ({"id": "train-1", "target": "world"}, "refenv")
    assert seen["num_tasks"] == 4
    assert seen["range"] == ["world", "trl", "ors"]
    assert "hint" not in seen["tools"]
    assert {"echo", "add", "count", "finish", "image", "whoami"} <= set(seen["tools"])


def test_reaches_an_environment_that_is_not_the_default_one(answer):
    seen = answer("discovery")
    assert seen["second_tools"] == ["where"]
    assert seen["second_tasks"] == [{"id": "second-0"}, {"id": "second-1"}]
    play = answer("other_environment")
    assert play["prompt"] == "This is the second environment."
    assert (play["output"]["text"], play["output"]["reward"]) == ("secondenv", 1.0)


def test_plays_the_environment_that_it_names_by_split_and_index(answer):
    plays = answer("by_index")
    assert plays["secondenv"]["prompt"] == "This is the second environment."
    assert plays["secondenv"]["tools"] == ["where"]
    assert plays["secondenv"]["output"]["text"] == "secondenv"
    assert (plays["indexenv"]["prompt"], plays["indexenv"]["output"]["text"]) == (
        "This is task 1.",
        "indexenv",
    )
    assert "7" in plays["past the end"]
    assert "secondenv" in plays["past the end"] or "split" in plays["past the end"]


def test_plays_twenty_tasks_to_their_reward_and_is_refused_afterwards(answer):
    episodes = answer("twenty_tasks")
    assert [e["target"] for e in episodes] == ["hello", "world", "trl", "ors"] * 5
    assert all(e["rewards"] == [0.0, 1.0] and e["finished"] for e in episodes)
    assert all("finished" in e["after"]["refused"] for e in episodes)


def test_calls_tools_with_and_without_arguments(answer):
    seen = answer("tools")
    assert seen["prompt"][0]["text"] == "Call the `echo` tool with text='hello' to win."
    assert (seen["add"]["text"], seen["noargs"]["text"]) == ("5", "nothing taken")
    assert seen["add"]["reward"] is None
    assert seen["empty"]["blocks"] == []


def test_receives_the_picture_with_its_details_and_metadata(answer):
    image = answer("tools")["image"]
    assert image["blocks"][0]["detail"] == {"k": 1}
    assert (image["blocks"][1]["type"], image["blocks"][1]["mimeType"]) == ("image", "image/png")
    assert image["metadata"]["nested"] == {"a": [1, 2]}
    assert image["reward"] == 0.25


def test_sees_and_calls_the_tools_of_its_task(answer):
    seen = answer("tools")
    assert "hint" in seen["names"]
    assert seen["openai"] == len(seen["names"])
    assert seen["hint"]["text"] == "hello"


def test_hands_over_secrets(answer):
    assert answer("secrets") == {"K": "v"}


def test_is_told_what_went_wrong_and_goes_on_in_the_same_session(answer):
    seen = answer("errors")
    assert "is not a valid tool" in seen["unknown"]["refused"]
    assert "Tool input validation error" in seen["invalid"]["refused"]
    assert "kaboom line1\nline2 'quoted' \u00e9" in seen["boom"]
    assert "Unknown SSE error" not in seen["boom_empty"]
    assert "badret" in seen["badret"]
    assert seen["alive"] == "3"


def test_never_receives_a_reward_that_is_not_a_number_as_no_reward(answer):
    assert isinstance(answer("errors")["nan"], str)


def test_sees_why_an_environment_could_not_start(answer):
    seen = answer("broken_setup")
    assert "init failed on purpose" in seen["init_fail"]
    assert "setup failed on purpose" in seen["setup_fail"]


def test_receives_long_outputs_with_every_white_space_in_place(answer):
    same = answer("big_outputs")
    assert same == dict.fromkeys(same, True)


def test_calls_in_parallel_and_every_call_is_answered_once(answer):
    seen = answer("parallel")
    assert seen["sums"] == [str(2 * i) for i in range(12)]
    assert seen["one"] == seen["two"] == [1, 2, 3, 4, 5, 6]


def test_ends_an_episode_without_a_reward(answer):
    seen = answer("finishing")
    assert (seen["end"]["reward"], seen["end"]["finished"]) == (None, True)
    assert "finished" in seen["after"]["refused"]


def test_plays_with_the_blocking_client(answer):
    seen = answer("synchronous")
    assert (seen["output"]["reward"], seen["output"]["finished"]) == (1.0, True)


def test_resumes_a_call_whose_connection_was_cut_and_the_tool_runs_once(answer, proxy):
    seen = answer("dropped")
    assert proxy.cuts == 1
    assert (seen["first"]["text"], seen["first"]["reward"]) == ("1", 0.5)
    assert seen["second"]["text"] == "2"
