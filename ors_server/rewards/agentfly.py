"""AgentFly's predefined rewards by their documented contract, with this library's own graders behind them.

Source: the pages "Reward System" and "Predefined Rewards" of AgentFly; values where the pages are silent are
those of its code at 1256586. Each deliberate deviation is a row of `ors_server.rewards.deviations`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ors_server.rewards.define import reward
from ors_server.rewards.math.grade import grade_math
from ors_server.rewards.math.options import MathVerdict
from ors_server.rewards.qa import QAOptions, QAScore, score_answer
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.trajectory import Trajectory, text_of

TOOL_USED = 0.1
"""What a wrong answer earns in the `_tool` rewards if a tool was used (AgentFly's documentation)."""
HOTPOT = QAOptions(yes_no="hotpot", empty="squad1")
"""AgentFly's comparison: yes, no and noanswer count only as the whole answer."""
ENOUGH_CALLS = 2
"""Tool results that `infoseek_reward` and the gated QA rewards ask for (AgentFly at 1256586)."""

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_LAST_DIGITS = re.compile(r"\d+(?!.*\d)", re.DOTALL)
_STATUSES = {"bad_gold": RewardStatus.BAD_GOLD, "limit": RewardStatus.LIMIT}


@reward(range=(0.0, 1.0))
def qa_f1_reward(final_response: str, answer: str | Sequence[str]) -> dict[str, float]:
    """Compares words: the F1 of the response's and the answer's tokens.

    Hazards: "3.5" is "35" and "-5" is "5", for punctuation is dropped; "A" is nothing, for articles are.
    `score_answer` has options without them.

    Args:
        final_response: What the agent answered.
        answer: The gold answer, or several, the best of which counts.

    Returns:
        `reward`, which is `f1`; `em`, `precision`, `recall`; all in [0, 1].
    """
    score = score_answer(final_response, answer, HOTPOT)
    return {"reward": score.f1, **score.as_extras()}


@reward(range=(0.0, 1.0))
def qa_f1_reward_tool(
    final_response: str, answer: str | Sequence[str], trajectory: Trajectory
) -> dict[str, float]:
    """Pays for an exact answer that was come by with a tool.

    Args:
        final_response: What the agent answered.
        answer: The gold answer, or several.
        trajectory: The episode.

    Returns:
        `reward`: 0 if no tool was used, 0.1 if one was and the answer is not exact, 1 if it is; the figures
        of `qa_f1_reward` beside it.
    """
    score = score_answer(final_response, answer, HOTPOT)
    return {"reward": _gated(trajectory, is_right=score.em == 1.0), **score.as_extras()}


@reward(range=(0.0, 1.0))
def qa_em_reward(final_response: str, golden_answers: Sequence[str]) -> dict[str, float]:
    """Pays for an exact answer between `<answer>` and `</answer>`.

    Args:
        final_response: What the agent answered; without the tags nothing is found in it.
        golden_answers: The gold answers, any of which will do.

    Returns:
        `reward` and `em`, 0 or 1; `f1` of what was found.
    """
    return _tagged(final_response, golden_answers)


@reward(range=(0.0, 1.0))
def qa_em_reward_tool_call(
    final_response: str, golden_answers: Sequence[str], trajectory: Trajectory
) -> dict[str, float]:
    """Pays as `qa_em_reward` does, if at least two tool results stand in the episode.

    Args:
        final_response: What the agent answered.
        golden_answers: The gold answers, any of which will do.
        trajectory: The episode.

    Returns:
        As `qa_em_reward`; `reward` is 0 without the tool results.
    """
    found = _tagged(final_response, golden_answers)
    return found if count_tool_results(trajectory) >= ENOUGH_CALLS else {**found, "reward": 0.0}


@reward(range=(0.0, 1.0))
def ok_vqa_reward(final_response: str, answers: Sequence[str]) -> dict[str, float]:
    """Compares words with the best of several answers.

    Args:
        final_response: What the agent answered.
        answers: The gold answers, at least one.

    Returns:
        `reward`, the greatest F1.

    Raises:
        ValueError: If there are no answers.
    """
    return {"reward": _best_f1(final_response, answers)}


@reward(range=(0.0, 1.0))
def infoseek_reward(
    final_response: str, answer_eval: Sequence[Any], trajectory: Trajectory, answer: Any = None
) -> dict[str, float]:
    """Pays 0.8 times the best F1, and 0.2 for two tool results.

    Hazard: the 0.2 are paid for any wrong answer.

    Args:
        final_response: What the agent answered.
        answer_eval: The gold answers; where the first one is no text, `answer` is compared instead.
        trajectory: The episode.
        answer: The gold answer, or several.

    Returns:
        `reward` in [0, 1].

    Raises:
        ValueError: If there are no gold answers.
    """
    if not answer_eval:
        raise ValueError("answer_eval is empty: there is nothing to compare with")
    golds = list(answer_eval)
    if not isinstance(golds[0], str):
        golds = [answer] if isinstance(answer, str) else list(answer or [])
    bonus = 0.2 if count_tool_results(trajectory) >= ENOUGH_CALLS else 0.0
    return {"reward": bonus + 0.8 * _best_f1(final_response, golds)}


@reward(range=(0.0, 1.0))
def math_equal_reward(final_response: str, answer: str, **_rest: Any) -> RewardResult:
    """Pays 1 if the response is mathematically equal to the answer, else 0.

    Args:
        final_response: The response; the last box in it, or the whole of a bare answer, is what counts.
        answer: The gold answer, LaTeX or plain.

    Returns:
        0 or 1. A response in which no answer can be read is `unparsed_answer`; a gold that cannot be read is
        `bad_gold`, and no number.
    """
    return _math(grade_math(final_response, answer), {})


@reward(range=(0.0, 1.0))
def math_equal_reward_tool(final_response: str, answer: str, trajectory: Trajectory) -> RewardResult:
    """Pays for an equal answer that was come by with a tool.

    Args:
        final_response: The response.
        answer: The gold answer.
        trajectory: The episode.

    Returns:
        0 if no tool was used, 0.1 if one was and the answer is wrong, 1 if it is right; `acc` says whether
        it is right.
    """
    verdict = grade_math(final_response, answer)
    paid = _gated(trajectory, is_right=verdict.is_equal)
    return _math(verdict, {"acc": float(verdict.is_equal)}, paid)


@reward(range=(0.0, 1.0))
def math_equal_reward_think(final_response: str, answer: str, trajectory: Trajectory) -> RewardResult:
    """Pays as `math_equal_reward_tool`, if every turn of the assistant has a `<think>` block.

    Args:
        final_response: The response.
        answer: The gold answer.
        trajectory: The episode's messages.

    Returns:
        As `math_equal_reward_tool`; 0 where a turn has no thought.
    """
    return _thinking(final_response, answer, trajectory, ("<think>", "</think>"))


@reward(range=(0.0, 1.0))
def math_string_equal_reward_tool(
    final_response: str, answer: str, trajectory: Trajectory
) -> dict[str, float]:
    """Compares the last run of digits of the response with the answer's text, if a tool was used.

    Hazard: signs and decimals are not looked at, so "-42" is "42"; `math_equal_reward_tool` has not this.

    Args:
        final_response: The response.
        answer: The gold answer.
        trajectory: The episode.

    Returns:
        `reward`: 0 if no tool was used, 0.1 if one was and the text differs, 1 if it is the same.
    """
    found = _LAST_DIGITS.search(final_response)
    return {"reward": _gated(trajectory, is_right=found is not None and found[0] == answer)}


def count_tool_results(trajectory: Trajectory) -> int:
    """Count an episode's tool results: its `tool` messages where there are messages, else its steps.

    Args:
        trajectory: The episode.
    """
    if trajectory.messages:
        return sum(1 for message in trajectory.messages if message.get("role") == "tool")
    return len(trajectory.steps)


def _gated(trajectory: Trajectory, *, is_right: bool) -> float:
    if not count_tool_results(trajectory):
        return 0.0
    return 1.0 if is_right else TOOL_USED


def _tagged(response: str, golds: Sequence[str]) -> dict[str, float]:
    found = _ANSWER.findall(response)
    if not found or not golds:
        return {"reward": 0.0, "em": 0.0, "f1": 0.0}
    score: QAScore = score_answer(found[-1].strip(), list(golds), HOTPOT)
    return {"reward": score.em, "em": score.em, "f1": score.f1}


def _best_f1(response: str, golds: Sequence[Any]) -> float:
    texts = [str(gold) for gold in golds]
    if not texts:
        raise ValueError("at least one gold answer is needed")
    return max(score_answer(response, text, HOTPOT).f1 for text in texts)


def _math(verdict: MathVerdict, extras: Mapping[str, Any], paid: float | None = None) -> RewardResult:
    status = _STATUSES.get(verdict.status)
    if status is not None:
        return RewardResult.without(status, verdict.reason, extras)
    reward_ = float(verdict.is_equal) if paid is None else paid
    if verdict.status == "unparsed_answer":
        return RewardResult(reward_, RewardStatus.UNPARSED_ANSWER, extras, verdict.reason)
    return RewardResult(reward_, extras=extras)


def _thinking(
    final_response: str, answer: str, trajectory: Trajectory, tags: tuple[str, str]
) -> RewardResult:
    verdict = grade_math(final_response, answer)
    turns = [text_of(message) for message in trajectory.messages if message.get("role") == "assistant"]
    if not all(all(tag in turn for tag in tags) for turn in turns):
        return _math(verdict, {"acc": 0.0}, 0.0)
    paid = _gated(trajectory, is_right=verdict.is_equal)
    return _math(verdict, {"acc": float(paid == 1.0)}, paid)
