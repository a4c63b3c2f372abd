"""Finds environments by name, `module:Class`, or path, and defines them.

Names an environment's code while it runs, so that the log can name what blocks the event loop.
"""

import difflib
import importlib
import inspect
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from ors_server.environments.boundary import describe_authors
from ors_server.environments.declared.references import find_declared
from ors_server.environments.declared.rows.choose_source import ENDINGS
from ors_server.environments.definition import EnvironmentDefinition, TaskSource
from ors_server.environments.environment import Environment
from ors_server.environments.environment_names import ENVIRONMENT_NAME, RESERVED_NAMES
from ors_server.environments.foreign_environments import define_foreign, foreign_base
from ors_server.environments.native import define_native, is_incomplete
from ors_server.environments.source_places import name_with_location
from ors_server.environments.sources import find_sourced, load_source, source_names
from ors_server.files.importing import NotAPythonFileError, import_file
from ors_server.installation import DISTRIBUTION, openreward_hint
from ors_server.model.errors import (
    AuthorError,
    EnvironmentDefinitionError,
    OrsServerError,
    UnknownEnvironmentError,
)
from ors_server.model.logs import get_logger
from ors_server.resources.resource_errors import MissingRequirementError
from ors_server.rewards.reward_errors import MissingPackageError
from ors_server.timing.loop_watch import AuthorCode, RunningCode

P = ParamSpec("P")
T = TypeVar("T")


def name_code(definition: EnvironmentDefinition) -> EnvironmentDefinition:
    """Return a definition whose hooks and task methods run under their names.

    All but teardown and group scores are urgent: a client waits for them.
    """
    hooks, name = definition.hooks, definition.name
    named = replace(
        hooks,
        make=_named(hooks.make, name, "the constructor") if hooks.has_constructor else hooks.make,
        setup=hooks.setup and _named(hooks.setup, name, "setup"),
        teardown=hooks.teardown and _named(hooks.teardown, name, "teardown", is_urgent=False),
        prompt=_named(hooks.prompt, name, "the prompt"),
        messages=_named(hooks.messages, name, "the prompt"),
        task_tools=hooks.task_tools and _named(hooks.task_tools, name, "list_task_tools"),
        score_group=hooks.score_group and _named(hooks.score_group, name, "score_group", is_urgent=False),
        save=hooks.save and _named(hooks.save, name, "save_state"),
        load=hooks.load and _named(hooks.load, name, "load_state"),
    )
    return replace(definition, hooks=named, tasks=_NamedTasks(definition.tasks, name))


def _named(
    hook: Callable[P, Awaitable[T]], environment: str, part: str, *, is_urgent: bool = True
) -> Callable[P, Coroutine[Any, Any, T]]:
    code = AuthorCode(environment, part, is_urgent)

    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with RunningCode(code):
            return await hook(*args, **kwargs)

    return run


class _NamedTasks:
    """A task source whose methods run under their names."""

    def __init__(self, tasks: TaskSource, environment: str) -> None:
        self.list_tasks = _named(tasks.list_tasks, environment, "list_tasks")
        self.num_tasks = _named(tasks.num_tasks, environment, "num_tasks")
        self.get_task = _named(tasks.get_task, environment, "get_task")
        self.get_task_range = _named(tasks.get_task_range, environment, "get_task_range")


log = get_logger("ors_server.environments")

ENTRY_POINT_GROUP = "ors_server.environments"
"""Entry points under which installed packages offer environments by name."""
FOLDER_READERS = ("ors_server.harbor.find_tasks:find_tasks",)
"""Functions that make a class of a folder in their own format; `None` for other folders. They are imported
when a folder is served, as toolsets are by name: they build on environments, not the other way round."""


def define(cls: type) -> EnvironmentDefinition:
    """Compute the definition of an environment class, native or foreign.

    Raises:
        EnvironmentDefinitionError: If it is of another kind, its name is reserved, or it breaks a rule.
    """
    base = foreign_base(cls)
    if base is not None:
        definition = define_foreign(cls, base)
    elif issubclass(cls, Environment):
        definition = define_native(cls)
    else:
        raise EnvironmentDefinitionError(f"{cls.__module__}:{cls.__qualname__} is not an Environment class")
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
        raise EnvironmentDefinitionError(
            f"{name_with_location(cls.__qualname__, cls)} is abstract: define {missing}"
        )
    if not ENVIRONMENT_NAME.fullmatch(definition.name) or definition.name in RESERVED_NAMES:
        where = name_with_location(cls.__qualname__, cls)
        raise EnvironmentDefinitionError(
            f"{where}: environment name {definition.name!r} must match {ENVIRONMENT_NAME.pattern} and not be "
            "a path of the server's own; set the class attribute `name`, or `name` in environment.toml"
        )
    return name_code(definition)


