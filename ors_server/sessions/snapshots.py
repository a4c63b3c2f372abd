"""Snapshots of a session: its files, what its environment remembers, and where its episode stood."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any

import anyio

from ors_server.environments.definition import EnvironmentDefinition, Instance
from ors_server.environments.environment import restore_rng, rng_state
from ors_server.environments.simulated_user.conversation import (
    SavedConversation,
    load_conversation,
    save_conversation,
)
from ors_server.environments.toolsets.milestones import reached_milestones
from ors_server.model.episode import EpisodeState
from ors_server.model.errors import (
    CapacityError,
    EnvironmentFailedError,
    EpisodeOverError,
    UnknownSnapshotError,
)
from ors_server.model.wire import JSONObject
from ors_server.sandboxes.base import Snapshot
from ors_server.sessions.call_runner import CallRunner
from ors_server.sessions.episode_recorder import EpisodeRecorder
from ors_server.sessions.lifecycle import Setup, copy_unsupported_error
from ors_server.sessions.session_services import run_whole
from ors_server.timing.call_clock import counting, start_clock

MAX_SNAPSHOTS = 16
"""Snapshots that one session keeps at once."""


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """A session as it stood between two calls."""

    id: str
    state: EpisodeState
    taken_at: float
    """Seconds from the clock's origin."""
    memory: JSONObject = field(repr=False)
    """What the environment's `save_state` gave."""
    files: Snapshot | None = field(default=None, repr=False)
    """The sandbox's files and its shell's state; `None` for a session without a sandbox."""
    milestones: tuple[str, ...] = ()
    """Names of the milestones that were paid."""
    rng_state: object = field(default=None, repr=False)
    """Where the environment's `rng` stood."""
    conversation: SavedConversation = field(default_factory=SavedConversation)
    """The one with the simulated user."""
    duration: float = 0.0
    """Seconds that it took."""

    def resumed_at(self, now: float, *, created_at: float) -> EpisodeState:
        """Return the state of a copy that continues now: time that passed meanwhile is not played time.

        Args:
            created_at: When the copy was created, as its origin says; all its times count from there.
        """
        played = 0.0 if self.state.started_at is None else self.taken_at - self.state.started_at
        return self.state._replace(created_at=created_at, started_at=now - played)

    def as_json(self) -> dict[str, Any]:
        """Render what may be known of it."""
        return {
            "snapshot_id": self.id,
            "steps": self.state.steps,
            "size_bytes": 0 if self.files is None else self.files.size_bytes,
            "duration": self.duration,
        }

    async def aclose(self) -> None:
        """Discard the files, whole even if the caller leaves; a second call does nothing."""
        if self.files is not None:
            with anyio.CancelScope(shield=True):
                await self.files.aclose()


@dataclass(slots=True, eq=False, repr=False)
class Snapshots:
    """Takes a session's snapshots, and keeps those that are wanted until they are discarded or it ends."""

    _recorder: EpisodeRecorder
    _definition: EnvironmentDefinition
    _instance: Instance
    _setup: Setup
    _runner: CallRunner
    _kept: dict[str, SessionSnapshot] = field(default_factory=dict[str, SessionSnapshot], init=False)

    async def take(self) -> SessionSnapshot:
        """Take a snapshot between two calls, which the caller keeps or discards."""
        hook = self._definition.hooks.save
        if hook is None:
            raise copy_unsupported_error(self._definition)
        async with self._runner.exclusive_turn():
            await self._runner.write_pending()
            self._check_playable()
            started = self._recorder.now
            memory = await hook(self._instance)
            sandbox = self._setup.sandbox
            files = None if sandbox is None else await sandbox.snapshot()
            now = self._recorder.now
            return SessionSnapshot(
                id=token_hex(8),
                state=self._recorder.snapshot_state,
                taken_at=now,
                memory=memory,
                files=files,
                milestones=tuple(reached_milestones(self._instance)),
                rng_state=rng_state(self._instance),
                conversation=save_conversation(self._instance),
                duration=now - started,
            )

    async def keep(self) -> SessionSnapshot:
        """Take a snapshot and keep it."""
        self._check_snapshot_limit()
        snapshot = await self.take()
        try:
            self._check_snapshot_limit()
        except CapacityError:
            await snapshot.aclose()
            raise
        self._kept[snapshot.id] = snapshot
        return snapshot

    async def restore(self, snapshot_id: str) -> SessionSnapshot:
        """Bring files and memory back to a snapshot; steps and sums stay, for they have been paid.

        It keeps running if its caller disconnects. If it fails half-way, the environment cannot be played on,
        and the episode ends as failed.

        Raises:
            EpisodeOverError: If the episode has ended.
            UnknownSnapshotError: If the session keeps no such snapshot.
            EnvironmentFailedError: If the environment's `load_state` raised, or took as long as a setup may.
        """
        return await run_whole(self._recorder.services.spawn, self._restore, snapshot_id)

    async def _restore(self, snapshot_id: str) -> SessionSnapshot:
        async with self._runner.exclusive_turn():
            await self._runner.write_pending()
            self._check_playable()
            snapshot = self.find(snapshot_id)
            await self._recorder.record_restore(snapshot.state.steps)
            clock = start_clock(self._recorder.policy.setup_time_limit)
            is_whole = False
            try:
                with counting(clock):
                    await self._setup.restore_snapshot(snapshot.memory, snapshot.files)
                    restore_rng(self._instance, snapshot.rng_state)
                    load_conversation(self._instance, snapshot.conversation)
                    self._recorder.restored_to_step = snapshot.state.steps
                    is_whole = True
            finally:
                if not is_whole:
                    with anyio.CancelScope(shield=True):
                        await self._recorder.fail()
            if not is_whole:
                raise EnvironmentFailedError(f"the restore did not end within {clock.limit:g} seconds")
            return snapshot

    def find(self, snapshot_id: str) -> SessionSnapshot:
        """Return a snapshot."""
        found = self._kept.get(snapshot_id)
        if found is None:
            raise UnknownSnapshotError(f"the session keeps no snapshot {snapshot_id!r}")
        return found

    def all(self) -> list[SessionSnapshot]:
        """Return the snapshots, oldest first."""
        return list(self._kept.values())

    async def discard(self, snapshot_id: str) -> None:
        """Discard a snapshot."""
        snapshot = self.find(snapshot_id)
        del self._kept[snapshot_id]
        await snapshot.aclose()

    async def aclose(self) -> None:
        """Discard them all; one that cannot be discarded keeps no other."""
        async with AsyncExitStack() as stack:
            while self._kept:
                _, snapshot = self._kept.popitem()
                stack.push_async_callback(snapshot.aclose)

    def _check_snapshot_limit(self) -> None:
        if len(self._kept) >= MAX_SNAPSHOTS:
            raise CapacityError(f"the session keeps {MAX_SNAPSHOTS} snapshots already; discard one first")

    def _check_playable(self) -> None:
        if self._recorder.current_state().is_over:
            raise EpisodeOverError("the episode has ended; take snapshots and fork while it is played")
