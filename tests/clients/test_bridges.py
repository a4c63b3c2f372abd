"""Environments of this server inside the environment classes of trainers, each with its real package.

The packages' environments have what ors-mcp-client requires, and the client itself as its wheel installs it:
nothing of the server.
"""

import os

import pytest

from tests.clients.conftest import ROOT
from tests.clients.consuming import LADDER, MISJUDGED, UNREADY, returns_of

PLAYED = "math_word_problems"


@pytest.fixture(scope="module")
def url(serve_with):
    return serve_with(None, PLAYED, LADDER, MISJUDGED, UNREADY)


@pytest.fixture(scope="module")
def skyrl(url, play, light_client):
    return started(
        play("skyrl_gym", "bridge_skyrl.py"),
        light_client,
        url,
        "gold",
        "wrong",
        "dense",
        "untold",
        "end",
        "middle",
    )


@pytest.fixture(scope="module", params=["openenv", pytest.param("openenv_0_4", marks=pytest.mark.stress)])
def openenv(url, play, light_client, request):
    return started(
        play(request.param, "bridge_openenv.py"),
        light_client,
        url,
        "early",
        "tools",
        "validated",
        "gold",
        "wrong",
        "dense",
        "served",
        "end",
        "middle",
    )


@pytest.fixture(scope="module")
def verifiers(url, play, light_client):
    parts = ("rows", "columns", "gold", "wrong", "dense", "broken", "silent", "end", "middle")
    return started(play("verifiers_0_3", "bridge_verifiers.py"), light_client, url, *parts)


@pytest.fixture(scope="module")
def trl_kinds(url, play, light_client):
    return started(play("trl", "bridge_trl.py"), light_client, url, "sync", "async")


@pytest.fixture(params=["sync", "async"])
def trl(trl_kinds, request):
    return trl_kinds(request.param)


@pytest.fixture(scope="module")
def taskset(url, play, light_client):
    parts = ("gold", "wrong", "dense", "broken", "silent", "limited", "end", "middle", "unready", "gone")
    played = play("verifiers", "bridge_verifiers_taskset.py")
    # The checkout has the scripted model of tests/; the client comes before it.
    played.start(url, *parts, PYTHONPATH=f"{light_client}{os.pathsep}{ROOT}")
    return played.answer


@pytest.mark.parametrize(
    ("client", "program"),
    [("skyrl_gym", "rollout_with_skyrl_gym.py"), ("verifiers_0_3", "rollout_with_verifiers.py")],
)
def test_the_examples_roll_out_what_the_server_records(serve_with, play, light_client, client, program):
    url = serve_with(None, "examples/corridor.py")
    seen = started(play(client, str(ROOT / "examples" / program)), light_client, url, "returns", "recorded")
    assert seen("returns") == seen("recorded") == [1.0, 1.0, 1.0]


def started(played, folder, url, *parts):
    played.start(url, *parts, PYTHONPATH=str(folder))
    return played.answer


def test_skyrl_gym_earns_the_return_of_the_record(skyrl, url):
    for part, expected in (("gold", [0.0, 1.0]), ("wrong", [0.0])):
        seen = skyrl(part)
        assert seen["rewards"] == expected
        assert seen["done"] == [False] * (len(expected) - 1) + [True]
        assert returns_of(url, seen["session_id"]).episode_return == sum(expected)


def test_skyrl_gym_sums_the_calls_of_a_text_and_their_penalties(skyrl, url):
    seen = skyrl("dense")
    assert seen["rewards"] == [0.625, -0.0625, 0.25]
    assert seen["metrics"] == {"ors_return": 0.8125, "ors_steps": 4}
    assert returns_of(url, seen["session_id"]).episode_return == 0.8125


def test_skyrl_gym_shows_prompt_tools_and_results(skyrl):
    system, user = skyrl("gold")["prompt"]
    assert system["role"] == "system"
    assert '"name": "calculator"' in system["content"]
    assert user["content"].startswith("Jasmine buys 3 bottles")
    assert skyrl("gold")["observations"][0] == [
        {"role": "user", "content": "<tool_response>\n2\n</tool_response>"}
    ]


