"""Inspect: a scorer judges the state of a sample against its target, and gives a `Score`.

Source: `inspect_ai` 0.3.285. An unscored score (`Score.unscored`, whose value is NaN) is its word for "not
judged"; metrics and reducers leave it out. The package is imported when an adapter is made.
"""

import math
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, cast

from ors_server.rewards.adapters.conversation import conversation_fields
from ors_server.rewards.adapters.foreign import adapt, name_of, own_reward, take
from ors_server.rewards.adapters.grouping import demand_single
from ors_server.rewards.batch.scoring import judge_together
from ors_server.rewards.define import Reward
from ors_server.rewards.reading.plain_json import plain
from ors_server.rewards.result import Range, RewardResult, RewardStatus
from ors_server.rewards.reward_errors import RewardFieldError, RewardValueError

GRADES = MappingProxyType({"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0})
"""What Inspect's letters are worth, as its own metrics count them; any other text is no reward here."""

_MODEL = "none/none"


def as_inspect(reward: object) -> Any:
    """Make a scorer, with the metrics `mean` and `stderr`.

    Args:
        reward: A reward of ours, or its name. In it, `final_response` is the model's completion, `answer` is
            the target (a list if there are several), `prompt` is the input, `trajectory` is the sample's
            messages, `length` is the number of tokens that the model's provider counted in its last output,
            and the sample's metadata are fields.

    Returns:
        The scorer, for `Task(scorer=...)`. Extras are the score's metadata. Without a reward the sample is
        unscored, with the status and the reason; an answer that could not be read is scored with the least
        reward, and its reason is `invalid_response_format`.

    Raises:
        ImportError: If `inspect_ai` is not installed.
        RewardDefinitionError: If it compares the rollouts of a task: Inspect scores one sample at a time.
    """
    theirs: Any = import_module("inspect_ai.scorer")
    asked = demand_single(own_reward(reward), "Inspect")

    def make() -> Any:
        async def judge(state: Any, target: Any) -> Any:
            (result,) = await judge_together(asked, [_row(state, target)])
            return _score(theirs.Score, result, str(state.output.completion))

        return judge

    metrics = [theirs.mean(), theirs.stderr()]
    return theirs.scorer(metrics=metrics, name=asked.name)(make)()


def from_inspect(
    scorer: Any,
    *,
    key: str | None = None,
    name: str | None = None,
    range: Range | None = None,  # noqa: A002  (the word that it is)
) -> Reward:
    """Make a reward of a scorer.

    Args:
        scorer: As `Task(scorer=...)` takes it, such as `match()`. One that asks a model needs Inspect's own
            evaluation around it and cannot be asked alone.
        key: Which entry of the value is the reward, where the value is a mapping; the others are extras.
        name: The reward's name; the scorer's by default.
        range: The range that is enforced.

    Returns:
        An async reward that takes `final_response`, `answer` (or `target`), `prompt`, `choices`, and every
        other field as the sample's metadata. Letters are worth 1 (C), 0.5 (P) and 0 (I, N); an unscored
        sample, or none at all, is the status `error`.

    Raises:
        ImportError: If `inspect_ai` is not installed.
    """
    for module in ("inspect_ai.model", "inspect_ai.scorer", "inspect_ai.solver"):
        import_module(module)
    who = name or name_of(scorer)

    def arguments(fields: dict[str, Any]) -> dict[str, Any]:
        return _sample(dict(fields), who)

    def read(given: Any) -> RewardResult:
        return _result(given, key, who)

    return adapt(scorer, arguments, read, who, range)


def _row(state: Any, target: Any) -> dict[str, Any]:
    golds = list(target)
    usage, said = state.output.usage, str(state.output.completion)
    others = {
        "prediction": said,
        **({} if usage is None else {"length": usage.output_tokens}),
        **dict(state.metadata or {}),
        "sample_id": state.sample_id,
        "choices": [choice.value for choice in state.choices],
        "target": golds,
        "answer": golds[0] if len(golds) == 1 else golds,
    }
    fields = conversation_fields(None, list(state.messages), others)
    return {**fields, "prompt": state.input_text, "final_response": said}


def _score(score: Any, result: RewardResult, answer: str) -> Any:
    metadata = {**plain(dict(result.extras)), "reward_status": result.status.value}
    if result.reward is None:
        return score.unscored(
            reason="scoring_failed", answer=answer, explanation=result.reason, metadata=metadata
        )
    unread = result.status is RewardStatus.UNPARSED_ANSWER
    reason = "invalid_response_format" if unread else None
    return score(
        value=result.reward, answer=answer, explanation=result.reason, metadata=metadata, reason=reason
    )


def _sample(fields: dict[str, Any], who: str) -> dict[str, Any]:
    models: Any = import_module("inspect_ai.model")
    response = take(fields, who, "final_response", "completion")
    target: Any = import_module("inspect_ai.scorer").Target(take(fields, who, "target", "answer"))
    prompt = fields.pop("prompt", "")
    if not (isinstance(response, str) and isinstance(prompt, str)):
        raise RewardFieldError(f"{who} takes the prompt and the response as texts")
    state = import_module("inspect_ai.solver").TaskState(
        model=models.ModelName(_MODEL),
        sample_id=fields.pop("sample_id", 1),
        epoch=1,
        input=prompt,
        messages=[
            models.ChatMessageUser(content=prompt),
            models.ChatMessageAssistant(content=response),
        ],
        target=target,
        choices=fields.pop("choices", None),
        output=models.ModelOutput.from_content(_MODEL, response),
        completed=True,
        metadata=fields,
    )
    return {"state": state, "target": target}


def _result(score: Any, key: str | None, who: str) -> RewardResult:
    if score is None:
        return RewardResult.without(RewardStatus.ERROR, f"{who} gave no score")
    said = ": ".join(text for text in (score.reason, score.explanation) if text) or "it did not say why"
    value, extras = _picked(score.value, key, who)
    if isinstance(value, float) and math.isnan(value):
        return RewardResult.without(RewardStatus.ERROR, f"{who} left the sample unscored: {said}", extras)
    if isinstance(value, str):
        if value not in GRADES:
            raise RewardValueError(f"{who} gave {value!r:.80}, which is no number and no grade")
        value = GRADES[value]
    return RewardResult.from_raw(value).with_extras({**extras, **(score.metadata or {})})


def _picked(value: Any, key: str | None, who: str) -> tuple[Any, dict[str, Any]]:
    if not isinstance(value, Mapping):
        return value, {}
    whole = dict(cast("Mapping[str, Any]", value))
    if key is None or key not in whole:
        raise RewardValueError(
            f"{who} gave several values, {', '.join(whole)}; say which is the reward (key)"
        )
    return whole.pop(key), whole
