"""Rewards made of rewards: weighted, gated, product, minimum, clipped. Every part receives the same fields.

Parts are evaluated in order, and only while their number can still change the result: a judge behind a closed
gate costs nothing, and its failure takes no number away. The status and reason of a part without a number
become those of the whole, unless other parts decide it.
"""

import inspect
import math
import sys
from collections.abc import Generator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from typing_extensions import override

from ors_server.rewards.define import Reward, RewardFunction, as_reward
from ors_server.rewards.result import Range, RewardResult, RewardStatus, check_range
from ors_server.rewards.reward_errors import RewardDefinitionError
from ors_server.rewards.signature import RewardSignature

Combination: TypeAlias = Generator[int, float | None, float | None]
"""Yields the index of the part to evaluate and receives its reward, `None` if it has no number; returns the
reward of the whole, `None` if it depends on a missing number."""


class _Composed(Reward):
    """Evaluates each part with the fields that the part takes, and combines the rewards."""

    def __init__(self, name: str, parts: Sequence[object], allowed: Range | None) -> None:
        if not parts:
            raise RewardDefinitionError(f"{name} needs at least one reward")
        self.name = name
        self.parts = tuple(as_reward(part) for part in parts)
        self.range = check_range(allowed)

    @property
    @override
    def function(self) -> RewardFunction:
        return self._judge_later if self.is_async else self._judge_now

    @property
    @override
    def is_async(self) -> bool:
        return any(part.is_async for part in self.parts)

    @property
    @override
    def positional(self) -> tuple[str, ...]:
        return ("trajectory",)

    @cached_property
    @override
    def signature(self) -> RewardSignature:  # made of the parts', not read off a function
        required = frozenset[str]().union(*(part.signature.required for part in self.parts))
        optional = frozenset[str]().union(*(part.signature.optional for part in self.parts)) - required
        takes_rest = any(part.signature.takes_rest for part in self.parts)
        return RewardSignature(self.name, required, optional, takes_rest)

    @override
    def prepare(self, fields: Mapping[str, Any]) -> None:
        for part in self.parts:
            part.prepare(fields)

    @override
    def check_usable(self, fields: Mapping[str, Any]) -> None:
        for part in self.parts:
            part.check_usable(fields)

    def combine(self) -> Combination:
        """Evaluate the parts that matter and combine their rewards."""
        raise NotImplementedError

    def _judge_now(self, **fields: Any) -> RewardResult:
        results: dict[int, RewardResult] = {}
        combination = self.combine()
        index, total = _advance(combination, None)
        while index is not None:
            part = self.parts[index]
            results[index] = part.read(part.judge(fields))
            index, total = _advance(combination, results[index].reward)
        return self._whole(total, results)

    async def _judge_later(self, **fields: Any) -> RewardResult:
        results: dict[int, RewardResult] = {}
        combination = self.combine()
        index, total = _advance(combination, None)
        while index is not None:
            part = self.parts[index]
            raw = part.judge(fields)
            results[index] = part.read(await raw if inspect.isawaitable(raw) else raw)
            index, total = _advance(combination, results[index].reward)
        return self._whole(total, results)

    def _whole(self, total: float | None, results: Mapping[int, RewardResult]) -> RewardResult:
        extras: dict[str, Any] = {}
        for index, result in results.items():
            name = self.parts[index].name
            extras[name] = result.reward
            extras.update({f"{name}/{key}": value for key, value in result.extras.items()})
        if total is None:
            index, failed = next(
                (index, result) for index, result in results.items() if result.reward is None
            )
            return RewardResult.without(failed.status, f"{self.parts[index].name}: {failed.reason}", extras)
        unread = [result for result in results.values() if result.status is RewardStatus.UNPARSED_ANSWER]
        if unread:
            return RewardResult(total, RewardStatus.UNPARSED_ANSWER, extras, unread[0].reason)
        return RewardResult(total, extras=extras)


