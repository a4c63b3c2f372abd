"""AgentFly's exact-match rewards for answers in tags or in the arguments of a tool call.

Source: AgentFly at 1256586, whose pages do not have them. `ors_server.rewards.deviations` lists each
deliberate deviation.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ors_server.rewards.agentfly.answers import HOTPOT, gold_texts, no_gold
from ors_server.rewards.answering import reads_answer
from ors_server.rewards.define import reward
from ors_server.rewards.qa import MAX_ANSWER, WRONG, score_answer, unquoted
from ors_server.rewards.reading.asserted_parts import answer_part, parts_not_taken_back
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_trajectory import Trajectory, played_messages, read_trajectory
from ors_server.rewards.text.asserted_words import denies_golds
from ors_server.rewards.transcripts.turns import Message, text_of

WELL_FORMED = 0.1
"""What a wrong answer earns in `qa_em_format_reward` if its form is right (AgentFly at 1256586)."""
MAX_ARGUMENTS = 100_000
"""Greatest length, in characters, of a call's arguments that are read as JSON."""

_OPEN, _CLOSE = "<answer>", "</answer>"


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The form of an episode's answer."""

    has_thoughts: bool
    """Whether every turn of the assistant that has text, except the last, has a `<think>` block."""
    has_tags: bool
    """Whether the response has both answer tags."""
    has_tool: bool
    """Whether there is a tool result."""
    handed_in: str | None
    """The answer in the last message: the `answer` of its first tool call, or a tool's result."""

    @property
    def is_good(self) -> bool:
        """Whether there are thoughts and tags."""
        return self.has_thoughts and self.has_tags

    def as_extras(self) -> dict[str, float]:
        """Return the four figures that AgentFly logs."""
        return {
            "fmt": float(self.is_good),
            "fmt_think": float(self.has_thoughts),
            "fmt_answer_tags": float(self.has_tags),
            "fmt_tool": float(self.has_tool),
        }


@reward(range=(0.0, 1.0))
@reads_answer("text", max_characters=MAX_ANSWER)
def qa_em_reward(
    final_response: str, golden_answers: str | Sequence[str], trajectory: Trajectory
) -> RewardResult:
    """Pays 1 for an exact answer, which may be between `<answer>` and `</answer>`, else 0.

    Reads: the text (`answer_from`). Any of several gold answers will do. Extras: `em`; `f1`, the best one;
    `fmt`, `fmt_think`, `fmt_answer_tags`, `fmt_tool`: 1 where the response has that form. An empty trajectory
    raises `IndexError`.

    Hazards: text outside the first pair of tags is ignored, unless it denies or takes back what is in them;
    without tags the whole response counts. Quotation marks around the answer are dropped. The form of
    the answer is only recorded.

    Source: AgentFly at 1256586.

    Raises:
        IndexError: If the trajectory is empty.
    """
    return _tagged(final_response, golden_answers, trajectory, is_gated=False)


@reward(range=(0.0, 1.0))
@reads_answer("text", max_characters=MAX_ANSWER)
def qa_em_format_reward(
    final_response: str, golden_answers: str | Sequence[str], trajectory: Trajectory
) -> RewardResult:
    """Pays for an exact answer between tags after thoughts, and 0.1 for the form alone.

    Reads: the text (`answer_from`). Pays 0 without answer tags, or if an earlier turn has no thought. Extras
    and errors: those of `qa_em_reward`.

    Hazards: the 0.1 are paid for any wrong answer in the right form; gate them, or use `qa_em_reward`. The
    text in front of the form is not read, even if it denies the answer.

    Source: AgentFly's documentation at 1256586; its code always fails.

    Raises:
        IndexError: If the trajectory is empty.
    """
    return _tagged(final_response, golden_answers, trajectory, is_gated=True)


@reward(range=(0.0, 1.0))
@reads_answer("text", max_characters=MAX_ANSWER)
def qa_em_reward_tool_call(
    final_response: str, golden_answers: str | Sequence[str], trajectory: Trajectory
) -> RewardResult:
    """Pays 1 for an exact answer in a tool call, or without one for an exact response, else 0.

    Reads: the text (`answer_from`). Extras: `em`; `f1`, the best one; `has_tool_calling`, whether there is a
    tool result; `has_tool_call_answer`, whether a call had the answer. An empty trajectory raises
    `IndexError`.

    Hazards: tags are not read, so a tagged response is wrong; if the last message is a tool's result, that
    result is the answer, even if the agent rejects it.

    Source: AgentFly at 1256586.

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
    answer = final_response if form.handed_in is None else form.handed_in
    score = score_answer(answer, golds, HOTPOT)
    return RewardResult(score.em, extras={"em": score.em, "f1": score.f1, **extras})


def read_form(final_response: str, trajectory: Trajectory) -> AnswerForm:
    """Return the form of an answer.

    Raises:
        IndexError: If the trajectory is empty.
    """
    messages = _messages(trajectory)
    if not messages:
        raise IndexError("expected a trajectory with messages or steps, got an empty one")
    turns = [text_of(message) for message in messages if message.get("role") == "assistant"]
    return AnswerForm(
        has_thoughts=all("<think>" in turn and "</think>" in turn for turn in turns[:-1] if turn),
        has_tags=_OPEN in final_response and _CLOSE in final_response,
        has_tool=any(message.get("role") == "tool" for message in messages),
        handed_in=_handed_in(messages[-1]),
    )


def tagged_answer(text: str) -> str:
    """Return the text between the first `<answer>` and the `</answer>` after it, else the whole text.

    An element that the response denies or takes back does not count; without another one the answer is empty.
    """
    elements = list(_elements(text))
    if not elements:
        return text
    spans = parts_not_taken_back(text, elements, takes_examples=False)
    if not spans or (len(spans) > 1 and answer_part(text, spans) is None):
        return ""
    start, end = spans[0]
    return text[start + len(_OPEN) : end - len(_CLOSE)].strip()


def _elements(text: str) -> Iterator[tuple[int, int]]:
    start = text.find(_OPEN)
    while start >= 0:
        end = text.find(_CLOSE, start + len(_OPEN))
        if end < 0:
            return
        yield start, end + len(_CLOSE)
        start = text.find(_OPEN, end)


def _tagged(response: str, answers: object, trajectory: Trajectory, *, is_gated: bool) -> RewardResult:
    form, golds = read_form(response, trajectory), gold_texts(answers)
    if not golds:
        return no_gold(answers, form.as_extras())
    answer = unquoted(tagged_answer(response))
    score = score_answer(answer, golds, HOTPOT)
    if score.em and denies_golds(answer, golds):
        score = WRONG
    reward_ = score.em
    if is_gated:
        reward_ = max(score.em, WELL_FORMED) if form.is_good else 0.0
    return RewardResult(reward_, extras={"em": score.em, "f1": score.f1, **form.as_extras()})


def _messages(trajectory: Trajectory) -> list[Message]:
    episode: Trajectory = read_trajectory(trajectory)  # AgentFly hands a list of messages over
    if episode.messages:
        return list(played_messages(episode))
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
    """Read a call's arguments: an object, or JSON text of one."""
    if isinstance(value, str) and len(value) <= MAX_ARGUMENTS:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
