"""Why a step earned what it did: its reward's status and reason, failed cases, faults, and no more."""

import pytest

from ors_server.cli.episodes_show import MAX_NAMED_CASES, describe_reward, reasons_of


def test_a_reward_without_a_number_says_its_status_and_its_reason():
    metadata = {"reward_status": "error", "reward_reason": "the judge did not answer", "episode": {"step": 1}}
    assert list(reasons_of(metadata)) == ["status: error", "reason: the judge did not answer"]


def test_failed_cases_are_named_with_their_reasons_wherever_they_stand():
    metadata = {
        "failed_cases": {"roman 3": "returned another value"},
        "reward_extras": {"passed": 1, "failed": {"case 2": "ran out of time"}},
    }
    assert list(reasons_of(metadata)) == [
        "failed roman 3: returned another value",
        "failed case 2: ran out of time",
    ]


def test_many_are_cut_with_a_notice():
    lines = list(
        reasons_of({"faults": [f"file {number} is missing" for number in range(MAX_NAMED_CASES + 3)]})
    )
    assert lines[0] == "fault: file 0 is missing"
    assert lines[-1] == "and 3 more; --full shows all of them"
    assert len(lines) == MAX_NAMED_CASES + 1


def test_metadata_of_any_other_form_says_nothing():
    assert list(reasons_of({"failed_cases": ["a"], "faults": "none", "reward_extras": 3})) == []


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ({"reward": 0.5, "finished": True}, "reward 0.5"),
        ({"reward": None, "finished": False}, "reward none: this step is not graded"),
        (
            {"reward": None, "finished": True, "metadata": None},
            "reward none: the environment did not grade the episode",
        ),
        (
            {"reward": None, "finished": False, "metadata": {"episode": {"withheld": 0.5}}},
            "reward none yet: it is paid when the episode ends",
        ),
        (
            {
                "reward": None,
                "finished": True,
                "metadata": {"reward_status": "error", "reward_reason": "no judge is configured"},
            },
            "reward none, status: error, reason: no judge is configured",
        ),
    ],
)
def test_an_output_without_a_reward_says_why(output, line):
    assert describe_reward(output) == line
