"""What every adapter does at the border: choose arguments by name, and invent no judgement."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ors_server.rewards.catalogue import find_reward
from ors_server.rewards.define import FunctionReward, Reward, RewardFunction, as_reward
from ors_server.rewards.result import Range, RewardResult, RewardStatus
from ors_server.rewards.reward_errors import NoRewardError, RewardFieldError


def own_reward(reward: object) -> Reward:
    """Return a reward of ours that is to be taken elsewhere.

    Args:
        reward: A reward, a class of one, any callable whose parameters are fields; or a name that
            `find_reward` knows.

    Raises:
        UnknownRewardError: If nothing has the name.
        RewardDefinitionError: If it is no reward.
    """
    return find_reward(reward) if isinstance(reward, str) else as_reward(reward)


def demand_number(result: RewardResult, name: str) -> float:
    """Return the number of a result, for a package that has no word for its absence.

    Args:
        result: The result.
        name: The reward's.

    Raises:
        NoRewardError: If there is none; the status and the reason stand in the message.
    """
    if result.reward is None:
        raise NoRewardError(f"{name} has no reward ({result.status.value}): {result.reason}")
    return result.reward


def read_number(value: object, name: str) -> RewardResult:
    """Read what a package's function returned.

    Args:
        value: A number; `None` where it did not judge.
        name: The function's.

    Returns:
        The result; `error` for `None` and NaN, which stand for "not judged" elsewhere.

    Raises:
        RewardValueError: If it is neither.
    """
    if value is None or (isinstance(value, float) and value != value):  # noqa: PLR0124  (only NaN differs)
        return RewardResult.without(RewardStatus.ERROR, f"{name} did not judge: it gave {value}")
    item: Any = getattr(value, "item", None)  # a NumPy or Torch number
    return RewardResult.from_raw(item() if callable(item) else value)


def take(fields: dict[str, Any], who: str, *names: str) -> Any:
    """Take the first field that is there out of several that would do.

    Args:
        fields: From which all of them are removed.
        who: Who needs it.
        *names: The fields' names, the best first.

    Raises:
        RewardFieldError: If none is there.
    """
    found = [fields.pop(name) for name in names if name in fields]
    if not found:
        raise RewardFieldError(
            f"{who} needs {' or '.join(names)}; what is there: {', '.join(fields) or 'nothing'}"
        )
    return found[0]


def accept(function: Callable[..., Any], available: Mapping[str, Any]) -> dict[str, Any]:
    """Choose what a function takes.

    Args:
        function: With parameters that have names.
        available: Everything there is, by name.
    """
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return dict(available)
    return {one.name: available[one.name] for one in parameters if one.name in available}


def is_async(function: Any) -> bool:
    """Say whether calling something gives an awaitable.

    Args:
        function: A function, a partial of one, or an object with an async `__call__`.
    """
    while isinstance(function, functools.partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType]  # anybody's function
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  (an object's own, to look at it)
    )


def name_of(function: Any) -> str:
    """Name a function for messages.

    Args:
        function: Any callable.
    """
    while isinstance(function, functools.partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType]  # anybody's function
    return str(getattr(function, "__name__", type(function).__name__))


def adapt(
    function: Callable[..., Any],
    arguments: Callable[[dict[str, Any]], dict[str, Any]],
    read: Callable[[Any], RewardResult],
    name: str | None,
    allowed: Range | None,
) -> Reward:
    """Make a reward of a package's function, async if that is.

    Args:
        function: The package's.
        arguments: Turns the fields into its keywords.
        read: Turns what it returned into a result.
        name: The reward's name; the function's by default.
        allowed: The range.
    """

    async def settle(given: Awaitable[Any]) -> RewardResult:
        return read(await given)

    def judge(**fields: Any) -> Any:
        given = function(**arguments(fields))
        return settle(given) if inspect.isawaitable(given) else read(given)

    async def judge_later(**fields: Any) -> RewardResult:
        return await settle(function(**arguments(fields)))

    chosen: RewardFunction = judge_later if is_async(function) else judge
    return FunctionReward(chosen, name or name_of(function), allowed)
