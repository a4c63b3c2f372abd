"""The toolsets that an environment can take by name."""

from importlib import import_module
from types import MappingProxyType
from typing import cast

from ors_server.environments.tool import Toolset
from ors_server.model.errors import EnvironmentDefinitionError

TOOLSETS = MappingProxyType(
    {
        "bash": "ors_server.environments.toolsets.bash:BashTools",
        "python": "ors_server.environments.toolsets.python:PythonTools",
        "files": "ors_server.environments.toolsets.file_tools:FileTools",
        "patch": "ors_server.environments.toolsets.patch:PatchTools",
        "submit": "ors_server.environments.toolsets.submit:SubmitTools",
        "user": "ors_server.environments.toolsets.user:UserTools",
    }
)
"""Name to the class, which is imported when an environment takes it."""


def find_toolset(item: type[Toolset] | str, where: str) -> type[Toolset]:
    """Return a toolset's class; raises EnvironmentDefinitionError for an unknown name."""
    if not isinstance(item, str):
        return item
    location = TOOLSETS.get(item)
    if location is None:
        names = ", ".join(TOOLSETS)
        msg = f"{where}: unknown toolset {item!r}; expected one of {names}, or a class"
        raise EnvironmentDefinitionError(msg)
    module, name = location.split(":")
    return cast("type[Toolset]", getattr(import_module(module), name))
