"""Takes up what an earlier server left open: each session when a request names it, or never.

A session that no request named within the time after which it would have expired is closed then. One whose
server was last alive longer ago than that when the next one starts is closed at once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from ors_server.model.episode import TRANSITIONS, EpisodeEvent, Phase, StopReason
from ors_server.model.errors import OrsServerError, SessionDeletedError, SessionInterruptedError, StoreError
from ors_server.model.logs import get_logger
from ors_server.model.trajectory import EpisodeRecord, Incident, IncidentKind, Step, Transition
from ors_server.model.visibility import Visibility
from ors_server.recovery.rebuilding import CannotRebuildError, InterruptedSession, RebuildRules, rebuild
from ors_server.recovery.recorded_state import latest_moment
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_request import SessionStatus
from ors_server.store.base import OpenEpisode
from ors_server.store.episode_filter import EpisodeFilter
from ors_server.store.episode_order import OLDEST_FIRST

log = get_logger("ors_server.recovery")

CONCURRENT_REBUILDS = 32
"""Sessions that are rebuilt side by side."""
EPISODES_AT_ONCE = 500
"""Open episodes that are read at once."""
ALIVE_SECONDS = 60.0
"""Seconds between two signs of life: a session is as old as the last of them, or as its last step."""
MAX_REASONS = 10_000
"""Sessions of which it is remembered why they could not be rebuilt."""


class Recovery:
    """Takes up sessions for one session manager."""

    def __init__(self, manager: SessionManager, rules: RebuildRules) -> None:
        """Note what the manager's store found open; `run` closes what is too old."""
        self._manager = manager
        self._services = manager.services
        self._rules = rules
        self._waiting: dict[str, OpenEpisode] = {}
        self._stale: list[OpenEpisode] = []
        self._under_way: dict[str, asyncio.Future[OrsServerError | None]] = {}
        self._reasons: OrderedDict[str, str] = OrderedDict()
        self._slots = asyncio.Semaphore(CONCURRENT_REBUILDS)
        self._give_up_at = 0.0
        self.add(self._services.store.left_open)

    def add(self, episodes: Iterable[OpenEpisode]) -> None:
        """Note episodes that another server left open, oldest first."""
        now, idle_seconds = self._services.clock.now(), self._services.options.limits.idle_seconds
        for episode in episodes:
            earlier = self._waiting.pop(episode.session_id, None)
            if earlier is not None:
                self._stale.append(earlier)
            if (now - episode.alive_at).total_seconds() > idle_seconds:
                self._stale.append(episode)
            else:
                self._waiting[episode.session_id] = episode
        self._give_up_at = self._services.clock.monotonic() + idle_seconds
        if self._waiting or self._stale:
            log.info("sessions_left_open", to_take_up=len(self._waiting), too_old=len(self._stale))

    async def run(self) -> None:
        """Close what is too old, say that the server is alive, and later close what no request named."""
        services = self._services
        services.store.note_alive()
        while True:
            stale, self._stale = self._stale, []
            await self._expire(stale)
            await services.clock.sleep(min(ALIVE_SECONDS, services.options.limits.idle_seconds))
            services.store.note_alive()
            if self._waiting and services.clock.monotonic() >= self._give_up_at:
                unclaimed = [name for name in self._waiting if name not in self._under_way]
                await self._expire([self._waiting.pop(name) for name in unclaimed])

    def episode_of(self, session_id: str) -> str | None:
        """See `Recoverer.episode_of`."""
        waiting = self._waiting.get(session_id)
        return None if waiting is None else waiting.episode_id

    async def waiting(self) -> Sequence[SessionStatus]:
        """See `Recoverer.waiting`."""
        statuses: list[SessionStatus] = []
        after: str | None = None
        while self._waiting:
            page = await self._services.store.page(
                EpisodeFilter(closed=False), after=after, limit=EPISODES_AT_ONCE, order=OLDEST_FIRST
            )
            for record in page:
                waiting = self._waiting.get(record.origin.session_id)
                if waiting is not None and waiting.episode_id == record.origin.episode_id:
                    visibility = Visibility(record.origin.visibility)
                    statuses.append(
                        SessionStatus(record.origin, record.summary, visibility, None, 0, None, waits=True)
                    )
            if len(page) < EPISODES_AT_ONCE:
                break
            after = page[-1].origin.episode_id
        return statuses

    async def resume(self, session_id: str) -> None:
        """See `Recoverer.resume`; it keeps running if the caller disconnects."""
        reason = self._reasons.get(session_id)
        if reason is not None:
            raise SessionInterruptedError(reason)
        if session_id not in self._waiting:
            return
        under_way = self._under_way.get(session_id)
        if under_way is None:
            under_way = self._under_way[session_id] = asyncio.get_running_loop().create_future()
            self._services.spawn(self._take_up, session_id, under_way)
        error = await asyncio.shield(under_way)
        if error is not None:
            raise error

    async def close(self, session_id: str) -> bool:
        """See `Recoverer.close`."""
        self._reasons.pop(session_id, None)
        under_way = self._under_way.get(session_id)
        if under_way is not None:  # it ends as a live session does, or waits again
            await asyncio.shield(under_way)
            return await self._manager.delete(session_id)
        if session_id not in self._waiting:
            return False
        waiting = self._waiting.pop(session_id)
        record = await self._services.store.find(waiting.episode_id)
        if record is not None:
            await self._close(record, EpisodeEvent.DELETE, StopReason.DELETED)
        return True

    def forget(self, session_id: str) -> None:
        """Forget why a session could not be rebuilt: its id is used again."""
        self._reasons.pop(session_id, None)

    async def _take_up(self, session_id: str, under_way: "asyncio.Future[OrsServerError | None]") -> None:
        failure: OrsServerError | None = OrsServerError("the server failed; its log has the details")
        try:
            async with self._slots:
                failure = await self._try_to_take_up(self._waiting[session_id])
        finally:
            del self._under_way[session_id]
            under_way.set_result(failure)

    async def _try_to_take_up(self, waiting: OpenEpisode) -> OrsServerError | None:
        """Rebuild a session; return why it is not live now."""
        store, session_id = self._services.store, waiting.session_id
        try:
            whole = await store.whole(waiting.episode_id)
            if whole is None or whole[0].is_closed:
                del self._waiting[session_id]
                return None
            record, steps = whole
            try:
                await self._rebuild(record, steps)
            except CannotRebuildError as error:
                return await self._interrupt(record, str(error))
        except SessionDeletedError as error:
            del self._waiting[session_id]
            return error
        except OrsServerError as error:
            log.warning("not_rebuilt_yet", session_id=session_id, error=str(error))
            return error
        del self._waiting[session_id]
        return None

    async def _rebuild(self, record: EpisodeRecord, steps: Sequence[Step]) -> None:
        origin = record.origin
        definition = self._manager.environments.get(origin.environment)
        if definition is None:
            raise CannotRebuildError(f"its environment {origin.environment!r} is not served any more")
        started = self._services.clock.monotonic()
        interrupted = InterruptedSession(record, steps, definition)
        await self._manager.take_over(record, partial(rebuild, interrupted, self._rules, self._services))
        log.info(
            "session_rebuilt",
            session_id=origin.session_id,
            environment=definition.name,
            steps=len(steps),
            seconds=round(self._services.clock.monotonic() - started, 3),
        )

    async def _interrupt(self, record: EpisodeRecord, why: str) -> OrsServerError:
        session_id = record.origin.session_id
        reason = f"the server was killed while this session was live, and it cannot be rebuilt: {why}"
        log.warning("session_interrupted", session_id=session_id, reason=why)
        incident = Incident(IncidentKind.INTERRUPTED, self._services.clock.now(), why)
        await self._services.store.record_incident(record.origin.episode_id, incident)
        await self._close(record, EpisodeEvent.DELETE, StopReason.INTERRUPTED)
        del self._waiting[session_id]
        self._reasons[session_id] = reason
        if len(self._reasons) > MAX_REASONS:
            self._reasons.popitem(last=False)
        return SessionInterruptedError(reason)

    async def _expire(self, episodes: Iterable[OpenEpisode]) -> None:
        for episode in episodes:
            try:
                record = await self._services.store.find(episode.episode_id)
                if record is not None and not record.is_closed:
                    await self._close(record, EpisodeEvent.EXPIRE, StopReason.EXPIRED)
            except StoreError as error:
                log.warning("episode_not_closed", session_id=episode.session_id, error=str(error))

    async def _close(self, record: EpisodeRecord, event: EpisodeEvent, reason: StopReason) -> None:
        """Close the record of an episode that no server plays."""
        store, summary = self._services.store, record.summary
        phase = TRANSITIONS.get((Phase(summary.phase), event))
        if phase is not None:  # its server was not killed between the end and the close
            at = max(self._services.clock.now(), latest_moment(record))
            ended = summary.stop_reason or reason.value
            summary = replace(
                summary, phase=phase.value, stop_reason=ended, finished_at=summary.finished_at or at
            )
            move = Transition(event.value, phase.value, ended, at)
            store.record_transition(record.origin.episode_id, move, summary)
        await store.close(record.origin.episode_id, summary)
