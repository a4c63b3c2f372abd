"""Old public names that keep working for one minor version, with a warning that names the new one."""

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from typing_extensions import deprecated

__all__ = ["deprecated", "deprecated_names"]


def deprecated_names(module: str, names: Mapping[str, str], *, removed_in: str) -> Callable[[str], Any]:
    """Make a lookup of old names, for the `__getattr__` of a public module.

    Args:
        names: The new place of each old name, as `package.module:Name`.
        removed_in: The version that removes the old names, as `major.minor`: a test fails when it comes.
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, new = names[name].partition(":")
        message = f"{module}.{name} is deprecated, use {module}.{new}: version {removed_in} removes it"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
        return getattr(import_module(home), new)

    return find