class CompositeReward(_Composed):
    """A weighted mean: the sum of weight times reward, divided by the sum of the weights (as ARISE's).

    Weights are finite and may be negative; if they add up to 0 the reward is 0. A sum within the rounding of
    its terms is 0: the floats 0.1, 0.2 and -0.3 add up to 3e-17. A part of weight 0 is not evaluated.
    """

    direct_call = "number"

    def __init__(
        self,
        weighted: Sequence[tuple[object, float]],
        *,
        name: str = "composite_reward",
        range: Range | None = None,  # noqa: A002  (the word that it is)
    ) -> None:
        """Combine pairs of a reward and its weight; an empty list always gives 0."""
        weights = [float(weight) for _, weight in weighted]
        if not all(map(math.isfinite, weights)):
            raise RewardDefinitionError(f"expected finite weights, got {weights}")
        super().__init__(name, [part for part, _ in weighted] or [_nothing], range)
        self.weights = tuple(weights) or (0.0,)

    @override
    @override
    def combine(self) -> Combination:
        total = math.fsum(self.weights)
        if abs(total) <= sys.float_info.epsilon * math.fsum(map(abs, self.weights)):
            return 0.0
        terms: list[float] = []
        for index, weight in enumerate(self.weights):
            if weight == 0:
                continue
            reward = yield index
            if reward is None:
                return None
            terms.append(weight / total * reward)
        return math.fsum(terms)


class ProductReward(_Composed):
    """The product of the parts: all of them must be good. After a part of 0, no further one is evaluated."""

    def __init__(self, *parts: object, name: str = "product_reward") -> None:
        """Combine rewards."""
        super().__init__(name, parts, None)

    @override
    @override
    def combine(self) -> Combination:
        rewards: list[float | None] = []
        for index in range(len(self.parts)):
            rewards.append((yield index))
            if rewards[-1] == 0:
                return 0.0
        numbers = [reward for reward in rewards if reward is not None]
        return math.prod(numbers) if len(numbers) == len(rewards) else None


class MinReward(_Composed):
    """The least of the parts. A part that is as low as the others' ranges allow decides."""

    def __init__(self, *parts: object, name: str = "min_reward") -> None:
        """Combine rewards."""
        super().__init__(name, parts, None)

    @override
    @override
    def combine(self) -> Combination:
        floor = min(part.range[0] if part.range else -math.inf for part in self.parts)
        rewards: list[float | None] = []
        for index in range(len(self.parts)):
            rewards.append((yield index))
            if rewards[-1] == floor:
                return floor
        numbers = [reward for reward in rewards if reward is not None]
        return min(numbers) if len(numbers) == len(rewards) else None


class GatedReward(_Composed):
    """Evaluates and pays a reward only where another one is full: style where the answer is right."""

    def __init__(
        self,
        gate: object,
        inner: object,
        *,
        at_least: float = 1.0,
        otherwise: float = 0.0,
        name: str = "gated_reward",
    ) -> None:
        """Pays `inner` where the gate's reward is at least `at_least`, else `otherwise`."""
        super().__init__(name, (gate, inner), None)
        self.at_least = at_least
        self.otherwise = otherwise

    @override
    @override
    def combine(self) -> Combination:
        gate = yield 0
        if gate is None:
            return None
        if gate < self.at_least:
            return self.otherwise
        return (yield 1)


class ClippedReward(_Composed):
    """A reward moved to the nearest end of a range."""

    def __init__(self, inner: object, low: float, high: float, *, name: str = "clipped_reward") -> None:
        """Clip a reward to a range.

        Args:
            inner: A reward, or a callable as one.
            low: The lowest result.
            high: The highest result, not below `low`.
        """
        super().__init__(name, (inner,), (low, high))
        self.low, self.high = float(low), float(high)

    @override
    @override
    def combine(self) -> Combination:
        reward = yield 0
        return None if reward is None else min(max(reward, self.low), self.high)


def _advance(combination: Combination, answer: float | None) -> tuple[int | None, float | None]:
    """Continue up to the next part to evaluate, whose index it returns, or up to the result."""
    try:
        return combination.send(answer), None
    except StopIteration as stop:
        return None, stop.value


def _nothing() -> float:
    return 0.0
