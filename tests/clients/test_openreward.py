"""The `openreward` client plays the acceptance environments."""

from pathlib import Path

import pytest

TRAIN = [
    {"id": "train-0", "target": "hello"},
    {"id": "train-1", "target": "world"},
    {"id": "train-2", "target": "trl"},
    {"id": "train-3", "target": "ors"},
]
SCENARIOS = (
    "discovery",
    "twenty_tasks",
    "tools",
    "nulls",
    "secrets",
    "errors",
    "nan",
    "big_outputs",
    "parallel",
    "sessions_at_once",
    "finishing",
    "messages",
    "terminal",
    "score_group",
    "variants",
    "synchronous",
)


@pytest.fixture(scope="module")
def proxy(acceptance_url, cutting_proxy):
    return cutting_proxy(acceptance_url, request=b"slow_count")


@pytest.fixture(scope="module")
def answer(acceptance_url, proxy, play):
    started = play("openreward", "play_openreward.py")
    started.start(proxy.url, "dropped")
    started.start(acceptance_url, *SCENARIOS)
    return started.answer


@pytest.fixture(scope="module")
def by_name(acceptance_url, play):
    started = play("openreward", "play_openreward_names.py")
    started.start(acceptance_url, "deployments")
    return started.answer("deployments")


@pytest.fixture(scope="module")
def keyed_answer(serve_with, play):
    key = "a-trainer-key-of-thirty-two-letters"
    refenv = Path(__file__).parents[1] / "fixtures" / "refenv.py"
    url = serve_with(None, f"{refenv}:RefEnv", ORS_API_KEYS=f"trainer:t:{key}")
    started = play("openreward", "play_openreward.py")
    started.start(url, "twenty_tasks", "stranger", OPENREWARD_API_KEY=key)
    return started.answer


def test_finds_splits_tasks_and_tools_without_a_session(answer):
    seen = answer("discovery")
    assert seen["splits"] == ["train", "test", "extra"]
    assert seen["tasks"] == TRAIN
    assert (seen["task"], seen["environment_name"]) == (TRAIN[1], "refenv")
    assert (seen["num_tasks"], seen["empty"]) == (4, 0)
    assert seen["range"] == ["world", "trl", "ors"]
    assert "hint" not in seen["tools"]
    assert {"echo", "add", "count", "finish", "image", "whoami"} <= set(seen["tools"])


def test_converts_every_tool_for_every_provider(answer):
    seen = answer("discovery")
    assert seen["openai_tools"] == seen["anthropic_tools"] == seen["google_tools"] == len(seen["tools"])


def test_reaches_the_environments_that_are_not_the_default_one(answer):
    seen = answer("discovery")
    assert seen["second_tools"] == ["where"]
    assert seen["second_task"] == {"id": "second-1"}
    plays = answer("variants")
    assert plays["secondenv"]["prompt"] == "This is the second environment."
    assert plays["secondenv"]["output"]["text"] == "secondenv"
    assert plays["indexenv"]["prompt"] == "This is task 1."


def test_plays_each_of_four_environments_by_its_name_alone(by_name):
    assert by_name["refenv"]["environment"] == "refenv"
    assert "echo" in by_name["refenv"]["tools"]
    assert "hint" in by_name["refenv"]["own"]
    assert by_name["secondenv"]["prompts"] == ["This is the second environment."] * 2
    assert by_name["indexenv"]["prompts"] == ["This is task 0."] * 2
    assert by_name["indexenv"]["tools"] == by_name["indexenv"]["own"] == ["where"]
    assert by_name["owner/termenv"]["environment"] == "termenv"
    assert by_name["owner/termenv"]["prompts"] == ["[system]"] * 2


def test_is_told_the_names_where_it_asks_for_an_environment_that_is_not_served(by_name):
    for said in by_name["nonsense"].values():
        assert "404" in said
        assert "unknown environment 'nonsense'" in said
        assert all(name in said for name in ("refenv", "secondenv", "indexenv", "termenv"))


def test_is_told_to_use_indices_where_tasks_cannot_be_listed(answer):
    seen = answer("discovery")
    assert seen["index_list"].startswith("400")
    assert "not supported" in seen["index_list"]
    assert seen["index_count"] == 1_000_000
    assert seen["index_task"] == {"id": "index-999", "number": 999}


def test_plays_twenty_tasks_to_their_reward_and_is_refused_afterwards(answer):
    episodes = answer("twenty_tasks")
    assert len(episodes) == 20
    assert [e["target"] for e in episodes] == ["hello", "world", "trl", "ors"] * 5
    assert all(e["rewards"] == [0.0, 1.0] and e["finished"] for e in episodes)
    assert all(e["after"]["refused"] == "episode_finished" for e in episodes)


def test_calls_tools_with_and_without_arguments(answer):
    seen = answer("tools")
    assert seen["prompt"] == [
        {"text": "Call the `echo` tool with text='hello' to win.", "detail": None, "type": "text"}
    ]
    assert (seen["add"]["text"], seen["lax"]["text"], seen["noargs"]["text"]) == ("5", "7", "nothing taken")
    assert seen["add"]["reward"] is None
    assert seen["empty"]["blocks"] == []
    assert isinstance(seen["version"]["version"], str)


def test_receives_the_picture_with_its_details_and_metadata(answer):
    image = answer("tools")["image"]
    text, picture = image["blocks"]
    assert text == {"text": "a pixel", "detail": {"k": 1}, "type": "text"}
    assert (picture["type"], picture["mimeType"]) == ("image", "image/png")
    assert picture["data"].startswith("iVBORw0KGgo")
    assert image["reward"] == 0.25
    assert image["metadata"]["nested"] == {"a": [1, 2]}


