"""Finds folders of tasks in Harbor's format, and makes the class of their environment."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ors_server.environments.declared.references import environment_name
from ors_server.harbor.harbor_environment import HarborTasks
from ors_server.harbor.task_config import FILE, TaskFolderError
from ors_server.harbor.task_folder import MAX_COMMAND_SECONDS, TaskFolder
from ors_server.model.policy import EpisodePolicy

EDITION = "1"
"""To change whenever the same folders begin to give other tasks or other rewards."""
SPLIT = "test"
"""The split of a folder of tasks: a benchmark's are there to test an agent."""
MAX_NAMED = 5
_VERSION_DIGITS = 16


def find_tasks(reference: str) -> type[HarborTasks] | None:
    """Return the class of the tasks in a folder; `None` if no task in it has Harbor's format.

    Raises:
        TaskFolderError: If a task breaks a rule of the format, or needs what this server does not have.
    """
    path = Path(reference)
    splits = _list_tasks(path) if path.is_dir() else {}
    return make_class(path, splits) if splits else None


def _list_tasks(path: Path) -> dict[str, list[Path]]:
    """Return the folders of tasks by split: one task, a folder of tasks, or a folder of such folders."""
    if (path / FILE).is_file():
        return {SPLIT: [path]}
    children = sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith("."))
    tasks = [child for child in children if (child / FILE).is_file()]
    if tasks:
        return {SPLIT: tasks}
    below = {child.name: sorted(task.parent for task in child.glob(f"*/{FILE}")) for child in children}
    return {name: paths for name, paths in below.items() if paths}


def make_class(path: Path, splits: Mapping[str, Sequence[Path]]) -> type[HarborTasks]:
    """Return the class of the environment of some folders.

    Raises:
        TaskFolderError: If a task cannot be served; the message names the first few with file and line.
    """
    folders: dict[str, list[TaskFolder]] = {}
    faults: list[str] = []
    for split, paths in splits.items():
        folders[split] = []
        for task in paths:
            try:
                folders[split].append(TaskFolder(task))
            except TaskFolderError as error:
                faults.append(str(error))
    if faults:
        total = sum(map(len, splits.values()))
        more = f"; and {len(faults) - MAX_NAMED} more tasks" if len(faults) > MAX_NAMED else ""
        head = "" if total == 1 else f"{len(faults)} of {total} tasks of {path} cannot be served: "
        raise TaskFolderError(head + "; ".join(faults[:MAX_NAMED]) + more)
    everything = [folder for split in folders.values() for folder in split]
    body: dict[str, Any] = {
        "__doc__": f"Tasks of {path} in Harbor's format.",
        "__module__": HarborTasks.__module__,
        "name": environment_name(path.resolve().name).replace("data_", "harbor_", 1),
        "version": _version(folders),
        "policy": EpisodePolicy(
            reward_range=(
                min(folder.reward_range[0] for folder in everything),
                max(folder.reward_range[1] for folder in everything),
            ),
            call_time_limit=max(
                step.agent_seconds or MAX_COMMAND_SECONDS for folder in everything for step in folder.steps
            ),
            setup_time_limit=max(folder.config.environment.build_timeout_sec for folder in everything),
        ),
        "split_sizes": {name: len(tasks) for name, tasks in folders.items()},
        "hidden_files": tuple(folder.path for folder in everything),
        "watched_files": tuple(file for folder in everything for file in folder.files()),
        "_folders": folders,
    }
    title = "".join(part.title() for part in body["name"].replace("-", "_").split("_")) or "Tasks"
    return type(title, (HarborTasks,), body)


def _version(folders: Mapping[str, Sequence[TaskFolder]]) -> str:
    digest = hashlib.sha256(EDITION.encode())
    for split, tasks in folders.items():
        for folder in tasks:
            digest.update(f"{split}\0{folder.name}\0{folder.digest}\0".encode())
    return digest.hexdigest()[:_VERSION_DIGITS]
