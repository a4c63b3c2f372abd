"""Imports a Python file by its path.

Such a file can import its neighbours, like a program that is run from its folder. A file inside a package is
imported as the package's module, so that it may import its package by name or with dots.
"""

import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

_folders: list[str] = []
"""Folders of the imported files; the modules in them can be imported by name."""


class NotAPythonFileError(ImportError):
    """A path does not end as Python files do."""


class NeighbourClashError(ImportError):
    """Two files in different folders import different modules of one name."""


def import_file(file: Path, name: str, search: Sequence[str] | None = None) -> ModuleType:
    """Import a file under a name, or return what was imported under it before.

    Args:
        name: The module's name, which no other file has.
        search: Folders of its submodules, where it is a package.

    Raises:
        NotAPythonFileError: If it is not a Python file.
        NeighbourClashError: If it imports a neighbour of a name that a file of another folder has already
            imported from there. Errors of its code are raised as they are, and the module is forgotten.
    """
    if name in sys.modules:
        return sys.modules[name]
    dotted, root = _place_in_package(file.resolve(), is_package=search is not None)
    try:
        with _neighbours(str(root), str(file)) as taken:
            if dotted is not None and dotted.partition(".")[0] not in taken and _leads_to(dotted, file):
                return importlib.import_module(dotted)
            return _execute(file, name, search)
    except NeighbourClashError:
        sys.modules.pop(name, None)
        raise


@contextmanager
def forgotten_modules(folders: Sequence[Path]) -> Generator[None]:
    """Import the modules of folders again in the with statement; an error brings the old ones back."""
    roots = [folder.resolve() for folder in folders]
    old: dict[str, ModuleType] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and any(_is_own(Path(file), root) for root in roots):
            old[name] = sys.modules.pop(name)
    importlib.invalidate_caches()
    try:
        yield
    except BaseException:
        sys.modules.update(old)
        raise


def _is_own(file: Path, root: Path) -> bool:
    """Whether a file belongs to a folder, and not to a virtual environment or this package in it."""
    if not file.is_relative_to(root) or file.is_relative_to(Path(__file__).parents[1]):
        return False
    parts = file.relative_to(root).parts
    return not any(part.startswith(".") or part in {"site-packages", "dist-packages"} for part in parts)


def _execute(file: Path, name: str, search: Sequence[str] | None) -> ModuleType:
    locations = None if search is None else list(search)
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=locations)
    if spec is None or spec.loader is None:
        raise NotAPythonFileError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _place_in_package(file: Path, *, is_package: bool) -> tuple[str | None, Path]:
    """Return the dotted name of a file inside a package, and the folder that the name is looked for in."""
    parts = [] if is_package else [file.stem]
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        parts.insert(0, folder.name)
        folder = folder.parent
    is_inside = len(parts) > (0 if is_package else 1) and all(part.isidentifier() for part in parts)
    return (".".join(parts) if is_inside else None), folder


def _leads_to(dotted: str, file: Path) -> bool:
    """Whether a name leads to this file, and not to another package of the name."""
    head = dotted.partition(".")[0]
    try:
        if importlib.util.find_spec(head) is None:
            return False
        spec = importlib.util.find_spec(dotted)
    except (ImportError, ValueError, AttributeError):
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == file.resolve()


@contextmanager
def _neighbours(folder: str, file: str) -> Generator[set[str]]:
    """Let imports find a folder's modules: before installed packages now, behind them later.

    Yields the names that files of other folders have taken.
    """
    hidden = _take_out_others(folder)
    is_new = folder not in sys.path
    if is_new:
        installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        positions = (at for at, entry in enumerate(sys.path) if entry in installed)
        sys.path.insert(next(positions, len(sys.path)), folder)
    importlib.invalidate_caches()
    try:
        yield set(hidden)
    finally:
        if is_new:
            sys.path.remove(folder)
            sys.path.append(folder)
        if folder not in _folders:
            _folders.append(folder)
        own = {name: sys.modules[name] for name in hidden if name in sys.modules}
        sys.modules.update(hidden)
    for name, module in own.items():
        raise NeighbourClashError(
            f"{file} imports {name!r} from {module.__file__}, but {hidden[name].__file__} has been imported "
            "under that name: rename one of them, or make a package of each folder and import with dots"
        )


def _take_out_others(folder: str) -> dict[str, ModuleType]:
    """Forget, for now, modules of other files' folders for which this folder has its own of the name."""
    others = [other for other in _folders if other != folder]
    own = _importable_from(folder) if others else set[str]()
    hidden: dict[str, ModuleType] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in own:
            continue
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        heads = [Path(other, name.partition(".")[0]) for other in others]
        if any(Path(file) == head.with_suffix(".py") or Path(file).is_relative_to(head) for head in heads):
            hidden[name] = sys.modules.pop(name)
    return hidden


def _importable_from(folder: str) -> set[str]:
    try:
        entries = list(Path(folder).iterdir())
    except OSError:
        return set()
    modules = {entry.stem for entry in entries if entry.suffix == ".py" and entry.is_file()}
    return modules | {entry.name for entry in entries if (entry / "__init__.py").is_file()}
