"""Puts the client's part of the package `ors_server`, and its version, into the distributions.

The files stay where they are, in the checkout's `ors_server`: there is one source of the code. A source
distribution has them beside this file, so that it builds the same wheel.
"""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent
SOURCE = HERE if (HERE / "ors_server").is_dir() else HERE.parents[1]
"""The folder that has the package."""


def read_version() -> str:
    """Return the package's version."""
    return str(runpy.run_path(str(SOURCE / "ors_server" / "_version.py"))["__version__"])


class ClientPartHook(BuildHookInterface[Any]):
    """Includes the files that `parts` in pyproject.toml names."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to the distribution that is built."""
        del version
        for part in self.config["parts"]:
            build_data["force_include"][str(SOURCE / part)] = part
