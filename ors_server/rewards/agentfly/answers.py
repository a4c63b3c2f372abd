"""AgentFly's rewards for answers to questions and mathematical problems.

Source: the pages "Reward System" and "Predefined Rewards" of AgentFly; where the pages are silent, its code
at 1256586. `ors_server.rewards.deviations` lists each deliberate deviation.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from ors_server.rewards.answering import reads_answer
from ors_server.rewards.define import reward
from ors_server.rewards.math.algebra.second_opinions import prepare
from ors_server.rewards.math.grade import grade_math
from ors_server.rewards.math.math_options import MathOptions, MathVerdict
from ors_server.rewards.qa import MAX_ANSWER, QAOptions, QAScore, score_answer, unquoted
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_trajectory import Trajectory, played_messages, read_trajectory, text_of_prompt
from ors_server.rewards.text.asserted_words import denies_golds
from ors_server.rewards.transcripts.turns import Message, text_of

TOOL_USED = 0.1
"""What a wrong answer earns in the `_tool` rewards if a tool was used (AgentFly's documentation)."""
HOTPOT = QAOptions(yes_no="hotpot", empty="squad1")
"""AgentFly's comparison: yes, no and noanswer count only as the whole answer."""
MIN_CALLS = 2
"""Tool results for which `infoseek_reward` pays its bonus (AgentFly at 1256586)."""

_DIGITS = re.compile(r"\d+")


@reward(range=(0.0, 1.0))
@reads_answer(max_characters=MAX_ANSWER)
def qa_f1_reward(final_response: str, answer: str | Sequence[str], *, denials: bool = False) -> RewardResult:
    """Compares words: the F1 of the response's and the answer's tokens.

    Reads: the answer (`answer_from`). Of several gold answers the best counts. Extras: `em`, `precision`,
    `recall`, all in [0, 1]. A gold answer that is not text is `bad_gold`.

    Hazards: "3.5" is "35" and "-5" is "5", since punctuation is dropped; "A" is nothing, since articles are.
    A response that lists many words earns a part. `score_answer` has options without the first two. Words
    alone are compared, so "not Paris" earns a part of "Paris" unless `denials` is set.

    Source: AgentFly's page "Predefined Rewards"; the words as HotpotQA's evaluation compares them.

    Args:
        denials: Whether a response that denies, asks, quotes or takes back each gold that it names earns 0
            ("It is not Paris but Rome"), and quotation marks around all of it are dropped. AgentFly's formula
            has no such rules.
    """
    final_response = unquoted(final_response) if denials else final_response
    score = _compare(final_response, answer)
    if score is None:
        return no_gold(answer)
    if denials and score.f1 and denies_golds(final_response, gold_texts(answer)):
        return RewardResult(0.0, extras=score.as_extras(), reason="the response does not assert the answer")
    return RewardResult(score.f1, extras=score.as_extras())


@reward(range=(0.0, 1.0))
@reads_answer(max_characters=MAX_ANSWER)
def qa_f1_reward_tool(
    final_response: str, answer: str | Sequence[str], trajectory: Trajectory
) -> RewardResult:
    """Pays 1 for an exact answer and 0.1 for any other if a tool was used, else 0.

    Reads: the answer (`answer_from`). Extras: those of `qa_f1_reward`. A gold answer that is not text is
    `bad_gold`.

    Hazards: any tool call earns the 0.1, useful or not; the hazards of `qa_f1_reward`.

    Source: AgentFly's page "Predefined Rewards"; its code pays the F1 from two tool results on.
    """
    score = _compare(final_response, answer)
    if score is None:
        return no_gold(answer)
    return RewardResult(_pay_if_tool_used(trajectory, is_right=score.em == 1.0), extras=score.as_extras())


@reward(range=(0.0, 1.0))
@reads_answer(max_characters=MAX_ANSWER)
def ok_vqa_reward(final_response: str, answers: str | Sequence[str]) -> RewardResult:
    """Compares words with the best of several answers: the greatest F1, in [0, 1].

    Reads: the answer (`answer_from`). No gold answer, or one that is not text, is `bad_gold`.

    Hazards: those of `qa_f1_reward`.

    Source: AgentFly at 1256586.
    """
    golds = gold_texts(answers)
    return RewardResult(score_answer(final_response, golds, HOTPOT).f1) if golds else no_gold(answers)


@reward(range=(0.0, 1.0))
@reads_answer(max_characters=MAX_ANSWER)
def infoseek_reward(
    final_response: str, answer_eval: Sequence[Any], trajectory: Trajectory, answer: Any = None
) -> RewardResult:
    """Pays 0.8 times the best F1, and 0.2 for two tool results.

    Reads: the answer (`answer_from`). `answer_eval` holds further gold answers; it is left out if its first
    entry is not text (a range of years, say). Without a gold answer in text the result is `bad_gold`.

    Hazards: the 0.2 are paid for any wrong answer; the hazards of `qa_f1_reward`.

    Source: AgentFly at 1256586.
    """
    listed = [answer_eval] if isinstance(answer_eval, str) else list(answer_eval or [])
    further = listed if listed and isinstance(listed[0], str) else []
    golds = gold_texts([*([answer] if isinstance(answer, str) else answer or []), *further])
    if not listed or not golds:
        return no_gold(answer_eval)
    bonus = 0.2 if count_tool_results(trajectory) >= MIN_CALLS else 0.0
    return RewardResult(bonus + 0.8 * score_answer(final_response, golds, HOTPOT).f1)


@reward(range=(0.0, 1.0), prepare=prepare)
def math_equal_reward(
    final_response: str,
    answer: str | float,
    prompt: object = None,
    *,
    extraction: Literal["lenient", "strict"] = "lenient",
    boxes: Literal["last", "agree"] = "last",
    evaluated: bool = False,
    **_rest: Any,
) -> RewardResult:
    """Pays 1 if the response is mathematically equal to the answer, else 0.

    The last box in the response counts, or the whole of a bare answer. The gold answer is LaTeX, plain text
    or a number. A response without a readable answer is `unparsed_answer`; an unreadable gold answer is
    `bad_gold`.

    Hazards: the last of several boxes counts, so an agent may change its mind in writing; `grade_math` has
    stricter options.

    Source: AgentFly's page "Predefined Rewards", with this library's own grader of mathematics.
    """
    options = MathOptions(extraction=extraction, boxes=boxes, evaluated=evaluated)
    return _math(_grade(final_response, answer, prompt, options), {})


@reward(range=(0.0, 1.0), prepare=prepare)
def math_equal_reward_tool(
    final_response: str,
    answer: str | float,
    trajectory: Trajectory,
    prompt: object = None,
) -> RewardResult:
    """Pays 1 for an equal answer and 0.1 for any other if a tool was used, else 0.

    Extras: `acc`, 1 if the answer is right, else 0.

    Hazards: any tool call earns the 0.1, useful or not.

    Source: AgentFly's page "Predefined Rewards", with this library's own grader of mathematics.
    """
    verdict = _grade(final_response, answer, prompt)
    paid = _pay_if_tool_used(trajectory, is_right=verdict.is_equal)
    return _math(verdict, {"acc": float(verdict.is_equal)}, paid)


@reward(range=(0.0, 1.0), prepare=prepare)
def math_equal_reward_think(
    final_response: str,
    answer: str | float,
    trajectory: Trajectory,
    prompt: object = None,
) -> RewardResult:
    """Pays as `math_equal_reward_tool`, if every turn of the assistant has a `<think>` block.

    Without a block in each turn it pays 0. `acc` is 1 only where 1 is paid.

    Hazards: an empty block counts. A server sees no turns but the calls, so this is for conversations.

    Source: AgentFly at 1256586.
    """
    verdict = _grade(final_response, answer, prompt)
    is_formed = all("</think>" in turn for turn in _turns(trajectory))
    paid = _pay_if_tool_used(trajectory, is_right=verdict.is_equal) if is_formed else 0.0
    return _math(verdict, {"acc": float(paid == 1.0)}, paid)


@reward(range=(0.0, 1.0), prepare=prepare)
def math_reward_thought_with_tool(
    final_response: str,
    answer: str | float,
    trajectory: Trajectory,
    prompt: object = None,
) -> RewardResult:
    """Pays as `math_equal_reward_tool`, if every turn of the assistant begins with "Thought", else 0.

    Hazards: the word alone counts. A server sees no turns but the calls, so this is for conversations.

    Source: AgentFly at 1256586.
    """
    verdict = _grade(final_response, answer, prompt)
    is_formed = all(turn.strip().lower().startswith("thought") for turn in _turns(trajectory))
    paid = _pay_if_tool_used(trajectory, is_right=verdict.is_equal) if is_formed else 0.0
    return _math(verdict, {"acc": float(verdict.is_equal)}, paid)


@reward(range=(0.0, 1.0))
@reads_answer(max_characters=MAX_ANSWER)
def math_string_equal_reward_tool(
    final_response: str, answer: str, trajectory: Trajectory
) -> dict[str, float]:
    """Compares the last run of digits of the response with the answer's text, if a tool was used.

    Reads: the answer (`answer_from`). Pays 1 for the same text, 0.1 for another, 0 without a tool.

    Hazards: signs and decimals are ignored, so "-42" is "42", and digits count regardless of what the text
    says of them; `math_equal_reward_tool` compares numbers.

    Source: AgentFly at 1256586.
    """
    numbers = _DIGITS.findall(final_response)
    return {"reward": _pay_if_tool_used(trajectory, is_right=bool(numbers) and numbers[-1] == answer)}


def count_tool_results(trajectory: Trajectory | Sequence[Message]) -> int:
    """Count an episode's tool results: its `tool` messages if it has messages, else its steps.

    AgentFly passes the messages themselves.

    Raises:
        RewardFieldError: The messages are in no shape that is understood.
    """
    episode: Trajectory = read_trajectory(trajectory)
    if episode.messages:
        return sum(1 for message in played_messages(episode) if message["role"] == "tool")
    return len(episode.steps)


def gold_texts(answers: object) -> list[str]:
    """Return the gold answers as a list; an empty list if one of them is not text."""
    if isinstance(answers, str):
        return [answers]
    golds = list(cast("Sequence[object]", answers)) if isinstance(answers, Sequence) else []
    texts = [gold for gold in golds if isinstance(gold, str)]
    return texts if len(texts) == len(golds) else []


def no_gold(answers: object, extras: Mapping[str, Any] | None = None) -> RewardResult:
    """Make the result of a task whose gold answers are missing or not text."""
    description = "an empty list" if answers == [] else f"a {type(answers).__name__}"
    reason = f"expected a gold answer as text, or a list of such texts, got {description}"
    return RewardResult.without(RewardStatus.BAD_GOLD, reason, extras)


def _compare(response: str, answer: str | Sequence[str]) -> QAScore | None:
    golds = gold_texts(answer)
    return score_answer(response, answer if isinstance(answer, str) else golds, HOTPOT) if golds else None


def _turns(trajectory: Trajectory) -> list[str]:
    """Return the assistant's turns; of an episode without messages, each step's reasoning and the end."""
    episode: Trajectory = read_trajectory(trajectory)
    if episode.steps and not episode.messages:
        return [*(step.reasoning for step in episode.steps), episode.final_response]
    return [text_of(message) for message in played_messages(episode) if message["role"] == "assistant"]


def _pay_if_tool_used(trajectory: Trajectory, *, is_right: bool) -> float:
    if not count_tool_results(trajectory):
        return 0.0
    return 1.0 if is_right else TOOL_USED


def _grade(
    response: str, gold: object, prompt: object = None, options: MathOptions | None = None
) -> MathVerdict:
    if isinstance(gold, int | float) and not isinstance(gold, bool) and math.isfinite(gold):
        gold = str(int(gold) if gold == int(gold) else gold)
    if isinstance(gold, str):
        question = text_of_prompt(prompt)
        return grade_math(response, gold, prompt=question, options=options or MathOptions())
    reason = f"expected a gold answer as text or a finite number, got {gold!r:.40}"
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
