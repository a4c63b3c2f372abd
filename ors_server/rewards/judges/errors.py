"""What can go wrong with a judge. A judge that could not judge never gives a number."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ors_server.errors import MachineryError
from ors_server.rewards.errors import RewardDefinitionError

NOTHING: Mapping[str, Any] = MappingProxyType({})


class JudgeError(MachineryError):
    """A judge did not come to a verdict: it could not be reached, or gave nothing that can be used.

    Attributes:
        extras: What the attempt cost all the same, by name, as in a result's extras.
    """

    code = "judge_failed"

    def __init__(self, message: str, extras: Mapping[str, Any] = NOTHING) -> None:
        """Keep the message and the cost.

        Args:
            message: What went wrong.
            extras: What the attempt cost.
        """
        super().__init__(message)
        self.extras = extras


class JudgeBudgetError(JudgeError):
    """The cap on calls, tokens or cost is reached; nothing more is asked."""

    code = "judge_budget"


class JudgeSettingsError(RewardDefinitionError):
    """A judge cannot be used as it is set up: no endpoint, no model, no package, an illegal rubric."""

    code = "judge_settings"


class UnusableReplyError(Exception):
    """A judge's reply has no verdict in it that can be used. The message is what the judge is told."""
