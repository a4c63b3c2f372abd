"""What every adapter does: choose arguments by name, and read results without inventing a judgement."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ors_server.rewards.catalogue import find_reward
from ors_server.rewards.define import FunctionReward, Reward, RewardFunction, as_reward
from ors_server.rewards.result import Range, RewardResult, RewardStatus
from ors_server.rewards.reward_errors import NoRewardError, RewardFieldError


def own_reward(reward: object) -> Reward:
    """Return a reward of this library by its name, class or instance, or make one of a callable of fields.

    Raises:
        UnknownRewardError: If nothing has the name.
        RewardDefinitionError: If it is not a reward.
    """
    return find_reward(reward) if isinstance(reward, str) else as_reward(reward)


def demand_number(result: RewardResult, name: str) -> float:
    """Return the number of a result, for a package that cannot express "not judged".

    Raises:
        NoRewardError: If the result has no number; the message has the status and the reason.
    """
    if result.reward is None:
        raise NoRewardError(f"{name} has no reward ({result.status.value}): {result.reason}")
    return result.reward


def read_number(value: object, name: str) -> RewardResult:
    """Read what a package's function returned; `None` and NaN mean "not judged": the status `error`.

    Raises:
        RewardValueError: If it is not a number.
    """
    if value is None or (isinstance(value, float) and value != value):  # noqa: PLR0124  (only NaN differs)
        return RewardResult.without(RewardStatus.ERROR, f"{name} did not judge: it returned {value}")
    item: Any = getattr(value, "item", None)  # a NumPy or Torch number
    return RewardResult.from_raw(item() if callable(item) else value)


def take(fields: dict[str, Any], who: str, *names: str) -> Any:
    """Remove all of these fields, and return the first one that is present.

    Raises:
        RewardFieldError: If none is present.
    """
    values = [fields.pop(name) for name in names if name in fields]
    if not values:
        raise RewardFieldError(f"{who} needs {' or '.join(names)}, got {', '.join(fields) or 'no fields'}")
    return values[0]


def accept(function: Callable[..., Any], available: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the available arguments that a function takes."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return dict(available)
    return {
        parameter.name: available[parameter.name] for parameter in parameters if parameter.name in available
    }


def is_async(function: Any) -> bool:
    """Return whether calling a function, a partial of one, or an object gives an awaitable."""
    function = _without_partials(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  (an object's own, to look at it)
    )


def name_of(function: Any) -> str:
    """Return the name of a callable, for messages."""
    function = _without_partials(function)
    return str(getattr(function, "__name__", type(function).__name__))


def _without_partials(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType]  # any function
    return function  # pyright: ignore[reportUnknownVariableType]  # any function


def adapt(
    function: Callable[..., Any],
    arguments: Callable[[dict[str, Any]], dict[str, Any]],
    read: Callable[[Any], RewardResult],
    name: str | None,
    allowed: Range | None,
) -> Reward:
    """Make a reward of a package's function, async if the function is.

    Args:
        arguments: Converts the fields to the function's keyword arguments.
        read: Converts what the function returned to a result.
        name: The reward's name; the function's by default.
    """

    async def read_later(pending: Awaitable[Any]) -> RewardResult:
        return read(await pending)

    def judge(**fields: Any) -> Any:
        raw = function(**arguments(fields))
        return read_later(raw) if inspect.isawaitable(raw) else read(raw)

    async def judge_later(**fields: Any) -> RewardResult:
        return await read_later(function(**arguments(fields)))

    chosen: RewardFunction = judge_later if is_async(function) else judge
    return FunctionReward(chosen, name or name_of(function), allowed)
