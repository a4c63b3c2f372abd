"""The versions that an environment's code runs with, as recorded with every episode."""

import platform
from contextlib import suppress
from importlib import metadata


def packages_of(source: type) -> dict[str, str]:
    """Return the versions of Python and of a class's distribution, if that has its package's name."""
    found = {"python": platform.python_version()}
    name = source.__module__.partition(".")[0]
    with suppress(metadata.PackageNotFoundError, ValueError):  # a file, or a distribution of another name
        found[name] = metadata.version(name)
    return found
