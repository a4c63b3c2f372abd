"""Packages of an extra: rewards say which they need, and they are imported when a reward first needs them."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from ors_server.installation import install_hint
from ors_server.rewards.define import FunctionReward, Reward
from ors_server.rewards.reward_errors import MissingPackageError, RewardDefinitionError


def load_package(name: str) -> Any:
    """Import a package of the extra `text`; raise `MissingPackageError` if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackageError(
            f"this reward needs the package {name.partition('.')[0]}; "
            f"install the extra: {install_hint('text')}"
        ) from error


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
