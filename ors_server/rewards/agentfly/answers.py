"""AgentFly's predefined rewards by their documented contract, with this library's own graders behind them.

Source: the pages "Reward System" and "Predefined Rewards" of AgentFly; values where the pages are silent are
those of its code at 1256586. Each deliberate deviation is a row of `ors_server.rewards.deviations`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ors_server.rewards.answering import reads_answer
from ors_server.rewards.define import reward
from ors_server.rewards.math.algebra.asking import prepare
from ors_server.rewards.math.grade import grade_math
from ors_server.rewards.math.options import MathVerdict
from ors_server.rewards.qa import MAX_ANSWER, QAOptions, QAScore, score_answer
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_trajectory import Message, Trajectory, read_trajectory, text_of

TOOL_USED = 0.1
"""What a wrong answer earns in the `_tool` rewards if a tool was used (AgentFly's documentation)."""
HOTPOT = QAOptions(yes_no="hotpot", empty="squad1")
"""AgentFly's comparison: yes, no and noanswer count only as the whole answer."""
ENOUGH_CALLS = 2
"""Tool results that `infoseek_reward` and the gated QA rewards ask for (AgentFly at 1256586)."""

_DIGITS = re.compile(r"\d+")


@reward(range=(0.0, 1.0))
@reads_answer(most=MAX_ANSWER)
def qa_f1_reward(final_response: str, answer: str | Sequence[str]) -> RewardResult:
    """Compares words: the F1 of the response's and the answer's tokens.

    Hazards: "3.5" is "35" and "-5" is "5", for punctuation is dropped; "A" is nothing, for articles are. A
    response that lists many words earns a part. `score_answer` has options without the first two.

    Reads: the answer (`answer_from`): reasoning is cut, and the last `<answer>` counts where there is one.

    Source: AgentFly's page "Predefined Rewards"; the words as HotpotQA's evaluation compares them.

    Args:
        final_response: What the agent answered.
        answer: The gold answer, or several, the best of which counts.

    Returns:
        `f1`; beside it `em`, `precision`, `recall`; all in [0, 1]. A gold that is no text is `bad_gold`.
    """
    score = _compared(final_response, answer)
    if score is None:
        return no_gold(answer)
    return RewardResult(score.f1, extras=score.as_extras())


@reward(range=(0.0, 1.0))
@reads_answer(most=MAX_ANSWER)
def qa_f1_reward_tool(
    final_response: str, answer: str | Sequence[str], trajectory: Trajectory
) -> RewardResult:
    """Pays for an exact answer that was come by with a tool.

    Hazards: any tool call earns the 0.1, useful or not; the hazards of `qa_f1_reward`.

    Reads: the answer (`answer_from`): reasoning is cut, and the last `<answer>` counts where there is one.

    Source: AgentFly's page "Predefined Rewards"; its code pays the F1 from two tool results on.

    Args:
        final_response: What the agent answered.
        answer: The gold answer, or several.
        trajectory: The episode.

    Returns:
        0 if no tool was used, 0.1 if one was and the answer is not exact, 1 if it is; the figures of
        `qa_f1_reward` beside it. A gold that is no text is `bad_gold`.
    """
    score = _compared(final_response, answer)
    if score is None:
        return no_gold(answer)
    return RewardResult(_gated(trajectory, is_right=score.em == 1.0), extras=score.as_extras())


@reward(range=(0.0, 1.0))
@reads_answer(most=MAX_ANSWER)
def ok_vqa_reward(final_response: str, answers: str | Sequence[str]) -> RewardResult:
    """Compares words with the best of several answers.

    Hazards: those of `qa_f1_reward`.

    Reads: the answer (`answer_from`): reasoning is cut, and the last `<answer>` counts where there is one.

    Source: AgentFly at 1256586.

    Args:
        final_response: What the agent answered.
        answers: The gold answers.

    Returns:
        The greatest F1, in [0, 1]. No answers, or one that is no text, is `bad_gold`.
    """
    golds = gold_texts(answers)
    return RewardResult(best_figures(final_response, golds, HOTPOT)[1]) if golds else no_gold(answers)


@reward(range=(0.0, 1.0))
@reads_answer(most=MAX_ANSWER)
def infoseek_reward(
    final_response: str, answer_eval: Sequence[Any], trajectory: Trajectory, answer: Any = None
) -> RewardResult:
    """Pays 0.8 times the best F1, and 0.2 for two tool results.

    Hazards: the 0.2 are paid for any wrong answer; the hazards of `qa_f1_reward`.

    Reads: the answer (`answer_from`): reasoning is cut, and the last `<answer>` counts where there is one.

    Source: AgentFly at 1256586.

    Args:
        final_response: What the agent answered.
        answer_eval: Further gold answers; where the first is no text (a range of years, say) they are left
            out.
        trajectory: The episode.
        answer: The gold answer, or several.

    Returns:
        A reward in [0, 1]. Golds that are none, or no text, are `bad_gold`.
    """
    listed = [answer_eval] if isinstance(answer_eval, str) else list(answer_eval or [])
    further = listed if listed and isinstance(listed[0], str) else []
    golds = gold_texts([*([answer] if isinstance(answer, str) else answer or []), *further])
    if not listed or not golds:
        return no_gold(answer_eval)
    bonus = 0.2 if count_tool_results(trajectory) >= ENOUGH_CALLS else 0.0
    return RewardResult(bonus + 0.8 * best_figures(final_response, golds, HOTPOT)[1])


@reward(range=(0.0, 1.0), prepare=prepare)
def math_equal_reward(final_response: str, answer: str | float, **_rest: Any) -> RewardResult:
    """Pays 1 if the response is mathematically equal to the answer, else 0.

    Hazards: the last of several boxes counts, so an agent may change its mind in writing; `grade_math` has
    stricter options.

    Source: AgentFly's page "Predefined Rewards", with this library's own grader of mathematics.

    Args:
        final_response: The response; the last box in it, or the whole of a bare answer, is what counts.
        answer: The gold answer, LaTeX or plain, or a number.

    Returns:
        0 or 1. A response in which no answer can be read is `unparsed_answer`; a gold that cannot be read is
        `bad_gold`, and no number.
    """
    return _math(_grade(final_response, answer), {})


@reward(range=(0.0, 1.0), prepare=prepare)
def math_equal_reward_tool(final_response: str, answer: str | float, trajectory: Trajectory) -> RewardResult:
    """Pays for an equal answer that was come by with a tool.

    Hazards: any tool call earns the 0.1, useful or not.

    Source: AgentFly's page "Predefined Rewards", with this library's own grader of mathematics.

    Args:
        final_response: The response.
        answer: The gold answer.
        trajectory: The episode.

    Returns:
        0 if no tool was used, 0.1 if one was and the answer is wrong, 1 if it is right; `acc` says whether
        it is right.
    """
    verdict = _grade(final_response, answer)
    paid = _gated(trajectory, is_right=verdict.is_equal)
    return _math(verdict, {"acc": float(verdict.is_equal)}, paid)


@reward(range=(0.0, 1.0), prepare=prepare)
def math_equal_reward_think(final_response: str, answer: str | float, trajectory: Trajectory) -> RewardResult:
    """Pays as `math_equal_reward_tool`, if every turn of the assistant has a `<think>` block.

    Hazards: an empty block is a thought. A server sees no turns but the calls, so this is for conversations.

    Source: AgentFly at 1256586.

    Args:
        final_response: The response.
        answer: The gold answer.
        trajectory: The episode's messages.

    Returns:
        As `math_equal_reward_tool`; 0, with an `acc` of 0, where a turn has no thought or no tool was used.
    """
    verdict = _grade(final_response, answer)
    is_formed = all("</think>" in turn for turn in _turns(trajectory))
    paid = _gated(trajectory, is_right=verdict.is_equal) if is_formed else 0.0
    return _math(verdict, {"acc": float(paid == 1.0)}, paid)


@reward(range=(0.0, 1.0), prepare=prepare)
def math_reward_thought_with_tool(
    final_response: str, answer: str | float, trajectory: Trajectory
) -> RewardResult:
    """Pays as `math_equal_reward_tool`, if every turn of the assistant begins with "Thought".

    Hazards: the word alone is a thought. A server sees no turns but the calls, so this is for conversations.

    Source: AgentFly at 1256586.

    Args:
        final_response: The response.
        answer: The gold answer.
        trajectory: The episode's messages.

    Returns:
        As `math_equal_reward_tool`; 0 where a turn has no thought.
    """
    verdict = _grade(final_response, answer)
    is_formed = all(turn.strip().lower().startswith("thought") for turn in _turns(trajectory))
    paid = _gated(trajectory, is_right=verdict.is_equal) if is_formed else 0.0
    return _math(verdict, {"acc": float(verdict.is_equal)}, paid)


@reward(range=(0.0, 1.0))
@reads_answer(most=MAX_ANSWER)
def math_string_equal_reward_tool(
    final_response: str, answer: str, trajectory: Trajectory
) -> dict[str, float]:
    """Compares the last run of digits of the response with the answer's text, if a tool was used.

    Hazards: signs and decimals are not looked at, so "-42" is "42"; `math_equal_reward_tool` has not this.

    Reads: the answer (`answer_from`): reasoning is cut, and the last `<answer>` counts where there is one.

    Source: AgentFly at 1256586.

    Args:
        final_response: The response.
        answer: The gold answer.
        trajectory: The episode.

    Returns:
        `reward`: 0 if no tool was used, 0.1 if one was and the text differs, 1 if it is the same.
    """
    found = _DIGITS.findall(final_response)
    return {"reward": _gated(trajectory, is_right=bool(found) and found[-1] == answer)}


def count_tool_results(trajectory: Trajectory | Sequence[Message]) -> int:
    """Count an episode's tool results: its `tool` messages where there are messages, else its steps.

    Args:
        trajectory: The episode, or its messages, as AgentFly hands them over.

    Raises:
        KeyError: If a message has no role.
    """
    episode: Trajectory = read_trajectory(trajectory)
    if episode.messages:
        return sum(1 for message in episode.messages if message["role"] == "tool")
    return len(episode.steps)


def gold_texts(answers: object) -> list[str]:
    """Return the gold answers; none if one of them is no text.

    Args:
        answers: A text, or a sequence of texts.
    """
    if isinstance(answers, str):
        return [answers]
    golds = list(cast("Sequence[object]", answers)) if isinstance(answers, Sequence) else []
    texts = [gold for gold in golds if isinstance(gold, str)]
    return texts if len(texts) == len(golds) else []


def no_gold(answers: object, extras: Mapping[str, Any] | None = None) -> RewardResult:
    """Make the result of a task whose gold answers are missing or no texts.

    Args:
        answers: What stands there.
        extras: Metrics all the same.
    """
    came = "an empty list" if answers == [] else f"a {type(answers).__name__}"
    reason = f"a gold answer is a text, or several in a list; {came} is there"
    return RewardResult.without(RewardStatus.BAD_GOLD, reason, extras)


def best_figures(answer: str, golds: Sequence[str], options: QAOptions) -> tuple[float, float]:
    """Return the greatest exact match and the greatest F1, each over all golds.

    Args:
        answer: What was answered.
        golds: At least one.
        options: How they are compared.
    """
    score = score_answer(answer, golds, options)
    return score.em, score.f1


def _compared(response: str, answer: str | Sequence[str]) -> QAScore | None:
    golds = gold_texts(answer)
    return score_answer(response, answer if isinstance(answer, str) else golds, HOTPOT) if golds else None


def _turns(trajectory: Trajectory) -> list[str]:
    episode: Trajectory = read_trajectory(trajectory)
    return [text_of(message) for message in episode.messages if message["role"] == "assistant"]


def _gated(trajectory: Trajectory, *, is_right: bool) -> float:
    if not count_tool_results(trajectory):
        return 0.0
    return 1.0 if is_right else TOOL_USED


def _grade(response: str, gold: object) -> MathVerdict:
    """Grade with a gold as datasets hold it: a text, or a number that stands for its decimal writing."""
    if isinstance(gold, int | float) and not isinstance(gold, bool) and math.isfinite(gold):
        gold = str(int(gold) if gold == int(gold) else gold)
    if isinstance(gold, str):
        return grade_math(response, gold)
    reason = f"a gold answer is a text or a finite number, not {gold!r:.40}"
    return MathVerdict(is_equal=False, reason=reason, status="bad_gold", forms=("", ""))


def _math(verdict: MathVerdict, extras: Mapping[str, Any], paid: float | None = None) -> RewardResult:
    if verdict.method == "algebra":
        extras = {**extras, "method": verdict.method}
    if verdict.status == "bad_gold":
        return RewardResult.without(RewardStatus.BAD_GOLD, verdict.reason, extras)
    reward_ = float(verdict.is_equal) if paid is None else paid
    if verdict.status == "unparsed_answer":
        return RewardResult(reward_, RewardStatus.UNPARSED_ANSWER, extras, verdict.reason)
    reason = verdict.reason if verdict.status == "limit" else None
    return RewardResult(reward_, extras=extras, reason=reason)
