"""verl: a function of solution and ground truth returns a number, or a mapping with `score`.

Source: the reward managers of verl 0.9.1. verl cannot express "not judged": it pays any number that is
returned. So a reward of this library without a number raises there, with the reason.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ors_server.rewards.adapters.foreign_functions import (
    accept,
    adapt,
    demand_number,
    name_of,
    own_reward,
    read_number,
    take,
)
from ors_server.rewards.adapters.grouping import demand_single
from ors_server.rewards.batch.batch_scorer import judge_together
from ors_server.rewards.define import Reward
from ors_server.rewards.result import Range, RewardResult
from ors_server.rewards.reward_errors import RewardValueError
from ors_server.rewards.scoring import score

VerlReward = Callable[..., Any]
"""`f(data_source, solution_str, ground_truth, extra_info=None, **more)`, async or not."""


def as_verl(reward: object, *, extras: Sequence[str] = ()) -> VerlReward:
    """Make a `compute_score`, for `reward.custom_reward_function`; async if the reward is.

    `final_response` is the solution, `answer` and `ground_truth` are the ground truth, and `data_source` and
    the entries of `extra_info` are fields too; an `answer` among these, which verl's scripts for GSM8K leave
    there, does not replace the ground truth.

    Args:
        extras: Names of extras that are returned with the score. Every result must have them all: verl
            keeps one column for each. Without any, a bare number is returned.

    Raises:
        RewardDefinitionError: If it compares the rollouts of a task: verl passes one response.
        NoRewardError: From the function, if there is no reward.
        RewardValueError: From the function, if one of the extras is missing.
    """
    resolved = demand_single(own_reward(reward), "verl")

    def compute_score(
        data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, **more: Any
    ) -> Any:
        row = _row(data_source, solution_str, ground_truth, {**(extra_info or {}), **more})
        return _shape(score(resolved, None, **row), resolved.name, extras)

    async def compute_score_later(
        data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, **more: Any
    ) -> Any:
        row = _row(data_source, solution_str, ground_truth, {**(extra_info or {}), **more})
        (result,) = await judge_together(resolved, [row])
        return _shape(result, resolved.name, extras)

    wrapped: Any = compute_score_later if resolved.is_async else compute_score
    wrapped.__name__ = wrapped.__qualname__ = resolved.name
    return cast("VerlReward", wrapped)


def from_verl(
    function: VerlReward,
    *,
    name: str | None = None,
    range: Range | None = None,  # noqa: A002  (public name)
) -> Reward:
    """Make a reward of a `compute_score`.

    It takes `final_response`, `answer` or `ground_truth`, `data_source`, and every other field as
    `extra_info`. Of a mapping, `score` is the reward and the rest are extras. Hazard: many functions of verl
    pay 0 where they could not judge, which looks the same here.

    Args:
        function: It gets those of verl's four arguments that it names.
        name: The reward's name; the function's by default.
        range: The range that is enforced.
    """
    who = name or name_of(function)

    def arguments(fields: dict[str, Any]) -> dict[str, Any]:
        named = {
            "data_source": fields.pop("data_source", ""),
            "solution_str": take(fields, who, "final_response"),
            "ground_truth": take(fields, who, "ground_truth", "answer"),
        }
        named["extra_info"] = fields.pop("extra_info", fields)
        return accept(function, named)

    def read(raw: Any) -> RewardResult:
        if not isinstance(raw, Mapping):
            return read_number(raw, who)
        whole = cast("Mapping[str, Any]", raw)
        if "score" not in whole:
            raise RewardValueError(
                f"expected a mapping with score from {who}, got the keys {', '.join(whole)}"
            )
        extras = {key: value for key, value in whole.items() if key != "score"}
        return read_number(whole["score"], who).with_extras(extras)

    return adapt(function, arguments, read, name, range)


def _row(source: str, solution: str, gold: Any, extra_info: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "prediction": solution,
        **extra_info,
        "data_source": source,
        "final_response": solution,
        "ground_truth": gold,
        "answer": gold,
        "extra_info": dict(extra_info),
    }


def _shape(result: RewardResult, name: str, extras: Sequence[str]) -> Any:
    number = demand_number(result, name)
    if not extras:
        return number
    missing = [key for key in extras if key not in result.extras]
    if missing:
        raise RewardValueError(f"{name} has no extra {', '.join(missing)}")
    return {"score": number, **{key: result.extras[key] for key in extras}}