def test_skyrl_gym_tells_the_model_which_form_a_call_has(skyrl, url):
    seen = skyrl("untold")
    assert seen["done"] == [False, False, True]
    none, broken = (turn[0]["content"] for turn in seen["observations"][:2])
    assert "expected a call of a tool (climb, jump, slip, look)" in none
    assert "got '{broken'" in broken
    assert returns_of(url, seen["session_id"]).steps == 0


def test_openenv_earns_the_return_of_the_record(openenv, url):
    for part, expected in (
        ("gold", [None, 1.0]),
        ("wrong", [0.0]),
        ("dense", [0.125, -0.0625, -0.0625, 0.25]),
    ):
        seen = openenv(part)
        assert seen["rewards"] == expected
        assert seen["done"] == [False] * (len(expected) - 1) + [True]
        assert returns_of(url, seen["session_id"]).episode_return == sum(one or 0.0 for one in expected)


def test_openenv_lists_tools_and_names_refusals(openenv):
    assert openenv("early") == ["calculator", "submit"]
    assert openenv("tools") == ["calculator", "submit"]
    assert openenv("dense")["errors"] == [None, "invalid_args", "tool_not_found", None]


def test_openenv_finds_nothing_to_object_to_in_a_served_bridge(openenv):
    report = openenv("validated")
    assert [criterion["passed"] for criterion in report["criteria"]] == [True] * 6
    assert (report["passed"], report["mode"]) == (True, "simulation")


def test_openenv_serves_the_bridge_to_its_own_client(openenv, url):
    seen = openenv("served")
    assert (seen["reward"], seen["done"]) == (1.0, True)
    assert seen["tools"] == ["calculator", "submit"]
    assert seen["prompt"].startswith("Jasmine buys 3 bottles")
    assert returns_of(url, seen["session_id"]).episode_return == 1.0


def test_verifiers_earns_the_return_of_the_record(verifiers, url):
    for part, expected in (("gold", 1.0), ("wrong", 0.0), ("dense", 0.3125), ("silent", 0.0)):
        seen = verifiers(part)
        assert seen["reward"] == expected
        assert returns_of(url, seen["session_id"]).episode_return == expected


def test_verifiers_has_rows_without_the_tasks_content(verifiers):
    assert verifiers("rows") == 5
    assert verifiers("columns") == ["answer", "example_id", "info", "prompt"]


def test_verifiers_sees_prompt_tools_and_results(verifiers):
    seen = verifiers("gold")
    assert seen["prompt"].startswith("Jasmine buys 3 bottles")
    assert seen["tools"] == ["calculator", "submit"]
    assert seen["completion"] == ["assistant", "tool", "assistant", "tool"]
    assert seen["said"][0] == "2"
    assert seen["stop"] == "has_final_env_response"


def test_verifiers_tells_the_model_what_was_wrong_with_a_call(verifiers):
    said = verifiers("dense")["said"]
    assert said[1].startswith("expected the arguments as a JSON object")
    assert "the argument 'hand' is missing" in said[2]


def test_verifiers_marks_a_rollout_in_which_the_environment_failed(verifiers, url):
    seen = verifiers("broken")
    assert seen["error"]
    summary = returns_of(url, seen["session_id"])
    assert (summary.failed_steps, summary.failure.kind) == (1, "step_failed")


@pytest.mark.parametrize("part", ["end", "middle"])
def test_no_bridge_pays_for_an_episode_in_which_a_judgement_failed(skyrl, openenv, verifiers, url, part):
    for seen in (skyrl(part), openenv(part)):
        assert set(seen["raised"]) == {"UnjudgedError"}
        assert returns_of(url, seen["session_id"]).unjudged_steps == 1
    seen = verifiers(part)
    assert seen["error"] == "InfraError"
    assert seen["summary"]["return"] is None
    assert returns_of(url, seen["session_id"]).unjudged_steps == 1


def test_verifiers_ends_a_rollout_without_a_call(verifiers):
    assert verifiers("silent")["stop"] == "no_call_to_make"
    assert verifiers("silent")["error"] is None


@pytest.mark.parametrize(
    ("part", "expected", "stop"),
    [
        ("gold", 1.0, "agent_completed"),
        ("wrong", 0.0, "agent_completed"),
        ("dense", 0.3125, "agent_completed"),
        ("silent", 0.0, "agent_completed"),
        ("limited", 0.125, "max_turns"),
    ],
)
def test_the_taskset_of_verifiers_earns_the_return_of_the_record(taskset, url, part, expected, stop):
    seen = taskset(part)
    assert (seen["ok"], seen["error"], seen["stop"]) == (True, None, stop)
    assert (seen["reward"], seen["rewards"]) == (expected, {"ors_return": expected})
    assert returns_of(url, seen["session_id"]).episode_return == expected


