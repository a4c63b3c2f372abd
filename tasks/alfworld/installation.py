"""Finds the Python that has alfworld: this one, or the one that ORS_ALFWORLD_PYTHON names."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from functools import cache

from ors_server import child_variables, install_hint
from ors_server.resources import MissingRequirementError

PYTHON_VARIABLE = "ORS_ALFWORLD_PYTHON"
MODULES = ("alfworld", "fast_downward", "textworld")
_LOOK_LIMIT = 60.0
"""Seconds that another Python may take to say which modules it has."""
_LOOK = "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))"


class NotInstalledError(MissingRequirementError):
    """There is no alfworld."""


def find_interpreter() -> str | None:
    """Return the Python in which games are played; `None` for this one.

    Raises:
        NotInstalledError: It cannot be started, or has no alfworld.
    """
    python = os.environ.get(PYTHON_VARIABLE) or None
    if python is None:
        if not all(importlib.util.find_spec(module) for module in MODULES):
            raise NotInstalledError(
                f"alfworld not installed: run {install_hint('alfworld')} (it compiles with make and g++), "
                f"or set {PYTHON_VARIABLE} to a Python that has alfworld"
            )
        return None
    _check(python)
    return python


@cache
def _check(python: str) -> None:
    try:
        looked = subprocess.run(  # noqa: S603  (the operator's own program)
            [python, "-c", _LOOK, *MODULES],
            capture_output=True,
            timeout=_LOOK_LIMIT,
            check=False,
            env=child_variables(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(f"{PYTHON_VARIABLE}={python} cannot be started: {error}") from error
    if looked.returncode != 0:
        raise NotInstalledError(
            f"{PYTHON_VARIABLE}={python} has no alfworld: run `{python} -m pip install alfworld==0.4.2 "
            "fast-downward-textworld==20.6.4 textworld==1.7.0`"
        )
