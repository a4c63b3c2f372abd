"""Errors of judges. A judge that could not judge never gives a number."""

from ors_server.rewards.reward_errors import NOTHING, JudgeBudgetError, JudgeError, JudgeSettingsError

__all__ = ["NOTHING", "JudgeBudgetError", "JudgeError", "JudgeSettingsError", "UnusableReplyError"]


class UnusableReplyError(Exception):
    """A judge's reply has no usable verdict. The message is sent to the judge."""
