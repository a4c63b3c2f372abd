"""Imports a Python file that is named by its path; what a file is good for is its reader's business."""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType


class NotAPythonFileError(ImportError):
    """A path does not end as Python files do."""


def import_file(file: Path, name: str, search: Sequence[str] | None = None) -> ModuleType:
    """Import a file under a name, or return what was imported under it before.

    Args:
        file: The file.
        name: The module's name, which no other file has.
        search: Folders of its submodules, where it is a package.

    Raises:
        NotAPythonFileError: If it is none. Whatever its code raises comes out as it is, and the module is
            forgotten.
    """
    if name in sys.modules:
        return sys.modules[name]
    locations = None if search is None else list(search)
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=locations)
    if spec is None or spec.loader is None:
        raise NotAPythonFileError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
