"""The toolsets that a declaration names: those of the package, and classes of one's own."""

import hashlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ors_server.environments.boundary import describe_authors
from ors_server.environments.declared.declaration import Declaration
from ors_server.environments.tool import Toolset
from ors_server.environments.toolset_names import find_toolset
from ors_server.files.importing import import_file
from ors_server.model.errors import EnvironmentDefinitionError

_PYTHON = ".py"


def find_declared_toolset(item: str, folder: Path) -> str | type[Toolset]:
    """Return a toolset's name, or its class for `module:Class` and `file.py:Class`.

    Raises:
        EnvironmentDefinitionError: If it does not exist.
    """
    module, colon, name = item.rpartition(":")
    if not colon:
        find_toolset(item, "toolsets")
        return item
    toolset: object = getattr(_load(item, module, folder), name, None)
    if isinstance(toolset, type) and issubclass(toolset, Toolset):
        return toolset
    actual = "nothing" if toolset is None else f"{toolset!r:.80}"
    raise EnvironmentDefinitionError(
        f"toolsets: expected a subclass of Toolset named {name!r} in {module}, got {actual}"
    )


def code_files(declaration: Declaration, folder: Path) -> list[Path]:
    """Return the Python files that a declaration names, for its rewards and tools."""
    items = [*(reward.name for reward in declaration.reward), *declaration.toolsets]
    places = (item.rpartition(":")[0] for item in items)
    return sorted({folder / module for module in places if module.endswith(_PYTHON)})


def digest_files(files: Sequence[Path]) -> list[str]:
    """Return a hash of each file's content."""
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


def _load(item: str, module: str, folder: Path) -> Any:
    file = (folder / module).resolve() if module.endswith(_PYTHON) else None
    if file is not None and not file.is_file():
        raise EnvironmentDefinitionError(f"toolsets: expected a Python file at {file}, which does not exist")
    try:
        if file is None:
            return import_module(module)
        # A name for each path, so that two declarations may have files of one name.
        return import_file(file, f"ors_toolsets_{hashlib.sha256(str(file).encode()).hexdigest()[:16]}")
    except Exception as error:  # the author's code may raise anything
        raise EnvironmentDefinitionError(
            f"toolsets: {item!r} cannot be loaded: {describe_authors(error)}"
        ) from error
