"""Packages of an extra, imported when a reward first needs them."""

from importlib import import_module
from typing import Any

from ors_server.installation import install_hint
from ors_server.rewards.reward_errors import MissingPackageError


def load_package(name: str) -> Any:
    """Import a package of the extra `text`; raise `MissingPackageError` if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackageError(
            f"this reward needs the package {name.partition('.')[0]}; "
            f"install the extra: {install_hint('text')}"
        ) from error