def load_environments(references: Sequence[str]) -> list[EnvironmentDefinition]:
    """Load and define environments.

    Args:
        references: Each is a name that an installed package offers, `module:Class`, the path of a Python
            file or a package folder, optionally followed by `:Class`, the path of a folder with an
            `environment.toml`, or `SOURCE/NAME`.

    Raises:
        UnknownEnvironmentError: If a reference leads nowhere.
        EnvironmentDefinitionError: If a class breaks a rule, or two environments share a name.
    """
    installed = installed_environments()
    definitions = [define(cls) for reference in references for cls in _find_classes(reference, installed)]
    check_names(definitions)
    return definitions


def definitions_of(environment: type | str | EnvironmentDefinition) -> list[EnvironmentDefinition]:
    """Return the definitions of a class, a reference, or a definition."""
    if isinstance(environment, EnvironmentDefinition):
        return [environment]
    return load_environments([environment]) if isinstance(environment, str) else [define(environment)]


def check_names(definitions: Sequence[EnvironmentDefinition]) -> None:
    """Raise `EnvironmentDefinitionError` if two environments share a name."""
    counts = Counter(definition.name for definition in definitions)
    for name, count in counts.items():
        if count > 1:
            places = (
                name_with_location(definition.source.__name__, definition.source)
                for definition in definitions
                if definition.name == name
            )
            raise EnvironmentDefinitionError(
                f"two environments are named {name!r}: {' and '.join(places)}; "
                "serve one of them, or give one another `name`"
            )


def installed_environments() -> dict[str, str]:
    """Return the environments that installed packages offer: `module:Class` by name, sorted by name.

    If several packages offer one name, a bundled environment keeps it, or else the package whose name sorts
    first. The log names the one that is left out.
    """
    by_name: dict[str, tuple[str, EntryPoint]] = {}
    for package, point in _offers():
        keeper, keeper_point = by_name.setdefault(point.name, (package, point))
        if keeper_point.value != point.value:
            log.warning(
                "environment_left_out",
                name=point.name,
                kept=f"{keeper_point.value} of {keeper}",
                left_out=f"{point.value} of {package}",
                advice="serve it by module:Class",
            )
    return {name: by_name[name][1].value for name in sorted(by_name)}


@dataclass(frozen=True, slots=True)
class UnusableEnvironment:
    """An installed environment that is left out."""

    name: str
    """The name of its entry point."""
    location: str
    """Its class, and the distribution that offers it."""
    reason: str
    is_missing_requirement: bool = False
    """Whether only an optional program or package is missing; then the reason says how to install it."""

    def __str__(self) -> str:
        """Render it as one sentence."""
        return f"left out {self.name} ({self.location}): {self.reason}"


def usable_environments(
    on_unusable: Callable[[UnusableEnvironment], None],
) -> dict[str, EnvironmentDefinition]:
    """Return the installed environments that load and whose names are unique, by their entry points' names.

    Args:
        on_unusable: Called for each environment that is left out.
    """
    offered, taken = installed_environments(), dict[str, str]()
    usable: dict[str, EnvironmentDefinition] = {}
    for package, point in _offers():
        if point.name not in offered:
            continue
        unusable = partial(UnusableEnvironment, point.name, f"{point.value} of {package}")
        if offered[point.name] != point.value:
            on_unusable(unusable(f"{offered[point.name]} has the name; serve it by {point.value}"))
            continue
        try:
            # One import at a time, each with its own error: a broken package must not hide the others.
            (definition,) = map(define, _find_classes(point.name, offered))
        except (AuthorError, UnknownEnvironmentError) as error:
            is_missing = isinstance(error.__cause__, MissingRequirementError | MissingPackageError)
            on_unusable(unusable(str(error), is_missing_requirement=is_missing))
            continue
        if taken.setdefault(definition.name, point.name) == point.name:
            usable[point.name] = definition
        else:
            on_unusable(unusable(f"{taken[definition.name]} has its name {definition.name!r} already"))
    return {name: usable[name] for name in sorted(usable)}


