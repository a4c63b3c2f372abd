"""What a verifier wrote: a clear finite number is a reward, and nothing else is."""

import pytest

from ors_server.harbor.reward_files import (
    RewardFileError,
    combine_steps,
    find_setup_failure,
    read_rewards,
    reward_below,
)


@pytest.mark.parametrize(
    ("as_json", "as_text", "figures"),
    [
        (None, b"1", {"reward": 1.0}),
        (None, b" 0.25\n", {"reward": 0.25}),
        (None, b"-1e-3", {"reward": -0.001}),
        (b'{"reward": 1, "speed": 0.5}', None, {"reward": 1.0, "speed": 0.5}),
        (b'{"reward": 0.5}', b"0.50", {"reward": 0.5}),
    ],
)
def test_clear_numbers_are_read(as_json, as_text, figures):
    assert read_rewards(as_json, as_text) == figures


@pytest.mark.parametrize(
    ("as_json", "as_text", "told"),
    [
        (None, None, "neither reward.json nor reward.txt; it wrote rewards.json, which is not read"),
        (None, b"", "reward.txt is empty"),
        (None, b"  \n", "reward.txt is empty"),
        (None, b"nan", "reward.txt: expected a finite number, got nan"),
        (None, b"-inf", "reward.txt: expected a finite number, got -inf"),
        (None, b"1e999", "reward.txt: expected a finite number, got inf"),
        (None, b"1 0", "reward.txt: expected a number, got '1 0'"),
        (None, b"true", "reward.txt: expected a number, got 'true'"),
        (None, b"\xff\xfe", "expected a number"),
        (b"", None, "reward.json is not JSON"),
        (b"1", None, "reward.json: expected an object of numbers, got a int"),
        (b"[]", None, "reward.json: expected an object of numbers, got a list"),
        (b"{}", None, "reward.json has no key 'reward', which is the episode's reward; keys: none"),
        (b'{"score": 1}', None, "keys: 'score'"),
        (b'{"reward": true}', None, "reward: expected a number, got 'True'"),
        (b'{"reward": "1"}', None, "reward: expected a number, got '1'"),
        (b'{"reward": NaN}', None, "reward: expected a finite number, got nan"),
        (b'{"reward": 1e999}', None, "reward: expected a finite number, got inf"),
        (b'{"reward": {"a": 1}}', None, "expected a number"),
        (b'{"reward": 1' + b"0" * 400 + b"}", None, "larger than every float"),
        (b'{"reward": 1, "reward": 0}', None, "has the key 'reward' twice"),
        (b'{"reward": 1, "other": null}', None, "other: expected a number, got 'None'"),
        (b"[" * 60_000, None, "reward.json"),
        (b'{"reward": 1}', b"0", "reward.json says 1 and reward.txt says 0"),
        (b'{"reward": 1}', b"nan", "reward.txt: expected a finite number, got nan"),
    ],
)
def test_everything_else_is_no_reward(as_json, as_text, told):
    with pytest.raises(RewardFileError) as caught:
        read_rewards(as_json, as_text, ["ctrf.json", "rewards.json"])
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "/tests/test.sh: line 7: apt-get: command not found",
        "sh: 1: uv: not found",
        "curl: (6) Could not resolve host: astral.sh",
        "W: Failed: Temporary failure resolving 'deb.debian.org'",
        "E: Unable to locate package curl",
        "/usr/bin/python3: No module named pytest",
        "ERROR: No matching distribution found for pytest==8.4.1",
    ],
)
def test_failed_set_up_of_a_verifier_is_found(line):
    assert find_setup_failure(f"begin\n{line}\nF 1 failed\n") == line


@pytest.mark.parametrize(
    "output",
    [
        "",
        "FAILED test_a: AssertionError",
        "cat: /app/x: No such file or directory",
        "0 tests, command not found in log",
    ],
)
def test_failed_tests_are_no_failed_set_up(output):
    assert find_setup_failure(output) is None


def test_thresholds_of_a_step():
    assert reward_below({"reward": 0.5}, {"reward": 0.5}) is None
    assert reward_below({"reward": 0.4}, {"reward": 0.5}) == "reward is 0.4, below 0.5"
    assert reward_below({"reward": 1.0}, {"reward": 0.5, "style": 0.1}) == "style is missing, below 0.1"


def test_figures_of_steps_are_combined():
    steps = [{"reward": 1.0, "style": 1.0}, {"reward": 0.0}]
    assert combine_steps(steps, "mean") == {"reward": 0.5, "style": 0.5}
    assert combine_steps(steps, "final") == {"reward": 0.0}
