"""Errors of rewards. A reward that could not judge is never a number."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ors_server.model.errors import AuthorError, MachineryError

NOTHING: Mapping[str, Any] = MappingProxyType({})


class RewardError(AuthorError):
    """A reward broke a rule of the interface, or could not be evaluated."""

    code = "reward_error"


class RewardDefinitionError(RewardError):
    """A reward cannot be used as it is written: not callable, an illegal range, a name that is taken."""

    code = "reward_definition"


class MissingPackageError(RewardDefinitionError):
    """A reward needs a package that is not installed."""

    code = "reward_package"


class RewardFieldError(RewardError, TypeError):
    """A field that a reward needs is missing or unreadable."""

    code = "reward_field"


class RewardValueError(RewardError, ValueError):
    """A reward returned something that is not a finite number in its range, nor a mapping that has one."""

    code = "reward_value"


class UnknownRewardError(RewardError):
    """There is no reward of that name."""

    code = "unknown_reward"


class NoRewardError(RewardError):
    """There is no judgement, and the caller can only take a number."""

    code = "no_reward"


class BatchError(RewardError):
    """A batch cannot be judged: its options contradict each other, or the workers cannot start."""

    code = "reward_batch"


class JudgeError(MachineryError):
    """A judge gave no verdict; `extras` has what the attempt cost, as in a result's extras."""

    code = "judge_failed"

    def __init__(self, message: str, extras: Mapping[str, Any] = NOTHING) -> None:
        super().__init__(message)
        self.extras = extras


class JudgeBudgetError(JudgeError):
    """The limit on calls, tokens or cost is reached; nothing more is requested."""

    code = "judge_budget"


class UnusableReplyError(Exception):
    """A judge's reply has no usable verdict. The message is sent to the judge."""


class JudgeSettingsError(RewardDefinitionError):
    """A judge cannot be used as it is set up: no endpoint, no model, no package, an illegal rubric."""

    code = "judge_settings"
