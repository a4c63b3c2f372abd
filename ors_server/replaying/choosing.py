"""Which recorded episodes are meant, wherever they are kept: a store, a file, a stream of lines."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from ors_server.errors import EpisodeNotFoundError
from ors_server.export.episode_file import Episode, EpisodeFile, read_episodes
from ors_server.replaying.recorded_episode import RecordedEpisode
from ors_server.store.base import ALL, EpisodeFilter, RecordReader
from ors_server.store.lookup import SHORTEST_PREFIX, find_episode
from ors_server.store.matching import matches
from ors_server.trajectory import EpisodeRecord

PAGE = 200
"""Episodes that are looked at together where only their tasks are asked for."""

Task: TypeAlias = tuple[str, str]
"""An environment's name and a task's hash: episodes that agree in both are of one group."""


class Episodes(Protocol):
    """A choice of recorded episodes; one is held at a time."""

    def each(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Go through them, in the order of the record.

        Raises:
            EpisodeNotFoundError: If one that was named is not there.
            OrsServerError: If they cannot be read.
        """
        ...

    def by_task(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Go through them so that those of one task follow one another.

        Raises:
            OrsServerError: As for `each`.
        """
        ...


@dataclass(frozen=True, slots=True)
class StoredEpisodes(Episodes):
    """Episodes of a store."""

    reader: RecordReader
    wanted: EpisodeFilter = ALL
    names: Sequence[str] = ()
    """Ids, beginnings of ids, or ids of sessions; all that are wanted if there are none."""

    async def each(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Go through them: in the order of the names, or oldest first."""
        for name in self.names:
            record = await find_episode(self.reader, name)
            if matches(self.wanted, record):
                yield await self._whole(record)
        if not self.names:
            async for record, steps in self.reader.stream(self.wanted):
                yield RecordedEpisode(record, tuple(steps))

    async def by_task(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Go through them, task by task in the order of each task's first episode."""
        if self.names:
            records = [await find_episode(self.reader, name) for name in self.names]
            chosen = [record for record in records if matches(self.wanted, record)]
            places: dict[Task, list[EpisodeRecord]] = {}
            for record in chosen:
                places.setdefault(task_of(record), []).append(record)
            for record in (record for some in places.values() for record in some):
                yield await self._whole(record)
            return
        for environment, task_hash in await self._tasks():
            one = replace(self.wanted, environment=environment, task_hash=task_hash)
            async for record, steps in self.reader.stream(one):
                yield RecordedEpisode(record, tuple(steps))

    async def _whole(self, record: EpisodeRecord) -> RecordedEpisode:
        return RecordedEpisode(record, tuple(await self.reader.steps(record.origin.episode_id)))

    async def _tasks(self) -> Iterable[Task]:
        tasks: dict[Task, None] = {}
        last: str | None = None
        while page := await self.reader.page(self.wanted, after=last, limit=PAGE, newest_first=False):
            tasks.update((task_of(record), None) for record in page)
            last = page[-1].origin.episode_id
        return tasks


@dataclass(frozen=True, slots=True)
class FiledEpisodes(Episodes):
    """Episodes of a file of plain trajectory JSON lines."""

    file: EpisodeFile
    wanted: EpisodeFilter = ALL
    names: Sequence[str] = ()
    """Ids, beginnings of ids, or ids of sessions; all that are wanted if there are none."""

    async def each(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Go through them, in the order of the file."""
        async with aclosing(_chosen(self.file.episodes(), self.wanted, self.names)) as chosen:
            async for episode in chosen:
                yield episode

    async def by_task(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Go through them, task by task in the order of each task's first episode.

        The file is read twice; what is held meanwhile is one number for each episode.
        """
        places: dict[Task, list[int]] = {}
        for place, (record, _) in self.file.places():
            if _is_meant(record, self.wanted, self.names):
                places.setdefault(task_of(record), []).append(place)
        for some in places.values():
            for record, steps in self.file.at(some):
                yield RecordedEpisode(record, steps)


@dataclass(frozen=True, slots=True)
class StreamedEpisodes(Episodes):
    """Episodes of a source of lines that can be read once."""

    lines: Iterable[bytes]
    wanted: EpisodeFilter = ALL
    names: Sequence[str] = ()

    async def each(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Go through them, as they come."""
        async with aclosing(_chosen(read_episodes(self.lines), self.wanted, self.names)) as chosen:
            async for episode in chosen:
                yield episode

    async def by_task(self) -> AsyncGenerator[RecordedEpisode, None]:
        """Go through them as they come: those of one task must follow one another already."""
        async with aclosing(self.each()) as episodes:
            async for episode in episodes:
                yield episode


def task_of(record: EpisodeRecord) -> Task:
    """Return which task an episode is of.

    Args:
        record: The episode.
    """
    return record.origin.environment, record.origin.task_hash


async def _chosen(
    episodes: Iterator[Episode], wanted: EpisodeFilter, names: Sequence[str]
) -> AsyncGenerator[RecordedEpisode, None]:
    missing = dict.fromkeys(names)
    for record, steps in episodes:
        for name in [name for name in missing if _is_named(record, name)]:
            del missing[name]
        if _is_meant(record, wanted, names):
            yield RecordedEpisode(record, steps)
    if missing:
        raise EpisodeNotFoundError(f"no episode {', '.join(map(repr, missing))} is in the file")


def _is_meant(record: EpisodeRecord, wanted: EpisodeFilter, names: Sequence[str]) -> bool:
    return matches(wanted, record) and (not names or any(_is_named(record, name) for name in names))


def _is_named(record: EpisodeRecord, name: str) -> bool:
    origin = record.origin
    begins = len(name) >= SHORTEST_PREFIX and origin.episode_id.startswith(name)
    return begins or name in {origin.episode_id, origin.session_id}