def test_the_taskset_of_verifiers_shows_prompt_tools_and_results_to_the_model(taskset):
    seen = taskset("gold")
    assert (seen["tasks"], seen["harness"]) == (5, "ors-taskset")
    last = seen["asked"][-1]
    assert last["tools"] == ["calculator", "submit"]
    assert last["messages"][0][1].startswith("Jasmine buys 3 bottles")
    assert last["messages"][2] == ["tool", "2"]
    assert seen["roles"] == ["user", "assistant", "tool", "assistant"]


def test_the_taskset_of_verifiers_tells_the_model_what_was_wrong_with_a_call(taskset):
    said = [text for role, text in taskset("dense")["asked"][-1]["messages"] if role == "tool"]
    assert said[1].startswith("expected the arguments as a JSON object")
    assert "the argument 'hand' is missing" in said[2]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("broken", "ToolFailedError: RuntimeError: the rung is loose"),
        ("end", "UnjudgedError: a judgement failed in 1 of 2 steps"),
        ("middle", "UnjudgedError: a judgement failed in 1 of 2 steps"),
        ("unready", "EnvironmentFailedError: "),
        ("gone", "InvalidRequestError: the policy override is invalid"),
    ],
)
def test_a_rollout_of_the_taskset_without_a_return_fails_and_is_not_scored(taskset, part, words):
    seen = taskset(part)
    assert (seen["ok"], seen["rewards"]) == (False, {})
    assert seen["error"][0] == "HarnessError"
    assert words in seen["error"][1]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("gold", 1.0),
        ("wrong", 0.0),
        ("dense", 0.3125),
        ("final", 0.375),
        ("half", 0.125),
        ("silent", 0.0),
    ],
)
def test_an_environment_of_trl_owns_the_return_of_the_record(trl, url, part, expected):
    seen = trl[part]
    assert (seen["reward"], seen["logged"]) == (expected, [])
    assert returns_of(url, seen["session_id"]).episode_return == expected


def test_an_environment_of_trl_shows_prompt_tools_and_results(trl):
    assert trl["gold"]["prompt"].startswith("Jasmine buys 3 bottles")
    assert trl["gold"]["said"][0] == "2"
    assert trl["dense"]["said"][0] == "left"
    assert "the argument 'hand' is missing" in trl["dense"]["said"][1]
    assert trl["dense"]["said"][3] == "The episode is over; this call did not run."
    calculator, submit = trl["schemas"]
    assert calculator["name"] == "calculator"
    assert calculator["parameters"]["properties"]["expression"]["type"] == "string"
    assert submit["parameters"]["required"] == ["answer"]


def test_rows_of_trl_have_positions_and_choose_a_factory(trl):
    assert trl["rows"] == [5, ["environment", "index", "prompt", "split"], 3, "math"]
    assert trl["types"] == [True, "OrsMathWordProblems", "OrsLadder"]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("broken", "RuntimeError: the rung is loose"),
        ("end", "a judgement failed in 1 of 2 steps"),
        ("middle", "a judgement failed in 1 of 3 steps"),
    ],
)
def test_a_rollout_of_trl_without_a_return_leaves_its_group_and_the_log_says_why(trl, part, words):
    seen = trl[part]
    assert seen["reward"] is None
    (line,) = seen["logged"]
    assert line.startswith(f"a rollout of session {seen['session_id']} is left out of its group: ")
    assert words in line


def test_a_rollout_of_trl_whose_setup_fails_leaves_its_group_and_the_run_continues(trl, url):
    seen = trl["unready"]
    assert (seen["prompt"], seen["reward"]) == ("The environment is not available.", None)
    assert "is left out of its group: setup_failed: " in seen["logged"][0]
    assert returns_of(url, seen["session_id"]).failure.kind == "setup_failed"
    assert trl["refused"] == "UnknownSplitError"


def test_a_reward_of_trl_is_async_if_the_environment_is(trl_kinds):
    assert [trl_kinds(kind)["gold"]["is_async"] for kind in ("sync", "async")] == [False, True]
