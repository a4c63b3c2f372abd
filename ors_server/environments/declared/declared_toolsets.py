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
        EnvironmentDefinitionError: If there is none.
    """
    place, colon, name = item.rpartition(":")
    if not colon:
        find_toolset(item, "toolsets")
        return item
    found: object = getattr(_load(item, place, folder), name, None)
    if isinstance(found, type) and issubclass(found, Toolset):
        return found
    came = "nothing" if found is None else f"{found!r:.80}"
    raise EnvironmentDefinitionError(
        f"toolsets: expected a subclass of Toolset named {name!r} in {place}, came {came}"
    )


def code_files(declaration: Declaration, folder: Path) -> list[Path]:
    """Return the Python files beside a declaration that it names, for its rewards and tools."""
    items = [*(reward.name for reward in declaration.reward), *declaration.toolsets]
    places = (item.rpartition(":")[0] for item in items)
    return sorted({folder / place for place in places if place.endswith(_PYTHON)})


def digest_files(files: Sequence[Path]) -> list[str]:
    """Return a hash of each file's content."""
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


def _load(item: str, place: str, folder: Path) -> Any:
    file = (folder / place).resolve() if place.endswith(_PYTHON) else None
    if file is not None and not file.is_file():
        raise EnvironmentDefinitionError(f"toolsets: expected a Python file at {file}; there is none")
    try:
        if file is None:
            return import_module(place)
        return import_file(file, f"ors_toolsets_{hashlib.sha256(str(file).encode()).hexdigest()[:16]}")
    except Exception as error:  # the author's code, whatever it raises
        raise EnvironmentDefinitionError(
            f"toolsets: {item!r} cannot be loaded: {describe_authors(error)}"
        ) from error
