"""AgentFly's exact-match rewards for answers that stand in tags or are handed in by a tool call.

Source: AgentFly at 1256586, whose pages do not have them. Each deliberate deviation is a row of
`ors_server.rewards.deviations`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ors_server.rewards.agentfly.answers import HOTPOT, best_figures, gold_texts, no_gold
from ors_server.rewards.answering import reads_answer
from ors_server.rewards.define import reward
from ors_server.rewards.qa import MAX_ANSWER
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_trajectory import Message, Trajectory, read_trajectory, text_of

WELL_FORMED = 0.1
"""What a wrong answer earns in `qa_em_format_reward` if its form is right (AgentFly at 1256586)."""
MOST_ARGUMENTS = 100_000
"""Characters of a call's arguments that are read as JSON."""

_OPEN, _CLOSE = "<answer>", "</answer>"


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The form in which an episode's answer came."""

    has_thoughts: bool
    """Whether every turn of the assistant but the last that says something has a `<think>` block."""
    has_tags: bool
    """Whether the response has both answer tags."""
    has_tool: bool
    """Whether a tool answered."""
    handed_in: str | None
    """What the last message handed in: the `answer` of its first tool call, or a tool's result."""

    @property
    def is_good(self) -> bool:
        """Whether there are thoughts and tags."""
        return self.has_thoughts and self.has_tags

    def as_extras(self) -> dict[str, float]:
        """Render the four figures that AgentFly logs."""
        return {
            "fmt": float(self.is_good),
            "fmt_think": float(self.has_thoughts),
            "fmt_answer_tags": float(self.has_tags),
            "fmt_tool": float(self.has_tool),
        }


@reward(range=(0.0, 1.0))
@reads_answer("text", most=MAX_ANSWER)
def qa_em_reward(
    final_response: str, golden_answers: str | Sequence[str], trajectory: Trajectory
) -> RewardResult:
    """Pays for an exact answer, which may stand between `<answer>` and `</answer>`.

    Hazards: what stands outside the first pair of tags is not looked at; without tags the whole response
    counts. The form of the answer is only recorded.

    Reads: the text (`answer_from`): reasoning is cut, and nothing else.

    Source: AgentFly at 1256586.

    Args:
        final_response: What the agent answered.
        golden_answers: The gold answer, or several, any of which will do.
        trajectory: The episode.

    Returns:
        0 or 1, which is also `em`; `f1`, the best one; `fmt`, `fmt_think`, `fmt_answer_tags`, `fmt_tool`: 1
        where the response has that form.

    Raises:
        IndexError: If the trajectory is empty.
    """
    return _tagged(final_response, golden_answers, trajectory, is_gated=False)


@reward(range=(0.0, 1.0))
@reads_answer("text", most=MAX_ANSWER)
def qa_em_format_reward(
    final_response: str, golden_answers: str | Sequence[str], trajectory: Trajectory
) -> RewardResult:
    """Pays for an exact answer between tags after thoughts, and 0.1 for the form alone.

    Hazards: the 0.1 are paid for any wrong answer in the right form; gate them, or use `qa_em_reward`.

    Reads: the text (`answer_from`): reasoning is cut, and nothing else.

    Source: AgentFly at 1256586, by what its documentation says; its code always fails.

    Args:
        final_response: What the agent answered.
        golden_answers: The gold answer, or several, any of which will do.
        trajectory: The episode.

    Returns:
        0 without answer tags or where an earlier turn has no thought; else 1 for an exact answer and 0.1 for
        another. The extras of `qa_em_reward`.

    Raises:
        IndexError: If the trajectory is empty.
    """
    return _tagged(final_response, golden_answers, trajectory, is_gated=True)


