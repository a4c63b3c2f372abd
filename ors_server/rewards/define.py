"""What a reward is: a function or a class, sync or async, with a range and parameters filled by name."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, partial, update_wrapper
from typing import Any, Literal, TypeAlias, cast, overload

import anyio
from typing_extensions import override

from ors_server.rewards.result import KEY, Range, RewardResult, check_range
from ors_server.rewards.reward_errors import NoRewardError, RewardDefinitionError, RewardFieldError
from ors_server.rewards.reward_trajectory import Trajectory, fields_of_trajectory
from ors_server.rewards.signature import RewardSignature, read_reward_signature

DirectCall: TypeAlias = Literal["mapping", "number"]
"""What a direct call returns: AgentFly's mapping with `reward` and the extras, or ARISE's bare number."""

Prepare: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Starts in the background what the judgement of a task would wait for, and returns at once."""

Requirement: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Takes the fields that are fixed for every judgement; raises a `RewardDefinitionError` if a package or a
setting is missing without which the reward judges nothing."""

RewardFunction: TypeAlias = Callable[..., Any]
"""Takes fields by name; returns a number, a mapping with `reward`, a result, or an awaitable of one."""


class Reward(ABC):
    """A reward: its name, its range, the fields that it takes, and the judgement.

    A direct call ignores fields that the reward does not take, and raises what the reward raises. A
    `Trajectory` among its arguments also gives the final response and the metadata's fields.
    """

    name: str
    range: Range | None = None
    """Lowest and highest reward; anything outside is refused."""
    direct_call: DirectCall = "mapping"

    @property
    @abstractmethod
    def function(self) -> RewardFunction:
        """The function that judges."""

    @cached_property
    def signature(self) -> RewardSignature:
        """The fields that it takes."""
        return read_reward_signature(self.function, self.name)

    @property
    def is_async(self) -> bool:
        """Whether the judgement is a coroutine."""
        return inspect.iscoroutinefunction(_unwrap(self.function))

    def prepare(self, fields: Mapping[str, Any]) -> None:  # noqa: B027  (most have nothing to start)
        """Called with the task's fields when a session begins, to start what its judgement would wait for."""

    def check_usable(self, fields: Mapping[str, Any]) -> None:  # noqa: B027  (most need nothing)
        """Raise `RewardDefinitionError` if a package or a setting is missing without which it judges nothing.

        Args:
            fields: Those that are fixed for every judgement, such as the name of a judge's model.
        """

    def judge(self, fields: Mapping[str, Any]) -> Any:
        """Return the raw judgement, awaitable if the reward is async."""
        return self.function(**self.signature.choose(fields))

    def read(self, raw: object) -> RewardResult:
        """Check a raw judgement; raise `RewardValueError` if it is not a reward in the range."""
        return RewardResult.from_raw(raw).within(self.range)

    @property
    def positional(self) -> tuple[str, ...]:
        """The fields that a direct call takes by position, in order."""
        return tuple(inspect.signature(self.function).parameters)

    def __call__(self, *args: Any, **fields: Any) -> Any:
        """Judge at once.

        Fields may come by position, in the order of the signature, as ARISE calls a reward.

        Returns:
            A mapping with `reward` and the extras, or the number, as `direct_call` says. An async reward
            returns an awaitable of it; one whose direct call gives a number is awaited here where no event
            loop runs.

        Raises:
            RewardFieldError: A required field is missing, or there are too many by position.
            NoRewardError: There is no judgement and the direct call gives a number.
        """
        raw = self.judge(self._name_fields(args, fields))
        if not inspect.isawaitable(raw):
            return self._as_direct_call(raw)
        if self.direct_call == "number" and not _is_in_event_loop():
            return anyio.run(self._await_direct_call, raw)
        return self._await_direct_call(raw)

    def _name_fields(self, args: tuple[Any, ...], fields: Mapping[str, Any]) -> dict[str, Any]:
        names = self.positional if args else ()
        if len(args) > len(names):
            raise RewardFieldError(
                f"{self.name}: expected at most {len(names)} fields by position ({', '.join(names)}), "
                f"got {len(args)}"
            )
        named = {**dict(zip(names, args, strict=False)), **fields}
        trajectory = named.get("trajectory")
        return {**fields_of_trajectory(trajectory), **named} if isinstance(trajectory, Trajectory) else named

    async def _await_direct_call(self, raw: Awaitable[object]) -> Any:
        return self._as_direct_call(await raw)

    def _as_direct_call(self, raw: object) -> Any:
        result = self.read(raw)
        if self.direct_call == "mapping":
            return as_mapping(result)
        if result.reward is None:
            raise NoRewardError(f"{self.name} has no number: {result.status.value}: {result.reason}")
        return result.reward


