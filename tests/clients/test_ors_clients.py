"""The clients `openreward` and `ors-sdk` play the acceptance environments."""

import re
from pathlib import Path

import pytest

TRAIN = [
    {"id": "train-0", "target": "hello"},
    {"id": "train-1", "target": "world"},
    {"id": "train-2", "target": "trl"},
    {"id": "train-3", "target": "ors"},
]
BOTH = "discovery twenty_tasks tools secrets errors broken_setup big_outputs parallel finishing synchronous"
SCENARIOS = {
    "openreward": f"{BOTH} nulls nan sessions_at_once messages terminal score_group variants",
    "ors_sdk": f"{BOTH} other_environment by_index",
}
"""What each client plays, beside `dropped`."""
OVER = {"openreward": "episode_finished", "ors_sdk": "(?s).*finished.*"}
"""How each client is told that the episode is over."""


@pytest.fixture(scope="module")
def proxies(acceptance_url, cutting_proxy):
    return {client: cutting_proxy(acceptance_url, request=b"slow_count") for client in SCENARIOS}


@pytest.fixture(scope="module")
def answers(acceptance_url, proxies, play):
    started = {client: play(client, f"play_{client}.py") for client in SCENARIOS}
    for client, scenarios in SCENARIOS.items():
        started[client].start(proxies[client].url, "dropped")
        started[client].start(acceptance_url, *scenarios.split())
    return {client: one.answer for client, one in started.items()}


@pytest.fixture
def openreward(answers):
    return answers["openreward"]


@pytest.fixture
def ors_sdk(answers):
    return answers["ors_sdk"]


@pytest.fixture(params=SCENARIOS)
def client(request):
    return request.param


@pytest.fixture
def answer(answers, client):
    return answers[client]


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
    assert seen["num_tasks"] == 4
    assert seen["range"] == ["world", "trl", "ors"]
    assert "hint" not in seen["tools"]
    assert {"echo", "add", "count", "finish", "image", "whoami"} <= set(seen["tools"])


def test_plays_twenty_tasks_to_their_reward_and_is_refused_afterwards(answer, client):
    episodes = answer("twenty_tasks")
    assert len(episodes) == 20
    assert [e["target"] for e in episodes] == ["hello", "world", "trl", "ors"] * 5
    assert all(e["rewards"] == [0.0, 1.0] and e["finished"] for e in episodes)
    assert all(re.fullmatch(OVER[client], e["after"]["refused"]) for e in episodes)


def test_calls_tools_with_and_without_arguments_and_those_of_its_task(answer):
    seen = answer("tools")
    (prompt,) = seen["prompt"]
    assert (prompt["text"], prompt["type"]) == ("Call the `echo` tool with text='hello' to win.", "text")
    assert prompt["detail"] is None
    assert (seen["add"]["text"], seen["noargs"]["text"]) == ("5", "nothing taken")
    assert seen["add"]["reward"] is None
    assert seen["empty"]["blocks"] == []
    assert "hint" in seen["names"]
    assert seen["hint"]["text"] == "hello"


def test_receives_the_picture_with_its_details_and_metadata(answer):
    image = answer("tools")["image"]
    text, picture = image["blocks"]
    assert text == {"text": "a pixel", "detail": {"k": 1}, "type": "text"}
    assert (picture["type"], picture["mimeType"]) == ("image", "image/png")
    assert picture["data"].startswith("iVBORw0KGgo")
    assert image["reward"] == 0.25
    assert image["metadata"]["nested"] == {"a": [1, 2]}


def test_sees_why_an_environment_could_not_start(answer):
    seen = answer("broken_setup")
    assert "init failed on purpose" in seen["init_fail"]
    assert "setup failed on purpose" in seen["setup_fail"]


def test_receives_long_outputs_whole_and_calls_in_parallel(answer):
    seen = answer("parallel")
    assert seen["sums"] == [str(2 * i) for i in range(12)]
    assert seen["one"] == seen["two"] == [1, 2, 3, 4, 5, 6]
    assert seen["slow"] == ["slept", "3"]
    same = answer("big_outputs")
    assert same == dict.fromkeys(same, True)