def _offers() -> list[tuple[str, EntryPoint]]:
    """Return package and entry point of each offered environment; of one name, its keeper first."""
    offers = [
        ("an unknown package" if point.dist is None else point.dist.name, point)
        for point in entry_points(group=ENTRY_POINT_GROUP)
    ]
    return sorted(offers, key=lambda offer: (offer[0] != DISTRIBUTION, offer[0]))


def find_classes(reference: str) -> list[type]:
    """Find the environment classes that a reference names, without defining them.

    Raises:
        UnknownEnvironmentError: If it leads nowhere.
        EnvironmentDefinitionError: If the module fails to import.
    """
    return _find_classes(reference, installed_environments())


def environment_at(path: str | Path) -> type:
    """Return the environment in a folder or file, for a package whose entry point names the class.

    Args:
        path: A folder with an `environment.toml`, with tasks in Harbor's format or with a package, or a
            Python file; with `:Class` after it if it has several.

    Raises:
        UnknownEnvironmentError: If there is no environment.
        EnvironmentDefinitionError: If there are several, or it breaks a rule.
    """
    classes = _find_classes(str(Path(path).absolute()), {})
    if len(classes) != 1:
        names = ", ".join(cls.__name__ for cls in classes)
        raise EnvironmentDefinitionError(f"{path}: expected one environment, got {names}")
    return classes[0]


def _find_classes(reference: str, installed: Mapping[str, str]) -> list[type]:
    if reference not in installed:
        adapted = (
            find_declared(reference)
            or _find_in_folder(reference)
            or (None if Path(reference).exists() else find_sourced(reference))
        )
        if adapted is not None:
            return [adapted]
    target = installed.get(reference, reference)
    module_name, colon, class_name = target.rpartition(":")
    if not (colon and class_name.isidentifier()):  # no class is named: the colon is part of a path
        module_name, class_name = target, ""
    # Declarations and sources were tried first: their references may look like a path or a module's name.
    module = _import(module_name, reference, sorted(installed))
    if class_name:
        named_class = getattr(module, class_name, None)
        if not inspect.isclass(named_class):
            names = ", ".join(cls.__name__ for cls in _environment_classes(module)) or "none"
            msg = f"{reference}: {module_name} has no class {class_name!r}; it has {names}"
            raise UnknownEnvironmentError(msg)
        return [named_class]
    classes = _environment_classes(module)
    if not classes:
        raise UnknownEnvironmentError(f"{reference}: it defines no Environment class")
    playable: list[type] = []
    for cls in classes:
        is_base = any(other is not cls and issubclass(other, cls) for other in classes)
        # One that is only a base of others in its module cannot be played itself.
        if is_base and (inspect.isabstract(cls) or (foreign_base(cls) is None and is_incomplete(cls))):
            continue
        playable.append(cls)
    return playable


def _find_in_folder(reference: str) -> type | None:
    """Return the class that a reader of another format makes of a folder; `None` if no reader knows it."""
    path = Path(reference)
    if not path.is_dir() or (path / "__init__.py").is_file():
        return None
    for location in FOLDER_READERS:
        module, name = location.split(":")
        cls: type | None = getattr(importlib.import_module(module), name)(reference)
        if cls is not None:
            return cls
    return None


def _import(module_name: str, reference: str, installed: list[str]) -> ModuleType:
    path = Path(module_name)
    _check_place(path, module_name, reference, installed)
    try:
        if path.suffix == ".py" or "/" in module_name or path.is_dir():
            return _import_path(path, reference)
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # The reference itself is missing, not something that an existing module imports.
        if error.name is not None and module_name.startswith(error.name):
            raise UnknownEnvironmentError(_unknown(reference, installed)) from error
        raise EnvironmentDefinitionError(f"{reference}: importing it failed: {_why(error)}") from error
    except EnvironmentDefinitionError:
        raise
    except MissingRequirementError as error:
        raise EnvironmentDefinitionError(f"{reference}: {error}") from error
    except (Exception, SystemExit) as error:
        raise EnvironmentDefinitionError(f"{reference}: importing it failed: {_why(error)}") from error


