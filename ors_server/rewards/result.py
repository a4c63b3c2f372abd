"""The result of a reward: a number, or the reason why nothing was judged. Pure data."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self, TypeAlias, cast

from ors_server.model.policy import absorb_rounding
from ors_server.rewards.reward_errors import RewardDefinitionError, RewardValueError

Range: TypeAlias = tuple[float, float]
"""Lowest and highest reward, inclusive."""

KEY = "reward"
"""Key of the number in a mapping; every other key is a metric."""


class RewardStatus(StrEnum):
    """How a reward was computed."""

    GRADED = "graded"
    UNPARSED_ANSWER = "unparsed_answer"
    """The answer could not be read: the agent's failure, paid with the least reward and counted apart."""
    BAD_GOLD = "bad_gold"
    """The task's own answer could not be read; there is no reward."""
    ERROR = "error"
    """The reward raised, or returned something that is not a reward."""
    LIMIT = "limit"
    """The judgement took too long or too much memory; there is no reward."""


_NUMBERED = frozenset({RewardStatus.GRADED, RewardStatus.UNPARSED_ANSWER})


@dataclass(frozen=True, slots=True)
class RewardResult:
    """A reward with its metrics, or the reason why it is missing."""

    reward: float | None
    """A finite number; `None` unless the status is graded or unparsed_answer."""
    status: RewardStatus = RewardStatus.GRADED
    """Whether the reward judged, and if not, why."""
    extras: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Metrics by name; recorded, never summed."""
    reason: str | None = None
    """Why there is no reward, or why the answer could not be read."""

    def __post_init__(self) -> None:
        """Raise `RewardValueError` for a missing, forbidden or infinite number."""
        if (self.status in _NUMBERED) != (self.reward is not None):
            raise RewardValueError(f"a result that is {self.status} cannot have the reward {self.reward!r}")
        if self.reward is not None and not math.isfinite(self.reward):
            raise RewardValueError(f"expected a finite number as reward, got {self.reward!r}")

    @classmethod
    def from_raw(cls, value: object) -> Self:
        """Read what a reward function returned: a number, a boolean, a mapping or a result.

        A mapping has the number under `reward`; its other entries become extras. Anything else, and numbers
        that are not finite, raise `RewardValueError`.
        """
        if isinstance(value, cls):
            return value
        extras: dict[str, Any] = {}
        if isinstance(value, Mapping):
            entries = cast("Mapping[object, Any]", value)
            extras = {str(key): entry for key, entry in entries.items() if key != KEY}
            if KEY not in entries:
                keys = ", ".join(map(repr, entries)) or "none"
                raise RewardValueError(
                    f"expected a mapping with a number under 'reward', got the keys {keys}"
                )
            value = cast("object", entries[KEY])
        if not isinstance(value, int | float):
            raise RewardValueError(
                "expected a reward as a number, or as a mapping with a number under 'reward', "
                f"got a {type(value).__name__}"
            )
        return cls(float(value), extras=MappingProxyType(extras))

    @classmethod
    def without(cls, status: RewardStatus, reason: str, extras: Mapping[str, Any] | None = None) -> Self:
        """Make a result without a reward; the status is `BAD_GOLD`, `ERROR` or `LIMIT`."""
        return cls(None, status, MappingProxyType(dict(extras or {})), reason)

    def within(self, allowed: Range | None) -> Self:
        """Return the result, its reward in a range.

        A reward that is outside by at most 1e-9 becomes the nearest end; one farther outside raises
        `RewardValueError`.
        """
        if allowed is None or self.reward is None:
            return self
        clamped = absorb_rounding(self.reward, allowed)
        if clamped is not None:
            return self if clamped == self.reward else replace(self, reward=clamped)
        raise RewardValueError(
            f"the reward {self.reward} is outside the declared range [{allowed[0]}, {allowed[1]}]"
        )

    def with_extras(self, extras: Mapping[str, Any]) -> Self:
        """Return the result with more metrics, which replace those of the same names."""
        return replace(self, extras=MappingProxyType({**self.extras, **extras}))

    def as_json(self) -> dict[str, Any]:
        """Return `reward`, `status`, `extras`, and `reason` where there is one."""
        shown: dict[str, Any] = {
            "reward": self.reward,
            "status": self.status.value,
            "extras": dict(self.extras),
        }
        return shown if self.reason is None else {**shown, "reason": self.reason}


def check_range(allowed: Range | None) -> Range | None:
    """Return a range as floats; raise `RewardDefinitionError` if it is not two finite numbers in order."""
    if allowed is None:
        return None
    low, high = allowed
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise RewardDefinitionError(
            f"expected a range (least, greatest) of two finite numbers in order, got {allowed!r}"
        )
    return float(low), float(high)
