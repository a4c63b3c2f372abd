"""The episode store in a SQL database; used on the event loop."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from pydantic_core import PydanticSerializationError
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from typing_extensions import override

from ors_server.model.clock import Clock
from ors_server.model.errors import StoreError
from ors_server.model.host_slot import HostTable, slot_of
from ors_server.model.logs import get_logger
from ors_server.model.recording import BLOCKS, INCIDENT, ORIGIN, STEP, TRANSITION
from ors_server.model.trajectory import (
    EpisodeNote,
    EpisodeOrigin,
    EpisodeSummary,
    Incident,
    Step,
    Transition,
    first_summary,
)
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.store.base import Backlog, OpenEpisode
from ors_server.store.sql import pruning
from ors_server.store.sql.batch_writer import BatchWriter
from ors_server.store.sql.blobs import MAX_CHARACTER_BYTES, BlobStore, extract_long_texts
from ors_server.store.sql.columns import step_columns
from ors_server.store.sql.database import Database, as_store_error, disposed_after
from ors_server.store.sql.host_rows import read_hosts
from ors_server.store.sql.live_sessions import LiveSessions
from ors_server.store.sql.opening import (
    OpenedDatabase,
    claim_attempt,
    read_left_open,
    read_secret,
    renew_secret,
)
from ors_server.store.sql.pending_writes import (
    NO_TEXTS,
    PendingClose,
    PendingIncident,
    PendingNote,
    PendingOpen,
    PendingPrompt,
    PendingSign,
    PendingStep,
    PendingTransition,
    WriteState,
)
from ors_server.store.sql.pruning import Retention, prune_blobs, prune_episodes
from ors_server.store.sql.sql_reader import SqlReader
from ors_server.store.sql.write_queue import WriteQueue
from ors_server.store.sql.writer_thread import ReportBatch, WriterThread
from ors_server.store.store_options import Durability, StoreOptions

log = get_logger("ors_server.store")

Part = TypeVar("Part")
Result = TypeVar("Result")

MICROSECONDS = 1_000_000
OVERHEAD = 1024
"""Approximate bytes that a pending write takes in memory besides its text."""


class SqlStore(SqlReader):
    """Keeps episodes in one database; made by `open_store`, for the event loop that runs then.

    Every read waits until the writes that were queued before it have been attempted.
    """

    def __init__(
        self, opened: OpenedDatabase, blob_store: BlobStore, options: StoreOptions, clock: Clock
    ) -> None:
        database = opened.database
        super().__init__(database, blob_store)
        self.left_open = opened.left_open
        self.shared_secret = opened.shared_secret
        self._claim = opened.claim
        self.fence = opened.fence
        self._options = options
        self._clock = clock
        self._retention = Retention(options.retain_episodes, options.retain_days)
        self._waits = options.durability is Durability.STEP
        self._states: dict[str, WriteState] = {}
        self._writing_engine = opened.engine
        self._queue = WriteQueue(options)
        self._queue.start(self._make_writer)

    def _make_writer(self, report: ReportBatch) -> WriterThread:
        idle = round(self._options.idle_seconds * MICROSECONDS)
        open_ids = {episode.episode_id for episode in self.left_open}
        holds = self.fence or LiveSessions(self._database, idle, open_ids)
        return WriterThread(
            self._database,
            self._writing_engine,
            BatchWriter(self._database, self._blob_store, self._clock, holds),
            report,
            self._options.write_seconds,
            None if self._retention.is_everything else self._prune,
        )

    def backlog(self) -> Backlog:
        """See `EpisodeStore.backlog`."""
        return self._queue.backlog

    async def open(self, origin: EpisodeOrigin) -> None:
        """See `EpisodeStore.open`; the record is on the disk when this returns."""
        known = self._states.get(origin.episode_id)
        state = known or WriteState(origin.episode_id)
        self._states[state.episode_id] = state
        try:
            body = ORIGIN.write(origin)
        except (PydanticSerializationError, UnicodeError) as error:
            raise StoreError(f"this cannot be written as JSON: {error}") from error
        try:
            await self._queue.write(
                PendingOpen(
                    state=state,
                    origin=origin,
                    body=body,
                    summary=first_summary(origin),
                    size=len(body) + OVERHEAD,
                )
            )
        except BaseException:
            if known is None:
                self._states.pop(state.episode_id, None)
            raise
        state.steps = max(state.steps, state.last_found)

    async def append(self, episode_id: str, step: Step, summarise: Callable[[], EpisodeSummary]) -> None:
        """See `EpisodeStore.append`.

        Raises:
            StoreError: If it could not be written, does not follow the last step, or the episode was never
                opened.
        """
        state = self._states.get(episode_id) or await self._load_state(episode_id)
        number = step.number
        if number > state.steps + 1:
            raise StoreError(f"step {number} cannot follow step {state.steps}")
        entry = self._pending_step(state, step, summarise)
        if self._queue.is_full:
            await self._queue.wait_for_space()
        is_new = number > state.steps
        if is_new:
            state.steps = number
        if not self._waits:
            self._queue.put(entry)
            return
        try:
            await self._queue.write(entry)
        except BaseException:
            if is_new:
                state.withdraw(number)
            raise

    def record_transition(self, episode_id: str, transition: Transition, summary: EpisodeSummary) -> None:
        """See `EpisodeStore.record_transition`; an unknown episode is ignored."""
        if self._accepts(episode_id):
            body = TRANSITION.write(transition)
            self._queue.put(
                PendingTransition(
                    state=self._state_of(episode_id), body=body, summary=summary, size=len(body) + OVERHEAD
                )
            )

    def record_prompt(self, episode_id: str, blocks: Sequence[TextBlock | ImageBlock]) -> None:
        """See `EpisodeStore.record_prompt`; an unknown episode is ignored."""
        if not self._accepts(episode_id):
            return
        try:
            extracted = extract_long_texts(blocks, self._options.blob_bytes)
            body = BLOCKS.write(extracted.blocks)
        except (PydanticSerializationError, UnicodeError) as error:
            log.warning("store_prompt_rejected", episode_id=episode_id, error=str(error))
            return
        size = len(body) + sum(map(len, extracted.texts.values())) + OVERHEAD
        state = self._state_of(episode_id)
        self._queue.put(
            PendingPrompt(
                state=state, body=body, blob_refs=extracted.blob_refs, texts=extracted.texts, size=size
            )
        )

    def note_alive(self) -> None:
        """See `EpisodeStore.note_alive`."""
        if not self._queue.is_full and not self._queue.is_closed:
            self._queue.put(PendingSign(size=OVERHEAD))

    async def record_incident(self, episode_id: str, incident: Incident) -> None:
        """See `EpisodeStore.record_incident`."""
        body = INCIDENT.write(incident)
        entry = PendingIncident(state=self._state_of(episode_id), body=body, size=len(body) + OVERHEAD)
        await self._queue.write(entry)

    async def add_note(self, episode_id: str, note: EpisodeNote) -> None:
        """See `EpisodeStore.add_note`."""
        entry = PendingNote(state=self._state_of(episode_id), note=note, size=len(note.text) + OVERHEAD)
        await self._queue.write(entry)

    async def close(self, episode_id: str, summary: EpisodeSummary) -> None:
        """See `EpisodeStore.close`; after a failure the store retries by itself.

        Raises:
            StoreError: If it could not be written yet.
        """
        state = self._state_of(episode_id)
        entry = PendingClose(state=state, summary=summary, size=OVERHEAD)
        try:
            await self._queue.write(entry)
        finally:
            self._states.pop(episode_id, None)
        if self._retention.episodes is not None:
            self._queue.writer.needs_maintenance = True
            self._queue.writer.wake.set()

    async def hosts(self, known: HostTable | None = None) -> HostTable:
        """Return what the record says of the hosts of this server: `known` itself if that is still so."""
        return await super()._read(read_hosts, known)

    async def open_episodes(self, slots: Collection[int]) -> Sequence[OpenEpisode]:
        """Return the open episodes whose sessions have these slots, oldest first."""

        def belongs(session_id: str) -> bool:
            return slot_of(session_id) in slots

        return await super()._read(read_left_open, belongs)

    async def read_secret(self) -> bytes:
        """See `EpisodeStore.read_secret`."""
        return await self._read(read_secret)

    async def renew_secret(self) -> None:
        """See `EpisodeStore.renew_secret`."""
        await self._change(renew_secret)

    async def change_hosts(self, change: Callable[[Database, Connection, int], None], number: int) -> None:
        """Change the rows of a host.

        Raises:
            StoreError: If they could not be written.
        """
        await self._change(change, number)

    async def claim_attempt(self, episode_id: str, numbers: Sequence[int]) -> int | None:
        """See `EpisodeStore.claim_attempt`."""
        return await self._change(claim_attempt, episode_id, numbers)

    async def _change(self, change: Callable[..., Result], *args: Any) -> Result:
        """Change what hosts share, on another connection; `StoreError` if it could not be written."""

        def run() -> Result:
            try:
                with (
                    disposed_after(self._database.writing_engine()) as engine,
                    engine.connect() as connection,
                ):
                    return change(self._database, connection, *args)
            except (SQLAlchemyError, OSError) as error:
                raise as_store_error(self._database, error, "written") from error

        return await anyio.to_thread.run_sync(run)

    @override
    async def _read(self, function: Callable[..., Result], *args: Any) -> Result:
        await self._queue.flush()
        return await super()._read(function, *args)

    @override
    async def aclose(self) -> None:
        """Write what is pending, end the writer thread, close connections; repeating it is safe."""
        writer = self._queue.end()
        if writer is None:
            return
        with anyio.CancelScope(shield=True):
            # The readers first: SQLite's last connection merges the log, and must be able to write.
            await super().aclose()
            await anyio.to_thread.run_sync(writer.end)
            await anyio.lowlevel.checkpoint()  # lets the thread's last report be handled
            self._queue.cancel_timers()
            await anyio.to_thread.run_sync(self._writing_engine.dispose)
            self._claim.release()

    def _state_of(self, episode_id: str) -> WriteState:
        state = self._states.get(episode_id)
        return WriteState(episode_id) if state is None else state

    async def _load_state(self, episode_id: str) -> WriteState:
        """Look up an episode that another store, or an earlier one, opened."""
        number = await self.last_step(episode_id)
        if number is None:
            raise StoreError(f"the episode {episode_id!r} was never opened")
        return self._states.setdefault(episode_id, WriteState(episode_id, steps=number))

    def _pending_step(
        self, state: WriteState, step: Step, summarise: Callable[[], EpisodeSummary]
    ) -> PendingStep:
        blob_refs, texts = None, NO_TEXTS
        length = 0
        for block in step.blocks:
            length += len(block.data if isinstance(block, ImageBlock) else block.text)
        if length * MAX_CHARACTER_BYTES > self._options.blob_bytes:
            extracted = extract_long_texts(step.blocks, self._options.blob_bytes)
            step = replace(step, blocks=extracted.blocks)
            blob_refs, texts = extracted.blob_refs, extracted.texts
        try:
            body = STEP.write(step)
        except (PydanticSerializationError, UnicodeError) as error:
            raise StoreError(f"this cannot be written as JSON: {error}") from error
        return PendingStep(
            state=state,
            number=step.number,
            columns=step_columns(step),
            body=body,
            summarise=summarise,
            blob_refs=blob_refs,
            texts=texts,
            size=len(body) + sum(map(len, texts.values())) + OVERHEAD,
        )

    def _accepts(self, episode_id: str) -> bool:
        if not self._queue.is_full and not self._queue.is_closed:
            return True
        log.warning(
            "store_write_dropped", episode_id=episode_id, hint="the store is closed, or its queue is full"
        )
        return False

    def _prune(self, connection: Connection) -> bool:
        """Prune a few episodes and blobs; runs on the writer thread. Returns whether there are more."""
        live = [state.key for state in list(self._states.values()) if state.key is not None]
        gone = prune_episodes(self._database, connection, self._retention, self._clock.now(), live)
        if gone == pruning.BATCH_SIZE:
            return True
        return prune_blobs(self._database, connection, self._blob_store) == pruning.BATCH_SIZE
