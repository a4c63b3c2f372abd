"""Inspect: a scorer judges the state of a sample against its target, and gives a `Score`.

Source: `inspect_ai` 0.3.285. An unscored score (`Score.unscored`, whose value is NaN) means "not judged";
metrics and reducers leave it out. The package is imported when an adapter is made.
"""

import math
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, cast

from ors_server.rewards.adapters.foreign_functions import adapt, name_of, own_reward, take
from ors_server.rewards.adapters.grouping import demand_single
from ors_server.rewards.adapters.trainer_messages import conversation_fields
from ors_server.rewards.batch.batch_scorer import judge_together
from ors_server.rewards.define import Reward
from ors_server.rewards.reading.plain_json import plain
from ors_server.rewards.result import Range, RewardResult, RewardStatus
from ors_server.rewards.reward_errors import RewardFieldError, RewardValueError

GRADES = MappingProxyType({"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0})
"""The values of Inspect's letters in its own metrics; any other text is an error here."""

_MODEL = "none/none"


def as_inspect(reward: object) -> Any:
    """Make a scorer, with the metrics `mean` and `stderr`, for `Task(scorer=...)`.

    The reward's fields: `final_response` is the model's completion, `answer` the target (a list if there are
    several), `prompt` the input, `trajectory` the sample's messages, `length` the number of tokens of the
    last output as the provider counted them; the sample's metadata are fields too. Extras are the score's
    metadata. Without a reward the sample is unscored, with status and reason; an unreadable answer is scored
    with the least reward, and its reason is `invalid_response_format`.

    Raises:
        ImportError: If `inspect_ai` is not installed.
        RewardDefinitionError: If it compares the rollouts of a task: Inspect scores one sample at a time.
    """
    scorers: Any = import_module("inspect_ai.scorer")
    resolved = demand_single(own_reward(reward), "Inspect")

    def make() -> Any:
        async def judge(state: Any, target: Any) -> Any:
            (result,) = await judge_together(resolved, [_row(state, target)])
            return _score(scorers.Score, result, str(state.output.completion))

        return judge

    metrics = [scorers.mean(), scorers.stderr()]
    return scorers.scorer(metrics=metrics, name=resolved.name)(make)()


def from_inspect(
    scorer: Any,
    *,
    key: str | None = None,
    name: str | None = None,
    range: Range | None = None,  # noqa: A002  (public name)
) -> Reward:
    """Make an async reward of a scorer.

    It takes `final_response`, `answer` (or `target`), `prompt`, `choices`, and every other field as the
    sample's metadata. The letters are worth 1 (C), 0.5 (P) and 0 (I, N); an unscored sample, or none, is the
    status `error`.

    Args:
        scorer: As `Task(scorer=...)` takes it, such as `match()`. One that calls a model needs Inspect's own
            evaluation around it and cannot be used.
        key: The entry of the value that is the reward, if the value is a mapping; the others are extras.
        name: The reward's name; the scorer's by default.
        range: The range that is enforced.

    Raises:
        ImportError: If `inspect_ai` is not installed.
    """
    for module in ("inspect_ai.model", "inspect_ai.scorer", "inspect_ai.solver"):
        import_module(module)
    who = name or name_of(scorer)

    return adapt(scorer, partial(_sample, who=who), partial(_result, key=key, who=who), who, range)


def _row(state: Any, target: Any) -> dict[str, Any]:
    golds = list(target)
    usage, response = state.output.usage, str(state.output.completion)
    columns = {
        "prediction": response,
        **({} if usage is None else {"length": usage.output_tokens}),
        **dict(state.metadata or {}),
        "sample_id": state.sample_id,
        "choices": [choice.value for choice in state.choices],
        "target": golds,
        "answer": golds[0] if len(golds) == 1 else golds,
    }
    fields = conversation_fields(None, list(state.messages), columns)
    return {**fields, "prompt": state.input_text, "final_response": response}


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
        raise RewardFieldError(
            f"{who} takes prompt and response as texts, got {prompt!r:.40} and {response!r:.40}"
        )
    state = import_module("inspect_ai.solver").TaskState(
        model=models.ModelName(_MODEL),
        sample_id=fields.pop("sample_id", 1),
        epoch=1,
        input=prompt,
        messages=[models.ChatMessageUser(content=prompt), models.ChatMessageAssistant(content=response)],
        target=target,
        choices=fields.pop("choices", None),
        output=models.ModelOutput.from_content(_MODEL, response),
        completed=True,
        metadata=fields,
    )
    return {"state": state, "target": target}


def _result(score: Any, key: str | None, who: str) -> RewardResult:
    if score is None:
        return RewardResult.without(RewardStatus.ERROR, f"{who} returned no score")
    why = ": ".join(text for text in (score.reason, score.explanation) if text) or "without a reason"
    value, extras = _pick_value(score.value, key, who)
    if isinstance(value, float) and math.isnan(value):
        return RewardResult.without(RewardStatus.ERROR, f"{who} left the sample unscored: {why}", extras)
    if isinstance(value, str):
        if value not in GRADES:
            raise RewardValueError(
                f"expected a number or a grade ({', '.join(GRADES)}) from {who}, got {value!r:.80}"
            )
        value = GRADES[value]
    return RewardResult.from_raw(value).with_extras({**extras, **(score.metadata or {})})


def _pick_value(value: Any, key: str | None, who: str) -> tuple[Any, dict[str, Any]]:
    if not isinstance(value, Mapping):
        return value, {}
    whole = dict(cast("Mapping[str, Any]", value))
    if key is None or key not in whole:
        raise RewardValueError(
            f"{who} returned several values, {', '.join(whole)}: choose the reward with key"
        )
    return whole.pop(key), whole
