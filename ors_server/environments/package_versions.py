"""The versions that an environment's code runs with, as recorded with every episode."""

import platform
from contextlib import suppress
from importlib import metadata

from ors_server._version import __version__
from ors_server.installation import PACKAGE


def packages_of(source: type) -> dict[str, str]:
    """Return the versions of Python and of a class's distribution, if that has its package's name."""
    versions = {"python": platform.python_version()}
    name = source.__module__.partition(".")[0]
    if name == PACKAGE:  # whose distribution has another name, and another project's has this one
        return {**versions, name: __version__}
    with suppress(metadata.PackageNotFoundError, ValueError):  # a file, or a distribution of another name
        versions[name] = metadata.version(name)
    return versions
