"""The store in a SQL database, as the event loop sees it."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from pydantic_core import PydanticSerializationError
from sqlalchemy import Connection

from ors_server.clock import Clock
from ors_server.errors import StoreError
from ors_server.logs import get_logger
from ors_server.recording import BLOCKS, ORIGIN, STEP, TRANSITION
from ors_server.store.base import ALL, EpisodeFilter, EpisodeTotals
from ors_server.store.options import Durability, StoreOptions
from ors_server.store.sql import pruning
from ors_server.store.sql.batch import BatchWriter
from ors_server.store.sql.blobs import Shelf, is_long, shelve
from ors_server.store.sql.database import Database
from ors_server.store.sql.entries import (
    CloseEntry,
    MoveEntry,
    OpenEntry,
    Pen,
    PromptEntry,
    StepEntry,
)
from ors_server.store.sql.line import Line
from ors_server.store.sql.pruning import Retention, drop_some_blobs, forget_some
from ors_server.store.sql.reader import SqlReader
from ors_server.store.sql.scribe import Scribe, Tell
from ors_server.trajectory import (
    EpisodeOrigin,
    EpisodeRecord,
    EpisodeSummary,
    Step,
    Transition,
    first_summary,
)
from ors_server.wire import ImageBlock, TextBlock

log = get_logger("ors_server.store")

Part = TypeVar("Part")

OVERHEAD = 1024
"""Bytes that an entry takes in memory beside its text, roughly."""


class SqlStore:
    """Keeps episodes in one database; use it as made by `open_store`, on the event loop that opened it."""

    def __init__(self, database: Database, shelf: Shelf, options: StoreOptions, clock: Clock) -> None:
        """Start the thread that writes.

        Args:
            database: The database, in this server's form.
            shelf: Where long texts are.
            options: How to write, and what to keep.
            clock: The source of time.
        """
        self._database = database
        self._shelf = shelf
        self._options = options
        self._clock = clock
        self._retention = Retention(options.retain_episodes, options.retain_days)
        self._waits = options.durability is Durability.STEP
        self._pens: dict[str, Pen] = {}
        self._reader = SqlReader(database, database.reading_engine(), shelf)
        self._engine = database.writing_engine()
        self._line = Line(options)
        self._line.start(self._make_scribe)

    def _make_scribe(self, tell: Tell) -> Scribe:
        return Scribe(
            self._database,
            self._engine,
            BatchWriter(self._database, self._shelf, self._clock),
            tell,
            write_seconds=self._options.write_seconds,
            chore=None if self._retention.is_everything else self._forget,
        )

    async def open(self, origin: EpisodeOrigin) -> None:
        """Start the record of an episode; it is on the disk when this returns.

        Args:
            origin: Where it came from.

        Raises:
            StoreError: If it could not be written.
        """
        known = self._pens.get(origin.episode_id)
        pen = known or Pen(origin.episode_id)
        self._pens[pen.episode_id] = pen
        body = _written(ORIGIN.write, origin)
        try:
            await self._line.write(
                OpenEntry(
                    pen=pen,
                    origin=origin,
                    body=body,
                    summary=first_summary(origin),
                    size=len(body) + OVERHEAD,
                )
            )
        except BaseException:
            if known is None:
                self._pens.pop(pen.episode_id, None)
            raise
        pen.steps = max(pen.steps, pen.found)

    async def append(self, episode_id: str, step: Step, summary: EpisodeSummary) -> None:
        """Write one step and the figures after it, both or neither.

        Args:
            episode_id: The episode.
            step: The step; one that has the number of another replaces it.
            summary: The figures after the step.

        Raises:
            StoreError: If it could not be written, does not follow the last one, or the episode was never
                opened.
        """
        pen = self._pens.get(episode_id) or await self._meet(episode_id)
        number = step.number
        if number > pen.steps + 1:
            raise StoreError(f"step {number} cannot follow step {pen.steps}")
        entry = self._enter(pen, step, summary)
        if self._line.is_full:
            await self._line.room()
        is_new = number > pen.steps
        if is_new:
            pen.steps = number
        if not self._waits:
            self._line.put(entry)
            return
        try:
            await self._line.write(entry)
        except BaseException:
            if is_new:
                pen.take_back(number)
            raise

    def note(self, episode_id: str, transition: Transition, summary: EpisodeSummary) -> None:
        """Write a transition and the figures after it, soon, and before whatever is asked for later.

        Args:
            episode_id: The episode; an unknown one is passed over.
            transition: The move.
            summary: The figures after it.
        """
        if self._has_room(episode_id):
            body = TRANSITION.write(transition)
            self._line.put(
                MoveEntry(pen=self._pen(episode_id), body=body, summary=summary, size=len(body) + OVERHEAD)
            )

    def note_prompt(self, episode_id: str, blocks: Sequence[TextBlock | ImageBlock]) -> None:
        """Write what the agent was told, in the same manner; the first prompt stays.

        Args:
            episode_id: The episode; an unknown one is passed over.
            blocks: The prompt.
        """
        if not self._has_room(episode_id):
            return
        try:
            shelved = shelve(blocks, self._options.blob_bytes)
            body = BLOCKS.write(shelved.blocks)
        except (PydanticSerializationError, UnicodeError) as error:
            log.warning("prompt_not_written", episode_id=episode_id, error=str(error))
            return
        size = len(body) + sum(map(len, shelved.texts.values())) + OVERHEAD
        pen = self._pen(episode_id)
        self._line.put(PromptEntry(pen=pen, body=body, places=shelved.places, texts=shelved.texts, size=size))

    async def close(self, episode_id: str, summary: EpisodeSummary) -> None:
        """Write the final figures of an episode whose session is gone.

        What fails is written all the same as soon as the store can.

        Args:
            episode_id: The episode; an unknown one is passed over.
            summary: The final figures.

        Raises:
            StoreError: If it could not be written yet.
        """
        pen = self._pen(episode_id)
        entry = CloseEntry(pen=pen, summary=summary, size=OVERHEAD)
        try:
            await self._line.write(entry)
        finally:
            self._pens.pop(episode_id, None)
        if self._retention.episodes is not None:
            self._line.scribe.has_chore = True
            self._line.scribe.wake.set()

    async def find(self, name: str) -> EpisodeRecord | None:
        """Return a record by the episode's id, or the newest one by its session's id.

        Args:
            name: The whole id.

        Raises:
            StoreError: If the record cannot be read.
        """
        await self._line.flush()
        return await self._reader.find(name)

    async def resolve(self, prefix: str, limit: int = 2) -> Sequence[str]:
        """Return ids of episodes that begin with a text, in order.

        Args:
            prefix: At least one character.
            limit: Most ids.

        Raises:
            StoreError: If the record cannot be read.
        """
        return await self._reader.resolve(prefix, limit)

    async def steps(self, episode_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """Return a slice of an episode's steps, in order; empty for an unknown episode.

        Args:
            episode_id: The episode.
            start: First position, from 0.
            stop: Last position, exclusive; `None` for all.

        Raises:
            StoreError: If the record, or a blob that it names, cannot be read.
        """
        await self._line.flush()
        return await self._reader.steps(episode_id, start, stop)

    async def page(
        self, wanted: EpisodeFilter, *, after: str | None = None, limit: int = 100, newest_first: bool = True
    ) -> Sequence[EpisodeRecord]:
        """Return a page of episodes in the order of their creation, without their transitions.

        Args:
            wanted: Which ones.
            after: Id of the last episode of the page before; `None` for the first page.
            limit: Most episodes.
            newest_first: Whether the newest one comes first.

        Raises:
            EpisodeNotFoundError: If `after` is the id of no episode.
            StoreError: If the record cannot be read.
        """
        await self._line.flush()
        return await self._reader.page(wanted, after=after, limit=limit, newest_first=newest_first)

    async def stream(
        self, wanted: EpisodeFilter = ALL
    ) -> AsyncGenerator[tuple[EpisodeRecord, Sequence[Step]], None]:
        """Go through episodes with all their steps, oldest first, holding a few of them at a time.

        Args:
            wanted: Which ones; those that come while it runs may be missing.

        Raises:
            StoreError: If the record, or a blob that it names, cannot be read.
        """
        await self._line.flush()
        async with aclosing(self._reader.stream(wanted)) as pairs:
            async for pair in pairs:
                yield pair

    async def totals(self, wanted: EpisodeFilter = ALL) -> EpisodeTotals:
        """Return figures over a set of episodes.

        Args:
            wanted: Which ones.

        Raises:
            StoreError: If the record cannot be read.
        """
        await self._line.flush()
        return await self._reader.totals(wanted)

    async def aclose(self) -> None:
        """Write what is pending, end the thread and close every connection; a second time does nothing."""
        scribe = self._line.end()
        if scribe is None:
            return
        with anyio.CancelScope(shield=True):
            await self._reader.aclose()  # first, for whoever closes SQLite's file last folds its log into it
            await anyio.to_thread.run_sync(scribe.end)
            await anyio.lowlevel.checkpoint()  # what the thread told last is heard
            self._line.settle()
            await anyio.to_thread.run_sync(self._engine.dispose)

    def _pen(self, episode_id: str) -> Pen:
        pen = self._pens.get(episode_id)
        return Pen(episode_id) if pen is None else pen

    async def _meet(self, episode_id: str) -> Pen:
        """Get to know an episode that another store, or an earlier one, opened."""
        await self._line.flush()
        number = await self._reader.last_step(episode_id)
        if number is None:
            raise StoreError(f"the episode {episode_id!r} was never opened")
        return self._pens.setdefault(episode_id, Pen(episode_id, steps=number))

    def _enter(self, pen: Pen, step: Step, summary: EpisodeSummary) -> StepEntry:
        if not is_long(step.blocks, self._options.blob_bytes):
            body = _written(STEP.write, step)
            return StepEntry(
                pen=pen,
                number=step.number,
                reward=step.reward,
                body=body,
                summary=summary,
                size=len(body) + OVERHEAD,
            )
        shelved = shelve(step.blocks, self._options.blob_bytes)
        body = _written(STEP.write, replace(step, blocks=shelved.blocks))
        return StepEntry(
            pen=pen,
            number=step.number,
            reward=step.reward,
            body=body,
            summary=summary,
            places=shelved.places,
            texts=shelved.texts,
            size=len(body) + sum(map(len, shelved.texts.values())) + OVERHEAD,
        )

    def _has_room(self, episode_id: str) -> bool:
        if not self._line.is_full and not self._line.is_closed:
            return True
        log.warning(
            "note_dropped", episode_id=episode_id, hint="the record is closed, or could not be written"
        )
        return False

    def _forget(self, connection: Connection) -> bool:
        """Forget a few episodes and blobs; on the writing thread."""
        live = [pen.key for pen in list(self._pens.values()) if pen.key is not None]
        gone = forget_some(self._database, connection, self._retention, self._clock.now(), live)
        if gone == pruning.AT_ONCE:
            return True
        return drop_some_blobs(self._database, connection, self._shelf) == pruning.AT_ONCE


def _written(write: Callable[[Part], bytes], part: Part) -> bytes:
    try:
        return write(part)
    except (PydanticSerializationError, UnicodeError) as error:
        raise StoreError(f"this cannot be put on record: {error}") from error
