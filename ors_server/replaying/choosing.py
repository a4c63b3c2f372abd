"""Selects recorded episodes from a store, a file or a stream of lines."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol, TypeAlias

from ors_server.export.episode_file import Episode, EpisodeFile, read_episodes
from ors_server.model.errors import EpisodeNotFoundError
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.recovery.recorded_episode import RecordedEpisode
from ors_server.store.base import RecordReader
from ors_server.store.episode_filter import ALL, EpisodeFilter
from ors_server.store.episode_order import OLDEST_FIRST
from ors_server.store.lookup import MIN_PREFIX, find_episode

EPISODES_AT_ONCE = 200
"""Episodes of one page while only their tasks are read."""

Task: TypeAlias = tuple[str, str]
"""An environment's name and a task's hash, which the episodes of a group share."""


class Episodes(Protocol):
    """Selected episodes, of which one is in memory at a time."""

    def each(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Yield them in the order of the record.

        Raises:
            EpisodeNotFoundError: If a named episode does not exist.
        """
        ...

    def by_task(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Yield them task by task."""
        ...


@dataclass(frozen=True, slots=True)
class StoredEpisodes(Episodes):
    """Episodes of a store."""

    reader: RecordReader
    selected: EpisodeFilter = ALL
    names: Sequence[str] = ()
    """Ids, beginnings of ids, or session ids; without any, all that match `selected`."""

    async def each(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Yield them in the order of the names, or oldest first."""
        for name in self.names:
            record = await find_episode(self.reader, name)
            whole = await self._whole(record)
            if self.selected.matches(record, whole.steps):
                yield whole
        if not self.names:
            async for record, steps in self.reader.stream(self.selected):
                yield RecordedEpisode(record, tuple(steps))

    async def by_task(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Yield them task by task, in the order of each task's first episode."""
        if self.names:
            records = [await find_episode(self.reader, name) for name in self.names]
            by_task: dict[Task, list[EpisodeRecord]] = {}
            for record in records:
                by_task.setdefault(task_of(record), []).append(record)
            for record in chain.from_iterable(by_task.values()):
                whole = await self._whole(record)
                if self.selected.matches(record, whole.steps):
                    yield whole
            return
        for environment, task_hash in await self._tasks():
            of_task = replace(self.selected, environment=environment, task_hash=task_hash)
            async for record, steps in self.reader.stream(of_task):
                yield RecordedEpisode(record, tuple(steps))

    async def _whole(self, record: EpisodeRecord) -> RecordedEpisode:
        return RecordedEpisode(record, tuple(await self.reader.steps(record.origin.episode_id)))

    async def _tasks(self) -> Iterable[Task]:
        tasks: dict[Task, None] = {}
        last: str | None = None
        while page := await self.reader.page(
            self.selected, after=last, limit=EPISODES_AT_ONCE, order=OLDEST_FIRST
        ):
            tasks.update((task_of(record), None) for record in page)
            last = page[-1].origin.episode_id
        return tasks


@dataclass(frozen=True, slots=True)
class FiledEpisodes(Episodes):
    """Episodes of a file of plain trajectory JSON lines."""

    file: EpisodeFile
    selected: EpisodeFilter = ALL
    names: Sequence[str] = ()
    """Ids, beginnings of ids, or session ids; without any, all that match `selected`."""

    def each(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Yield them in the order of the file."""
        return _select(self.file.episodes(), self.selected, self.names)

    async def by_task(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Yield them task by task, in the order of each task's first episode; the file is read twice."""
        offsets: dict[Task, list[int]] = {}
        for offset, (record, steps) in self.file.offsets():
            if _is_selected(record, steps, self.selected, self.names):
                offsets.setdefault(task_of(record), []).append(offset)
        for task_offsets in offsets.values():
            for record, steps in self.file.at(task_offsets):
                yield RecordedEpisode(record, steps)


@dataclass(frozen=True, slots=True)
class StreamedEpisodes(Episodes):
    """Episodes of lines that can be read once."""

    lines: Iterable[bytes]
    selected: EpisodeFilter = ALL
    names: Sequence[str] = ()

    def each(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Yield them in the order of the lines."""
        return _select(read_episodes(self.lines), self.selected, self.names)

    def by_task(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Yield them in the order of the lines, which must be task by task."""
        return self.each()


def task_of(record: EpisodeRecord) -> Task:
    """Return the task of an episode."""
    return record.origin.environment, record.origin.task_hash


async def _select(
    episodes: Iterator[Episode], selected: EpisodeFilter, names: Sequence[str]
) -> AsyncGenerator[RecordedEpisode, None]:
    missing = dict.fromkeys(names)
    for record, steps in episodes:
        for name in [name for name in missing if _is_named(record, name)]:
            del missing[name]
        if _is_selected(record, steps, selected, names):
            yield RecordedEpisode(record, steps)
    if missing:
        raise EpisodeNotFoundError(f"no episode {', '.join(map(repr, missing))} is in the file")


def _is_selected(
    record: EpisodeRecord, steps: Sequence[Step], selected: EpisodeFilter, names: Sequence[str]
) -> bool:
    return selected.matches(record, steps) and (not names or any(_is_named(record, name) for name in names))


def _is_named(record: EpisodeRecord, name: str) -> bool:
    origin = record.origin
    begins = len(name) >= MIN_PREFIX and origin.episode_id.startswith(name)
    return begins or name in {origin.episode_id, origin.session_id}
