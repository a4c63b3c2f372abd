"""What a reward needs before it can judge anything: rewards name it, and commands ask before any work."""

from collections.abc import Callable, Mapping
from typing import Any

from ors_server.rewards.define import FunctionReward, Reward
from ors_server.rewards.reading.optional_packages import load_package
from ors_server.rewards.reward_errors import MissingPackageError, RewardDefinitionError


def needs_package(name: str) -> Callable[[FunctionReward], FunctionReward]:
    """Mark a reward that judges nothing without a package of the extra `text`."""

    def mark(found: FunctionReward) -> FunctionReward:
        found.requirement = lambda _: load_package(name)
        return found

    return mark


def refuse_missing_packages(found: Reward, fields: Mapping[str, Any]) -> None:
    """Raise `MissingPackageError` if a reward lacks a package without which it judges nothing.

    Other settings may be missing, such as those of a judge: an environment is served without its judge.

    Args:
        fields: Those that are fixed for every judgement.
    """
    try:
        found.check_usable(fields)
    except MissingPackageError:
        raise
    except RewardDefinitionError:
        return
