"""Reads the tasks of an environment class through the listing or index methods that its author wrote."""

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, cast

import anyio

from ors_server.environments.boundary import AuthorRaisedError, call_author, is_async, listed
from ors_server.environments.source_places import name_with_location
from ors_server.model.errors import (
    EnvironmentFailedError,
    TasksNotListableError,
    UnknownSplitError,
    UnknownTaskError,
)
from ors_server.model.wire import JSONObject

LISTABLE_BY_INDEX = 10_000
"""Largest index-only split that is listed by reading every index."""
TASKS_PER_TURN = 100
"""Tasks that one turn of a worker thread reads: a turn costs ten times as much as most `get_task`."""


class ClassTasks:
    """The tasks behind an environment class; lists are read once and kept."""

    def __init__(self, cls: Any, base: type, splits: frozenset[str]) -> None:
        """Find the methods that the author wrote; those of `base` do not count."""
        self._cls = cls
        self._where = name_with_location(cls.__name__, cls)
        self._splits = splits
        self._written = frozenset(
            name
            for name in ("list_tasks", "num_tasks", "get_task", "get_task_range")
            if getattr(getattr(cls, name), "__func__", None)
            is not getattr(getattr(base, name), "__func__", None)
        )
        self._lists: dict[str, list[JSONObject]] = {}
        self._unlistable: set[str] = set()
        self._reading: dict[str, anyio.Lock] = {}

    async def list_tasks(self, split: str) -> list[JSONObject]:
        """Return all tasks of a split.

        Raises:
            UnknownSplitError: If there is no such split.
            TasksNotListableError: If the tasks are addressed by index only and too many to list.
            EnvironmentFailedError: If the author's method raised.
        """
        self._check_split(split)
        tasks = await self._listed(split)
        if tasks is None and await self.num_tasks(split) <= LISTABLE_BY_INDEX:
            return await self.get_task_range(split, None, None)
        if tasks is None:
            raise TasksNotListableError(
                "list_tasks is not supported for this environment. "
                "Use the index-based API (num_tasks + get_task) instead."
            )
        return tasks

    async def num_tasks(self, split: str) -> int:
        """Return how many tasks a split has."""
        self._check_split(split)
        if "num_tasks" in self._written:
            count = await self._call("num_tasks", split)
            if isinstance(count, int) and count >= 0:
                return count
            msg = f"{self._where}: num_tasks must return a number of tasks, got {type(count).__name__}"
            raise EnvironmentFailedError(msg)
        tasks = await self._listed(split)
        if tasks is None:
            raise EnvironmentFailedError(f"{self._where} must define list_tasks, or num_tasks and get_task")
        return len(tasks)

    async def get_task(self, split: str, index: int) -> JSONObject:
        """Return one task.

        Args:
            index: From 0; negative ones count from the end.

        Raises:
            UnknownTaskError: If there is no such index.
        """
        self._check_split(split)
        if "get_task" not in self._written:
            tasks = await self._listed(split)
            if tasks is None or not -len(tasks) <= index < len(tasks):
                raise UnknownTaskError(no_task(split, index, None if tasks is None else len(tasks)))
            return tasks[index]
        requested = index
        if index < 0:
            index += await self.num_tasks(split)
        if index < 0:
            raise UnknownTaskError(no_task(split, requested, await self.num_tasks(split)))
        try:
            return self._check_task(await self._call("get_task", split, index))
        except AuthorRaisedError as raised:  # an IndexError
            total: int | None = None
            with suppress(EnvironmentFailedError):
                total = await self.num_tasks(split)
            raise UnknownTaskError(no_task(split, index, total)) from raised
        except EnvironmentFailedError as failed:  # some other error of an author who does not check the index
            count = await self.num_tasks(split)
            if index < count:
                raise
            raise UnknownTaskError(no_task(split, index, count)) from failed

    async def get_task_range(self, split: str, start: int | None, stop: int | None) -> list[JSONObject]:
        """Return a slice of a split's tasks, with Python's rules for slices."""
        self._check_split(split)
        if "get_task_range" in self._written:
            return self._check_tasks(await self._call("get_task_range", split, start, stop))
        listed = await self._listed(split)
        if listed is not None:
            return listed[start:stop]
        indices = range(await self.num_tasks(split))[start:stop]
        tasks: list[JSONObject] = []
        if "get_task" in self._written and not is_async(self._cls.get_task):
            for first in range(0, len(indices), TASKS_PER_TURN):
                turn = indices[first : first + TASKS_PER_TURN]
                tasks += await call_author(self._get_tasks, split, turn)
                if len(tasks) < first + len(turn):
                    break
        # One by one what is left: a task that was not returned, so that its error names it.
        return tasks + [await self.get_task(split, index) for index in indices[len(tasks) :]]

    def _get_tasks(self, split: str, indices: range) -> list[JSONObject]:
        """Return tasks, up to the first index for which the author's method has none."""
        tasks: list[JSONObject] = []
        for index in indices:
            try:
                task = self._cls.get_task(split, index)
            except BaseException:  # noqa: BLE001  (raised again when the task is read by itself)
                break
            if not isinstance(task, dict):
                if isinstance(task, Coroutine):
                    task.close()  # of a method that returns another one's coroutine
                break
            tasks.append(cast("JSONObject", task))
        return tasks

    async def _listed(self, split: str) -> list[JSONObject] | None:
        if "list_tasks" not in self._written or split in self._unlistable:
            return None
        if split in self._lists:
            return self._lists[split]
        # One reader per split: an author's method may take minutes, and many sessions may ask at once.
        async with self._reading.setdefault(split, anyio.Lock()):
            if split not in self._lists and split not in self._unlistable:
                await self._read(split)
        return self._lists.get(split)

    async def _read(self, split: str) -> None:
        try:
            tasks = await call_author(self._cls.list_tasks, split)
        except AuthorRaisedError as raised:
            if not isinstance(raised.error, NotImplementedError):
                raise EnvironmentFailedError(str(raised)) from raised.error
            self._unlistable.add(split)
        else:
            self._lists[split] = self._check_tasks(tasks)

    async def _call(self, method: str, *args: Any) -> Any:
        try:
            return await call_author(getattr(self._cls, method), *args)
        except AuthorRaisedError as raised:
            if method == "get_task" and isinstance(raised.error, IndexError):
                raise
            raise EnvironmentFailedError(str(raised)) from raised.error

    def _check_split(self, split: str) -> None:
        if split not in self._splits:
            msg = f"Invalid split {split!r}; this environment has {', '.join(sorted(self._splits))}"
            raise UnknownSplitError(msg)

    def _check_tasks(self, tasks: Any) -> list[JSONObject]:
        items = listed(tasks)
        if items is None:
            msg = f"{self._where}: tasks must come as a list of JSON objects, got {type(tasks).__name__}"
            raise EnvironmentFailedError(msg)
        return [self._check_task(item) for item in items]

    def _check_task(self, task: Any) -> JSONObject:
        if isinstance(task, dict):
            return cast("JSONObject", task)
        raise EnvironmentFailedError(
            f"{self._where}: a task must be a JSON object, got {type(task).__name__}"
        )


def no_task(split: str, index: int, count: int | None) -> str:
    """Return the message for an index that a split does not have."""
    text = f"Invalid index {index} in split {split!r}"
    if count is None:
        return text
    return f"{text}: expected 0 to {count - 1}" if count else f"{text}: it has no tasks"
