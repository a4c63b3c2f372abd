"""The folders in which a user keeps data, caches and state (XDG Base Directory)."""

import os
from pathlib import Path

from ors_server.model.errors import SettingsError


def user_folder(variable: str, *default: str) -> Path:
    """Return the folder that a variable names by its whole path, or one in the user's home folder.

    Args:
        variable: Such as `XDG_CACHE_HOME`.
        *default: The folder's place in the home folder.

    Raises:
        SettingsError: If neither is known: a user without an entry in `/etc/passwd`, as in many containers,
            has no home folder.
    """
    named = os.environ.get(variable, "")
    return Path(named) if named.startswith("/") else home_folder(variable).joinpath(*default)


def home_folder(*other_variables: str) -> Path:
    """Return the user's home folder; `SettingsError` if it is not known.

    Args:
        *other_variables: Variables that may be set instead of `HOME`, for the error.
    """
    try:
        return Path.home()
    except RuntimeError:
        names = " or ".join(("HOME", *other_variables))
        raise SettingsError(
            f"the user {os.getuid()} has no home folder: set {names} to a folder that the user may write"
        ) from None
