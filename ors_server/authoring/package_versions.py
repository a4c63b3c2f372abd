"""Which versions an environment's code runs with, as recorded with every episode."""

import platform
from contextlib import suppress
from importlib import metadata


def packages_of(source: type) -> dict[str, str]:
    """Return the version of Python, and of the distribution that carries a class, where their names agree."""
    found = {"python": platform.python_version()}
    name = source.__module__.partition(".")[0]
    with suppress(metadata.PackageNotFoundError, ValueError):  # a file, or a distribution of another name
        found[name] = metadata.version(name)
    return found