def test_plays_with_the_blocking_client(answer):
    seen = answer("synchronous")
    assert (seen["output"]["reward"], seen["output"]["finished"]) == (1.0, True)


def test_resumes_a_call_whose_connection_was_cut_and_the_tool_runs_once(answer, client, proxies):
    seen = answer("dropped")
    assert proxies[client].cuts == 1
    assert (seen["first"]["text"], seen["first"]["reward"]) == ("1", 0.5)
    assert seen["second"]["text"] == "2"


def test_never_receives_a_reward_that_is_not_a_number_as_no_reward(openreward, ors_sdk):
    assert openreward("nan")["failed"]
    assert isinstance(ors_sdk("errors")["nan"], str)


def test_converts_every_tool_for_every_provider(openreward, ors_sdk):
    seen = openreward("discovery")
    assert seen["openai_tools"] == seen["anthropic_tools"] == seen["google_tools"] == len(seen["tools"])
    assert ors_sdk("tools")["openai"] == len(ors_sdk("tools")["names"])


def test_reaches_the_environments_that_are_not_the_default_one(openreward):
    seen = openreward("discovery")
    assert seen["second_tools"] == ["where"]
    assert seen["second_task"] == {"id": "second-1"}
    plays = openreward("variants")
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


def test_is_told_to_use_indices_where_tasks_cannot_be_listed(openreward):
    seen = openreward("discovery")
    assert seen["index_list"].startswith("400")
    assert "not supported" in seen["index_list"]
    assert seen["index_count"] == 1_000_000
    assert seen["index_task"] == {"id": "index-999", "number": 999}


def test_may_send_null_for_an_optional_parameter_that_allows_none(openreward):
    assert openreward("nulls") == {"refused": None, "text": '{"a": 1, "note": "", "tags": [], "z": 1.5}'}


def test_hands_over_secrets_with_allowed_domains(openreward):
    seen = openreward("secrets")
    own = {"openai_api_key": "v1", "SCOPED": "v2"}
    assert seen["given"] == {**own, "api_key": "", "OPENREWARD_API_KEY": ""}
    assert seen["with_key"] == {**own, "api_key": "user-key", "OPENREWARD_API_KEY": "user-key"}
    assert seen["none"] == {"api_key": "", "OPENREWARD_API_KEY": ""}


def test_is_told_why_a_call_was_malformed_or_a_tool_failed_and_goes_on(openreward):
    seen = openreward("errors")
    assert seen["unknown"]["refused"] == "not_found"
    assert seen["invalid"]["refused"] == "input_validation"
    assert seen["missing"]["refused"] == "input_validation"
    assert seen["alive"] == "3"
    seen = openreward("errors")
    assert "kaboom line1\nline2 'quoted' \u00e9" in seen["boom"]
    assert seen["boom_empty"]
    assert "Unknown SSE error" not in seen["boom_empty"]
    assert "badret" in seen["badret"]


def test_wins_forty_sessions_at_once(openreward):
    assert openreward("sessions_at_once") == [1.0] * 40


@pytest.mark.parametrize(("name", "reward"), [("half", 0.5), ("ungraded", None)])
def test_ends_an_episode_with_and_without_a_reward(openreward, name, reward):
    seen = openreward("finishing")[name]
    assert (seen["end"]["reward"], seen["end"]["finished"]) == (reward, True)
    assert seen["after"]["refused"] == "episode_finished"
    assert seen["prompt"] == 1


def test_reads_a_conversation_with_every_kind_of_block_and_flattened_to_a_prompt(openreward):
    seen = openreward("messages")
    assert seen["roles"] == ["system", "user", "assistant", "user"]
    assert seen["types"] == [["text"], ["text"], ["reasoning", "tool_call"], ["tool_result"]]
    assert seen["anthropic"]["system"] == "be terse"
    assert [m["role"] for m in seen["openai"]] == ["system", "user", "assistant", "tool"]
    assert seen["wrapped"] == [{"role": "user", "content": "Call the `echo` tool with text='hello' to win."}]
    prompt = openreward("messages")["prompt"]
    assert prompt[:4] == ["[system]", "be terse", "[user]", "2+2?"]
    assert prompt[-1] == "4"


