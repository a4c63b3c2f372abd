"""What can go wrong with a reward. A reward that could not judge is never a number."""

from ors_server.errors import AuthorError


class RewardError(AuthorError):
    """A reward broke a rule of the interface, or could not be asked."""

    code = "reward_error"


class RewardDefinitionError(RewardError):
    """A reward cannot be used as it is written: no callable, an illegal range, a name that is taken."""

    code = "reward_definition"


class RewardFieldError(RewardError, TypeError):
    """A reward needs a field that is not there."""

    code = "reward_field"


class RewardValueError(RewardError, ValueError):
    """A reward returned something that is not a finite number in its range, nor a mapping that has one."""

    code = "reward_value"


class UnknownRewardError(RewardError):
    """No reward is known by that name."""

    code = "unknown_reward"
