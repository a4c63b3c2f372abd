"""The labelled answers of reward-doctor 0.2.0, judged by our rewards: none that is wrong is paid.

Its cases were labelled by others: the same answer in other forms, near misses, and texts that name the answer
without giving it. Its contested cases are left out, as it leaves them out.
"""

import json
import subprocess
from typing import Any

import pytest

from ors_server.rewards.catalogue import find_reward
from ors_server.rewards.scoring import score
from tests.clients.conftest import PLAY_LIMIT, SCRIPTS, client_python

MAX_UNPAID = 0.02
"""Share of the right answers that may be refused."""
BY_RULE = {"eq.frac.repeating": "numbers are exact, and 0.3333333333 is not 1/3 (docs/rewards-math.md)"}
"""Cases whose label contradicts a documented rule, with the rule; they are refused, and not counted."""


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    ran = subprocess.run(
        [str(client_python("reward_doctor")), str(SCRIPTS / "labelled_answers.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=PLAY_LIMIT,
    )
    assert ran.returncode == 0, ran.stderr
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return found


def is_paid(case: dict[str, Any]) -> bool:
    """Judges a case by `math_equal_reward`, with the question if it takes one."""
    reward = find_reward("math_equal_reward")
    fields = {"final_response": case["completion"], "answer": case["reference"]}
    if "prompt" in reward.signature.required | reward.signature.optional and case["prompt"]:
        fields["prompt"] = case["prompt"]
    return (score(reward, **fields).reward or 0.0) > 0.0


def test_the_corpus_has_right_and_wrong_answers(cases: list[dict[str, Any]]) -> None:
    assert len(cases) >= 80
    assert {case["category"] for case in cases} == {"equivalence", "distinction", "exploit", "format"}


def test_no_wrong_answer_is_paid(cases: list[dict[str, Any]]) -> None:
    wrong = [case for case in cases if not case["expect"]]
    assert [(case["id"], case["completion"][:200]) for case in wrong if is_paid(case)] == []


def test_hardly_a_right_answer_is_refused(cases: list[dict[str, Any]]) -> None:
    right = [case for case in cases if case["expect"]]
    refused = {case["id"]: case["completion"][:200] for case in right if not is_paid(case)}
    assert set(BY_RULE) <= set(refused)
    assert len(set(refused) - set(BY_RULE)) <= MAX_UNPAID * len(right), refused
