"""Rewards made of rewards: weighted, gated, product, minimum, clipped. Every part sees the same fields."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from typing_extensions import override

from ors_server.rewards.define import Reward, RewardFunction, as_reward
from ors_server.rewards.errors import RewardDefinitionError
from ors_server.rewards.result import Range, RewardResult, RewardStatus, check_range
from ors_server.rewards.signature import RewardSignature

Combine = Callable[[Sequence[float]], float]


class _Composed(Reward):
    """Asks each part with the fields that the part takes, and combines what they say.

    A part without a number leaves the whole without one: its status and reason are the whole's.
    """

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

    @cached_property
    @override
    def signature(self) -> RewardSignature:  # made of the parts', not read off a function
        required = frozenset[str]().union(*(part.signature.required for part in self.parts))
        optional = frozenset[str]().union(*(part.signature.optional for part in self.parts)) - required
        takes_rest = any(part.signature.takes_rest for part in self.parts)
        return RewardSignature(self.name, required, optional, takes_rest)

    def combine(self, rewards: Sequence[float]) -> float:
        """Combine the parts' rewards.

        Args:
            rewards: In the order of the parts.
        """
        raise NotImplementedError

    def _judge_now(self, *args: Any, **fields: Any) -> RewardResult:
        given = self._named(args, fields)
        return self._whole([part.read(part.judge(given)) for part in self.parts])

    async def _judge_later(self, *args: Any, **fields: Any) -> RewardResult:
        given = self._named(args, fields)
        results: list[RewardResult] = []
        for part in self.parts:
            raw = part.judge(given)
            results.append(part.read(await raw if inspect.isawaitable(raw) else raw))
        return self._whole(results)

    def _named(self, args: Sequence[Any], fields: Mapping[str, Any]) -> dict[str, Any]:
        return {**({"trajectory": args[0]} if args else {}), **fields}

    def _whole(self, results: Sequence[RewardResult]) -> RewardResult:
        extras: dict[str, Any] = {}
        for part, result in zip(self.parts, results, strict=True):
            extras[part.name] = result.reward
            extras.update({f"{part.name}/{key}": value for key, value in result.extras.items()})
        for part, result in zip(self.parts, results, strict=True):
            if result.reward is None:
                return RewardResult.without(result.status, f"{part.name}: {result.reason}", extras)
        total = self.combine([result.reward for result in results if result.reward is not None])
        unread = [result for result in results if result.status is RewardStatus.UNPARSED_ANSWER]
        if unread:
            return RewardResult(total, RewardStatus.UNPARSED_ANSWER, extras, unread[0].reason)
        return RewardResult(total, extras=extras)


class CompositeReward(_Composed):
    """A weighted mean: the sum of weight times reward, divided by the sum of the weights (as ARISE's).

    Weights need not add up to 1 and may be negative; if they add up to 0 the reward is 0.
    """

    def __init__(
        self,
        weighted: Sequence[tuple[object, float]],
        *,
        name: str = "composite_reward",
        range: Range | None = None,  # noqa: A002  (the word that it is)
    ) -> None:
        """Take rewards and weights.

        Args:
            weighted: Pairs of a reward and its weight, a finite number; none at all always gives 0.
            name: The reward's name.
            range: Least and greatest reward.

        Raises:
            RewardDefinitionError: If a part is no reward, or a weight no finite number.
        """
        weights = [float(weight) for _, weight in weighted]
        if not all(map(math.isfinite, weights)):
            raise RewardDefinitionError(f"weights are finite numbers, not {weights}")
        super().__init__(name, [part for part, _ in weighted] or [_nothing], range)
        self.weights = tuple(weights) or (0.0,)

    @override
    def combine(self, rewards: Sequence[float]) -> float:
        """Return the weighted mean.

        Args:
            rewards: In the order of the parts.
        """
        total = math.fsum(self.weights)
        if total == 0:
            return 0.0
        return math.fsum(weight / total * value for weight, value in zip(self.weights, rewards, strict=True))


class ProductReward(_Composed):
    """The product of the parts: all of them must be good."""

    def __init__(self, *parts: object, name: str = "product_reward") -> None:
        """Take rewards.

        Args:
            *parts: The rewards.
            name: The reward's name.
        """
        super().__init__(name, parts, None)

    @override
    def combine(self, rewards: Sequence[float]) -> float:
        """Return the product.

        Args:
            rewards: In the order of the parts.
        """
        return math.prod(rewards)


class MinReward(_Composed):
    """The least of the parts."""

    def __init__(self, *parts: object, name: str = "min_reward") -> None:
        """Take rewards.

        Args:
            *parts: The rewards.
            name: The reward's name.
        """
        super().__init__(name, parts, None)

    @override
    def combine(self, rewards: Sequence[float]) -> float:
        """Return the least.

        Args:
            rewards: In the order of the parts.
        """
        return min(rewards)


class GatedReward(_Composed):
    """One reward where another one is full, else a fixed one: style is paid where the answer is right."""

    def __init__(
        self,
        gate: object,
        inner: object,
        *,
        at_least: float = 1.0,
        otherwise: float = 0.0,
        name: str = "gated_reward",
    ) -> None:
        """Take two rewards.

        Args:
            gate: Decides.
            inner: Pays where the gate is open.
            at_least: The gate's reward at which it opens.
            otherwise: What is paid where it is closed.
            name: The reward's name.
        """
        super().__init__(name, (gate, inner), None)
        self.at_least = at_least
        self.otherwise = otherwise

    @override
    def combine(self, rewards: Sequence[float]) -> float:
        """Return the inner reward, or the fixed one.

        Args:
            rewards: The gate's and the inner one's.
        """
        gate, inner = rewards
        return inner if gate >= self.at_least else self.otherwise


class ClippedReward(_Composed):
    """A reward moved to the nearest end of a range."""

    def __init__(self, inner: object, low: float, high: float, *, name: str = "clipped_reward") -> None:
        """Take a reward and a range.

        Args:
            inner: The reward.
            low: Least.
            high: Greatest.
            name: The reward's name.

        Raises:
            RewardDefinitionError: If the range is illegal.
        """
        super().__init__(name, (inner,), (low, high))

    @override
    def combine(self, rewards: Sequence[float]) -> float:
        """Return the clipped reward.

        Args:
            rewards: The inner one's.
        """
        low, high = self.range or (rewards[0], rewards[0])
        return min(max(rewards[0], low), high)


def _nothing() -> float:
    return 0.0
