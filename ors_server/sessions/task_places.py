"""Finds the split and index of a task that a client sends by value, by the task's hash.

Stock clients list tasks, and send back the one that they play. What was handed out is remembered; a task that
was not, as after a restart of the server, is looked for once among the first tasks of each split.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.to_thread

from ors_server.environments.definition import EnvironmentDefinition
from ors_server.model.errors import OrsServerError
from ors_server.model.recording import task_digest
from ors_server.model.wire import JSONObject
from ors_server.sessions.tool_arguments import read_through

MAX_REMEMBERED: Final = 100_000
"""Maximum number of tasks of one environment that are remembered, some 15 MB."""
MAX_READ: Final = 20_000
"""Maximum number of tasks of one environment that are read to find one that was not handed out."""
READ_SECONDS: Final = 2.0
"""Seconds that reading them may take; tasks that were read until then are remembered."""
TASKS_AT_ONCE: Final = 500
"""Tasks that are read at once."""
INLINE: Final = 16
"""Maximum number of tasks whose hashes are made on the event loop if they are small: a thread costs more."""

TaskAddress = tuple[str, int]
"""A split and an index."""


@dataclass(slots=True)
class _RememberedTasks:
    """The places of one environment's tasks."""

    definition: EnvironmentDefinition
    places: dict[str, TaskAddress | None] = field(default_factory=dict[str, TaskAddress | None])
    """Hash to place; `None` for a task of several splits, whose place is not known."""
    was_read: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def add(self, digests: Sequence[str], split: str, first: int) -> None:
        for index, digest in enumerate(digests, first):
            place = self.places.get(digest, (split, index))
            if place is not None and place[0] != split:
                place = None
            if digest in self.places or len(self.places) < MAX_REMEMBERED:
                self.places[digest] = place


class TaskPlaces:
    """Remembers where tasks are in their environments."""

    def __init__(self) -> None:
        self._remembered: dict[str, _RememberedTasks] = {}

    async def remember(
        self, definition: EnvironmentDefinition, split: str, first: int, tasks: Sequence[JSONObject]
    ) -> None:
        """Remember tasks that follow each other in a split, from index `first` on."""
        try:
            if len(tasks) <= INLINE:
                digests = await read_through(_digests_of, tasks)
            else:
                digests = await anyio.to_thread.run_sync(_digests_of, tasks)
        except OrsServerError:  # a task that is not JSON, which its listing reports
            return
        self._tasks_of(definition).add(digests, split, first)

    async def find(self, definition: EnvironmentDefinition, task_hash: str) -> TaskAddress | None:
        """Return the place of a task; `None` if it is not known, or the task is in several splits."""
        remembered = self._tasks_of(definition)
        if task_hash not in remembered.places:
            async with remembered.lock:
                if not remembered.was_read:
                    remembered.was_read = True
                    with anyio.move_on_after(READ_SECONDS):
                        await self._read(definition)
        return remembered.places.get(task_hash)

    def _tasks_of(self, definition: EnvironmentDefinition) -> _RememberedTasks:
        remembered = self._remembered.get(definition.name)
        if remembered is None or remembered.definition is not definition:  # it was loaded again
            remembered = self._remembered[definition.name] = _RememberedTasks(definition)
        return remembered

    async def _read(self, definition: EnvironmentDefinition) -> None:
        reads_left = MAX_READ
        for split in definition.splits:
            try:
                count = min(await definition.tasks.num_tasks(split.name), reads_left)
                reads_left -= count
                for first in range(0, count, TASKS_AT_ONCE):
                    tasks = await definition.tasks.get_task_range(
                        split.name, first, min(first + TASKS_AT_ONCE, count)
                    )
                    await self.remember(definition, split.name, first, tasks)
            except OrsServerError:  # a split that cannot be read is not a fault of the session
                continue


def _digests_of(tasks: Sequence[JSONObject]) -> list[str]:
    return [task_digest(task) for task in tasks]