@reward(range=(0.0, 1.0))
@reads_answer("text", most=MAX_ANSWER)
def qa_em_reward_tool_call(
    final_response: str, golden_answers: str | Sequence[str], trajectory: Trajectory
) -> RewardResult:
    """Pays for an exact answer that was handed in by a tool call, else for an exact response.

    Hazards: tags are not read, so a tagged response is wrong; and where the last message is a tool's result,
    that result is the answer, whatever the agent thinks of it.

    Reads: the text (`answer_from`): reasoning is cut, and nothing else.

    Source: AgentFly at 1256586.

    Args:
        final_response: What the agent answered, if nothing was handed in.
        golden_answers: The gold answer, or several, any of which will do.
        trajectory: The episode.

    Returns:
        0 or 1, which is also `em`; `f1`, the best one; `has_tool_calling`, whether a tool answered;
        `has_tool_call_answer`, whether an answer was handed in.

    Raises:
        IndexError: If the trajectory is empty.
    """
    golds = gold_texts(golden_answers)
    form = read_form(final_response, trajectory)
    extras = {
        "has_tool_calling": float(form.has_tool),
        "has_tool_call_answer": float(form.handed_in is not None),
    }
    if not golds:
        return no_gold(golden_answers, extras)
    em, f1 = best_figures(final_response if form.handed_in is None else form.handed_in, golds, HOTPOT)
    return RewardResult(em, extras={"em": em, "f1": f1, **extras})


def read_form(final_response: str, trajectory: Trajectory) -> AnswerForm:
    """See in which form an answer came.

    Args:
        final_response: What the agent answered.
        trajectory: The episode.

    Raises:
        IndexError: If the trajectory is empty.
    """
    messages = _messages(trajectory)
    if not messages:
        raise IndexError("the trajectory is empty: there is no message whose form could be read")
    turns = [text_of(message) for message in messages if message.get("role") == "assistant"]
    return AnswerForm(
        has_thoughts=all("<think>" in turn and "</think>" in turn for turn in turns[:-1] if turn),
        has_tags=_OPEN in final_response and _CLOSE in final_response,
        has_tool=any(message.get("role") == "tool" for message in messages),
        handed_in=_handed_in(messages[-1]),
    )


def tagged_answer(text: str) -> str:
    """Return what stands between the first `<answer>` and the `</answer>` after it, else the whole text.

    Args:
        text: A response.
    """
    start = text.find(_OPEN)
    end = text.find(_CLOSE, start + len(_OPEN)) if start >= 0 else -1
    return text if end < 0 else text[start + len(_OPEN) : end].strip()


def _tagged(response: str, answers: object, trajectory: Trajectory, *, is_gated: bool) -> RewardResult:
    form, golds = read_form(response, trajectory), gold_texts(answers)
    if not golds:
        return no_gold(answers, form.as_extras())
    em, f1 = best_figures(tagged_answer(response), golds, HOTPOT)
    paid = em
    if is_gated:
        paid = max(em, WELL_FORMED) if form.is_good else 0.0
    return RewardResult(paid, extras={"em": em, "f1": f1, **form.as_extras()})


def _messages(trajectory: Trajectory) -> list[Message]:
    """Return the conversation, made of the steps where nobody wrote it down."""
    episode: Trajectory = read_trajectory(trajectory)  # AgentFly hands a list of messages over
    if episode.messages:
        return list(episode.messages)
    messages: list[Message] = []
    for step in episode.steps:
        messages.append({"role": "assistant", "content": step.reasoning})
        messages.append({"role": "tool", "content": step.whole_result})
    if episode.final_response:
        messages.append({"role": "assistant", "content": episode.final_response})
    return messages


def _handed_in(last: Message) -> str | None:
    if last.get("role") == "tool":
        return text_of(last)
    calls: Any = last.get("tool_calls")
    if last.get("role") != "assistant" or not isinstance(calls, list | tuple) or not calls:
        return None
    call = cast("Mapping[str, Any]", calls[0])
    arguments = _arguments(call.get("function", call).get("arguments"))
    return str(arguments["answer"]) if "answer" in arguments else None


def _arguments(value: object) -> dict[str, Any]:
    """Read a call's arguments, which are an object, or one written as JSON."""
    if isinstance(value, str) and len(value) <= MOST_ARGUMENTS:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