def test_ends_an_episode_with_the_terminal_tool(openreward):
    seen = openreward("terminal")
    assert seen["tools"] == []
    assert (seen["terminal"]["name"], seen["terminal"]["arg"]) == ("submit", "answer")
    assert (seen["output"]["reward"], seen["output"]["finished"]) == (1.0, True)
    assert seen["without"] is False


def test_scores_a_group_where_it_can_be_and_survives_one_that_cannot(openreward):
    seen = openreward("score_group")
    assert seen["supported"] is True
    assert seen["scores"] == [
        {"reward": 0.25, "metadata": None},
        {"reward": 0.125, "metadata": {"rollout": 2}},
    ]
    assert seen["refenv"] == "unsupported"
    seen = openreward("score_group")
    assert "no candidates to score" in seen["failed"]
    assert (seen["afterwards"]["reward"], seen["afterwards"]["finished"]) == (0.0, True)


def test_plays_with_its_key_and_is_turned_away_without_one_that_is_known(keyed_answer):
    episodes = keyed_answer("twenty_tasks")
    assert len(episodes) == 20
    assert all(e["rewards"] == [0.0, 1.0] for e in episodes)
    seen = keyed_answer("stranger")
    assert seen["known"] == 4
    assert seen["error"].startswith("AuthenticationError")


def test_openreward_counts_no_tasks_is_told_the_version_and_may_send_numbers_as_text(openreward):
    assert openreward("discovery")["empty"] == 0
    seen = openreward("tools")
    assert seen["lax"]["text"] == "7"
    assert isinstance(seen["version"]["version"], str)
    for key in ("init_fail", "setup_fail"):
        assert openreward("broken_setup")[key].startswith("500")


def test_reaches_an_environment_that_is_not_the_default_one(ors_sdk):
    seen = ors_sdk("discovery")
    assert seen["second_tools"] == ["where"]
    assert seen["second_tasks"] == [{"id": "second-0"}, {"id": "second-1"}]
    play = ors_sdk("other_environment")
    assert play["prompt"] == "This is the second environment."
    assert (play["output"]["text"], play["output"]["reward"]) == ("secondenv", 1.0)


def test_plays_the_environment_that_it_names_by_split_and_index(ors_sdk):
    plays = ors_sdk("by_index")
    assert plays["secondenv"]["prompt"] == "This is the second environment."
    assert plays["secondenv"]["tools"] == ["where"]
    assert plays["secondenv"]["output"]["text"] == "secondenv"
    assert (plays["indexenv"]["prompt"], plays["indexenv"]["output"]["text"]) == (
        "This is task 1.",
        "indexenv",
    )
    assert "7" in plays["past the end"]
    assert "secondenv" in plays["past the end"] or "split" in plays["past the end"]


def test_ors_sdk_hands_over_secrets_and_ends_an_episode_without_a_reward(ors_sdk):
    assert ors_sdk("secrets") == {"K": "v"}
    seen = ors_sdk("finishing")
    assert (seen["end"]["reward"], seen["end"]["finished"]) == (None, True)
    assert "finished" in seen["after"]["refused"]


def test_is_told_what_went_wrong_and_goes_on_in_the_same_session(ors_sdk):
    seen = ors_sdk("errors")
    assert "is not a valid tool" in seen["unknown"]["refused"]
    assert "Tool input validation error" in seen["invalid"]["refused"]
    assert "kaboom line1\nline2 'quoted' \u00e9" in seen["boom"]
    assert "Unknown SSE error" not in seen["boom_empty"]
    assert "badret" in seen["badret"]
    assert seen["alive"] == "3"
