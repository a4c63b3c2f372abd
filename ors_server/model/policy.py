"""The rules of an episode: an environment declares them, and a session may make them stricter."""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ors_server.model.errors import InvalidRequestError

MAX_REWARD = 1e100
"""Greatest magnitude of one reward or penalty: sums of them stay finite however long an episode is."""

REWARD_RANGE = (-MAX_REWARD, MAX_REWARD)
"""Range of rewards under a policy that declares none, inclusive."""

TOOL_COMPONENT = "tool"
"""Component of a reward that the tool's output states."""
WITHHELD = "withheld"
"""Component of the reward of a step that pays for earlier ones too."""


ROUNDING_TOLERANCE = 1e-9
"""Distance by which rounding may move a reward out of its range; it is moved back to the range's end."""


def absorb_rounding(reward: float, allowed: tuple[float, float]) -> float | None:
    """Move a reward at most `ROUNDING_TOLERANCE` outside a range to its end; `None` if farther outside."""
    low, high = allowed
    return (
        min(max(reward, low), high)
        if low - ROUNDING_TOLERANCE <= reward <= high + ROUNDING_TOLERANCE
        else None
    )


class PenaltyCause(StrEnum):
    """What a penalty is charged for."""

    INVALID_CALL = "invalid_call"
    TOOL_ERROR = "tool_error"
    TIMEOUT = "timeout"
    OVERLONG = "overlong"
    FORBIDDEN = "forbidden"
    COMMAND_ERROR = "command_error"


class RewardRangeError(ValueError):
    """A reward is not a finite number inside the declared range."""


class EpisodePolicy(BaseModel):
    """The rules of an episode: limits, penalties and the range of rewards.

    Penalties are written as magnitudes: 0.1 takes 0.1 away from the return.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    step_limit: int | None = Field(default=None, ge=1)
    """Steps after which the episode ends; `None` for no limit."""
    time_limit: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds of play, from the end of setup, after which the episode ends; `None` for no limit."""
    call_time_limit: float | None = Field(default=600.0, gt=0, allow_inf_nan=False)
    """Seconds that one tool call may take; `None` for no limit."""
    setup_time_limit: float | None = Field(default=900.0, gt=0, allow_inf_nan=False)
    """Seconds that setup may take; `None` for no limit."""
    overlong_after: int = Field(default=0, ge=0)
    """Steps that are free of the over-long penalty."""
    overlong_penalty: float = Field(default=0.0, ge=0, le=MAX_REWARD)
    """Charged for each step after the free ones."""
    invalid_call_penalty: float = Field(default=0.0, ge=0, le=MAX_REWARD)
    """Charged for a call of an unknown tool or with invalid arguments."""
    tool_error_penalty: float = Field(default=0.0, ge=0, le=MAX_REWARD)
    """Charged when a tool refuses the agent's request."""
    timeout_penalty: float = Field(default=0.0, ge=0, le=MAX_REWARD)
    """Charged when a call exceeds its time limit."""
    forbidden_penalty: float = Field(default=0.0, ge=0, le=MAX_REWARD)
    """Charged for a forbidden action."""
    forbidden_ends: bool = False
    """Whether a forbidden action ends the episode."""
    forbidden_commands: tuple[str, ...] = ()
    """Patterns of shell commands that are forbidden actions, matched on the parsed command; docs/policy.md
    says how."""
    command_error_penalty: float = Field(default=0.0, ge=0, le=MAX_REWARD)
    """Charged when a command that the agent ran ends with a status other than 0."""
    reward_range: tuple[float, float] | None = None
    """Lowest and highest reward that a tool may pay in one step, inclusive; `None`: up to `MAX_REWARD`."""
    clip_rewards: bool = False
    """Whether a reward outside the range is moved to its nearest end instead of being refused."""
    discount: float = Field(default=1.0, gt=0, le=1)
    """Factor per step of the reported discounted return; the return itself is never discounted."""
    emit: Literal["dense", "final"] = "dense"
    """When rewards are paid: `dense` with the step that earned them, `final` all together with the step that
    ends the episode, so that a consumer of the last reward and one of the sum agree."""
    overridable: frozenset[str] = frozenset({"step_limit", "time_limit", "call_time_limit", "emit"})
    """Names of the fields that a session request may set; a limit may only be made stricter."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.reward_range is not None:
            low, high = self.reward_range
            if not -MAX_REWARD <= low <= high <= MAX_REWARD:
                msg = (
                    f"reward_range must be (low, high) with {-MAX_REWARD:g} <= low <= high <= "
                    f"{MAX_REWARD:g}, got {self.reward_range}"
                )
                raise ValueError(msg)
        unknown = self.overridable - set(type(self).model_fields)
        if unknown:
            raise ValueError(f"overridable must name fields of the policy, got {', '.join(sorted(unknown))}")
        return self

    def admit(self, reward: float | None) -> float | None:
        """Check a tool's reward against the declared range, clipping it if the policy says so; `None` passes.

        One that is outside by at most `ROUNDING_TOLERANCE` becomes the nearest end.

        Raises:
            RewardRangeError: If it is NaN or infinite, or outside the range and clipping is off; or, without
                a range, if its magnitude exceeds `MAX_REWARD`.
        """
        if reward is None:
            return None
        if not math.isfinite(reward):
            raise RewardRangeError(f"a reward must be a finite number, got {reward}")
        low, high = self.reward_range or REWARD_RANGE
        clamped = absorb_rounding(reward, (low, high))
        if clamped is not None:
            return clamped
        if self.clip_rewards and self.reward_range is not None:
            return min(max(reward, low), high)
        msg = f"the reward {reward} is outside the range [{low}, {high}]; widen reward_range or fix the tool"
        raise RewardRangeError(msg)

    def penalty(self, cause: PenaltyCause) -> float:
        """Return the magnitude charged for a cause."""
        return float(getattr(self, f"{cause.value}_penalty"))

    def override(self, changes: Mapping[str, Any]) -> "EpisodePolicy":
        """Return the policy with a session's overrides applied.

        Args:
            changes: Values by field name; only `overridable` fields, and limits only downwards.

        Raises:
            InvalidRequestError: If a field may not be overridden, a limit would be loosened, or a value is
                invalid.
        """
        if not changes:
            return self
        refused = sorted(set(changes) - self.overridable)
        if refused:
            allowed = ", ".join(sorted(self.overridable)) or "nothing"
            raise InvalidRequestError(f"a session may override {allowed}, got {', '.join(refused)}")
        try:
            changed = type(self).model_validate({**self.model_dump(), **changes})
        except ValidationError as error:
            msg = f"the policy override is invalid: {error.errors(include_url=False)}"
            raise InvalidRequestError(msg) from error
        for name in changes:
            if not name.endswith("_limit"):
                continue
            before, after = getattr(self, name), getattr(changed, name)
            if before is not None and (after is None or after > before):
                msg = f"expected {name} <= {before} (an override may only be stricter), got {changes[name]}"
                raise InvalidRequestError(msg)
        return changed