class FunctionReward(Reward):
    """A reward made of a function."""

    def __init__(
        self,
        function: RewardFunction,
        name: str,
        allowed: Range | None = None,
        direct_call: DirectCall = "mapping",
        prepare: Prepare | None = None,
    ) -> None:
        self._function = function
        self._prepare = prepare
        self.requirement: Requirement | None = None
        """What `check_usable` calls."""
        self.name = name
        self.range = check_range(allowed)
        self.direct_call = direct_call
        update_wrapper(self, _unwrap(function))
        _ = self.signature

    @property
    @override
    def function(self) -> RewardFunction:
        return self._function

    @override
    def prepare(self, fields: Mapping[str, Any]) -> None:
        if self._prepare is not None:
            self._prepare(fields)

    @override
    def check_usable(self, fields: Mapping[str, Any]) -> None:
        if self.requirement is not None:
            self.requirement(fields)


class DelegatingReward(Reward):
    """A reward that another one judges."""

    def __init__(self, inner: Reward) -> None:
        self.name = inner.name
        self._inner = inner

    @property
    @override
    def function(self) -> RewardFunction:
        return self._inner.function

    @property
    @override
    def is_async(self) -> bool:
        return self._inner.is_async

    @cached_property
    @override
    def signature(self) -> RewardSignature:
        return self._inner.signature

    @override
    def check_usable(self, fields: Mapping[str, Any]) -> None:
        self._inner.check_usable(fields)


class BaseReward(Reward):
    """A reward as a class: derive, set `name`, and write `call`, sync or async."""

    name: str = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check the class's range, and name it by its class if it has no name."""
        super().__init_subclass__(**kwargs)
        check_range(cls.range)
        if not cls.name:
            cls.name = cls.__name__

    @abstractmethod
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Judges. A subclass names the fields that it takes."""

    @property
    @override
    def function(self) -> RewardFunction:
        return self.call


@overload
def reward(function: RewardFunction) -> FunctionReward: ...
@overload
def reward(
    *,
    name: str | None = None,
    range: Range | None = None,
    direct_call: DirectCall = "mapping",
    prepare: Prepare | None = None,
) -> Callable[[RewardFunction], FunctionReward]: ...
def reward(
    function: RewardFunction | None = None,
    *,
    name: str | None = None,
    range: Range | None = None,  # noqa: A002  (the word that it is)
    direct_call: DirectCall = "mapping",
    prepare: Prepare | None = None,
) -> FunctionReward | Callable[[RewardFunction], FunctionReward]:
    """Make a function a reward.

    Its parameters are filled by name: `trajectory`, `final_response`, `answer` and every other field of the
    task, `metadata`, `context`, `step`, `output`; `**kwargs` receives the rest.

    Args:
        function: The function, when used without parentheses.
        name: The function's name by default.
        range: Least and greatest reward, which are enforced.
        direct_call: What calling the reward directly returns.
        prepare: Called with the task's fields when a session begins, to start what the judgement would wait
            for.

    Raises:
        RewardDefinitionError: The range is illegal, or parameters cannot be filled by name.
    """

    def make(target: RewardFunction) -> FunctionReward:
        called = name or str(getattr(_unwrap(target), "__name__", "reward"))
        return FunctionReward(target, called, range, direct_call, prepare)

    return make if function is None else make(function)


def as_reward(value: object) -> Reward:
    """Return a reward, a class of one without arguments, or any callable as a reward."""
    if isinstance(value, Reward):
        return value
    if isinstance(value, type) and issubclass(value, Reward):
        return value()
    if (fixed := _with_fields_fixed(value)) is not None:
        return fixed
    other = cast("Any", value)
    if callable(other):
        return reward(other)
    raise RewardDefinitionError(f"expected a reward as a callable or a class with `call`, got {value!r:.80}")


def _with_fields_fixed(value: Any) -> Reward | None:
    """Read `partial(some_reward, model=...)`, as ARISE's page writes it, as a reward."""
    inner: object = value.func if isinstance(value, partial) else None
    if not isinstance(inner, Reward):
        return None
    fixed = partial(inner.function, *value.args, **value.keywords)
    made = FunctionReward(fixed, inner.name, inner.range, inner.direct_call, inner.prepare)
    made.requirement = lambda fields: inner.check_usable({**fields, **value.keywords})
    return made


def as_mapping(result: RewardResult) -> dict[str, Any]:
    """Render a result as AgentFly does: `reward` and the extras in one object."""
    return {KEY: result.reward, **result.extras}


def _is_in_event_loop() -> bool:
    try:
        anyio.get_current_task()
    except RuntimeError:
        return False
    return True


def _unwrap(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function) and not isinstance(function, type) and hasattr(function, "__call__"):  # noqa: B004  (an object's own, to look at it)
        return type(function).__call__
    return inspect.unwrap(function)
