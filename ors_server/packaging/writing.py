"""Writes a package completely or not at all, after its copy of the environment has given the same tasks."""

import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from secrets import token_hex

import anyio

from ors_server.environments.definition import EnvironmentDefinition
from ors_server.environments.loading import define, environment_at
from ors_server.model.errors import OrsServerError
from ors_server.packaging.container_folders import IMAGE, write_docker, write_space
from ors_server.packaging.environment_source import EnvironmentSource, PackagingError
from ors_server.packaging.harbor_dataset import write_harbor
from ors_server.packaging.openenv_folder import write_openenv
from ors_server.packaging.pip_project import write_pip


class PackageTarget(StrEnum):
    """What a package is for."""

    PIP = "pip"
    DOCKER = "docker"
    SPACE = "space"
    OPENENV = "openenv"
    HARBOR = "harbor"


@dataclass(frozen=True, slots=True)
class PackageOptions:
    """Options that some targets have."""

    image: str = IMAGE
    """The server's image, for `docker` and `harbor`."""
    tasks: int | None = None
    """Tasks of each split, for `harbor`; all by default."""
    splits: tuple[str, ...] = ()
    """Splits, for `harbor`; all by default."""


_Write = Callable[[EnvironmentSource, Path], Sequence[str]]


def write(
    source: EnvironmentSource, target: PackageTarget, folder: Path, options: PackageOptions | None = None
) -> Sequence[str]:
    """Write a package into a new folder; return the commands that use it, with its path quoted for a shell.

    Raises:
        PackagingError: If the folder exists, or the environment cannot be published so.
    """
    options = options or PackageOptions()
    if folder.exists():
        raise PackagingError(f"{folder} exists already; nothing was changed")
    if source.folder is not None and folder.resolve().is_relative_to(source.folder):
        raise PackagingError(f"{folder} is inside of the environment's folder; choose another one with -o")
    if target is not PackageTarget.HARBOR and (options.tasks is not None or options.splits):
        raise PackagingError("--tasks and --split choose the tasks of --for harbor; leave them out")
    write_target: Mapping[PackageTarget, _Write] = {
        PackageTarget.PIP: write_pip,
        PackageTarget.DOCKER: partial(write_docker, image=options.image),
        PackageTarget.SPACE: write_space,
        PackageTarget.OPENENV: write_openenv,
        PackageTarget.HARBOR: partial(
            write_harbor, tasks=options.tasks, splits=options.splits, image=options.image
        ),
    }
    # The name is that of the finished folder, for commands and for environments that are named after it.
    part = folder.with_name(f".{folder.name}.{token_hex(4)}.part")
    try:
        (part / folder.name).mkdir(parents=True)
        commands = write_target[target](source, part / folder.name)
        _check_copy(source, part / folder.name)
        (part / folder.name).rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    # A name without a slash would be to pip the name of a stranger's project in the registry.
    path = folder if folder.is_absolute() or folder.parts[0] == ".." else f"./{folder}"
    written = re.compile(re.escape(str(part / folder.name)) + r"(/\S+)?")
    return [
        written.sub(lambda match: shlex.quote(f"{path}{match[1] or ''}"), command) for command in commands
    ]


def _check_copy(source: EnvironmentSource, folder: Path) -> None:
    """Load the environment from the package, and compare its tasks with the original's."""
    copies = [
        folder / "src" / source.module,
        folder / "environments" / source.name,
        *sorted(folder.glob("*/*/tests/environment"))[:1],
    ]
    (path,) = [path for path in copies if path.exists()]
    alone = (
        "; a Python file is packed alone: put it and what it reads into a folder" if source.is_single else ""
    )
    if source.is_single and not (path / "__init__.py").exists():
        path /= "environment.py"
    try:
        copied = define(environment_at(f"{path}:{source.class_name}" if source.kind == "class" else path))
        same = anyio.run(_first_tasks, copied) == anyio.run(_first_tasks, source.definition)
    except OrsServerError as error:
        reason = str(error).replace(str(folder), folder.name)
        raise PackagingError(
            f"{source.name}: its copy in the package does not load: {reason}{alone}"
        ) from error
    finally:
        for cache in folder.rglob("__pycache__"):
            shutil.rmtree(cache, ignore_errors=True)
    if copied.name != source.name or not same:
        raise PackagingError(
            f"{source.name}: its copy has other tasks; does it read files outside of its folder, or "
            f"draw its tasks each time?{alone}"
        )


async def _first_tasks(definition: EnvironmentDefinition) -> list[object]:
    facts: list[object] = []
    for split in definition.splits:
        size = await definition.tasks.num_tasks(split.name)
        facts.append((split.name, size, await definition.tasks.get_task(split.name, 0) if size else None))
    return facts