def _check_place(path: Path, module_name: str, reference: str, installed: list[str]) -> None:
    """Refuse a place that cannot be an environment's, before anything is imported.

    Raises:
        UnknownEnvironmentError: If it is a path to nothing, a file of another kind, or the name of a module
            of Python's own without a class.
    """
    if path.suffix == ".py" or "/" in module_name:
        if path.exists():
            return
        if path.suffix == ".py" or module_name.startswith((".", "/", "~")) or path.parent.is_dir():
            raise UnknownEnvironmentError(f"{reference}: there is no such file or folder{_neighbour(path)}")
        raise UnknownEnvironmentError(_unknown(reference, installed))
    if path.is_file():
        raise UnknownEnvironmentError(
            f"{reference}: expected a .py file, a folder, a declaration (.toml) or a data file "
            f"({', '.join(ENDINGS)})"
        )
    if (
        module_name == reference
        and module_name.partition(".")[0] in sys.stdlib_module_names
        and not path.is_dir()
    ):
        raise UnknownEnvironmentError(_unknown(reference, installed))


def _neighbour(path: Path) -> str:
    """Suggest the file or folder in the same folder whose name is most like a missing one's."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {path.parent / near[0]}?" if near else ""


def _unknown(reference: str, installed: list[str]) -> str:
    """Say that nothing has a name; name only what can be used here, and the nearest name of all."""
    if reference.startswith(("http://", "https://")):
        return f"{reference} is a URL: expected an environment of this machine; call, check, eval take URLs"
    # An entry point whose own module does not exist asks this too, and must not look at itself again.
    usable = [] if reference in installed else list(usable_environments(lambda _: None))
    longer = [name for name in installed if name.startswith(reference) or reference.startswith(name)]
    near = longer or _nearest(reference, usable) or _nearest(reference, installed)
    absent = "" if not near or near[0] in usable else " (not installed: ors-server doctor shows how)"
    hint = f"; did you mean {near[0]!r}{absent}? Expected" if near else ": expected"
    sources = _usable_sources()
    sourced = f", or SOURCE/NAME of the sources {', '.join(sources)}" if sources else ""
    return (
        f"unknown environment {reference!r}{hint} an installed one "
        f"({', '.join(usable) or 'none'}), module:Class, the path of a .py file, a folder or a data file"
        f"{sourced} (ors-server list --available shows the sources)"
    )


def _nearest(name: str, names: list[str]) -> list[str]:
    return difflib.get_close_matches(name, names, n=1)


def _usable_sources() -> list[str]:
    """Return the names of the sources whose packages are installed."""
    usable: list[str] = []
    for name in source_names():
        with suppress(OrsServerError):  # its own package is broken
            if not load_source(name).missing():
                usable.append(name)
    return usable


def _why(error: BaseException) -> str:
    text = describe_authors(error)
    if isinstance(error, ImportError) and "no known parent package" in str(error):
        return f"{text}; write `import neighbour`, or put an __init__.py into the folder"
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "openreward":
        return f"{text}; {openreward_hint()}"
    return text


def _import_path(path: Path, reference: str) -> ModuleType:
    file = path / "__init__.py" if path.is_dir() else path
    if not file.is_file():
        raise ModuleNotFoundError(f"{reference}: no file {file}", name=str(path))
    name = f"ors_environment_{re.sub(r'[^0-9A-Za-z]', '_', str(path.resolve()))}"
    locations = [str(path)] if path.is_dir() else None
    try:
        return import_file(file, name, locations)
    except NotAPythonFileError as error:
        raise EnvironmentDefinitionError(f"{reference}: {file} is not a Python file") from error


def _environment_classes(module: ModuleType) -> list[type]:
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and (foreign_base(value) is not None or (issubclass(value, Environment) and value is not Environment))
    ]
    return [cls for cls in dict.fromkeys(classes) if _belongs(cls, module)]


def _belongs(cls: type, module: ModuleType) -> bool:
    """Return whether a class was written in a module, or made in it by another module's function."""
    if cls.__module__ == module.__name__ or cls.__module__.startswith(f"{module.__name__}."):
        return True
    # A class that a function of another module made has no attribute there, so it belongs to the module that
    # holds it; an imported one does.
    home: object = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        home = getattr(home, part, None)
    return home is not cls