def test_sees_and_calls_the_tools_of_its_task(answer):
    seen = answer("tools")
    assert "hint" in seen["names"]
    assert seen["hint"]["text"] == "hello"


def test_may_send_null_for_an_optional_parameter_that_allows_none(answer):
    assert answer("nulls") == {"refused": None, "text": '{"a": 1, "note": "", "tags": [], "z": 1.5}'}


def test_hands_over_secrets_with_allowed_domains(answer):
    seen = answer("secrets")
    own = {"openai_api_key": "v1", "SCOPED": "v2"}
    assert seen["given"] == {**own, "api_key": "", "OPENREWARD_API_KEY": ""}
    assert seen["with_key"] == {**own, "api_key": "user-key", "OPENREWARD_API_KEY": "user-key"}
    assert seen["none"] == {"api_key": "", "OPENREWARD_API_KEY": ""}


def test_is_told_why_a_call_was_malformed_and_goes_on(answer):
    seen = answer("errors")
    assert seen["unknown"]["refused"] == "not_found"
    assert seen["invalid"]["refused"] == "input_validation"
    assert seen["missing"]["refused"] == "input_validation"
    assert seen["alive"] == "3"


def test_sees_why_a_tool_failed(answer):
    seen = answer("errors")
    assert "kaboom line1\nline2 'quoted' \u00e9" in seen["boom"]
    assert seen["boom_empty"]
    assert "Unknown SSE error" not in seen["boom_empty"]
    assert "badret" in seen["badret"]


def test_sees_why_an_environment_could_not_start(answer):
    seen = answer("errors")
    assert seen["init_fail"].startswith("500")
    assert "init failed on purpose" in seen["init_fail"]
    assert seen["setup_fail"].startswith("500")
    assert "setup failed on purpose" in seen["setup_fail"]


def test_never_receives_a_reward_that_is_not_a_number_as_no_reward(answer):
    assert answer("nan")["failed"]


def test_receives_long_outputs_with_every_white_space_in_place(answer):
    same = answer("big_outputs")
    assert same == dict.fromkeys(same, True)


def test_calls_in_parallel_and_every_call_is_answered_once(answer):
    seen = answer("parallel")
    assert seen["sums"] == [str(2 * i) for i in range(12)]
    assert seen["one"] == seen["two"] == [1, 2, 3, 4, 5, 6]
    assert seen["slow"] == ["slept", "3"]


def test_wins_forty_sessions_at_once(answer):
    assert answer("sessions_at_once") == [1.0] * 40


@pytest.mark.parametrize(("name", "reward"), [("half", 0.5), ("ungraded", None)])
def test_ends_an_episode_with_and_without_a_reward(answer, name, reward):
    seen = answer("finishing")[name]
    assert (seen["end"]["reward"], seen["end"]["finished"]) == (reward, True)
    assert seen["after"]["refused"] == "episode_finished"
    assert seen["prompt"] == 1


def test_reads_a_conversation_with_every_kind_of_block(answer):
    seen = answer("messages")
    assert seen["roles"] == ["system", "user", "assistant", "user"]
    assert seen["types"] == [["text"], ["text"], ["reasoning", "tool_call"], ["tool_result"]]
    assert seen["anthropic"]["system"] == "be terse"
    assert [m["role"] for m in seen["openai"]] == ["system", "user", "assistant", "tool"]
    assert seen["wrapped"] == [{"role": "user", "content": "Call the `echo` tool with text='hello' to win."}]


def test_reads_a_conversation_flattened_to_a_prompt(answer):
    prompt = answer("messages")["prompt"]
    assert prompt[:4] == ["[system]", "be terse", "[user]", "2+2?"]
    assert prompt[-1] == "4"


def test_ends_an_episode_with_the_terminal_tool(answer):
    seen = answer("terminal")
    assert seen["tools"] == []
    assert (seen["terminal"]["name"], seen["terminal"]["arg"]) == ("submit", "answer")
    assert (seen["output"]["reward"], seen["output"]["finished"]) == (1.0, True)
    assert seen["without"] is False


def test_scores_a_group_where_the_environment_can(answer):
    seen = answer("score_group")
    assert seen["supported"] is True
    assert seen["scores"] == [
        {"reward": 0.25, "metadata": None},
        {"reward": 0.125, "metadata": {"rollout": 2}},
    ]
    assert seen["refenv"] == "unsupported"


def test_survives_a_group_that_could_not_be_scored(answer):
    seen = answer("score_group")
    assert "no candidates to score" in seen["failed"]
    assert (seen["afterwards"]["reward"], seen["afterwards"]["finished"]) == (0.0, True)


def test_plays_with_the_blocking_client(answer):
    seen = answer("synchronous")
    assert (seen["output"]["reward"], seen["output"]["finished"]) == (1.0, True)


def test_resumes_a_call_whose_connection_was_cut_and_the_tool_runs_once(answer, proxy):
    seen = answer("dropped")
    assert proxy.cuts == 1
    assert (seen["first"]["text"], seen["first"]["reward"]) == ("1", 0.5)
    assert seen["second"]["text"] == "2"


def test_plays_with_its_key_where_keys_are_required(keyed_answer):
    episodes = keyed_answer("twenty_tasks")
    assert len(episodes) == 20
    assert all(e["rewards"] == [0.0, 1.0] for e in episodes)


def test_is_turned_away_without_a_key_that_the_server_knows(keyed_answer):
    seen = keyed_answer("stranger")
    assert seen["known"] == 4
    assert seen["error"].startswith("AuthenticationError")
