"""What a reward came to: a number, or the reason why there is none. Pure data."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self, TypeAlias, cast

from ors_server.rewards.reward_errors import RewardDefinitionError, RewardValueError

Range: TypeAlias = tuple[float, float]
"""Least and greatest reward, inclusive."""

KEY = "reward"
"""Key of a mapping under which the number stands; every other key is a metric."""


class RewardStatus(StrEnum):
    """How a reward was come by."""

    GRADED = "graded"
    """The reward is a judgement."""
    UNPARSED_ANSWER = "unparsed_answer"
    """The answer could not be read: the agent's failure, paid with the least reward and counted apart."""
    BAD_GOLD = "bad_gold"
    """The task's own answer could not be read; there is no reward."""
    ERROR = "error"
    """The reward raised, or returned something that is no reward; there is none."""
    LIMIT = "limit"
    """The judgement took too long or would have grown too large; there is no reward."""


_NUMBERED = frozenset({RewardStatus.GRADED, RewardStatus.UNPARSED_ANSWER})


@dataclass(frozen=True, slots=True)
class RewardResult:
    """A reward with its metrics, or the reason why there is none."""

    reward: float | None
    """A finite number; `None` unless the status is graded or unparsed_answer."""
    status: RewardStatus = RewardStatus.GRADED
    extras: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Metrics by name; recorded, never summed."""
    reason: str | None = None
    """Why there is no reward, or why the answer could not be read."""

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            RewardValueError: A number is missing, is there though it must not, or is not finite.
        """
        if (self.status in _NUMBERED) != (self.reward is not None):
            msg = f"a result that is {self.status} cannot have the reward {self.reward!r}"
            raise RewardValueError(msg)
        if self.reward is not None and not math.isfinite(self.reward):
            msg = f"a reward is a finite number, not {self.reward!r}"
            raise RewardValueError(msg)

    @classmethod
    def from_raw(cls, value: object) -> Self:
        """Read what a reward function returned.

        Args:
            value: A number or a boolean; a mapping with the number under `reward`, whose other entries become
                extras; or a result, which passes.

        Raises:
            RewardValueError: If it is anything else, or the number is not finite.
        """
        if isinstance(value, cls):
            return value
        extras: dict[str, Any] = {}
        if isinstance(value, Mapping):
            given = cast("Mapping[object, Any]", value)
            extras = {str(key): entry for key, entry in given.items() if key != KEY}
            if KEY not in given:
                keys = ", ".join(map(repr, given)) or "none"
                msg = f"a mapping needs the key 'reward' with a number; its keys are {keys}"
                raise RewardValueError(msg)
            value = cast("object", given[KEY])
        if not isinstance(value, int | float):
            msg = (
                "a reward is a number, or a mapping with a number under 'reward'; "
                f"a {type(value).__name__} came"
            )
            raise RewardValueError(msg)
        return cls(float(value), extras=MappingProxyType(extras))

    @classmethod
    def without(cls, status: RewardStatus, reason: str, extras: Mapping[str, Any] | None = None) -> Self:
        """Make a result that has no reward.

        Args:
            status: `BAD_GOLD`, `ERROR` or `LIMIT`.
            reason: Why.
            extras: Metrics all the same.
        """
        return cls(None, status, MappingProxyType(dict(extras or {})), reason)

    def within(self, allowed: Range | None) -> Self:
        """Return the result if its reward lies in a range.

        Args:
            allowed: The range; `None` allows every finite number.

        Raises:
            RewardValueError: If it does not.
        """
        if allowed is None or self.reward is None or allowed[0] <= self.reward <= allowed[1]:
            return self
        msg = f"the reward {self.reward} is outside the declared range [{allowed[0]}, {allowed[1]}]"
        raise RewardValueError(msg)

    def with_extras(self, extras: Mapping[str, Any]) -> Self:
        """Return the result with more metrics.

        Args:
            extras: By name; they win over those that are there.
        """
        return replace(self, extras=MappingProxyType({**self.extras, **extras}))

    def as_json(self) -> dict[str, Any]:
        """Render the result: `reward`, `status`, `extras`, and `reason` where there is one."""
        shown: dict[str, Any] = {
            "reward": self.reward,
            "status": self.status.value,
            "extras": dict(self.extras),
        }
        return shown if self.reason is None else {**shown, "reason": self.reason}


def check_range(allowed: Range | None) -> Range | None:
    """Return a declared range.

    Args:
        allowed: Least and greatest reward, or `None`.

    Raises:
        RewardDefinitionError: If it is not two finite numbers in order.
    """
    if allowed is None:
        return None
    low, high = allowed
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        msg = f"a range is (least, greatest), two finite numbers in order, not {allowed!r}"
        raise RewardDefinitionError(msg)
    return float(low), float(high)
