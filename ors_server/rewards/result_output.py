"""A reward's result as a tool's output: a number, or none and the reason, which only the trainer sees."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from ors_server.model.trajectory import REWARD_REASON, REWARD_STATUS
from ors_server.model.wire import ImageBlock, JSONObject, TextBlock, ToolOutput, as_blocks
from ors_server.rewards.result import RewardResult, RewardStatus

STATUS_KEY = REWARD_STATUS
"""Key of an output's metadata with the status, where that is not `graded`."""
REASON_KEY = REWARD_REASON
"""Key with the reason, where there is one."""
EXTRAS_KEY = "reward_extras"
"""Key with the metrics, where there are any."""

Content: TypeAlias = str | TextBlock | ImageBlock


def graded_output(
    result: RewardResult, *content: Content, finished: bool = False, metadata: JSONObject | None = None
) -> ToolOutput:
    """Make the output of a tool that evaluated a reward.

    The agent sees the content, in which a string becomes a text block; the number, the status, the reason and
    the metrics are hidden from it as any reward is. A result without a number is the reward `None`, never 0.
    """
    stated = {**(metadata or {}), **describe_result(result)}
    return ToolOutput(
        blocks=as_blocks(content), metadata=stated or None, reward=result.reward, finished=finished
    )


def describe_result(result: RewardResult) -> JSONObject:
    """Return what a result has besides its number; empty for a plain number."""
    stated: JSONObject = {}
    if result.status is not RewardStatus.GRADED:
        stated[STATUS_KEY] = result.status.value
    if result.reason is not None:
        stated[REASON_KEY] = result.reason
    if result.extras:
        stated[EXTRAS_KEY] = dict(result.extras)
    return stated


def has_result(output: ToolOutput) -> bool:
    """Whether a reward was evaluated for an output already, with or without a number."""
    return output.reward is not None or STATUS_KEY in (output.metadata or {})


def numeric_extras(metadata: Mapping[str, Any] | None) -> dict[str, float]:
    """Return those of an output's metrics that are finite numbers; true is 1 and false is 0."""
    extras: object = (metadata or {}).get(EXTRAS_KEY)
    if not isinstance(extras, Mapping):
        return {}
    named = cast("Mapping[object, object]", extras)
    numbers = {str(key): finite_number(value) for key, value in named.items()}
    return {key: value for key, value in numbers.items() if value is not None}


def finite_number(value: object) -> float | None:
    """Return a number or a boolean as a float; `None` for anything else, and where it is not finite."""
    if not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond every float
        return None
    return number if math.isfinite(number) else None
