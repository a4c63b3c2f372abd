"""Rewards of ours in real TRL, Inspect, `openreward` and `ors-sdk`, and theirs as ours."""

import json
import os
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import PLAY_LIMIT, ROOT, SCRIPTS, client_python


@pytest.fixture(scope="module")
def seen() -> Callable[..., Any]:
    """Runs a script with a client's interpreter and gives what it printed.

    What the rewards import, and the client does not have, is found last, where this interpreter finds it.
    """
    mpmath = find_spec("mpmath")
    assert mpmath is not None
    assert mpmath.origin is not None
    ours = Path(mpmath.origin).parents[1]

    def run(client: str, script: str, *words: str) -> Any:
        ran = subprocess.run(
            [str(client_python(client)), str(SCRIPTS / script), str(ROOT), str(ours), *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=PLAY_LIMIT,
            env={**os.environ, "OPENREWARD_LOG_LEVEL": "ERROR"},
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    return run


@pytest.fixture(scope="module")
def trl(seen):
    return seen("trl", "rewards_trl.py")


@pytest.fixture(scope="module")
def inspected(seen):
    return seen("inspect", "rewards_inspect.py")


@pytest.fixture(scope="module", params=[("openreward", "openreward.environments"), ("ors_sdk", "ors")])
def opened(seen, request):
    client, package = request.param
    return seen(client, "rewards_openreward.py", package)


def test_trl_calls_a_reward_of_ours_and_gets_none_where_there_is_no_reward(trl):
    ours = trl["ours"]
    assert ours["name"] == "match"
    assert ours["rewards"] == [1.0, 0.0, None]
    assert ours["plain"] == [1.0]
    assert ours["reasons"] == {"match reason": ["", "", "ValueError: the answer is empty"]}


def test_trl_logs_what_a_reward_of_ours_says_beside_the_number(trl):
    metrics = trl["ours"]["metrics"]
    assert metrics["reward_extra/length/mean"] == 1.0
    assert metrics["reward_status/graded"] == pytest.approx(2 / 3)
    assert metrics["reward_status/error"] == pytest.approx(1 / 3)


def test_trl_sees_an_async_reward_as_such_and_can_pickle_one_that_is_named(trl):
    assert trl["ours"]["is_async"] is True
    assert trl["ours"]["later"] == [1.0, 0.0, 0.0]
    assert trl["ours"]["packed"] == ["efficiency_reward", [1.0, 1.0, 1.0]]


def test_trl_s_own_rewards_give_the_same_as_rewards_of_ours(trl):
    theirs = trl["theirs"]
    assert theirs["name"] == "think_format_reward"
    assert theirs["format"] == theirs["format_direct"] == [1.0, 0.0]
    assert theirs["overlong"] == theirs["overlong_direct"] == [0.0, -0.4, -1.0]
    assert theirs["repeated"] == theirs["repeated_direct"]
    assert (theirs["none"]["reward"], theirs["none"]["status"]) == (None, "error")


@pytest.mark.parametrize("name", ["overlong", "repeated", "thinking", "cosine"])
def test_rewards_of_ours_give_what_those_of_trl_give_for_the_trainer_s_batch(trl, name):
    ours, theirs = trl["beside"][name]
    assert ours == pytest.approx(theirs, abs=1e-9)
    assert len(set(theirs)) > 1


def test_a_group_reward_of_ours_compares_the_completions_of_the_trainer_s_prompt(trl):
    (ours,) = trl["beside"]["grouped"]
    assert ours == pytest.approx([0.5, 0.0, 0.5 - 12 / 117, -0.5])


def test_inspect_s_own_count_of_tokens_is_the_length(inspected):
    assert inspected["ours"]["cost"] == pytest.approx([-0.01, -0.01])


def test_a_group_reward_is_refused_for_inspect_with_the_reason(inspected):
    assert "one response at a time" in inspected["ours"]["refused"]


def test_inspect_scores_with_a_reward_of_ours_and_leaves_what_was_not_judged_unscored(inspected):
    ours = inspected["ours"]
    assert ours["status"] == "success"
    assert [score[:4] for score in ours["scores"]] == [
        ["spelled", 0.5, None, None],
        ["spelled", 0.0, None, None],
        ["spelled", None, "scoring_failed", "the answer is empty"],
        ["spelled", 0.0, "invalid_response_format", "nothing was said"],
    ]
    assert [score[4]["reward_status"] for score in ours["scores"]] == [
        "graded",
        "graded",
        "bad_gold",
        "unparsed_answer",
    ]
    assert (ours["mean"], ours["unscored"]) == (pytest.approx(0.5 / 3), 1)


def test_inspect_s_scorers_are_rewards_of_ours(inspected):
    theirs = inspected["theirs"]
    assert theirs["match"] == [1.0, 0.0]
    assert theirs["exact"] == 1.0
    assert theirs["f1"] == pytest.approx(2 / 3, abs=0.01)
    assert theirs["partial"] == 0.5
    assert theirs["number"] == {"reward": 0.25, "status": "graded", "extras": {"why": "so"}}
    assert theirs["keyed"] == {"reward": 0.5, "status": "graded", "extras": {"b": 1}}


@pytest.mark.parametrize("kind", ["unscored", "nothing", "unknown", "mapping", "missing"])
def test_what_inspect_did_not_score_is_no_number(inspected, kind):
    given = inspected["theirs"][kind]
    assert (given["reward"], given["status"]) == (None, "error")
    assert given["reason"]


def test_an_episode_of_openreward_ends_with_a_reward_of_ours(opened):
    outputs = opened["outputs"]
    assert outputs["is_theirs"]
    assert outputs["right"]["reward"] == 1.0
    assert outputs["right"]["finished"] is True
    assert outputs["right"]["blocks"][0]["text"] == "thank you"
    assert outputs["right"]["metadata"] == {"length": 1, "reward_status": "graded"}
    assert outputs["unjudged"]["reward"] is None
    assert outputs["unjudged"]["metadata"]["reward_reason"] == "ValueError: the answer is empty"


def test_an_output_of_openreward_is_a_reward_of_ours(opened):
    read = opened["outputs"]["read"]
    assert [(one["reward"], one["status"]) for one in read] == [
        (1.0, "graded"),
        (0.0, "graded"),
        (None, "error"),
    ]
    assert read[0]["extras"] == {"said": "4"}
    assert opened["outputs"]["lambda"] == opened["outputs"]["wrapped"] == 1.0
    assert opened["outputs"]["text"]["status"] == "error"


def test_a_group_of_openreward_is_scored_by_a_reward_of_ours(opened):
    if "groups" not in opened:  # the older package has no groups
        assert set(opened) == {"outputs"}
        return
    groups = opened["groups"]
    assert groups["offered"] is True
    assert [score["reward"] for score in groups["scores"]] == [1.0, 0.0]
    assert groups["refused"] == "spelled has no reward (error): ValueError: the answer is empty"
