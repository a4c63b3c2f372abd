"""ARISE's built-in rewards, number for number, with the hazards that their documentation has.

Source: the reward page of ARISE, and arise-ai 0.2.1 where the page is silent. Every one has a strict sibling
or an option without the hazard; docs/rewards names both.
"""

from typing import Literal, TypeAlias

from ors_server.rewards.define import reward
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_trajectory import Trajectory
from ors_server.rewards.text.asserted_words import asserted_words
from ors_server.rewards.text.numeric_match import read_number
from ors_server.rewards.text.texts import TextForm

ERROR_COST = 0.25
"""What each failed step costs in `code_execution_reward` (ARISE's reward page)."""
STEP_COST = 0.1
"""What each step after the first costs in `efficiency_reward` (ARISE's reward page)."""
SUBSTRING_SCORE = 0.7
UNKNOWN_SCORE = 0.5
"""What `answer_match_reward` gives for a substring, and where no expected value is known (the same page)."""

Match: TypeAlias = Literal["substring", "exact", "word", "numeric"]
"""How an expected value is looked for: anywhere, as the whole, as whole words, or as the same number."""


@reward(range=(0.0, 1.0), direct_call="number")
def task_success(trajectory: Trajectory, match: Match = "substring") -> float:
    """Judges by the first signal there is: `success`, an expected value, failed steps, else success.

    Hazards: by default an empty expected value is in every outcome and "4" is in "14" (`match` looks more
    closely); an episode without any signal is a success; `success` counts only as `True` or `False`, not as
    0.

    Reads `metadata["success"]` and `metadata["expected"]`.
    """
    success = trajectory.metadata.get("success")
    if success is True or success is False:
        return float(success)
    expected = trajectory.metadata.get("expected")
    if expected is not None:
        return float(_is_in(str(expected), trajectory.outcome, match))
    return 0.0 if any(step.error for step in trajectory.steps) else 1.0


@reward(range=(0.0, 1.0), direct_call="number")
def code_execution_reward(trajectory: Trajectory) -> float:
    """Counts failed steps: 1, less 0.25 for each, at least 0.

    Hazards: it never looks at the outcome, so doing nothing earns 1; an error without a message does not
    count.
    """
    failed = sum(1 for step in trajectory.steps if step.error)
    return max(0.0, 1.0 - ERROR_COST * failed)


@reward(range=(0.0, 1.0), direct_call="number")
def answer_match_reward(trajectory: Trajectory, match: Match = "substring") -> float | RewardResult:
    """Compares the outcome with the expected value: 1 for the same text, 0.7 if it is in it, else 0.

    Hazards: by default 0.7 for "no" in "know", and for an outcome that lists every candidate (`match` other
    than `substring` pays no 0.7); 0.5 where the expected value is missing, empty, 0 or false.

    Reads `metadata["expected_output"]`, else `metadata["expected"]`. With another `match` it pays 0 or 1, and
    a missing expected value is a bad gold.
    """
    if match != "substring":
        candidates = [trajectory.metadata.get(name) for name in ("expected_output", "expected")]
        texts = [str(value) for value in candidates if value is not None and str(value).strip()]
        if not texts:
            return RewardResult.without(RewardStatus.BAD_GOLD, "no expected value is known")
        return RewardResult(float(_is_in(texts[0], trajectory.outcome, match)))
    expected = trajectory.metadata.get("expected_output") or trajectory.metadata.get("expected")
    if not expected:
        return UNKNOWN_SCORE
    text, outcome = str(expected), trajectory.outcome
    if text.strip() == outcome.strip():
        return 1.0
    return SUBSTRING_SCORE if text.strip().lower() in outcome.lower() else 0.0


@reward(range=(0.0, 1.0), direct_call="number")
def efficiency_reward(trajectory: Trajectory) -> float:
    """Pays for few steps: 1 for up to one, 0.1 less for each further one, at least 0.

    Hazards: an agent that gives up at once earns the most; gate it by correctness.
    """
    count = len(trajectory.steps)
    return 1.0 if count <= 1 else max(0.0, 1.0 - STEP_COST * (count - 1))


def _is_in(expected: str, outcome: str, match: Match) -> bool:
    gold, text = expected.strip(), outcome.strip()
    if match == "substring":
        return expected in outcome
    if not gold:
        return False
    if match == "exact":
        return gold == text
    if match == "word":
        return gold in asserted_words(
            text, {gold}, TextForm(casefold=False, nfkc=False, collapse=False, typography=False)
        )
    first, second = read_number(gold), read_number(text)
    return first is not None and second is not None and first.value == second.value
